"""Every notebook has its outputs, and a new run has outputs of the same kinds."""

import os
import re

import nbformat
import notebooks
import pytest
from helpers import needs_testbed

PATHS = sorted(notebooks.FOLDER.glob("*.ipynb"))
QUICK = {"any_graph", "failures"}
"""Those that are always run; `make check-all` runs all of them."""


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """The kinds of a cell's outputs: the stream's name, or the formats of what is shown."""
    return sorted({output.get("name") or " ".join(sorted(output["data"])) for output in cell.outputs})


def test_there_are_notebooks():
    assert {path.stem for path in PATHS} > QUICK


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_outputs_are_stored(path):
    """`make notebooks` does it."""
    cells = code(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert all(output.output_type != "error" and output.get("name") != "stderr" for output in cell.outputs)
        shows = re.search(r"^plt\.show\(\)", cell.source, flags=re.MULTILINE)
        assert not shows or "image/png" in " ".join(kinds(cell)), cell.source
    assert str(notebooks.FOLDER.parent.parent) not in path.read_text()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path, monkeypatch):
    if path.stem not in QUICK and not os.environ.get("RINGROAD_TEST_FULL"):
        pytest.skip("run by make check-all")
    stored = nbformat.read(path, as_version=4)
    for module in re.findall(r"\b(highspy|matplotlib|networkx|pandas|torch)\b", stored.cells[0].source):
        pytest.importorskip(module)
    if "ringroad.testbed" in path.read_text():
        needs_testbed()
    # The kernel inherits the environment: remove the variables of jobs, and use temporary caches.
    for name in ("RANK", "WORLD_SIZE", "RINGROAD_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for before, after in zip(code(stored), code(notebooks.run(path, tmp_path)), strict=True):
        assert kinds(after) == kinds(before), after.source
