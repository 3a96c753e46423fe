"""The functions of `ranks` that need nothing but their ranks, and check everything themselves."""

import pytest
from helpers import TRANSPORTS
from marks import lacking
from ranks import TORCH

NEW = lacking((2, 14), "torch does this itself, or not at all")
EXCHANGE = pytest.mark.skipif(TORCH < (2, 10), reason="torch 2.10 brought DLPack's exchange API")
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
"""At this level torch wraps Backends (not ProcessGroups) in one that compares the ranks' calls."""
CHECKS = [
    *(("calls.check_messages", size) for size in (2, 3, 5)),
    ("calls.check_high_tags", 3),
    *(("calls.check_any_source", 3, TRANSPORTS[name]) for name in ("memory", "shm", "tcp")),
    ("calls.check_layouts", 3),
    ("calls.check_wrappers", 2),
    ("calls.check_moved_types", 3),
    ("calls.check_freed", 2),
    ("calls.check_overlaps", 3),
    ("calls.check_work", 2),
    ("calls.check_sparse", 3),
    ("calls.check_integer_averages", 3),
    ("calls.check_overloads", 2),
    ("calls.check_exchange", 2, {}, EXCHANGE),
    ("calls.check_coalescing", 2, {}, NEW),
    *((f"values.check_{name}", size) for name in ("uneven", "scalars") for size in (1, 3)),
    ("values.check_sizes_on_some_ranks", 3),
    # Without a switch between them, the ranks agree on how much each has for each other one.
    *(
        (f"values.check_{name}", size, {"RINGROAD_TOPOLOGY": topology})
        for topology, size in (("ring:3", 3), ("mesh:2x3", 6))
        for name in ("uneven", "disagreement")
    ),
    ("beside_gloo.check_beside_gloo", 2, {}, NEW),
    ("groups.check_forms", 3),
    ("groups.check_forms", 2, DETAIL),
    ("groups.check_subgroups", 5),
    ("groups.check_parts_of_a_topology", 4, {"RINGROAD_TOPOLOGY": "torus:2x2"}, NEW),
    ("groups.check_again", 3),
    ("groups.check_after_a_failure", 2),
    ("groups.check_options", 2),
    ("groups.check_empty", 3),
    ("compression.check_groups", 3),
    ("compression.check_hook", 3),
    ("compression.check_feedback", 2),
    ("compression.check_not_finite", 2),
    ("replicas.check_models", 3),
    ("replicas.check_ddp", 3),
    ("replicas.check_sharded", 4),
    ("replicas.check_refusals", 2),
    # CPU tensors stand for those of a device; `make test SET=gpu` has the real ones.
    ("staging.check_tensors", 3),
    ("staging.check_modes", 2),
    ("staging.check_graphs", 2),
    ("staging.check_on_a_gpu", 2),
    ("forks.check_children", 2),
    ("forks.check_loaders", 2),
    ("starting.check_group", 3),
    ("failures.check_failed_futures", 2),
    ("failures.check_status", 3),
    ("failures.check_monitored_barrier_interrupted", 3, {}, NEW),
]


def rows():
    """The checks as parameters, each with its name: function, number of ranks, environment."""
    for function, size, *more in CHECKS:
        env, *marks = more or [{}]
        name = " ".join([function, str(size), *env.values()])
        yield pytest.param(function, size, env, marks=marks, id=name)


@pytest.mark.parametrize(("function", "size", "env"), list(rows()))
def test_checks(ranks, function, size, env):
    ranks.run(function, size, env=env)
