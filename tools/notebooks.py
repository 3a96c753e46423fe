"""Runs the notebooks of the examples, and stores their outputs in them.

python tools/notebooks.py             # all
python tools/notebooks.py alltoall    # some
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"


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


def main() -> None:
    for name in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        path = FOLDER / f"{name}.ipynb"
        with tempfile.TemporaryDirectory() as directory:
            nbformat.write(run(path, Path(directory)), path)
        print(f"{path}: {path.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
