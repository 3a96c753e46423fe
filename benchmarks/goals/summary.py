"""What of a record is kept in the repository: `python benchmarks/goals/summary.py RECORD.jsonl SUMMARY.jsonl`.

The measurements of a team become one line: a table without the times of single rounds and without fixed algorithms, its
numbers with four digits. At the end of a run stands the verdict on all its measurements, which needs what is left out.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ringroad.measure.bench.rows import Row

from goals import verdict

_COLUMNS = ("peer", "place", "buffers", "size", "algorithm", "time", "p99", "ratio", "ratio_torch", "calls", "cache")
_PREDICTED = ("model", "simulated")
_SHARED = ("collective", "ranks", "type", "redop", "pml")


def read(file: Path) -> Iterator[Row]:
    """The rows of a record or of a summary."""
    # Records of 2026 have other words for the caches.
    text = file.read_text().replace('"near"', '"shared"').replace('"far"', '"separate"')
    for row in map(json.loads, text.splitlines()):
        if row["kind"] == "measurements":
            for values in row["rows"]:
                yield {"kind": "measurement", **row["shared"], **dict(zip(row["columns"], values, strict=True))}
        else:
            yield row


def runs(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """The rows of each run, which begins with its machine."""
    run: list[Row] = []
    for row in rows:
        if row["kind"] == "machine" and run:
            yield run
            run = []
        run.append(row)
    yield run


def summary(run: list[Row]) -> Iterator[Row]:
    """The summary of a run."""
    team: list[Row] = []
    for row in [*run, {"kind": "end"}]:
        if row["kind"] == "measurement":
            team.append(row)
            continue
        if team:
            yield _table([row for row in team if ":" not in row["peer"]])
            team = []
        if row["kind"] in ("machine", "team"):
            yield row
    yield {"kind": "verdict", "text": verdict.text([row for row in run if row["kind"] == "measurement"])}


def _table(rows: list[Row]) -> Row:
    columns = [*_COLUMNS, *(name for name in _PREDICTED if name in rows[0])]
    values = [[_short(row.get(name)) for name in columns] for row in rows]
    return {"kind": "measurements", "shared": {k: rows[0][k] for k in _SHARED}, "columns": columns, "rows": values}


def _short(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    lines = [json.dumps(row) for run in runs(read(Path(sys.argv[1]))) for row in summary(run)]
    Path(sys.argv[2]).write_text("\n".join(lines) + "\n")
