"""Finds the fastest of many candidates on a machine whose speed drifts: in rounds, in which each candidate has a
turn.

A disturbance of the machine affects all turns of a round alike, so times are compared within rounds only. Candidates
that are far behind drop out, so that close ones are measured for longer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Times = Sequence[Sequence[float]]
"""Seconds of each candidate in each round. All begin in the first round; those that drop out have fewer times."""


HOPELESS, LARGE = 4.0, 1 << 20
"""An algorithm that took `HOPELESS` times the fastest's time at a size of `LARGE` bytes or more is not measured at the
sizes after it."""


def weight(size: int, large: int = 4) -> int:
    """The share of the time that a size gets: long vectors are slow, but need several rounds, too."""
    return 1 if size < LARGE else 2 if size < 16 * LARGE else large


class Racer(Protocol):
    """A candidate."""

    times: list[float]
    """Seconds of each round."""


R = TypeVar("R", bound=Racer)


@dataclass
class Race(Generic[R]):
    """A race of candidates, round by round."""

    candidates: list[R]
    left: list[R] = field(init=False)
    """The candidates that have not dropped out."""
    _turns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.left = list(self.candidates)

    def leave(self, candidate: R) -> None:
        """Removes a candidate for good."""
        for group in (self.candidates, self.left):
            group.remove(candidate)

    def run(
        self,
        take_turns: Callable[[list[R]], bool],
        goes_on: Callable[[int], bool],
        rivals: Callable[[], list[list[R]]],
    ) -> None:
        """Runs rounds while `goes_on(rounds)` is true for the number of rounds that count.

        In a round `take_turns` measures the remaining candidates, and returns whether the round counts. After a round
        candidates drop out that are far behind others of their group; `rivals` returns these groups."""
        rounds = 0
        while goes_on(rounds):
            # Every other round runs in the opposite order, so that nobody is always first.
            self._turns += 1
            if not take_turns(self.left[:: 1 if self._turns % 2 else -1]):
                continue
            rounds += 1
            for group in rivals():
                stay = ahead([one.times for one in group])
                behind = {id(one) for one, stays in zip(group, stay, strict=True) if not stays}
                self.left = [one for one in self.left if id(one) not in behind]


_DROPPED = ((2, 4.0), (3, 2.0), (5, 1.5), (7, 1.25), (12, 1.12))
"""(rounds, ratio): after that many rounds, a candidate drops out if it takes more than `ratio` times the fastest's
time."""
_FEW = 5
"""With fewer rounds than this one bad turn could decide, so only candidates that were behind in every round drop
out."""


def ratio(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of mine / theirs over the rounds in which both took part."""
    return float(np.median([one / other for one, other in zip(mine, theirs, strict=False)]))


def difference(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of mine - theirs, in seconds, over the rounds in which both took part."""
    return float(np.median([one - other for one, other in zip(mine, theirs, strict=False)]))


def ratios(times: Times) -> NDArray[np.float64]:
    """Each candidate's time divided by the fastest's: the median over the rounds in which it took part.

    For a candidate that dropped out it is at least the limit that it exceeded.
    """
    rounds = max(len(mine) for mine in times)
    found = _by_round(times)
    least = [1.0 if len(mine) == rounds else _limit(len(mine)) for mine in times]
    return np.array([max(np.median(mine), bound) for mine, bound in zip(found, least, strict=True)])


def ahead(times: Times) -> list[bool]:
    """For each candidate, whether it takes part in the next round."""
    rounds = max(len(mine) for mine in times)
    typical = np.min if rounds < _FEW else np.median
    found = [float(typical(mine)) for mine in _by_round(times)]
    limit = _limit(rounds) if rounds >= _DROPPED[0][0] else np.inf
    return [len(mine) == rounds and ratio <= limit for mine, ratio in zip(times, found, strict=True)]


def _limit(rounds: int) -> float:
    return min((ratio for after, ratio in _DROPPED if rounds >= after), default=_DROPPED[0][1])


def _by_round(times: Times) -> list[NDArray[np.float64]]:
    """Each candidate's time divided by the fastest's, round by round."""
    rounds = max(len(mine) for mine in times)
    left = [index for index, mine in enumerate(times) if len(mine) == rounds]
    table = np.array([times[index] for index in left])
    # Ranks of different machines must get the same result: comparisons and single operations round alike, logarithms
    # may not.
    shares = np.median(table / np.median(table, axis=0), axis=1)
    fastest = times[left[int(np.argmin(shares))]]
    return [np.divide(mine, fastest[: len(mine)]) for mine in times]
