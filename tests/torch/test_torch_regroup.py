"""Process groups that lose ranks, get others, and go on."""

import pytest
from marks import lacking

pytestmark = lacking((2, 15), "groups cannot be reconfigured")


def test_groups_of_any_members(ranks):
    ranks.run("regroup.check_shapes", 4)


def test_late_ranks_merged_groups_and_aborts(ranks):
    ranks.run("regroup.check_join_merge_and_abort", 4)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_is_killed_in_a_collective(ranks, victim):
    ranks.run("regroup.check_death", 4, victim, killed=[victim])


@pytest.mark.parametrize("flag", [0, 1])
def test_shrink_group(ranks, flag):
    ranks.run("regroup.check_shrink", 4, flag, killed=[2])
