"""The documentation: its examples run, its commands exist, its links resolve, and generated pages are complete."""

import ast
import doctest
import inspect
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pages
import pytest
import ringroad
from helpers import needs_namespaces

ROOT = pages.ROOT
WRITTEN = sorted((ROOT / "docs").glob("*.md"))
"""The pages that are written by hand."""
ALL = [*WRITTEN, ROOT / "README.md", *pages.COPIED]
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
"""Stands above a block that is not run, with the reason."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    line: int
    """The index of its first line in the page."""
    lines: tuple[str, ...]
    not_run: bool
    expected: str | None
    """The output that a `text` block right below shows."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def file(self) -> str | None:
        """The name of the file that the block is to be saved as, which its first line says."""
        found = re.fullmatch(r"# (\w+\.py)", self.lines[0])
        return found[1] if found else None


def blocks(page: Path) -> list[Block]:
    lines = page.read_text().splitlines()
    found: list[Block] = []
    index = 0
    while index < len(lines):
        if fence := re.fullmatch(r"```(\S*)", lines[index]):
            end = lines.index("```", index + 1)
            above = lines[index - 1] if index else ""
            found.append(
                Block(
                    fence[1],
                    index + 1,
                    tuple(lines[index + 1 : end]),
                    bool(NOT_RUN.fullmatch(above)),
                    _below(lines, end),
                )
            )
            index = end
        index += 1
    return found


def _below(lines: list[str], end: int) -> str | None:
    if lines[end + 1 : end + 3] != ["", "```text"]:
        return None
    return "\n".join(lines[end + 3 : lines.index("```", end + 3)]) + "\n"


