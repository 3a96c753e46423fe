"""The page of the documentation on measurements: the committed records of `benchmarks`, with all that they miss."""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pages_text import figure, folded, literal, table, whole
from ringroad._support.text import bytes_text, seconds_text
from ringroad.measure.bench.peers import OURS

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))
from goals import plot, summary  # noqa: E402

RECORDS = sorted((ROOT / "benchmarks").glob("*.jsonl"), reverse=True)
BUFFERS = {"numpy": "NumPy arrays", "torch": "torch tensors"}


def pages() -> Iterator[tuple[str, str]]:
    """The text of the page by its path."""
    text = """\
# Records

The records of the repository's `benchmarks` folder, newest first. Every time is of an allreduce of float32 in place:
the median over the rounds of the slowest rank's median. In parentheses stands how many times as long as ringroad the
peer took, side by side in the same rounds; compare within a table only. Below 1, ringroad was slower.
[Benchmarks](benchmarks.md) explains the peers, the goals and the words, and how to make a record of your own machine.

Nothing is left out: below each record stand the goals that it misses, one line for each comparison.
"""
    for record in RECORDS:
        text += _section(record)
    yield "records.md", text


def pictures() -> dict[str, Callable[[Path], None]]:
    """How to draw every picture of the page, by its path."""
    return {
        _picture(record, buffers): lambda file, record=record, buffers=buffers: plot.draw(record, file, buffers, 2)
        for record in RECORDS
        for buffers in _drawn(record)
    }


def _section(record: Path) -> str:
    runs = list(summary.runs(summary.read(record)))
    machine = runs[0][0]
    host, versions = machine["host"], {k: v for k, v in machine["versions"].items() if v}
    text = f"""
## {_title(record)}

{machine["cpu"]}, {host["cores"]} cores, {host["kernel"].split()[1]}; {machine["rustc"].partition(" (")[0]},
{", ".join(f"{name} {number}" for name, number in versions.items())}; UCX {machine["ucx"]["version"]}.
File: `benchmarks/{record.name}`.

"""
    for buffers in _drawn(record):
        text += f"### {record.name[:10]}: {BUFFERS[buffers]}\n\n"
        text += figure(_picture(record, buffers), f"Time of an allreduce in place over its length, {BUFFERS[buffers]}.")
        for place, peers in plot.read(record, buffers).items():
            text += f"\n**{place}**\n\n{_times(peers)}"
    text += f"\n### {record.name[:10]}: goals met and missed\n"
    for run in runs:
        team = next(row for row in run if row["kind"] == "team")
        if team.get("testbed"):
            text += f"\n**{team['testbed']}**\n"
        text += f"\n{_judged(run[-1]['text'])}"
    return text


def _title(record: Path) -> str:
    """The day and the subject of a record, by its name."""
    name = record.name.partition(".")[0]
    return f"{name[:10]}, {name[11:].replace('-', ' ')}"


def _times(peers: plot.Rows) -> str:
    """A row for each size, a column for each peer."""
    sizes = sorted({size for rows in peers.values() for size in rows})
    simulated = any(row.get("simulated") for rows in peers.values() for row in rows.values())
    others = [peer for peer in peers if peer != OURS]
    rows = []
    for size in sizes:
        ours = peers[OURS].get(size)
        cells = [_time(peers[peer].get(size)) for peer in others]
        extra = [whole(seconds_text(ours["simulated"])) if ours and ours.get("simulated") else "-"] if simulated else []
        mine = [f"`{ours['algorithm']}`", f"**{whole(seconds_text(ours['time']))}**"] if ours else ["-", "-"]
        rows.append([whole(bytes_text(size)), *mine, *cells, *extra])
    return table(["size", "chosen", OURS, *others, *(["simulated"] if simulated else [])], rows)


def _time(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    ratio = "" if row["ratio"] is None else f" ({row['ratio']:.3g})"
    return whole(f"{seconds_text(row['time'])}{ratio}")


def _judged(verdict: str) -> str:
    """The verdict of `python benchmarks/goals`, with the missed comparisons folded."""
    text, missed = "", list[str]()
    for line in [*verdict.splitlines(), "# "]:
        detail = re.match(r"#   (?:fails|slower): (.+)", line)
        if detail:
            missed.append(f"- {literal(detail[1])}\n")
            continue
        if missed:
            text += f"\n{folded('Misses', ''.join(missed))}\n"
            missed = []
        if len(line) > 2:
            text += f"- {literal(line[2:])}\n"
    return text


def _picture(record: Path, buffers: str) -> str:
    return f"pictures/record-{record.name.partition('.')[0]}-{buffers}.svg"


@cache
def _drawn(record: Path) -> list[str]:
    """The kinds of buffers with peers, which are worth a picture."""
    return [buffers for buffers in BUFFERS if any(len(peers) > 1 for peers in plot.read(record, buffers).values())]
