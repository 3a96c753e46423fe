"""Numbers with units, tables and wrapped text, for the command line."""

import json
import os
import shutil
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from itertools import product, zip_longest
from numbers import Integral, Real
from textwrap import wrap
from typing import Any, SupportsIndex, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Item = TypeVar("_Item")

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
MOST = (1 << 63) - 1
"""The largest whole number that options accept."""
_GAP = "  "
_PROSE = 16
"""A column of text is made no narrower than this, if the table can be split instead."""


def parse_bytes(text: str) -> int:
    """A number of bytes: `8`, `64KiB`, `1.5MiB`, `2MB`, `4M`. Raises ValueError."""
    from ringroad._native import read_bytes

    return read_bytes(text)


def parse_seconds(text: str) -> float:
    """A time: `10us`, `500ns`, `1.5ms`, `2s`, `1e-6`. Raises ValueError."""
    from ringroad._native import read_seconds

    return read_seconds(text)


def parse_bandwidth(text: str) -> float:
    """Bytes per second: `100Gbit/s` or `100Gbit` (bits), `12.5GB/s` (bytes), `12.5e9`; G is 10^9. Raises ValueError."""
    from ringroad._native import read_bandwidth

    return read_bandwidth(text)


def whole(name: str, value: object) -> int:
    """A whole number that was passed as an argument of this name. Raises TypeError."""
    if not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    return value.__index__()


def length(name: str, value: object) -> int:
    """A length in bytes that was passed as an argument of this name, as a number or as a text such as "1MiB". Raises
    TypeError, or ValueError."""
    bytes = parse_bytes(value) if isinstance(value, str) else whole(name, value)
    if bytes < 0:
        raise ValueError(f"{name} must be 0 or more, not {bytes}")
    return bytes


def lengths(name: str, value: Any) -> list[int]:
    """One length in bytes, or a list of them, that was passed as an argument of this name. Raises TypeError, or
    ValueError."""
    return [length("a size", one) for one in ([value] if isinstance(value, str | Integral) else items(name, value))]


def number(name: str, value: object) -> float:
    """A number that was passed as an argument of this name. Raises TypeError."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def seconds(name: str, value: object) -> float:
    """A time limit that was passed as an argument of this name. Raises TypeError or ValueError."""
    if not 0 < (found := number(name, value)) <= 365 * 86400:
        raise ValueError(f"{name} must be a number of seconds above 0 and up to a year, not {value}")
    return found


def items(name: str, value: Iterable[_Item]) -> list[_Item]:
    """The items of a list that was passed as an argument of this name. Raises TypeError, also for a text or a dict."""
    try:
        found = None if isinstance(value, str | bytes | Mapping) else iter(value)
    except TypeError:
        found = None
    if found is None:
        raise TypeError(f"{name} must be a list, not {value!r:.60}")
    return list(found)


def check_class(name: str, value: object, *classes: type) -> None:
    """Raises TypeError unless an argument of this name is an object of one of these classes."""
    if not isinstance(value, classes):
        words = " or ".join(f"{one.__module__}.{one.__name__}".removeprefix("builtins.") for one in classes)
        raise TypeError(f"{name} must be a {words}, not {value!r:.60}")


def by_key(name: str, value: Mapping[_Key, _Item] | None) -> list[tuple[_Key, _Item]]:
    """The items of a dict that was passed as an argument of this name; None: of an empty one. Raises TypeError."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, not {value!r}")
    return list((value or {}).items())


def bytes_text(number: int) -> str:
    """An exact number of bytes: `64 KiB`, or `65537 B` if no unit divides the number."""
    unit = max((u for u in _UNITS if number and number % _UNITS[u] == 0), key=lambda u: _UNITS[u], default="")
    return f"{number // _UNITS[unit]} {unit + 'i' if unit else ''}B"


def about_bytes(number: int) -> str:
    """A number of bytes to three digits from a mebibyte on: `23.4 GiB`."""
    for unit in "GM":
        if number >= _UNITS[unit]:
            return f"{significant(number / _UNITS[unit])} {unit}iB"
    return bytes_text(number)


def runs_text(numbers: Iterable[int]) -> str:
    """Numbers in their order, with runs of them as ranges: `1, 4-7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][-1] + 1 == number:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def ranks_text(ranks: Iterable[int]) -> str:
    """`rank 3`, or `ranks 1, 4-7`."""
    some = list(ranks)
    return f"rank{'s' * (len(some) > 1)} {runs_text(some)}"


def seconds_text(seconds: float) -> str:
    """Three significant digits: `12.3 us`."""
    return _scaled(seconds, {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})


def bandwidth_text(bandwidth: float) -> str:
    """Bytes per second as bits per second, with three significant digits: `99.3 Mbit/s`."""
    return _scaled(8 * bandwidth, {"Gbit/s": 1e9, "Mbit/s": 1e6, "kbit/s": 1e3, "bit/s": 1.0})


def _scaled(number: float, units: Mapping[str, float]) -> str:
    """A number in the first of these units of which it has at least one, or else in the last."""
    unit = next((unit for unit, size in units.items() if number >= 0.9995 * size), [*units][-1])
    return f"{significant(number / units[unit])} {unit}"


def significant(number: float) -> str:
    """Three significant digits without an exponent and without trailing zeros."""
    digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def print_json(value: object) -> None:
    """Prints the value as indented JSON. Of a result it prints what the core has: its fields. Infinity is null, as JSON
    has none."""
    try:
        text = json.dumps(value, indent=2, default=_plain, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value, default=_plain), parse_constant=lambda _: None)
        text = json.dumps(finite, indent=2)
    print(text)


def _plain(result: Any) -> object:
    """The public fields of a dataclass, a fraction, an array's items, what a schedule is, a network's spec, or a cost
    model's arguments."""
    if is_dataclass(result):
        return {field.name: getattr(result, field.name) for field in fields(result) if field.name[0] != "_"}
    if isinstance(result, Fraction):
        return {"numerator": result.numerator, "denominator": result.denominator}
    if hasattr(result, "tolist"):
        return result.tolist()
    if hasattr(result, "collective"):
        return {"name": result.name, "collective": result.collective, "root": result.root}
    return result.spec if hasattr(result, "spec") else result.__getnewargs_ex__()[1]


