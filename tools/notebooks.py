"""Runs the notebooks of the examples, and stores their outputs in them.

python tools/notebooks.py             # all
python tools/notebooks.py alltoall    # some
python tools/notebooks.py --check     # run none, but find calls of ringroad that do not exist, with mypy
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

EXAMPLES = Path(__file__).parent.parent / "examples"
FOLDER = EXAMPLES / "notebooks"


def run(path: Path, directory: Path) -> Any:
    """The notebook with the outputs of a run in this directory. Raises CellExecutionError if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", record_timing=False, resources={"metadata": {"path": directory}}
    )
    client.execute()
    # Only what does not depend on the machine.
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def check() -> int:
    """Whether mypy finds wrong names and arguments in the notebooks, and in the recipes that tests do not run.

    It takes a second after a run of mypy on the package, whose cache it uses. The exit status is mypy's.
    """
    with tempfile.TemporaryDirectory() as directory:
        # The package's name is that of the settings in pyproject.toml.
        package = Path(directory, "shown")
        package.mkdir()
        (package / "__init__.py").touch()
        for path in FOLDER.glob("*.ipynb"):
            cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
            _copy("\n".join(cells), package / f"{path.stem}.py")
        for path in EXAMPLES.glob("2*.py"):
            _copy(path.read_text(), package / f"example_{path.stem}.py")
        return subprocess.run([sys.executable, "-m", "mypy", package], cwd=EXAMPLES.parent).returncode


def _copy(source: str, path: Path) -> None:
    source = re.sub(r"^%", "# %", source, flags=re.MULTILINE)
    path.write_text(re.sub(r"(def \w+\(comm)\b", r"\1: 'ringroad.Communicator'", source))


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        sys.exit(check())
    for name in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        path = FOLDER / f"{name}.ipynb"
        with tempfile.TemporaryDirectory() as directory:
            nbformat.write(run(path, Path(directory)), path)
        print(f"{path}: {path.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
