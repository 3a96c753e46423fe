"""What the measurements say of ringroad's choice of algorithm, and of the predictions behind it."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ringroad._support.text import bytes_text
from ringroad.measure import race
from ringroad.measure.bench.peers import OURS
from ringroad.measure.bench.rows import Row
from ringroad.measure.bench.table import us

_NEARLY = 1.05
"""A choice that takes at most this many times the best time counts as equally good."""
_TIE = 1e-6
"""Predictions with a smaller relative difference are equal."""


def text(rows: list[Row]) -> str:
    """How good the choice was among fixed algorithms, how well they were predicted, and the wrong elements."""
    wrong = sum(row["wrong"] or 0 for row in rows)
    lines = [*_selection_lines(_selections(rows)), *_order_lines(rows), f"# wrong elements: {wrong}"]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Selection:
    """ringroad's choice beside its fastest fixed algorithm of the same run.

    The least of many times is partly luck. So half of the rounds find the fastest algorithm, and the others compare it
    with the choice, round by round, because the machine drifts.
    """

    ours: Row
    best: Row

    @property
    def times(self) -> tuple[float, float]:
        ours, best = (row["by_round"][1::2] or row["by_round"] for row in (self.ours, self.best))
        time = float(np.median(best[: len(ours)]))
        return time * race.ratio(ours, best), time

    @property
    def ratio(self) -> float:
        ours, best = self.times
        return ours / best

    @property
    def is_best(self) -> bool:
        """Whether the choice is the fastest algorithm; the ratio is only noise then."""
        return bool(self.ours["algorithm"] == self.best["algorithm"])

    def __str__(self) -> str:
        ours, best = self.ours, self.best
        return (
            f"{ours['ranks']} ranks {bytes_text(ours['size'])} {ours['place'].replace('_', ' ')}: "
            f"{ours['algorithm']} {us(self.times[0])} us, "
            f"{best['algorithm']} {us(self.times[1])} us ({self.ratio:.2f})"
        )


def _selections(rows: list[Row]) -> list[_Selection]:
    """A selection for every call that fixed algorithms made, too."""
    fixed = [row for row in rows if row["peer"].startswith(f"{OURS}:")]
    found = []
    for ours in (row for row in rows if row["peer"] == OURS):
        others = [row for row in fixed if same(row, ours)]
        if others:
            ratios = race.ratios([row["by_round"][::2] for row in others])
            found.append(_Selection(ours, others[int(ratios.argmin())]))
    return found


def _selection_lines(found: list[_Selection]) -> list[str]:
    if not found:
        return []
    near = [one for one in found if one.is_best or one.ratio <= _NEARLY]
    worst = max(found, key=lambda one: 1.0 if one.is_best else one.ratio)
    return [
        f"# choice: the fastest fixed algorithm, or within {100 * _NEARLY - 100:.0f} % of it, at {len(near)} of "
        f"{len(found)}; the fastest itself at {sum(one.is_best for one in found)}; worst: {worst}",
        *(f"#   slower: {one}" for one in found if one not in near),
    ]


def _order_lines(rows: list[Row]) -> list[str]:
    """Lines that say how well the model and the simulator rank algorithms, by Kendall's tau."""
    lines = []
    for what, name in (("model", "the cost model"), ("simulated", "the simulator")):
        tau, pairs = kendall(rows, what)
        if pairs:
            lines.append(
                f"# order by {name}: Kendall's tau {tau:.2f}, over {pairs} pairs of algorithms that differ by more "
                f"than {100 * _NEARLY - 100:.0f} % in the same call"
            )
    return lines


def kendall(rows: list[Row], what: str) -> tuple[float, int]:
    """Kendall's tau between the order by `what` and the measured one, and the number of pairs. Pairs are fixed
    algorithms in the same call whose measured times differ enough. A pair with equal predictions adds 0."""
    fixed = [row for row in rows if row["peer"].startswith(f"{OURS}:") and row.get(what) is not None]
    agreed, pairs = 0, 0
    for one, other in combinations(fixed, 2):
        if not same(one, other) or max(ratio := ratio_of(one, other), 1 / ratio) <= _NEARLY:
            continue
        pairs += 1
        by_model = other[what] / one[what]
        if abs(by_model - 1) > _TIE:
            agreed += 1 if (by_model > 1) == (ratio > 1) else -1
    return (agreed / pairs if pairs else 0.0), pairs


def same(row: Row, ours: Row) -> bool:
    """Whether two rows are of the same call."""
    keys = ("collective", "ranks", "size", "type", "redop", "place", "buffers", "pml")
    return all(row[key] == ours[key] for key in keys)


def ratio_of(ours: Row, theirs: Row) -> float:
    """Their time divided by ours."""
    return race.ratio(theirs["by_round"], ours["by_round"])
