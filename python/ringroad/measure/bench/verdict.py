"""Compares ringroad's speed with goals: relative to the best of its peers and to the reference.

Every comparison is between times of one run, round by round, because the machine may drift: the median over the rounds
counts. Criteria for allreduce:

- a: from 1 KiB on never slower than the best peer, below that at most 2 us slower;
- b: at least 3 times as fast as the best peer at 4 MiB, and 2 times at 32 and 128 MiB. This goal is for CPUs that share
  no cache: the rounds in which they shared none are also judged separately (`b, far`);
- c: from 64 KiB on at most 1.3 times as long as the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ringroad._support.text import bytes_text
from ringroad.measure import race
from ringroad.measure.bench import reference
from ringroad.measure.bench.conductor import Row
from ringroad.measure.bench.peers import OURS, OURS_IN_TORCH
from ringroad.measure.bench.table import us
from ringroad.measure.facts import BUSY

_KIB, _MIB = 1 << 10, 1 << 20
_SLACK = 2e-6
_TIMES_FASTER = {4 * _MIB: 3.0, 32 * _MIB: 2.0, 128 * _MIB: 2.0}
_FLOOR_FROM, _FLOOR_TIMES = 64 * _KIB, 1.3
_NEARLY = 1.05
"""A choice that takes at most this many times the best time counts as equally good."""
_TIE = 1e-6
"""Predictions with a smaller relative difference are equal."""
_CRITERIA = {
    "a": "never slower than the best peer from 1 KiB on, at most 2 us slower below",
    "b": "3 times as fast as the best peer at 4 MiB, 2 times at 32 and 128 MiB (meant for CPUs that share no cache)",
    "b, far": "the same in the rounds in which the CPUs shared no cache",
    "c": "at most 1.3 times as long as the reference from 64 KiB on",
}


@dataclass(frozen=True)
class Comparison:
    """One of ringroad's times beside a peer's time of the same run."""

    criterion: str
    ours: Row
    theirs: Row
    passed: bool

    @property
    def ratio(self) -> float:
        return _ratio(self.ours, self.theirs)

    def __str__(self) -> str:
        ours, theirs = self.ours, self.theirs
        return (
            f"{ours['ranks']} ranks {bytes_text(ours['size'])} {ours['buffers']} {ours['place'].replace('_', ' ')} "
            f"({ours['cache']}): {us(ours['time'])} us, {theirs['peer']} {us(theirs['time'])} us ({self.ratio:.2f})"
        )


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
        others = [row for row in fixed if _same(row, ours)]
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
        if not _same(one, other) or max(ratio := _ratio(one, other), 1 / ratio) <= _NEARLY:
            continue
        pairs += 1
        by_model = other[what] / one[what]
        if abs(by_model - 1) > _TIE:
            agreed += 1 if (by_model > 1) == (ratio > 1) else -1
    return (agreed / pairs if pairs else 0.0), pairs


def compare(rows: list[Row], name: str) -> list[Comparison]:
    """All comparisons of one of ringroad's interfaces, each with a peer's time of the same team."""
    found: list[Comparison] = []
    for ours in (row for row in rows if row["peer"] == name and row["collective"] == "allreduce"):
        others = [row for row in rows if _same(row, ours) and not row["peer"].startswith(OURS)]
        found += [comparison for theirs in others for comparison in _judge(ours, theirs)]
    return found


def _same(row: Row, ours: Row) -> bool:
    keys = ("collective", "ranks", "size", "type", "redop", "place", "buffers", "pml")
    return all(row[key] == ours[key] for key in keys)


def _ratio(ours: Row, theirs: Row) -> float:
    """Their time divided by ours."""
    return race.ratio(theirs["by_round"], ours["by_round"])


def _judge(ours: Row, theirs: Row) -> Iterator[Comparison]:
    size, ratio = ours["size"], _ratio(ours, theirs)
    if theirs["peer"] == reference.NAME:
        if size >= _FLOOR_FROM:
            yield Comparison("c", ours, theirs, race.ratio(ours["by_round"], theirs["by_round"]) <= _FLOOR_TIMES)
        return
    slower = race.difference(ours["by_round"], theirs["by_round"])
    yield Comparison("a", ours, theirs, ratio >= 1.0 if size >= _KIB else slower <= _SLACK)
    if size in _TIMES_FASTER:
        for criterion, mine, other in (("b", ours, theirs), ("b, far", _far(ours), _far(theirs))):
            if mine and other:
                yield Comparison(criterion, mine, other, _ratio(mine, other) >= _TIMES_FASTER[size])


def _far(row: Row) -> Row | None:
    """The row with only those rounds in which the CPUs shared no cache; None without such rounds."""
    rounds = zip(row["by_round"], row["cache_by_round"], strict=False)
    times = [time for time, cache in rounds if cache == "far"]
    return {**row, "cache": "far", "time": float(np.median(times)), "by_round": times} if times else None


def text(rows: list[Row]) -> str:
    """The verdict as text: for every interface and criterion pass or fail, with the failures; and the wrong
    elements."""
    lines = []
    for name in (OURS, OURS_IN_TORCH):
        comparisons = compare(rows, name)
        for criterion, meaning in _CRITERIA.items():
            mine = [comparison for comparison in comparisons if comparison.criterion == criterion]
            if mine:
                lines += _lines(name, f"({criterion}) {meaning}", mine)
    busy = max((row.get("busy_cores") or 0.0 for row in rows), default=0.0)
    if lines and busy > BUSY:
        lines.append(f"# WARNING: others kept up to {busy:.1f} cores busy; this says nothing of an idle machine")
    lines += _selection_lines(_selections(rows))
    lines += _order_lines(rows)
    lines.append(f"# wrong elements: {sum(row['wrong'] or 0 for row in rows)}")
    return "\n".join(lines)


def _lines(name: str, criterion: str, comparisons: list[Comparison]) -> list[str]:
    failed = sorted((c for c in comparisons if not c.passed), key=lambda c: c.ratio)
    least = min(comparisons, key=lambda c: c.ratio)
    result = f"FAIL at {len(failed)} of {len(comparisons)}" if failed else f"pass at {len(comparisons)}"
    return [f"# {name} {criterion}: {result}; least: {least}", *(f"#   fails: {comparison}" for comparison in failed)]
