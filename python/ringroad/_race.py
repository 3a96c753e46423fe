"""Finding the fastest of many where everything drifts: in rounds, in which each has its turn.

What the machine does meanwhile meets all turns of a round alike, so times are compared within rounds only. Those that
are behind drop out, and leave their time to the others: what is close is measured the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Times = Sequence[Sequence[float]]
"""Seconds of each contestant in each round. All begin in the first round; who drops out has fewer."""


class Racer(Protocol):
    """One that takes part."""

    times: list[float]
    """Seconds of each round."""


R = TypeVar("R", bound=Racer)


@dataclass
class Race(Generic[R]):
    """Rounds of contestants, until enough is known."""

    contestants: list[R]
    left: list[R] = field(init=False)
    """Who has not dropped out."""
    _turns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.left = list(self.contestants)

    def leave(self, contestant: R) -> None:
        """Takes one out for good."""
        for group in (self.contestants, self.left):
            group.remove(contestant)

    def run(
        self,
        take_turns: Callable[[list[R]], bool],
        goes_on: Callable[[int], bool],
        rivals: Callable[[], list[list[R]]],
    ) -> None:
        """Rounds for as long as it `goes_on` after so many that count. In a round those that are left `take_turns`,
        which says whether it counts; after it those drop out who are far behind others of their group of `rivals`."""
        rounds = 0
        while goes_on(rounds):
            # Every other round in the opposite order: nobody always comes first.
            self._turns += 1
            if not take_turns(self.left[:: 1 if self._turns % 2 else -1]):
                continue
            rounds += 1
            for group in rivals():
                stay = ahead([one.times for one in group])
                behind = {id(one) for one, stays in zip(group, stay, strict=True) if not stays}
                self.left = [one for one in self.left if id(one) not in behind]


_DROPPED = ((2, 4.0), (3, 2.0), (5, 1.5), (7, 1.25), (12, 1.12))
"""After so many rounds, who takes so many times as long as the fastest drops out."""
_FEW = 5
"""Rounds, below which one bad turn could decide: who drops out was behind in each."""


def ratio(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times as long mine take as theirs: the median over the rounds in which both took part."""
    return float(np.median([one / other for one, other in zip(mine, theirs, strict=False)]))


def difference(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """How many seconds more mine take than theirs: the median over the rounds in which both took part."""
    return float(np.median([one - other for one, other in zip(mine, theirs, strict=False)]))


def ratios(times: Times) -> NDArray[np.float64]:
    """How many times as long as the fastest each takes: the median over the rounds in which it took part.

    For who dropped out it is no less than what was reason for that.
    """
    rounds = max(len(mine) for mine in times)
    found = _by_round(times)
    least = [1.0 if len(mine) == rounds else _limit(len(mine)) for mine in times]
    return np.array([max(np.median(mine), bound) for mine, bound in zip(found, least, strict=True)])


def ahead(times: Times) -> list[bool]:
    """Who takes part in the next round."""
    rounds = max(len(mine) for mine in times)
    typical = np.min if rounds < _FEW else np.median
    found = [float(typical(mine)) for mine in _by_round(times)]
    limit = _limit(rounds) if rounds >= _DROPPED[0][0] else np.inf
    return [len(mine) == rounds and ratio <= limit for mine, ratio in zip(times, found, strict=True)]


def _limit(rounds: int) -> float:
    return min((ratio for after, ratio in _DROPPED if rounds >= after), default=_DROPPED[0][1])


def _by_round(times: Times) -> list[NDArray[np.float64]]:
    """How many times as long as the fastest each took, round by round."""
    rounds = max(len(mine) for mine in times)
    left = [index for index, mine in enumerate(times) if len(mine) == rounds]
    table = np.array([times[index] for index in left])
    # Ranks of different machines must find the same: comparisons and single operations round alike, logarithms may not.
    shares = np.median(table / np.median(table, axis=0), axis=1)
    fastest = times[left[int(np.argmin(shares))]]
    return [np.divide(mine, fastest[: len(mine)]) for mine in times]
