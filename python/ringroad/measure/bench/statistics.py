"""Statistics of measured times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
"""Seconds by [rank, round, call]."""


@dataclass(frozen=True)
class Statistics:
    """Statistics in seconds. `by_round` has the slowest rank's median of each round, and `time` is the median of these.

    `p50`, `min`, `p99` and `max` are over all calls, each of the rank where it is largest.
    """

    time: float
    by_round: list[float]
    p50: float
    min: float
    p99: float
    max: float
    calls: int
    rounds: int

    @staticmethod
    def of(samples: Samples) -> Statistics:
        ranks, rounds, calls = samples.shape
        flat: NDArray[Any] = samples.reshape(ranks, -1)
        by_round: NDArray[Any] = np.median(samples, axis=2).max(axis=0)
        return Statistics(
            time=float(np.median(by_round)),
            by_round=[float(f"{time:.4g}") for time in by_round],
            p50=float(np.median(flat, axis=1).max()),
            min=float(flat.min(axis=1).max()),
            p99=float(np.percentile(flat, 99, axis=1).max()),
            max=float(flat.max()),
            calls=rounds * calls,
            rounds=rounds,
        )
