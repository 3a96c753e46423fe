"""Generates the pages of the documentation that list what the code knows, so that nothing is written twice.

python tools/pages.py DIRECTORY    # docs/conf.py does this before every build
"""

import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pages_algorithms
import pages_networks
import pages_records
import ringroad
import typer
from pages_text import literal, table
from ringroad import cli
from ringroad._native import Config
from ringroad._support.pictures import pyplot

ROOT = Path(__file__).parent.parent
GENERATED = ROOT / "docs" / "generated"
COPIED = {
    ROOT / "ARCHITECTURE.md": "architecture.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "benchmarks" / "README.md": "benchmarks.md",
}
"""Files of the repository that are pages, too."""

MODULES = (
    "ringroad.torch",
    "ringroad.measure",
    "ringroad.results",
    "ringroad.testbed",
    "ringroad.lab",
    "ringroad.lab.formats",
    "ringroad.lab.programs",
    "ringroad.lab.reproduce",
    "ringroad.lab.routes",
    "ringroad.lab.synthesis",
    "ringroad.lab.training",
    "ringroad.lab.viz",
)
"""What users import, besides `ringroad` itself."""


@cache
def pages() -> dict[str, str]:
    """The text of every page by its path."""
    return {
        **dict(pages_algorithms.pages()),
        **dict(pages_networks.pages()),
        **dict(pages_records.pages()),
        "settings.md": settings(),
        "errors.md": errors(),
        "commands.md": commands(),
        **{name: rebased(source.read_text(), source.parent, GENERATED) for source, name in COPIED.items()},
        **dict(api()),
    }


def write(directory: Path, draw: bool = True) -> None:
    """Writes the pages that have changed, removes those that are no longer made, and draws the pictures that are older
    than the package or these programs, which needs matplotlib; without `draw` it leaves the pictures as they are."""
    for old in set(directory.rglob("*.md")) - {directory / name for name in pages()}:
        old.unlink()
    for name, text in pages().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    if draw:
        _draw(directory)


@cache
def pictures() -> dict[str, Callable[[Path], None]]:
    """How to draw every picture into a file, by its path."""
    return {**pages_algorithms.pictures(), **pages_networks.pictures(), **pages_records.pictures()}


def _draw(directory: Path) -> None:
    plots = pyplot()
    plots.rcParams["svg.hashsalt"] = "ringroad"  # the same picture has the same bytes
    sources = [*Path(ringroad.__file__).parent.rglob("*.py"), Path(ringroad._native.__file__)]
    sources += [*Path(__file__).parent.glob("pages*.py"), *pages_records.RECORDS]
    newest = max(source.stat().st_mtime for source in sources)
    for name, draw in pictures().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_mtime < newest:
            draw(path)
            plots.close("all")
    for old in set(directory.rglob("*.svg")) - {directory / name for name in pictures()}:
        old.unlink()


# ------------------------------------------------------------------------------------------------ lists


def settings() -> str:
    """Every RINGROAD_* variable, from the table that `ringroad info` prints."""
    text = """\
# Settings

Every setting is an environment variable. `ringroad.init(settings={"RINGROAD_...": "..."})` sets it for one
communicator. An argument takes precedence over the environment, and the environment over the default. If a variable
begins with `RINGROAD_` and does not exist, ringroad warns. `ringroad info` shows all values that are in force here.
Variables that begin with `UCX_` go to UCX unchanged.
"""
    for setting in Config.defaults().settings:
        default = "unset" if setting.default is None else f"`{setting.default}`"
        unit = f", in {setting.unit}" if setting.unit else ""
        values = ", ".join(f"`{choice}`" for choice in setting.choices) or setting.values
        text += f"\n## {setting.name}\n\n- Meaning: {literal(setting.help)}\n"
        text += f"- Default: {default}{unit}\n- Values: {values if setting.choices else literal(values)}\n"
    return text


TWO = "a, b = ringroad.Communicator.in_process(2)\n"
CAUSES = {
    "AbortedError": "comm = ringroad.init(rank=0, size=1)\ncomm.close()\ncomm.barrier()",
    "ConfigError": 'ringroad.init(rank=0, size=1, settings={"RINGROAD_TIMEOUT": "soon"})',
    "MismatchError": TWO + "work = a.allreduce(np.ones(2), async_op=True)\nb.allreduce(np.ones(3))",
    "PeerError": TWO + "a.close()\nb.allreduce(np.ones(2))",
    "ScheduleError": 'ringroad.Schedule.build("bucket", "ring:8")',
    "StoreError": 'ringroad.FileStore("/proc/job-17")',
    "TimeoutError": TWO + "a.allreduce(np.ones(2), timeout=0.1)  # b does not make this call",
    "TopologyError": 'ringroad.Topology("thorus:4x4")',
}
"""Programs that raise an error, by its type."""


def _message(kind: type[BaseException], program: str) -> str:
    """What an error's message says when a program raises it."""
    try:
        exec(program, {"np": np, "ringroad": ringroad})
    except kind as error:
        lines = str(error).splitlines()
        return "\n".join("\n".join(textwrap.wrap(line, 100, subsequent_indent="  ")) for line in lines)
    raise AssertionError(f"no {kind.__name__}: {program}")


