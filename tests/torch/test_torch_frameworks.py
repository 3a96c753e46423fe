"""Torch's libraries for distributed training over ringroad: each computes what it computes over gloo."""

import pytest


@pytest.mark.parametrize(
    ("program", "size"),
    [
        ("frameworks.check_ddp", 3),
        ("frameworks.check_ddp_uneven", 2),
        ("frameworks.check_zero", 3),
        ("frameworks.check_fsdp1", 2),
        ("frameworks.check_fsdp2", 4),
    ],
)
def test_like_gloo(ranks, program, size):
    ranks.run(program, size, timeout=120)


def test_replicas_have_the_same_bits(ranks):
    digests = ranks.run("frameworks.check_replicas", 4, timeout=120)
    assert all(row == digests[0] for row in digests), "the replicas differ in their bits"
