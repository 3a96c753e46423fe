"""One burst of calls, and what a set of bursts says.

A burst fills the buffer and calls the in-place sum several times in a row. After k calls on n ranks every element is
(sum of the inputs) * n^(k-1), so that checking the last result checks them all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
"""Seconds: [ranks, rounds, calls]."""


def longest_burst(ranks: int, largest: float) -> int:
    """How many sums of sums a float32 can take before it overflows, and at most 50."""
    if ranks == 1:
        return 50
    return max(1, min(50, int((126 - math.log2(largest)) / math.log2(ranks))))


def contribution(rank: int, count: int) -> NDArray[np.float32]:
    """What a rank adds: small integers, so that sums are exact."""
    return ((np.arange(count) % 61) + rank + 1).astype(np.float32)


def expected(ranks: int, count: int, calls: int) -> NDArray[np.float32]:
    total = (np.arange(count) % 61).astype(np.float64) * ranks + ranks * (ranks + 1) / 2
    return (total * float(ranks) ** (calls - 1)).astype(np.float32)


@dataclass
class Burst:
    """A buffer of one size, and the calls on it. `array` and `call` share memory."""

    rank: int
    ranks: int
    array: NDArray[np.float32]
    call: Callable[[], Any]
    barrier: Callable[[], Any]
    check: bool = True
    wrong: int = 0

    def __post_init__(self) -> None:
        self.fill = contribution(self.rank, self.array.size)

    def run(self, calls: int) -> Samples:
        """Seconds that each call took this rank."""
        times = np.empty(calls)
        call, clock = self.call, time.perf_counter
        np.copyto(self.array, self.fill)
        self.barrier()
        for index in range(calls):
            start = clock()
            call()
            times[index] = clock() - start
        if self.check:
            right = expected(self.ranks, self.array.size, calls)
            # Exact for powers of two; every other product with n rounds once.
            tolerance = 0.0 if self.ranks & (self.ranks - 1) == 0 else 2e-7 * calls
            self.wrong += int((np.abs(self.array - right) > tolerance * right).sum())
        return times


@dataclass(frozen=True)
class Statistics:
    """Seconds. `time` is the median over the rounds of the slowest rank's median in the round."""

    time: float
    p50: float
    min: float
    p99: float
    calls: int
    rounds: int

    @staticmethod
    def of(samples: Samples) -> Statistics:
        ranks, rounds, calls = samples.shape
        flat = samples.reshape(ranks, -1)
        return Statistics(
            time=float(np.median(np.median(samples, axis=2).max(axis=0))),
            p50=float(np.median(flat, axis=1).max()),
            min=float(flat.min(axis=1).max()),
            p99=float(np.percentile(flat, 99, axis=1).max()),
            calls=rounds * calls,
            rounds=rounds,
        )
