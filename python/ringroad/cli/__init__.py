"""The command line: `ringroad`, or `python -m ringroad`."""

import codecs
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

COMMANDS = (
    "info",
    "doctor",
    "discover",
    "algorithms",
    "schedule",
    "convert",
    "cost",
    "bench",
    "reproduce",
    "topology",
    "simulate",
    "explain",
    "find",
    "alltoall",
    "routes",
    "tune",
    "trace",
    "training",
    "testbed",
)
"""The names of the commands, of their modules in `ringroad.cli`, and of the functions there."""
_LAB = ("find", "alltoall", "routes", "training", "reproduce")
_PLAIN: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["--help", "-h"]},
}


class _Commands(Mapping[str, Any]):
    """The commands by name. A command is imported when it is used, because most of them import NumPy and much else."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._made:
            alone = typer.Typer(add_completion=False, rich_markup_mode=app.rich_markup_mode, **_PLAIN)
            room = "cli.lab" if name in _LAB else "cli"
            alone.command(name)(getattr(import_module(f"ringroad.{room}.{name}"), name))
            self._made[name] = typer.main.get_command(alone)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)


app = typer.Typer(
    cls=_Group,
    help="Collective communication with the fastest algorithm for the network.",
    no_args_is_help=True,
    **_PLAIN,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line, and exits with status 0, or 2 after an error that the user can correct.

    Args:
        arguments: The words of the command line. None: those of this process.
    """
    for stream in (sys.stdout, sys.stderr):
        _suit(stream)
    try:
        app(arguments)
    except Exception as error:
        if not _is_expected(error):
            raise
        print(f"ringroad: {_sentence(error)}", file=sys.stderr)
        raise SystemExit(2) from None


def _is_expected(error: Exception) -> bool:
    from ringroad._native import RingroadError  # after an error only

    return isinstance(error, RingroadError | ValueError | OSError)


def _sentence(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"there is no file or directory {os.fspath(error.filename)}"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)}: {error.strerror}"
    return str(error)


# ------------------------------------------------------------------------------------------------ terminals

_ASCII = {"→": "->", "□": "x"}


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Writes what a terminal cannot show in other letters: an arrow as ->, and no accents."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = unicodedata.normalize("NFKD", error.object[error.start : error.end])
    shown = "".join(_ASCII.get(c, c if c.isascii() else "" if unicodedata.combining(c) else "?") for c in text)
    return shown, error.end


codecs.register_error("ringroad", _in_ascii)


def _suit(stream: Any) -> None:
    """Lets a stream write any text: the terminal may know ASCII only. Python takes the locale C for UTF-8."""
    if not hasattr(stream, "reconfigure"):
        return  # a test's, or a notebook's
    locale = os.environ.get("LC_ALL") or os.environ.get("LANG", "")
    said = os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8")
    if locale in ("C", "POSIX") and not said:
        stream.reconfigure(encoding="ascii")
    stream.reconfigure(errors="ringroad")


def _show_version(wanted: bool) -> None:
    if wanted:
        from ringroad._native import __version__

        print(f"ringroad {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
