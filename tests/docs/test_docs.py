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
from helpers import needs_testbed
from ringroad import _oracle as oracle

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
    return blocks_of(page.read_text())


def blocks_of(text: str) -> list[Block]:
    lines = text.splitlines()
    found: list[Block] = []
    index = 0
    while index < len(lines):
        if fence := re.fullmatch(r"```(\S*)( .*)?", lines[index]):
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
    return without_blocks(page.read_text())


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


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
    pictures = r"lab\.viz|\.plot\("
    needs = {"torch": "import torch", "networkx": "import networkx", "pandas": r"\.df\(", "matplotlib": pictures}
    for module, code in needs.items():
        if re.search(code, text):
            pytest.importorskip(module)
    if "ringroad.testbed" in text:
        needs_testbed()
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


def shell_commands(text: str) -> list[list[str]]:
    """The words of every command line that calls ringroad, by itself or by a launcher, from `ringroad` on."""
    found = []
    for block in blocks_of(text):
        if block.language not in ("sh", "console", ""):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            if block.language == "sh" or line.startswith("$ "):
                words = shlex.split(line.removeprefix("$ "), comments=True)
                for at, word in enumerate(words):
                    if word == "ringroad" and (
                        at == 0 or words[at - 1] in ("-m", "--", "srun") or "=" in words[at - 1]
                    ):
                        found.append(words[at:])
    return found


def check_commands(text: str) -> int:
    """Checks that the commands of a page exist with their options, and returns how many they are."""
    known = pages.all_commands()
    found = shell_commands(text)
    for words in found:
        if words[1] not in general_options():
            name, rest = named(words[1:])
            assert name in known, words
            if "--plot" in words and find_spec("matplotlib") is None:
                continue  # it would say so
            known[name].make_context(name, rest)  # raises an error about what does not exist
    return len(found)


def named(words: list[str]) -> tuple[str, list[str]]:
    """The name of a command, and the words after it."""
    length = 2 if words[0] == "lab" else 1
    return " ".join(words[:length]), words[length:]


def general_options() -> set[str]:
    return {option for parameter in pages.command_line().params for option in parameter.opts}


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist_with_their_options(page):
    check_commands(page.read_text())
    known = {**pages.command_line().commands, **pages.all_commands()}
    for code in re.findall(r"`ringroad ([^`]+)`", prose(page)):
        if code.split()[0] in general_options() or code.split() == ["lab"]:  # the group of commands itself
            continue
        name, words = named(code.split())
        assert name in known, code
        options = {option for parameter in known[name].params for option in parameter.opts}
        own = words[: words.index("--")] if "--" in words else words
        assert {word for word in own if word.startswith("-")} <= options, code


def test_commands_are_found():
    """So that the test above does not pass for want of commands."""
    assert sum(len(shell_commands(page.read_text())) for page in WRITTEN) >= 24


def test_commands_of_generated_pages_exist_with_their_options():
    assert sum(map(check_commands, pages.pages().values())) >= 2 * len(ringroad.algorithms())


# ------------------------------------------------------------------------------------------------ links


def anchors(text: str) -> set[str]:
    """The anchors of the titles. Of equal titles all but the first get a number."""
    found: set[str] = set()
    for title in re.findall(r"^#{1,3} (.+)$", without_blocks(text), flags=re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(next(name for name in [plain, *(f"{plain}-{n}" for n in range(1, 1000))] if name not in found))
    return found


def check_links(text: str, directory: Path) -> int:
    """Checks that all links of a page in this directory lead somewhere, and returns how many they are."""
    targets = [target for _, _, target in pages.LINK.findall(without_blocks(text)) if "://" not in target]
    for target in targets:
        name, _, anchor = target.partition("#")
        path = Path(os.path.normpath(directory / name))
        if not name:
            there = text
        elif path.is_relative_to(pages.GENERATED):
            there = pages.pages()[str(path.relative_to(pages.GENERATED))]
        else:
            assert path.exists(), f"{target} in {directory}"
            there = path.read_text() if path.suffix == ".md" else ""
        assert not anchor or anchor in anchors(there), target
    return len(targets)


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page):
    check_links(page.read_text(), page.parent)


def test_links_of_generated_pages_resolve():
    found = {name: check_links(text, (pages.GENERATED / name).parent) for name, text in pages.pages().items()}
    assert found["algorithms.md"] >= 100


