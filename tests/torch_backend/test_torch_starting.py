"""The default group under any launcher, and groups without init_process_group."""

import os

import pytest

SLURM = {
    "SLURM_PROCID": "{rank}",
    "SLURM_NTASKS": "{size}",
    "SLURM_LOCALID": "{rank}",
    "SLURM_NODEID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "node7",
    "SLURM_STEP_TASKS_PER_NODE": "{size}",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "{rank}",
    "OMPI_COMM_WORLD_SIZE": "{size}",
    "OMPI_COMM_WORLD_LOCAL_RANK": "{rank}",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "{size}",
}


@pytest.mark.parametrize("launcher", [SLURM | {"SLURM_JOB_ID": str(os.getpid())}, OPEN_MPI], ids=["Slurm", "Open MPI"])
def test_launchers(ranks, launcher):
    ranks.run("starting.check_init", 3, launcher, True)


def test_stores(ranks, tmp_path):
    """Processes that were started by hand."""
    launcher = {"RANK": "{rank}", "WORLD_SIZE": "{size}", "RINGROAD_STORE": f"file://{tmp_path / 'store'}"}
    ranks.run("starting.check_init", 2, launcher, False)
    ranks.run("starting.check_init", 1, {"RANK": "0", "WORLD_SIZE": "1"}, False)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_is_killed(ranks, victim):
    ranks.run("starting.check_death", 3, victim, killed=[victim])
