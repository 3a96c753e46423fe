"""The table: nccl-tests' columns, one line per size and peer."""

from dataclasses import dataclass

from ringroad._support.text import bandwidth_text, significant
from ringroad.measure.bench.collectives import IN, OUT
from ringroad.measure.bench.peers import OURS
from ringroad.measure.bench.rows import Row
from ringroad.measure.facts import BUSY

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
_CACHE, _ALGORITHM = 5, 18
_OMITTED = (
    *("root", "redop", "type", "count", "cache", "p50", "max", "algbw", "#wrong", "t/model", "t/simul", "p99", "busbw"),
    *("simul.", "model", "algorithm", "ratio"),
)
"""Which columns a narrow terminal lacks, the first of them first."""
LEGEND = """\
# time: of each round the slowest rank's median, of these the median. p50, p99, max: over all calls of the slowest rank
# ratio: how many times as long as ringroad's own interface took in the same run
# On emulated networks: model and simul. are predicted times; t/model and t/simul are the time in place over them"""


def title(team: Row) -> str:
    """The lines above the rows of one team of ranks."""
    parts = [f"{team['ranks']} ranks", f"ringroad over {team['transport']}"]
    if team["testbed"]:
        parts.insert(1, f"on an emulated {team['testbed']} of {bandwidth_text(team['rate'])}")
    if team["pml"]:
        parts.append(f"started by {team['mpi']}'s mpirun, pml {team['pml']}")
    text = "# " + ", ".join(parts)
    if (busy := team["busy_cores"] or 0.0) > BUSY:
        text += f"\n# WARNING: others keep {busy:.1f} cores busy, which favours peers that do not spin while they wait"
    return text


@dataclass(frozen=True)
class Columns:
    """The columns that are shown: all but those that are omitted, and predictions if there are any."""

    omitted: tuple[str, ...] = ()
    predicted: bool = False

    def of(self, group: tuple[tuple[str, str, int], ...]) -> list[tuple[int, str, str, int]]:
        """The shown columns of a group, each with its place in the group."""
        return [(place, *column) for place, column in enumerate(group) if column[0] not in self.omitted]

    def shows(self, name: str) -> bool:
        return name not in self.omitted

    @property
    def width(self) -> int:
        groups = [_HEAD, _TIMES, _TIMES, *([_PREDICTED] if self.predicted else [])]
        numbers = sum(width + 1 for group in groups for *_, width in self.of(group))
        return numbers + self.shows("cache") * (_CACHE + 1) + self.shows("algorithm") * (_ALGORITHM + 1) - 1


def chosen(rows: list[Row], most: int | None) -> Columns:
    """The columns that fit into `most` characters, for rows like these."""
    predicted = any(row["model"] is not None for row in rows)
    missing = set() if predicted else {name for name, *_ in _PREDICTED}
    order = [name for name in _OMITTED if name not in missing]
    if len({row["peer"] for row in rows}) == 1:  # the ratio is 1
        order.remove("ratio")
        order.insert(0, "ratio")
    count = 0
    while (columns := Columns(tuple(order[:count]), predicted)).width > (most or columns.width) and count < len(order):
        count += 1
    return columns


def header(collective: str, buffers: str, ranks: int, columns: Columns) -> str:
    """The lines above the rows of one collective."""
    times, head = columns.of(_TIMES), columns.of(_HEAD)
    width = sum(width + 1 for *_, width in times)
    start = sum(width + 1 for *_, width in head)
    shown = [*head, *times, *times, *(columns.of(_PREDICTED) if columns.predicted else ())]
    last = [name for name in ("cache", "algorithm") if columns.shows(name)]
    lines = [
        f"# {collective}, {ranks} ranks, {buffers} buffers",
        ("#".ljust(start) + "out of place".center(width) + "in place".center(width)).rstrip(),
        "#" + " ".join([*(name.rjust(w) for _, name, _, w in shown), *last])[1:],
        "#" + " ".join(unit.rjust(w) for _, _, unit, w in shown)[1:].rstrip(),
    ]
    if columns.omitted:
        lines.insert(1, f"# in a wider terminal and in --json: {', '.join(columns.omitted)}")
    return "\n".join(lines)


def line(rows: list[Row], columns: Columns) -> str:
    """The line of one peer at one size, from its rows out of place and in place."""
    first = rows[0]
    head = [first[key] for key in ("size", "count", "type", "redop", "root", "peer")]
    if first["peer"].startswith(f"{OURS}:"):
        head[-1] = f"{OURS} fixed"  # the algorithm comes last
    by_place = {row["place"]: row for row in rows}
    cells = _cells([str(cell) for cell in head], _HEAD, columns)
    for place in (OUT, IN):
        cells += _cells(_times(by_place.get(place)), _TIMES, columns)
    if columns.predicted:
        cells += _cells(_predictions(rows[-1]), _PREDICTED, columns)
    if columns.shows("cache"):
        cells.append(first["cache"].ljust(_CACHE))
    if columns.shows("algorithm"):
        cells.append(first["algorithm"] or "")
    return " ".join(cells).rstrip()


def _cells(texts: list[str], group: tuple[tuple[str, str, int], ...], columns: Columns) -> list[str]:
    return [texts[place].rjust(width) for place, _, _, width in columns.of(group)]


def _times(row: Row | None) -> list[str]:
    if row is None:
        return ["-"] * len(_TIMES)
    wrong = "-" if row["wrong"] is None else str(row["wrong"])
    bandwidths = [f"{row[key] / 1e9:.2f}" for key in ("algbw", "busbw")]
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return [us(row["time"]), *bandwidths, wrong, us(row["p50"]), us(row["p99"]), us(row["max"]), ratio]


def _predictions(row: Row) -> list[str]:
    said = [row["model"], row["simulated"]]
    return [text for one in said for text in (("-", "-") if one is None else (us(one), f"{row['time'] / one:.2f}"))]


def us(seconds: float) -> str:
    return significant(seconds * 1e6)


def lines(rows: list[Row], columns: Columns) -> list[str]:
    """The lines of all peers at one size."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    return [line([row for row in rows if row["peer"] == peer], columns) for peer in peers]
