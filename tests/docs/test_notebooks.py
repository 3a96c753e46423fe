"""Every notebook has its outputs, and a new run has outputs of the same kinds.

`make check` also looks for names and arguments that do not exist, in all of them (tools/notebooks.py --check).
"""

import re

import nbformat
import notebooks
import pytest
from helpers import FULL, needs_testbed

PATHS = sorted(notebooks.FOLDER.glob("*.ipynb"))
QUICK = {"any_graph", "failures"}
"""Those that are always run; `make check-all` runs all of them."""


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """The kinds of a cell's outputs: the stream's name, or the formats of what is shown.

    What ranks say on standard error comes when it comes.
    """
    kinds = {output.get("name") or " ".join(sorted(output["data"])) for output in cell.outputs}
    return sorted(kinds - {"stderr"})


def is_unexpected(output):
    """Errors and warnings. Ranks say on standard error which network they have found, and if another one was named."""
    shown = ("ringroad: discovered ", "ringroad: warning: the network is not ")
    said = output.get("name") == "stderr" and not output.text.startswith(shown)
    return said or output.output_type == "error"


def test_all_notebooks_are_listed():
    """In the documentation; and no notebook lies where this file does not look."""
    root = notebooks.EXAMPLES.parent
    listed = re.findall(r"^\| \[(\w+)\]\(.*/\1\.ipynb\)", (root / "docs" / "notebooks.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [path.stem for path in PATHS] and set(listed) > QUICK
    found = {path for part in ("docs", "examples") for path in (root / part).rglob("*.ipynb")}
    assert {path for path in found if not path.is_relative_to(root / "docs" / "_build")} == set(PATHS)


def test_mistakes_are_found(tmp_path, monkeypatch, capfd):
    """The check finds a wrong argument in a function of a cell, also of a communicator."""
    pytest.importorskip("mypy")
    cell = "import ringroad\n%time\ndef f(comm):\n    comm.shrnk()\n    ringroad.lab.find(ranks=4, degre=2)"
    (tmp_path / "notebooks").mkdir()
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)]), tmp_path / "notebooks" / "a.ipynb"
    )
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path / "notebooks")
    assert notebooks.check() == 1
    out = capfd.readouterr().out
    assert "a.py:4: error" in out and '"shrnk"' in out and '"degre"' in out, out


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_outputs_are_stored(path):
    """`make notebooks` does it."""
    cells = code(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        assert not any(is_unexpected(output) for output in cell.outputs), cell.source
        shows = re.search(r"^plt\.show\(\)", cell.source, flags=re.MULTILINE)
        assert not shows or "image/png" in " ".join(kinds(cell)), cell.source
    assert str(notebooks.FOLDER.parent.parent) not in path.read_text()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path, monkeypatch):
    stored = nbformat.read(path, as_version=4)
    if not FULL:  # a release needs all of them, so nothing may be missing there
        if path.stem not in QUICK:
            pytest.skip("run by make check-all")
        for module in re.findall(r"\b(highspy|matplotlib|networkx|pandas|torch)\b", stored.cells[0].source):
            pytest.importorskip(module)
    if any("testbed.emulate(" in cell.source for cell in code(stored)):
        needs_testbed()
    # The kernel inherits the environment: remove the variables of jobs, and use temporary caches.
    for name in ("RANK", "WORLD_SIZE", "RINGROAD_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for before, after in zip(code(stored), code(notebooks.run(path, tmp_path)), strict=True):
        assert kinds(after) == kinds(before), after.source
