"""Recipes in examples/: launchers and frameworks train over ringroad as over gloo.

Most need what is not in the ordinary environment; `make test SET=frameworks` installs and runs all.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers import PROGRAMS, ROOT, long

pytestmark = pytest.mark.timeout(700)

EXAMPLES = ROOT / "examples"
PREFIXES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_",
    "MASTER_",
    "TORCHELASTIC_",
    "OMPI_",
    "PMI",
    "MPI_",
    "RINGROAD_STORE",
    "RINGROAD_TEST_",
)
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
LAUNCHERS = "20_torch_launchers.py"

FRAMEWORKS = {
    "22_accelerate.py": ("accelerate", [*TORCHRUN, "4"]),
    "23_hf_trainer.py": ("transformers", [*TORCHRUN, "4"]),
    "24_lightning.py": ("lightning", [sys.executable]),
    "25_ray_train.py": ("ray", [sys.executable]),
    "26_deepspeed.py": ("deepspeed", [*TORCHRUN, "4"]),
    "27_torchft.py": ("torchft", [sys.executable]),
}
"""The module that a recipe needs, and what starts it."""


def needs(module):
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed; make test SET=frameworks installs it")


def run(command: Sequence[str | Path], check: bool = True, timeout: float = 300) -> str:
    """The output of a command that succeeds. `python` is this one, as in an activated environment."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES)}
    path = os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", os.defpath)])
    environ |= {"PATH": path, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, cwd=EXAMPLES.parent, env=environ, capture_output=True, text=True, timeout=timeout)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + ("" if done.returncode == 0 else done.stderr)


def loss(output: str, backend: str, ranks: int = 4) -> float:
    """The loss that so many ranks report."""
    found = re.search(rf"^{ranks} ranks over {backend}: loss ([\d.]+)", output, re.MULTILINE)
    assert found, output
    return float(found[1])


def like_gloo(command: Sequence[str | Path]) -> None:
    ours = loss(run([*command, "--backend", "ringroad"]), "ringroad")
    # On a busy machine a rank of gloo aborts now and then while it exits.
    theirs = loss(run([*command, "--backend", "gloo"], check=False), "gloo")
    assert ours == pytest.approx(theirs, rel=0.01)


@long
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_framework(name):
    module, command = FRAMEWORKS[name]
    needs("torch")
    needs(module)
    if module == "torchft":
        assert "3 replicas over ringroad have the same bits" in run([*command, EXAMPLES / name])
    else:
        like_gloo([*command, EXAMPLES / name])


# ------------------------------------------------------------------------------------------------ launchers


@long
def test_torchrun():
    needs("torch")
    loss(run([*TORCHRUN, "2", EXAMPLES / LAUNCHERS]), "ringroad", 2)


@long
@pytest.mark.parametrize("launcher", ["Open MPI", "MPICH"])
def test_mpirun(launcher):
    needs("torch")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which("mpirun" if launcher == "Open MPI" else "mpiexec.hydra", path=path)
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout if found else ""
    if found is None or ("Open MPI" in version) != (launcher == "Open MPI"):
        pytest.skip(f"{launcher} is not installed")
    options = ["--oversubscribe", "--bind-to", "none"] if launcher == "Open MPI" else []
    like_gloo([found, "-n", "4", *options, sys.executable, EXAMPLES / LAUNCHERS])


def needs_slurm():
    if shutil.which("srun") is None or subprocess.run(["sinfo"], capture_output=True).returncode:
        pytest.skip("Slurm does not run here; tools/slurm.sh COMMAND starts one")


@long
def test_srun():
    needs("torch")
    needs_slurm()
    like_gloo(["srun", "-n", "4", sys.executable, EXAMPLES / LAUNCHERS])


@long
def test_sbatch(tmp_path):
    needs("torch")
    needs_slurm()
    output = tmp_path / "output"
    run(["sbatch", "--wait", f"--output={output}", EXAMPLES / "21_slurm.sbatch"])
    loss(output.read_text(), "ringroad")


@long
@pytest.mark.parametrize("name", ["22_accelerate.py", "24_lightning.py"])
def test_frameworks_under_srun(name):
    module, _ = FRAMEWORKS[name]
    needs(module)
    needs_slurm()
    loss(run(["srun", "-n", "4", "--ntasks-per-node=4", sys.executable, EXAMPLES / name]), "ringroad")


@long
@pytest.mark.parametrize("backend", ["ringroad", "gloo"])
def test_lightning_requeues_when_it_is_preempted(backend):
    """Its handler of SIGUSR1 is not replaced: it writes a checkpoint and asks Slurm."""
    needs("torch")
    needs("lightning")
    assert "requeued 1 checkpoints 1" in run([sys.executable, PROGRAMS / "lightning_requeue.py", backend])


def test_every_recipe_is_tested():
    assert {path.name for path in EXAMPLES.glob("2[0-9]_*")} == {LAUNCHERS, "21_slurm.sbatch", *FRAMEWORKS}
