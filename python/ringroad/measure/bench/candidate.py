"""The libraries that take turns in a measurement, and the statistics of their times."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringroad.measure.bench.peers import OURS

Samples = NDArray[np.float64]
"""Seconds by [rank, call], or by [rank, round, call]."""


@dataclass(eq=False)
class BenchCandidate:
    """A peer that makes the call in one place (in place or out of place)."""

    peer: str
    place: str
    ways: list[str]
    """The algorithms by which it made the call."""
    burst: Callable[[int], tuple[Samples, int]]
    """Runs a number of calls. Returns seconds by [rank, call], and the number of wrong elements."""
    choose: Callable[[], str] | None = None
    """Lets it choose its fastest way, and returns the way's name; None: it needs not be told to."""
    longest: int = 1
    """The most calls in a burst."""
    calls: int = 0
    """The number of calls in a burst; 0: not known yet."""
    samples: list[Samples] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """For each round the slowest rank's median."""
    wrong: int = 0

    def add(self, times: Samples) -> None:
        """Adds the times of a round that counts."""
        self.samples.append(times)
        self.times.append(slowest(times))

    def add_ways(self, ways: list[str]) -> None:
        self.ways += [way for way in ways if way not in self.ways]

    def restart(self, new: "BenchCandidate") -> None:
        """Continues with the processes of `new`, which is the same candidate after another start."""
        self.burst, self.choose = new.burst, new.choose
        self.add_ways(new.ways)


def slowest(times: Samples) -> float:
    """The slowest rank's median."""
    return float(np.median(times, axis=1).max())


def rivals(candidates: list[BenchCandidate]) -> list[list[BenchCandidate]]:
    """The groups of fixed algorithms, by place. Only they may drop out, because only the fastest of them matters."""
    groups: dict[str, list[BenchCandidate]] = {}
    for one in candidates:
        if one.peer.startswith(f"{OURS}:"):
            groups.setdefault(one.place, []).append(one)
    return list(groups.values())


def statistics_of(samples: Samples) -> dict[str, Any]:
    """Statistics in seconds. `by_round` has the slowest rank's median of each round, and `time` is the median of these.

    `p50`, `min`, `p99` and `max` are over all calls, each of the rank where it is largest.
    """
    ranks, rounds, calls = samples.shape
    flat = samples.reshape(ranks, -1)
    by_round: NDArray[Any] = np.median(samples, axis=2).max(axis=0)
    return {
        "time": float(np.median(by_round)),
        "by_round": [float(f"{time:.4g}") for time in by_round],
        "p50": float(np.median(flat, axis=1).max()),
        "min": float(flat.min(axis=1).max()),
        "p99": float(np.percentile(flat, 99, axis=1).max()),
        "max": float(flat.max()),
        "calls": rounds * calls,
        "rounds": rounds,
    }
