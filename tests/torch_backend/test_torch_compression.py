"""Gradients in fewer bytes."""

import pytest


def test_groups_with_a_format(ranks):
    ranks.run("compression.check_groups", 3)


def test_hook(ranks):
    ranks.run("compression.check_hook", 3)


def test_error_feedback(ranks):
    ranks.run("compression.check_feedback", 2)


def test_what_is_not_finite(ranks):
    ranks.run("compression.check_not_finite", 2)


def test_fsdp2(ranks):
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp.FSDPModule, "set_custom_reduce_scatter"):
        pytest.skip("this torch takes no reduce-scatter of others")
    ranks.run("compression.check_fsdp2", 2)
