"""Gradients of FSDP2 in fewer bytes."""

import pytest


def test_fsdp2(ranks):
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp.FSDPModule, "set_custom_reduce_scatter"):
        pytest.skip("this torch takes no reduce-scatter of others")
    ranks.run("compression.check_fsdp2", 2)
    ranks.run("compression.check_alternating", 2)