def errors() -> str:
    """Every error type, with cause and remedy, which are its docstring, and what a message looks like."""
    kinds = [kind for name in ringroad.__all__ if _is_error(kind := getattr(ringroad, name))]
    kinds.sort(key=lambda kind: (kind is not ringroad.RingroadError, kind.__name__))
    text = """\
# Errors

The types are in `ringroad`. Their bases say what else catches them: `except ConnectionError`, for example, catches a
`PeerError`. [When a rank is lost](../recovery.md) says how to go on, also in torch.distributed; [Questions](../faq.md)
has what is asked most.
"""
    for kind in kinds:
        bases = ", ".join(f"`{_full(base)}`" for base in kind.__bases__)
        about = inspect.cleandoc(kind.__doc__ or "").partition("\nExample:\n")[0].strip()
        text += f"\n## {kind.__name__}\n\nA subclass of {bases}.\n\n{about}\n"
        if program := CAUSES.get(kind.__name__):
            text += f"\nFor example:\n\n```python\n{program}\n```\n\n```text\n{_message(kind, program)}\n```\n"
    return text


def commands() -> str:
    """Every command with its options, from the help texts of the command line."""
    text = "# Commands\n\n`python -m ringroad` is the same as `ringroad`.\n"
    for name, command in all_commands().items():
        text += f"\n## ringroad {name}\n\n{inspect.cleandoc(command.help)}\n\n"
        rows = []
        for option in command.params:
            names = option.opts if option.param_type_name == "option" else [option.metavar or option.name.upper()]
            shown = option.show_default if isinstance(getattr(option, "show_default", None), str) else option.default
            default = "" if shown in (None, False, "") or option.required else f"`{shown}`"
            rows.append([", ".join(f"`{one}`" for one in names), literal(option.help or ""), default])
        text += table(["option", "meaning", "default"], rows)
    return text


def command_line() -> Any:
    """The command line as a group of commands with parameters (click)."""
    return typer.main.get_command(cli.app)


def all_commands() -> dict[str, Any]:
    """Every command by its name; those of groups follow the name of the group."""
    found: dict[str, Any] = {}
    for name, command in command_line().commands.items():
        within = getattr(command, "commands", None)
        found |= {name: command} if within is None else {f"{name} {inner}": one for inner, one in within.items()}
    return found


# ------------------------------------------------------------------------------------------------ Python's API


CONSTANTS = {
    "ANY": "Any tag, or any rank, for ``recv`` and ``probe``: a number that is no tag and no rank.",
    "PROC_NULL": "No rank, for messages beyond an end. Such messages end at once, and change nothing.",
}
"""What the constants of `ringroad` mean."""


def api() -> Iterator[tuple[str, str]]:
    """A page for each class of `ringroad`, one for its functions and constants, and one for each further module."""
    exported = {name: getattr(ringroad, name) for name in ringroad.__all__ if name != "__version__"}
    functions = [name for name, what in exported.items() if callable(what) and not inspect.isclass(what)]
    classes = [name for name, what in exported.items() if inspect.isclass(what) and not _is_error(what)]
    names = ["functions", *classes]
    constants = [f"data:: {name}\n\n   {meaning}" for name, meaning in CONSTANTS.items()]
    described = [*(f"autofunction:: {name}" for name in functions), *constants]
    yield "api/functions.md", _directives("Functions and constants", described)
    for name in classes:
        yield f"api/{name}.md", _directives(name, [f"autoclass:: {name}\n   :members:"])
    for module in modules():
        own = [name for name in module.__all__ if vars(module).get(name) not in exported.values()]
        if own:
            names.append(module.__name__)
            members = f"automodule:: {module.__name__}\n   :members: {', '.join(own)}"
            yield f"api/{module.__name__}.md", _directives(module.__name__, [members])
    listed = "\n".join(names)
    yield (
        "api/index.md",
        f"""\
# Python

Examples assume `import numpy as np` and `import ringroad`. [Errors](../errors.md) are on a page of their own.

```{{toctree}}
:maxdepth: 1

{listed}
```
""",
    )


def modules() -> Iterator[ModuleType]:
    """`MODULES`, without those for torch where it is not installed."""
    for name in MODULES:
        if name != "ringroad.torch" or find_spec("torch") is not None:
            yield import_module(name)


def _directives(title: str, directives: list[str]) -> str:
    text = "\n\n".join(f".. {directive}" for directive in directives)
    return f"# {title}\n\n```{{eval-rst}}\n.. currentmodule:: ringroad\n\n{text}\n```\n"


# ------------------------------------------------------------------------------------------------ text


LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def rebased(text: str, source: Path, directory: Path) -> str:
    """A Markdown text of one directory for a page in another one.

    Relative links still lead to the same files, or to the pages that are made of these. Links to directories become
    plain text, since a page cannot link to them.
    """

    def replaced(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        name, hash_, anchor = target.partition("#")
        if not name or "://" in name:
            return match.group()
        path = Path(os.path.normpath(source / name))
        if path.is_dir():
            return label
        path = GENERATED / COPIED[path] if path in COPIED else path
        return f"{mark}[{label}]({os.path.relpath(path, directory)}{hash_}{anchor})"

    return LINK.sub(replaced, text)


def _is_error(what: object) -> bool:
    return inspect.isclass(what) and issubclass(what, BaseException)


def _full(kind: type) -> str:
    return kind.__name__ if kind.__module__ in ("builtins", "ringroad") else f"{kind.__module__}.{kind.__name__}"


def main() -> None:
    write(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