def width() -> int:
    """The number of columns to print in: the terminal's, or what COLUMNS says. Without a limit if the output goes to a
    file or to a program."""
    if (sys.stdout and sys.stdout.isatty()) or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return sys.maxsize


def wrapped(text: str, most: int, indent: str = "") -> list[str]:
    """The lines of a paragraph, of at most this many columns; all but the first are indented. Words stay whole."""
    if len(text) <= most and "\n" not in text:
        return [text]
    return wrap(text, most, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def print_wrapped(text: str, indent: str = "") -> None:
    """Prints lines of text, each wrapped to the terminal; what is wrapped is indented."""
    most = width()
    for line in text.split("\n"):
        print("\n".join(wrapped(line, most, indent)), flush=True)


def progress(text: str) -> None:
    """Shows progress in a line on standard error, which the next call replaces; only on a terminal."""
    if sys.stderr and sys.stderr.isatty():
        most = shutil.get_terminal_size().columns - 1
        print(f"\r\033[K{text[:most]}", end="", file=sys.stderr, flush=True)


def print_fields(title: str, rows: list[tuple[str, str]]) -> None:
    """Prints a title and rows of (name, value); a value may have several lines."""
    print_wrapped(title)
    names = max(len(name) for name, _ in rows) + 4
    room = width() - names
    for name, value in rows:
        first, *more = [text for line in value.splitlines() or [""] for text in wrapped(line.strip(), room)]
        if len(first) > room:  # a long path: it does not fit beside the name
            first, more = "", [first, *more]
        print(f"  {name:<{names - 2}}{first}".rstrip())
        for line in more:
            print(" " * names + line)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Prints a table with the columns named in `right` aligned right; on a terminal with a bold header.

    If it is wider than the terminal, text is wrapped between words. If that is not enough, further columns follow in a
    table of their own where the first column names each row, and otherwise in further lines of each row. Numbers and
    words stay whole.
    """
    import typer  # not needed by users of the other functions

    columns = [_Column(texts, texts[0] in right) for texts in zip(header, *rows, strict=True)]
    is_split = len(set(columns[0].texts[1:])) == len(rows)
    indent = _Column([""] * (len(rows) + 1), False)
    lines = _lines(columns, columns[0] if is_split else indent, width())
    for number, table in enumerate([[line] for line in lines] if is_split else [lines]):
        if number:
            print()
        for row, line in product(range(len(rows) + 1), table):
            cells = [wrapped(column.texts[row], room) for column, room in line.items()]
            for parts in zip_longest(*cells, fillvalue=""):
                places = zip(parts, line.items(), strict=True)
                text = _GAP.join(column.align(part, room) for part, (column, room) in places).rstrip()
                typer.echo(text if row else typer.style(text, bold=True))


class _Column:
    """The name and the cells of a column, the width that shows them in full, and the least one."""

    def __init__(self, texts: Sequence[str], is_number: bool) -> None:
        name, *cells = self.texts = texts
        self.align = str.rjust if is_number else str.ljust
        self.full = max(map(len, texts))
        whole = [*name.split(), *(cells if is_number else " ".join(cells).split())]
        self.least = max(0 if is_number else min(self.full, _PROSE), *map(len, whole), 0)


def _lines(columns: Sequence[_Column], first: _Column, most: int) -> list[dict[_Column, int]]:
    """Distributes columns to lines that fit; all but the first begin with the column `first`. Finds their widths."""
    lines = [[columns[0]]]
    for column in columns[1:]:
        if len(_GAP) * len(lines[-1]) + sum(one.least for one in [*lines[-1], column]) <= most:
            lines[-1].append(column)
        else:
            lines.append([first, column])
    return [_widths(line, most) for line in lines]


def _widths(line: Sequence[_Column], most: int) -> dict[_Column, int]:
    """What each column of a line needs, as far as there is room."""
    found = {column: column.least for column in line}
    room = max(0, most - len(_GAP) * (len(line) - 1) - sum(found.values()))
    for index, column in enumerate(sorted(line, key=lambda column: column.full - column.least)):
        more = min(column.full - column.least, room // (len(line) - index))
        found[column] += more
        room -= more
    return found