def test_pictures_of_generated_pages_are_drawn(tmp_path):
    shown = {
        os.path.normpath(Path(name).parent / picture)
        for name, text in pages.pages().items()
        for picture in re.findall(r"\{figure\} (\S+)", text)
    }
    drawn = pages.pictures()
    assert shown == set(drawn)
    pytest.importorskip("matplotlib")
    for name in ("pictures/swing.svg", "pictures/network-hosts-2x4.svg"):
        drawn[name](tmp_path / "picture.svg")
        assert "</svg>" in (tmp_path / "picture.svg").read_text()


def test_every_page_is_in_the_table_of_contents():
    index = ROOT / "docs" / "index.md"
    listed = {
        re.sub(r".* <(.+)>", r"\1", line)
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


def test_every_algorithm_has_a_page():
    listed = (ROOT / "rust/ringroad-core/tests/common/every_algorithm.rs").read_text()
    names = re.findall(r'^            \w+ "([\w-]+)"$', listed, flags=re.MULTILINE)
    found = [Path(name).stem for name in pages.pages() if name.startswith("algorithms/")]
    assert found == names
    for algorithm in ringroad.algorithms():
        text = pages.pages()[f"algorithms/{algorithm.name}.md"]
        assert algorithm.source.partition(" (arXiv")[0] in text and "\nstep 0: " in text
        parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
        for collective in algorithm.collectives:
            row = re.search(rf"\n\| ([a-z_, ]*\b)?{collective}\b.*\sus \|", parts["Costs"])
            assert row, f"{algorithm.name}: {collective}"
            assert f"\n- {collective}: " in parts["What it needs"]
        assert re.search(r"\n\| .*`|It comes nearest in an? |never considered", parts["Where it is the fastest"])


def test_costs_and_winners_are_those_of_the_cost_model():
    ring, bfb_ring = (pages.pages()[f"algorithms/{name}.md"] for name in ("ring", "bfb-ring"))
    network = ringroad.Topology("ring:8")
    cost = ringroad.CostModel().cost(ringroad.Schedule.build("ring", network), network, 1 << 20)
    steps, sent = ringroad.Algorithm("ring").cost_line("ring:8")
    row = [steps, cost.hops, f"{sent:.4g}", f"{cost.max_link_load:.3g} MiB", 1]
    assert f"\n| allreduce | `ring:8` | {' | '.join(map(str, row))} | " in ring.replace("\N{NO-BREAK SPACE}", " ")
    start = next(size for size, name in ringroad.CostModel().switch_points("allreduce", network) if name == "bfb-ring")
    assert re.search(rf"allreduce.* \| `ring:8` \| from\s{start / 1024:.1f}\sKiB\son \|", bfb_ring)


def test_the_page_of_networks_is_complete():
    families, operators, routings = ringroad.Topology._kinds()
    text = pages.pages()["networks.md"]
    assert all(f"\n`{spec}`: " in text for spec, _ in (*families, *operators))
    assert all(f"\n| `{name}` | " in text for name, _ in routings)


def test_records_are_shown_with_what_they_miss():
    text = pages.pages()["records.md"]
    for record in (ROOT / "benchmarks").glob("*.jsonl"):
        assert f"`benchmarks/{record.name}`" in text
    assert "ringroad-torch (a) never slower" in text and "fastest fixed algorithm" in text


def test_the_types_and_reductions_are_those_of_the_extension():
    (answer,) = re.findall(
        r"## Which types and reductions .*?\n\n(.*?)\n\n", (ROOT / "docs/faq.md").read_text(), re.DOTALL
    )
    words = set(re.findall(r"\b[a-z]+_?[a-z0-9]*\b", answer))
    assert {*oracle.DTYPES, *oracle.OPS} <= words
    numbered = {word for word in words if word[-1].isdigit()}
    assert numbered <= {*oracle.DTYPES}


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
    assert "rank 1 (" in found["MismatchError"] and "allreduce of 3 float64" in found["MismatchError"]


def test_the_page_of_commands_is_complete():
    cli = ROOT / "python/ringroad/cli"
    files = {" ".join(path.relative_to(cli).with_suffix("").parts) for path in cli.rglob("[!_]*.py")}
    assert set(sections("commands.md")) == {f"ringroad {name}" for name in files}


def test_the_reference_has_all_public_names():
    shown = "\n".join(text for name, text in pages.pages().items() if name.startswith("api/"))
    errors = sections("errors.md")
    for name in ringroad.__all__:
        if name != "__version__" and name not in errors:
            assert re.search(rf"(auto(class|function)|data):: {name}$", shown, flags=re.MULTILINE), name
    for module in (
        "ringroad.lab.routes",
        "ringroad.lab.synthesis",
        *(["ringroad.torch"] if find_spec("torch") else []),
    ):
        assert f"automodule:: {module}\n" in shown
