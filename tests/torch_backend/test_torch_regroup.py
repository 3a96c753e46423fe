"""Process groups that lose ranks, gain others, and continue."""

import os
import subprocess
import sys

import pytest
from helpers import PROGRAMS, long
from marks import lacking

pytestmark = lacking((2, 15), "groups cannot be reconfigured")


def test_groups_of_any_members(ranks):
    ranks.run("regroup.check_shapes", 4)


def test_late_ranks_merged_groups_and_aborts(ranks):
    ranks.run("regroup.check_join_merge_and_abort", 4)


def test_a_process_without_members_ends_in_order(ranks):
    ranks.run("regroup.check_exit", 1)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_is_killed_in_a_collective(ranks, victim):
    ranks.run("regroup.check_death", 4, victim, killed=[victim])


@pytest.mark.parametrize("flag", [0, 1])
def test_shrink_group(ranks, flag):
    ranks.run("regroup.check_shrink", 4, flag, killed=[2])


TRAINING = PROGRAMS / "training_with_a_checkpoint.py"


@long
def test_torchrun_starts_all_ranks_anew(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environ["CHECKPOINT"] = str(tmp_path / "checkpoint.pt")
    done = subprocess.run([*command, TRAINING], env=environ, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("attempt 1 ended with [12.0, 12.0, 12.0, 12.0]") == 2, done.stdout + done.stderr
