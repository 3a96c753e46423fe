"""What the benchmark prints and writes."""

from __future__ import annotations

import platform
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ringroad import _machine
from ringroad._text import significant

COLUMNS = (
    ("size", "B", 10),
    ("count", "", 9),
    ("type", "", 8),
    ("redop", "", 6),
    ("time", "us", 9),
    ("algbw", "GB/s", 7),
    ("busbw", "GB/s", 7),
    ("#wrong", "", 7),
    ("p50", "us", 9),
    ("min", "us", 9),
    ("p99", "us", 9),
    ("algorithm", "", 20),
)


def machine() -> dict[str, Any]:
    """Where and with what a record was made."""
    everything = _machine.describe()
    return {
        "kind": "machine",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "rustc": _output("rustc", "--version"),
        "libc": " ".join(platform.libc_ver()),
        **{key: everything[key] for key in ("versions", "ucx", "ucx_variables", "host")},
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU part")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(*command: str) -> str | None:
    """What a program says, None where there is none."""
    if shutil.which(command[0]) is None:
        return None
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def header(ranks: int, peers: list[str], transport: str) -> str:
    names = [name.rjust(width) for name, _, width in COLUMNS]
    units = [f"({unit})".rjust(width) if unit else " " * width for _, unit, width in COLUMNS]
    for peer in peers:
        names += [f"{peer}".rjust(10), f"{peer}/us".rjust(9)]
        units += ["(us)".rjust(10), "(ratio)".rjust(9)]
    title = f"# allreduce, {ranks} ranks, {transport}; in place; time: median over rounds of the slowest rank's median"
    return "\n".join([title, "# " + " ".join(names)[2:], "# " + " ".join(units)[2:]])


def line(rows: dict[str, dict[str, Any]]) -> str:
    """One size: ringroad's numbers, then every peer's time and how many times longer it takes."""
    ours = rows["ringroad"]
    cells = [
        ours["size"],
        ours["count"],
        ours["type"],
        ours["redop"],
        _us(ours["time"]),
        f"{ours['algbw'] / 1e9:.2f}",
        f"{ours['busbw'] / 1e9:.2f}",
        "-" if ours["wrong"] is None else ours["wrong"],
        _us(ours["p50"]),
        _us(ours["min"]),
        _us(ours["p99"]),
        ours["algorithm"],
    ]
    text = [str(cell).rjust(width) for cell, (_, _, width) in zip(cells, COLUMNS, strict=True)]
    for peer, row in rows.items():
        if peer != "ringroad":
            wrong = f" ({row['wrong']} wrong)" if row["wrong"] else ""
            text += [_us(row["time"]).rjust(10), f"{row['time'] / ours['time']:.2f}".rjust(9) + wrong]
    return " ".join(text)


def numpy_line(row: dict[str, Any]) -> str:
    return (
        f"# NumPy API, Communicator.allreduce in place, {row['size']} B, {row['ranks']} ranks: {_us(row['time'])} us "
        f"(min {_us(row['min'])}, p99 {_us(row['p99'])}, {row['calls']} calls, {row['wrong']} wrong)"
    )


def _us(seconds: float) -> str:
    return significant(seconds * 1e6)


def verdict(table: list[dict[str, dict[str, Any]]]) -> str:
    """One line per peer: at how many sizes ringroad is faster."""
    lines = []
    for peer in [peer for peer in (table[0] if table else {}) if peer != "ringroad"]:
        by_ranks: dict[int, list[float]] = {}
        for rows in table:
            by_ranks.setdefault(rows[peer]["ranks"], []).append(rows[peer]["time"] / rows["ringroad"]["time"])
        ratios = [ratio for values in by_ranks.values() for ratio in values]
        parts = ", ".join(f"{ranks} ranks {_faster(values)} of {len(values)}" for ranks, values in by_ranks.items())
        lines.append(
            f"# faster than {peer} at {_faster(ratios)} of {len(ratios)} sizes ({parts}); "
            f"least ratio {min(ratios):.2f}, greatest {max(ratios):.0f}"
        )
    wrong = sum(row["wrong"] or 0 for rows in table for row in rows.values())
    lines.append(f"# wrong elements: {wrong}")
    return "\n".join(lines)


def _faster(ratios: list[float]) -> int:
    return sum(ratio > 1 for ratio in ratios)
