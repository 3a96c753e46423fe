"""Torch's libraries for distributed training: over ringroad, each computes the same as over gloo."""

import pytest
from helpers import long


@pytest.mark.parametrize(
    ("program", "size"),
    [
        ("frameworks.check_ddp", 3),
        ("frameworks.check_ddp_uneven", 2),
        ("frameworks.check_zero", 3),
        ("frameworks.check_fsdp1", 2),
        ("frameworks.check_fsdp2", 4),
        ("parallel.check_spread", 4),
        ("parallel.check_functional", 3),
        ("parallel.check_compiled", 2),
        ("parallel.check_pipelines", 3),
    ],
)
def test_like_gloo(ranks, program, size):
    ranks.run(program, size, timeout=120)


def test_replicas_have_the_same_bits(ranks):
    digests = ranks.run("frameworks.check_replicas", 4, timeout=120)
    assert all(row == digests[0] for row in digests), "the replicas differ in their bits"


@long
def test_generated_code(ranks):
    ranks.run("parallel.check_inductor", 2, timeout=170)


def test_checkpoints(ranks):
    ranks.run("parallel.check_checkpoints", 2)


def test_who_watches(ranks):
    for events in ranks.run("parallel.check_watchers", 2):
        assert events == [
            "ringroad:all_gather 1",
            "ringroad:all_reduce 2",
            "ringroad:all_to_all 1",
            "ringroad:barrier 1",
            "ringroad:broadcast 1",
            "ringroad:recv 1",
            "ringroad:reduce_scatter 1",
            "ringroad:send 1",
        ]


@pytest.mark.parametrize(
    "program",
    [
        "frameworks.check_ddp_uneven",
        pytest.param("frameworks.check_fsdp2", marks=long),
        "parallel.check_functional",
    ],
)
def test_debug_level_detail(ranks, program):
    """At this level torch wraps Backends to check that all ranks make the same calls."""
    ranks.run(program, 4, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
