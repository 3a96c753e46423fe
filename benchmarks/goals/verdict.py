"""Compares ringroad's speed with goals: relative to the best of its peers and to the reference.

Every comparison is between times of one run, round by round, because the machine may drift: the median over the rounds
counts. Criteria for allreduce:

- a: from 1 KiB on never slower than the best peer, below that at most 2 us slower;
- b: at least 3 times as fast as the best peer at 4 MiB, and 2 times at 32 and 128 MiB. This goal is for CPUs that share
  no cache: the rounds in which they shared none are also judged separately (`b, separate`);
- c: from 64 KiB on at most 1.3 times as long as the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from ringroad._support.text import bytes_text
from ringroad.measure import race
from ringroad.measure.bench import choice
from ringroad.measure.bench.choice import ratio_of, same
from ringroad.measure.bench.peers import OURS, OURS_IN_TORCH
from ringroad.measure.bench.rows import Row
from ringroad.measure.bench.table import us
from ringroad.measure.facts import BUSY

from goals import reference

_KIB, _MIB = 1 << 10, 1 << 20
_SLACK = 2e-6
_TIMES_FASTER = {4 * _MIB: 3.0, 32 * _MIB: 2.0, 128 * _MIB: 2.0}
_FLOOR_FROM, _FLOOR_TIMES = 64 * _KIB, 1.3
_CRITERIA = {
    "a": "never slower than the best peer from 1 KiB on, at most 2 us slower below",
    "b": "3 times as fast as the best peer at 4 MiB, 2 times at 32 and 128 MiB (meant for CPUs that share no cache)",
    "b, separate": "the same in the rounds in which the CPUs shared no cache",
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
        return ratio_of(self.ours, self.theirs)

    def __str__(self) -> str:
        ours, theirs = self.ours, self.theirs
        return (
            f"{ours['ranks']} ranks {bytes_text(ours['size'])} {ours['buffers']} {ours['place'].replace('_', ' ')} "
            f"({ours['cache']}): {us(ours['time'])} us, {theirs['peer']} {us(theirs['time'])} us ({self.ratio:.2f})"
        )


def compare(rows: list[Row], name: str) -> list[Comparison]:
    """All comparisons of one of ringroad's interfaces, each with a peer's time of the same team."""
    found: list[Comparison] = []
    for ours in (row for row in rows if row["peer"] == name and row["collective"] == "allreduce"):
        others = [row for row in rows if same(row, ours) and not row["peer"].startswith(OURS)]
        found += [comparison for theirs in others for comparison in _judge(ours, theirs)]
    return found


def _judge(ours: Row, theirs: Row) -> Iterator[Comparison]:
    size, ratio = ours["size"], ratio_of(ours, theirs)
    if theirs["peer"] == reference.NAME:
        if size >= _FLOOR_FROM:
            yield Comparison("c", ours, theirs, race.ratio(ours["by_round"], theirs["by_round"]) <= _FLOOR_TIMES)
        return
    slower = race.difference(ours["by_round"], theirs["by_round"])
    yield Comparison("a", ours, theirs, ratio >= 1.0 if size >= _KIB else slower <= _SLACK)
    if size in _TIMES_FASTER:
        for criterion, mine, other in (("b", ours, theirs), ("b, separate", _separate(ours), _separate(theirs))):
            if mine and other:
                yield Comparison(criterion, mine, other, ratio_of(mine, other) >= _TIMES_FASTER[size])


def _separate(row: Row) -> Row | None:
    """The row with only those rounds in which the CPUs shared no cache; None without such rounds."""
    rounds = zip(row["by_round"], row["cache_by_round"], strict=False)
    times = [time for time, cache in rounds if cache == "separate"]
    return {**row, "cache": "separate", "time": float(np.median(times)), "by_round": times} if times else None


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
    return "\n".join([*lines, choice.text(rows)])


def _lines(name: str, criterion: str, comparisons: list[Comparison]) -> list[str]:
    failed = sorted((c for c in comparisons if not c.passed), key=lambda c: c.ratio)
    least = min(comparisons, key=lambda c: c.ratio)
    result = f"FAIL at {len(failed)} of {len(comparisons)}" if failed else f"pass at {len(comparisons)}"
    return [f"# {name} {criterion}: {result}; least: {least}", *(f"#   fails: {comparison}" for comparison in failed)]
