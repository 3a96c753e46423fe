"""Finding the fastest of many where everything drifts: in rounds, in which each has its turn.

What the machine does meanwhile meets all turns of a round alike, so times are compared within rounds only. Those that
are behind drop out, and leave their time to the others: what is close is measured the longest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Times = Sequence[Sequence[float]]
"""Seconds of each contestant in each round. All begin in the first round; who drops out has fewer."""

_DROPPED = ((1, 4.0), (2, 2.0), (4, 1.5), (7, 1.25), (12, 1.12))
"""After so many rounds, who takes so many times as long as the fastest drops out."""


def ratios(times: Times) -> NDArray[np.float64]:
    """How many times as long as the fastest each takes: the median over the rounds in which it took part."""
    rounds = max(len(mine) for mine in times)
    left = [index for index, mine in enumerate(times) if len(mine) == rounds]
    table = np.array([times[index] for index in left])
    # Ranks of different machines must find the same: comparisons and single operations round alike, logarithms may not.
    shares = np.median(table / np.median(table, axis=0), axis=1)
    fastest = times[left[int(np.argmin(shares))]]
    return np.array([np.median(np.divide(mine, fastest[: len(mine)])) for mine in times])


def ahead(times: Times) -> list[bool]:
    """Who takes part in the next round."""
    rounds = max(len(mine) for mine in times)
    limit = min((ratio for after, ratio in _DROPPED if rounds >= after), default=np.inf)
    return [len(mine) == rounds and bool(ratio <= limit) for mine, ratio in zip(times, ratios(times), strict=True)]