def prose(page: Path) -> str:
    """The text without fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def same(expected: str, output: str) -> bool:
    return doctest.OutputChecker().check_output(expected, output, doctest.ELLIPSIS)


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "RINGROAD_STORE")}


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


# ------------------------------------------------------------------------------------------------ examples


@pytest.mark.parametrize("page", WRITTEN, ids=names(WRITTEN))
def test_blocks_are_of_kinds_that_are_checked(page):
    assert {block.language for block in blocks(page)} <= {"python", "console", "sh", "text", "{toctree}"}


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_can_be_parsed(page):
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text, filename=f"{page}:{block.line + 1}")


SHOWN = [*WRITTEN, ROOT / "README.md"]
RUN = [page for page in SHOWN if any(b.language == "python" and not b.not_run for b in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=names(RUN))
def test_python_runs(page, tmp_path):
    """All blocks of a page are one program; in its tracebacks lines have the numbers that they have in the page."""
    shown = [block for block in blocks(page) if block.language == "python" and not block.not_run and not block.file]
    program = [""] * len(page.read_text().splitlines())
    for block in shown:
        end = block.line + len(block.lines)
        program[block.line : end] = block.lines
        program[end] = "print('\\0', flush=True)"
    text = "\n".join(program)
    needs = {"torch": "import torch", "networkx": "import networkx", "pandas": ".df()", "matplotlib": ".plot()"}
    for module, code in needs.items():
        if code in text:
            pytest.importorskip(module)
    if "ringroad.testbed" in text:
        needs_namespaces()
    (tmp_path / page.with_suffix(".py").name).write_text(text)
    done = subprocess.run(
        [sys.executable, page.with_suffix(".py").name],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for block, output in zip(shown, done.stdout.split("\0\n"), strict=False):
        assert block.expected is None or same(block.expected, output), f"{page.name}:{block.line}: {output}"
    assert done.stdout.count("\0\n") == len(shown)


CONSOLE = [page for page in SHOWN if any(block.language == "console" for block in blocks(page))]


@pytest.mark.parametrize("page", CONSOLE, ids=names(CONSOLE))
def test_commands_print_what_is_shown(page, tmp_path):
    for block in blocks(page):
        if block.language == "python" and block.file:
            (tmp_path / block.file).write_text(block.text)
    for block in blocks(page):
        if block.language != "console" or block.not_run:
            continue
        for prompt in block.text.split("$ ")[1:]:
            command, _, expected = prompt.partition("\n")
            output = _run(shlex.split(command), tmp_path)
            assert same(expected, output), f"{page.name}:{block.line}: {command}\n{output}"


def _run(words: list[str], directory: Path) -> str:
    programs = {"ringroad": ["-m", "ringroad"], "torchrun": ["-m", "torch.distributed.run"], "python": []}
    if words[0] == "torchrun":
        pytest.importorskip("torch")
    command = [sys.executable, *programs[words[0]], *words[1:]]
    done = subprocess.run(command, cwd=directory, env=environment(), capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ------------------------------------------------------------------------------------------------ commands


def shell_commands(page: Path) -> list[list[str]]:
    """The words of every line of a shell block that calls ringroad, from `ringroad` on."""
    found = []
    for block in blocks(page):
        prompt = "" if block.language == "sh" else r"\$ "
        if block.language in ("sh", "console", ""):
            for line in block.text.replace("\\\n", " ").splitlines():
                if re.match(rf"{prompt}(\w+=\S+ )*(srun )?ringroad ", line):
                    words = shlex.split(line, comments=True)
                    found.append(words[words.index("ringroad") :])
    return found


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist_with_their_options(page):
    known = pages.command_line().commands
    for words in shell_commands(page):
        if words[1] != "--version":
            assert words[1] in known, words
            known[words[1]].make_context(words[1], words[2:])  # raises an error about what does not exist
    for code in re.findall(r"`ringroad ([^`]+)`", prose(page)):
        name, *words = code.split()
        assert name in known, code
        options = {option for parameter in known[name].params for option in parameter.opts}
        own = words[: words.index("--")] if "--" in words else words
        assert {word for word in own if word.startswith("-")} <= options, code


def test_commands_are_found():
    """So that the test above does not pass for want of commands."""
    assert sum(len(shell_commands(page)) for page in WRITTEN) >= 12


# ------------------------------------------------------------------------------------------------ links


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check_link(target: str, directory: Path) -> None:
    name, _, anchor = target.partition("#")
    path = Path(os.path.normpath(directory / name))
    if path.is_relative_to(pages.GENERATED):
        text = pages.pages()[str(path.relative_to(pages.GENERATED))]
    else:
        assert path.exists(), f"{target} in {directory}"
        text = path.read_text() if path.suffix == ".md" else ""
    assert not anchor or anchor in anchors(text), target


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page):
    for _, _, target in pages.LINK.findall(prose(page)):
        if "://" not in target and not target.startswith("#"):
            check_link(target, page.parent)


def test_links_of_copied_pages_resolve():
    checked = 0
    for name in [*pages.COPIED.values(), "speed.md"]:
        for _, _, target in pages.LINK.findall(pages.pages()[name]):
            if "://" not in target and not target.startswith("#"):
                check_link(target, pages.GENERATED)
                checked += 1
    assert checked >= 4


def test_every_page_is_in_the_table_of_contents():
    index = ROOT / "docs" / "index.md"
    listed = {
        line
        for block in blocks(index)
        if block.language == "{toctree}"
        for line in block.lines
        if line and not line.startswith(":")
    }
    written = {page.stem for page in WRITTEN if page != index}
    made = {f"generated/{name.removesuffix('.md')}" for name in pages.pages() if "/" not in name}
    assert listed == written | made | {"generated/api/index"}


# ------------------------------------------------------------------------------------------------ generated pages


def sections(name: str) -> dict[str, str]:
    """The sections of a generated page by their titles."""
    _, *parts = pages.pages()[name].split("\n## ")
    return {title: text for title, _, text in (part.partition("\n") for part in parts)}


def test_the_page_of_algorithms_is_complete():
    listed = (ROOT / "rust/ringroad-core/tests/common/every_algorithm.rs").read_text()
    names = re.findall(r'^            \w+ "([\w-]+)"$', listed, flags=re.MULTILINE)
    found = sections("algorithms.md")
    assert list(found) == names
    for algorithm in ringroad.algorithms():
        text = found[algorithm.name]
        assert algorithm.source in text and "```text\nstep 0" not in text and "\nstep 0: " in text
        for collective in algorithm.collectives:
            assert re.search(rf"\n\| {collective} \| .* steps?, .* sent", text), f"{algorithm.name}: {collective}"
            assert f"\n- {collective}: " in text


def test_costs_are_those_of_the_catalogue():
    steps, sent = ringroad.Algorithm("ring").cost_line("ring:8")
    assert f"| allreduce | {steps} steps, {sent:.4g} sent, 1 port | " in sections("algorithms.md")["ring"]


def test_the_page_of_settings_is_complete():
    table = (ROOT / "rust/ringroad-runtime/src/config.rs").read_text()
    found = sections("settings.md")
    assert list(found) == re.findall(r'^    "(RINGROAD_\w+)" => ', table, flags=re.MULTILINE)
    assert all("\n- Default: " in text and "\n- Values: " in text for text in found.values())
    assert "- Default: `300`, in seconds\n" in found["RINGROAD_TIMEOUT"]


def test_the_page_of_errors_is_complete():
    kinds = [getattr(ringroad, name) for name in ringroad.__all__ if name.endswith("Error")]
    found = sections("errors.md")
    assert set(found) == {kind.__name__ for kind in kinds}
    assert all(inspect.cleandoc(kind.__doc__).splitlines()[0] in found[kind.__name__] for kind in kinds)


def test_the_page_of_commands_is_complete():
    files = {path.stem for path in (ROOT / "python/ringroad/commands").glob("*.py")} - {"__init__"}
    assert set(sections("commands.md")) == {f"ringroad {name}" for name in files}


def test_the_reference_has_all_public_names():
    shown = "\n".join(text for name, text in pages.pages().items() if name.startswith("api/"))
    errors = sections("errors.md")
    for name in ringroad.__all__:
        if name != "__version__" and name not in errors:
            assert re.search(rf"auto(class|function):: {name}$", shown, flags=re.MULTILINE), name
    for module in ("ringroad.routes", "ringroad.synthesis", *(["ringroad.torch"] if find_spec("torch") else [])):
        assert f"automodule:: {module}\n" in shown
