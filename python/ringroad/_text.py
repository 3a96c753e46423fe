"""Numbers with units and tables, for the command line."""

import json
import re
import sys
from collections.abc import Sequence

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_bytes(text: str) -> int:
    """A number of bytes: `8`, `1K`, `64KiB`, `1.5M`, `2G`; K, M, G, T are powers of 1024. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?", text.strip(), re.IGNORECASE)
    number = float(match[1]) * _UNITS[match[2].upper()] if match else 0.5
    if match and match[1].isdigit():
        number = int(match[1]) * _UNITS[match[2].upper()]  # exact, however large
    if number != int(number):
        raise ValueError(f"{text!r} is not a number of bytes; write for example 8, 64KiB, 1MiB or 2G")
    return int(number)


def parse_seconds(text: str) -> float:
    """A time: `10us`, `500ns`, `1.5ms`, `2s`, `1e-6`. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(n|u|m|)s?", text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is not a time; write for example 10us, 500ns or 1e-6")
    # Dividing by a whole number rounds once; multiplying by a fraction such as 1e-6 rounds twice.
    return float(match[1]) / {"n": 1e9, "u": 1e6, "m": 1e3, "": 1}[match[2].lower()]


def parse_bandwidth(text: str) -> float:
    """Bytes per second: `100Gbit/s` or `100Gbit` (bits), `12.5GB/s` (bytes), `12.5e9`; G is 10^9. Raises ValueError."""
    pattern = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(?:([KMGT]?)(bit/s|bit|b/s|bps|B/s))?"
    match = re.fullmatch(pattern, text.strip())
    if not match:
        raise ValueError(
            f"{text!r} is not a bandwidth; write for example 100Gbit/s, 12.5GB/s or 12.5e9 (bytes per second)"
        )
    factor = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[match[2] or ""]
    return float(match[1]) * factor / (1 if match[3] in (None, "B/s") else 8)


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


def seconds_text(seconds: float) -> str:
    """Three significant digits: `12.3 us`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{significant(seconds / size)} {unit}"
    return f"{significant(seconds / 1e-9)} ns"


def significant(number: float) -> str:
    """Three significant digits without an exponent and without trailing zeros."""
    digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def print_json(value: object) -> None:
    """Prints the value as indented JSON."""
    print(json.dumps(value, indent=2))


def print_fields(title: str, rows: list[tuple[str, str]]) -> None:
    """Prints a title and rows of (name, value)."""
    print(title)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Prints a table with the columns named in `right` aligned right; with rules and colours only on a terminal."""
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for index, name in enumerate(header):
            number = name in right
            table.add_column(name, justify="right" if number else "left", no_wrap=number or index == 0)
        for row in rows:
            table.add_row(*row)
        Console(markup=False, highlight=False, emoji=False).print(table)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (
            text.rjust(width) if name in right else text.ljust(width)
            for name, text, width in zip(header, row, widths, strict=True)
        )
        print("  ".join(cells).rstrip())
