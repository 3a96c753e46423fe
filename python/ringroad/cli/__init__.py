"""The command line: `ringroad`, or `python -m ringroad`."""

import codecs
import os
import signal
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

PANELS = {
    "Machine and network": ("info", "doctor", "discover", "topology"),
    "Algorithms": ("explain", "schedule", "lab"),
    "Jobs": ("status", "bench", "tune", "trace", "testbed"),
}
"""The names of the commands, of their modules in `ringroad.cli`, and of the functions there, by their panels in the
help. `lab` is a group."""
COMPUTING = ("topology", "explain", "schedule", "lab")
"""Those that only compute. Ctrl-C ends them at once, also within the extension, which looks for no signals there."""
LAB = ("simulate", "find", "routes", "alltoall", "training", "reproduce")
"""The same for the commands of `ringroad lab` and `ringroad.cli.lab`."""
_PLAIN: dict[str, Any] = {
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["--help", "-h"]},
}


class _Commands(Mapping[str, Any]):
    """Commands by name. A command is imported when it is used, because most of them import NumPy and much else."""

    def __init__(self, package: str, panels: Mapping[str, Sequence[str]]) -> None:
        self._package = package
        self._panels = {name: panel for panel, names in panels.items() for name in names}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        panel = self._panels[name]
        if name not in self._made:
            self._made[name] = _group() if name == "lab" else self._command(name)
            self._made[name].rich_help_panel = panel
        return self._made[name]

    def _command(self, name: str) -> Any:
        alone = typer.Typer(add_completion=False, rich_markup_mode=app.rich_markup_mode, **_PLAIN)
        alone.command(name)(getattr(import_module(f"{self._package}.{name}"), name))
        return typer.main.get_command(alone)

    def __iter__(self) -> Iterator[str]:
        return iter(self._panels)

    def __len__(self) -> int:
        return len(self._panels)


class _Group(TyperGroup):
    """A group whose help shows its commands only, and fits one screen."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands("ringroad.cli", PANELS)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.get_params(ctx):
            parameter.hidden = True  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


class _Laboratory(_Group):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands("ringroad.cli.lab", {"Commands": LAB})  # type: ignore[assignment]


def _group() -> Any:
    """`ringroad lab`."""
    laboratory = typer.Typer(
        name="lab",
        cls=_Laboratory,
        help="Simulate, find networks and routes, predict training.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=app.rich_markup_mode,
        **_PLAIN,
    )
    laboratory.callback()(lambda: None)
    return typer.main.get_group(laboratory)


app = typer.Typer(
    cls=_Group,
    help="Collectives with the fastest algorithm for the network. (--version)",
    no_args_is_help=True,
    **_PLAIN,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line, and exits with status 0, or 2 after an error that the user can correct.

    Args:
        arguments: The words of the command line. None: those of this process.
    """
    if sys.stdout is None:  # as >&- leaves it
        print("ringroad: standard output is closed", file=sys.stderr)
        raise SystemExit(2)
    for stream in (sys.stdout, sys.stderr):
        _suit(stream)
    if arguments is None and set(sys.argv[1:2]) & set(COMPUTING):
        _end_by_signals()
    try:
        app(arguments)
    except Exception as error:
        if not _is_expected(error):
            raise
        print(f"ringroad: {_sentence(error)}", file=sys.stderr)
        raise SystemExit(2) from None


def _end_by_signals() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


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
