"""Process groups over ringroad: their forms, subgroups, and ways of calling them."""

from marks import lacking


def test_forms(ranks):
    ranks.run("groups.check_forms", 3)


def test_subgroups(ranks):
    ranks.run("groups.check_subgroups", 5)


@lacking((2, 14), "groups are not split by their backends")
def test_subgroups_of_a_topology(ranks):
    ranks.run("groups.check_parts_of_a_topology", 4, env={"RINGROAD_TOPOLOGY": "torus:2x2"})


def test_groups_again_over_one_store(ranks):
    ranks.run("groups.check_again", 3)


def test_groups_after_a_failure(ranks):
    ranks.run("groups.check_after_a_failure", 2)


def test_options(ranks):
    ranks.run("groups.check_options", 2)


def test_memory_of_the_host(ranks):
    ranks.run("groups.check_empty", 3)


def test_overloads(ranks):
    ranks.run("calls.check_overloads", 2)


@lacking((2, 14), "coalescing is between calls of a Backend, which Python cannot write")
def test_coalescing(ranks):
    ranks.run("calls.check_coalescing", 2)


def test_debug_level_detail(ranks):
    """At this level torch wraps Backends (not ProcessGroups) in one that compares the ranks' calls."""
    ranks.run("groups.check_forms", 2, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
