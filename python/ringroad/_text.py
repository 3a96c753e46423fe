"""Numbers with units and tables, for the command line."""

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
        raise ValueError(f"{text!r} is no number of bytes; write for example 8, 64KiB, 1MiB or 2G")
    return int(number)


def bytes_text(number: int) -> str:
    """Exact: `64 KiB`, or `65537 B` where no unit divides the number."""
    unit = max((u for u in _UNITS if number and number % _UNITS[u] == 0), key=lambda u: _UNITS[u], default="")
    return f"{number // _UNITS[unit]} {unit + 'i' if unit else ''}B"


def seconds_text(seconds: float) -> str:
    """Three significant digits: `12.3 us`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{significant(seconds / size)} {unit}"
    return f"{significant(seconds / 1e-9)} ns"


def significant(number: float) -> str:
    """Three significant digits without an exponent, and without zeros that say nothing."""
    digits = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """A table with the columns named in `right` aligned to the right; with rules and colours only on a terminal."""
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
