"""Who takes turns in a measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ringroad.measure.bench.peers import OURS
from ringroad.measure.bench.statistics import Samples
from ringroad.measure.facts import Caches
from ringroad.measure.race import Race

FEWEST_ROUNDS, MOST_ROUNDS = 3, 100
LONG_CALL, _FEWEST_LONG_ROUNDS = 0.5, 2
"""Calls of at least `LONG_CALL` seconds vary little: one call warms up, and fewer rounds are enough."""


@dataclass(eq=False)
class Contestant:
    """A peer that makes the call in one place (in place or out of place)."""

    peer: str
    place: str
    ways: list[str]
    """The algorithms by which it made the call."""
    burst: Callable[[int], tuple[Samples, int]]
    """Runs a number of calls. Returns seconds by [rank, call], and the number of wrong elements."""
    longest: int
    calls: int = 0
    """The number of calls in a burst; 0: not known yet."""
    samples: list[Samples] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """For each round the slowest rank's median."""
    wrong: int = 0

    def run(self) -> None:
        times, wrong = self.burst(self.calls)
        self.samples.append(times)
        self.times.append(float(np.median(times, axis=1).max()))
        self.wrong += wrong

    def forget(self) -> None:
        """Drops the times of the last run."""
        self.samples.pop()
        self.times.pop()

    def restart(self, new: Contestant) -> None:
        """Continues with the processes of `new`, which is the same contestant after another start."""
        self.burst = new.burst
        self.ways += [way for way in new.ways if way not in self.ways]


@dataclass
class Bout:
    """The measurements of one size and kind of buffers in one team."""

    race: Race[Contestant] = field(default_factory=lambda: Race([]))
    caches: list[tuple[Caches, Caches]] = field(default_factory=list)
    """The caches before and after every round that counts."""
    last: Caches = field(init=False)
    """The caches after the last round."""
    launches: int = 0
    busy_cores: float = 0.0
    """The cores that other processes used before the measurements, the maximum over all launches."""


def fewest_rounds(contestants: list[Contestant]) -> int:
    typical = [float(np.median(one.samples[-1], axis=1).max()) for one in contestants if one.samples]
    return _FEWEST_LONG_ROUNDS if typical and min(typical) >= LONG_CALL else FEWEST_ROUNDS


def rivals(contestants: list[Contestant]) -> list[list[Contestant]]:
    """The groups of fixed algorithms, by place. Only they may drop out, because only the fastest of them matters."""
    groups: dict[str, list[Contestant]] = {}
    for one in contestants:
        if one.peer.startswith(f"{OURS}:"):
            groups.setdefault(one.place, []).append(one)
    return list(groups.values())
