"""Runs the notebooks of the examples, and stores their outputs in them.

python tools/notebooks.py             # all
python tools/notebooks.py alltoall    # some
python tools/notebooks.py --check     # run none, but find calls of ringroad that do not exist, with mypy
"""

import base64
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from PIL import Image

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
    shrink(notebook)
    return notebook


def shrink(notebook: Any) -> None:
    """Makes the notebook's pictures smaller, also those within animations, and joins the lines of tables."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        data = output.get("data", {})
        if "image/png" in data:
            data["image/png"] = _with_few_colours(data["image/png"])
        if "text/html" in data:
            frame = r"(data:image/png;base64,)([\w+/=\s\\]+)"
            page = re.sub(frame, lambda found: found[1] + _with_few_colours(found[2]), data["text/html"])
            data["text/html"] = re.sub(r">\s*\n\s*<", "><", page)


def _with_few_colours(picture: str) -> str:
    """A picture in base64, with 128 colours that cover those it has."""
    picture = re.sub(r"[\s\\]", "", picture)
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        smaller = io.BytesIO()
        image.convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE).save(smaller, "PNG", optimize=True)
    return base64.b64encode(smaller.getvalue()).decode()


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
