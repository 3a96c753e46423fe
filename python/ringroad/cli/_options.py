"""Options that several commands share, and options whose values are numbers with units."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad._support.pictures import check_format, pyplot
from ringroad._support.text import MOST, parse_bandwidth, parse_seconds

LAST_RANK = (1 << 20) - 1
"""The largest number of a rank in the largest network."""
_SHOWN = 30
"""Errors show this many characters of a wrong number."""


def _read_by(parse: Callable[[str], Any], metavar: str, *names: str, help: str, **others: Any) -> Any:
    """Makes an option whose values are read by `parse`, which raises ValueError."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value  # a default
        try:
            return parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return typer.Option(*names, parser=read, metavar=metavar, help=help, **others)


def _quantity(parse: Callable[[str], float], metavar: str) -> Callable[..., Any]:
    """Makes a function that makes options whose values are read by `parse`."""

    def option(*names: str, help: str, least: float = 0.0, **others: Any) -> Any:
        def read(text: str) -> float:
            if (number := parse(text)) < least:
                raise ValueError(f"{text!r} is less than {least:g}")
            return number

        return _read_by(read, metavar, *names, help=help, **others)

    return option


def _fraction(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise ValueError(f"{text!r} is not a number from 0 to 1")
    return number


time_option = _quantity(parse_seconds, "TIME")
"""Makes an option for a time: `10us`, `1.5` (seconds)."""
bandwidth_option = _quantity(parse_bandwidth, "BANDWIDTH")
"""Makes an option for a bandwidth: `100Gbit/s`, `12.5GB/s`, `12.5e9` (bytes per second)."""
fraction_option = _quantity(_fraction, "FRACTION")
"""Makes an option for a number from 0 to 1."""


def whole_option(*names: str, help: str, least: int = 0, most: int = MOST) -> Any:
    """Makes an option for a whole number."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise ValueError(f"{text[:_SHOWN]!r} is not a whole number from {least} on")
        if number > most:
            raise ValueError(f"{text[:_SHOWN]!r} is too large; write at most {most}")
        return number

    return _read_by(read, "NUMBER", *names, help=help)


def file_option(*names: str, help: str) -> Any:
    """Makes an option for a file to write. It is refused without its directory, before anything is computed."""
    return typer.Option(*names, metavar="FILE", callback=_in_directory, help=help)


def picture_option(*names: str, help: str) -> Any:
    """Makes an option for a file to draw into, which is refused without matplotlib, before anything is computed."""

    def check(file: Path | None) -> Path | None:
        if file is not None:
            check_format(file)
        return _in_directory(file)

    return typer.Option(*names, metavar="FILE", callback=check, help=f"{help} (matplotlib).")


def folder_option(*names: str, help: str) -> Any:
    """Makes an option for a directory to draw into, likewise."""

    def check(folder: Path | None) -> Path | None:
        if folder is not None:
            pyplot()
        return folder

    return typer.Option(*names, metavar="DIR", callback=check, help=f"{help} (matplotlib).")


def _in_directory(file: Path | None) -> Path | None:
    if file is not None and not file.parent.is_dir():
        raise ValueError(f"{file} cannot be written: there is no directory {file.parent}")
    return file


def _collective(text: str | None) -> str | None:
    from ringroad._native import collective_name

    return text if text is None else collective_name(text)


def _completed(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completes a word that a user has begun."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def _collectives() -> Iterable[str]:
    from ringroad._native import collectives

    return collectives()


def _algorithms() -> Iterable[str]:
    from ringroad._native import algorithms

    return (algorithm.name for algorithm in algorithms())


COLLECTIVE: dict[str, Any] = {"callback": _collective, "autocompletion": _completed(_collectives)}
"""Of options and arguments that name a collective, in any spelling: all_reduce, reduce-scatter."""

ALGORITHM: dict[str, Any] = {"metavar": "ALGORITHM", "autocompletion": _completed(_algorithms)}
"""Of options and arguments that name an algorithm."""
SPEC: dict[str, Any] = {
    "metavar": "SPEC",
    "help": "Network, such as torus:4x4x2 (see `ringroad topology`), or a file.",
}
"""Of options and arguments that name a network."""

Performed = Annotated[str | None, typer.Option(help="Collective to perform; default: allreduce.", **COLLECTIVE)]
Root = Annotated[int, whole_option(help="Root rank of rooted collectives.", most=LAST_RANK)]
Size = Annotated[
    str,
    typer.Option("--bytes", metavar="BYTES", help="Vector size: 8, 64KiB, 1MiB, 2MB; 4M is 4MiB."),
]
Format = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="json, msccl, mscclpp, goal or chakra; default: by the file extension."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
StepLatency = Annotated[float | None, time_option(help="Time to start a step: 500ns, 1e-6.")]
HopLatency = Annotated[float | None, time_option(help="Time per hop; default: the topology's.")]
Bandwidth = Annotated[
    float | None, bandwidth_option(help="Link bandwidth per direction: 100Gbit/s; default: the topology's.")
]
ReduceCost = Annotated[float | None, time_option(help="Time to reduce a byte; default: 0.")]


def refuse_for_file(name: str, collective: str | None, root: int) -> None:
    """Raises ValueError if options name what the schedule in a file says itself."""
    if collective is not None or root:
        raise ValueError(f"--collective and --root are for algorithms, and {name} is a file, which says them")
