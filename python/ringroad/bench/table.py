"""The table: nccl-tests' columns, one line per size and peer."""

from __future__ import annotations

from ringroad._machine import BUSY
from ringroad._text import significant
from ringroad.bench.collectives import IN, OUT
from ringroad.bench.conductor import Row
from ringroad.bench.peers import OURS

_HEAD = (("size", "(B)", 10), ("count", "", 10), ("type", "", 8), ("redop", "", 7), ("root", "", 4), ("peer", "", 14))
_TIMES = (
    ("time", "(us)", 8),
    ("algbw", "(GB/s)", 6),
    ("busbw", "(GB/s)", 6),
    ("#wrong", "", 6),
    ("p50", "(us)", 8),
    ("p99", "(us)", 8),
    ("max", "(us)", 8),
    ("ratio", "", 6),
)
_PREDICTED = (("model", "(us)", 8), ("t/model", "", 7), ("simul.", "(us)", 8), ("t/simul", "", 7))
LEGEND = """\
# time: of each round the slowest rank's median, of these the median. p50, p99, max: over all calls of the slowest rank
# ratio: how many times as long as ringroad's own interface took in the same run
# On emulated networks: model and simul. are predicted times; t/model and t/simul are the time in place over them"""


def title(team: Row) -> str:
    """The lines above the rows of one team of ranks."""
    parts = [f"{team['ranks']} ranks", f"ringroad over {team['transport']}"]
    if team["testbed"]:
        parts.insert(1, f"on an emulated {team['testbed']} of {8e-6 * team['rate']:g} Mbit/s")
    if team["pml"]:
        parts.append(f"started by {team['mpi']}'s mpirun, pml {team['pml']}")
    text = "# " + ", ".join(parts)
    if (busy := team["busy_cores"] or 0.0) > BUSY:
        text += f"\n# WARNING: others keep {busy:.1f} cores busy, which favours peers that do not spin while they wait"
    return text


def header(collective: str, buffers: str, ranks: int, predicted: bool = False) -> str:
    width = sum(width + 1 for *_, width in _TIMES)
    start = sum(width + 1 for *_, width in _HEAD)
    columns = [*_HEAD, *_TIMES, *_TIMES, *(_PREDICTED if predicted else ())]
    return "\n".join(
        [
            f"# {collective}, {ranks} ranks, {buffers} buffers",
            ("#".ljust(start) + "out of place".center(width) + "in place".center(width)).rstrip(),
            "#" + " ".join([name.rjust(w) for name, _, w in columns] + ["cache algorithm"])[1:],
            "#" + " ".join(unit.rjust(w) for _, unit, w in columns)[1:].rstrip(),
        ]
    )


def line(rows: list[Row], with_predictions: bool = False) -> str:
    """The line of one peer at one size, from its rows out of place and in place."""
    first = rows[0]
    head = [first[key] for key in ("size", "count", "type", "redop", "root", "peer")]
    if first["peer"].startswith(f"{OURS}:"):
        head[-1] = f"{OURS} fixed"  # the algorithm comes last
    by_place = {row["place"]: row for row in rows}
    cells = [str(cell).rjust(width) for cell, (*_, width) in zip(head, _HEAD, strict=True)]
    for place in (OUT, IN):
        texts = _times(by_place.get(place))
        cells += [text.rjust(width) for text, (*_, width) in zip(texts, _TIMES, strict=True)]
    if with_predictions:
        cells += [text.rjust(width) for text, (*_, width) in zip(_predictions(rows[-1]), _PREDICTED, strict=True)]
    return " ".join([*cells, first["cache"].ljust(5), first["algorithm"] or ""]).rstrip()


def _times(row: Row | None) -> list[str]:
    if row is None:
        return ["-"] * len(_TIMES)
    wrong = "-" if row["wrong"] is None else str(row["wrong"])
    bandwidths = [f"{row[key] / 1e9:.2f}" for key in ("algbw", "busbw")]
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return [us(row["time"]), *bandwidths, wrong, us(row["p50"]), us(row["p99"]), us(row["max"]), ratio]


def predicted(rows: list[Row]) -> bool:
    """Whether any of the rows has predictions."""
    return any(row["model"] is not None for row in rows)


def _predictions(row: Row) -> list[str]:
    said = [row["model"], row["simulated"]]
    return [text for one in said for text in (("-", "-") if one is None else (us(one), f"{row['time'] / one:.2f}"))]


def us(seconds: float) -> str:
    return significant(seconds * 1e6)


def lines(rows: list[Row]) -> list[str]:
    """The lines of all peers at one size."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    return [line([row for row in rows if row["peer"] == peer], predicted(rows)) for peer in peers]
