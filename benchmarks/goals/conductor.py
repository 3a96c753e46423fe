"""Measurements that wait for a state of the caches, and in which the reference takes part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from ringroad._support.text import progress
from ringroad.measure import facts
from ringroad.measure.bench.conductor import ROUNDS_AIM, Conductor
from ringroad.measure.bench.contestant import FEWEST_ROUNDS, Bout, Contestant
from ringroad.measure.bench.data import Case
from ringroad.measure.bench.launch import BenchError
from ringroad.measure.bench.options import BenchOptions
from ringroad.measure.bench.rows import Predict, Predictor, Row
from ringroad.measure.bench.statistics import Samples
from ringroad.measure.bench.teams import Team
from ringroad.measure.facts import Caches

from goals import reference
from goals.reference import Reference

_PAUSE = 0.5
"""Seconds between two probes of the caches while a round waits for their state."""


class GoalConductor(Conductor):
    """Runs all measurements.

    Args:
        options: The options of `ringroad bench`.
        predict: Predicts the times of calls on emulated networks.
        cache: "shared" or "separate": only rounds count that begin and end with the caches of the CPUs so. None: all.
        plain: Whether the reference takes part.
    """

    def __init__(
        self, options: BenchOptions, predict: Predict | None = None, *, cache: str | None = None, plain: bool = False
    ) -> None:
        if options.testbed is not None and (cache is not None or plain):
            raise ValueError("--cache and --reference are for one host, and not for --testbed")
        if plain and not all(Reference.performs(case) for ranks in options.ranks for case in options.cases(ranks)):
            raise BenchError("the reference performs the sum of float32 in allreduce only")
        super().__init__(options, predict)
        self.cache = cache
        self.program = reference.build() if plain else None
        self.plain: Reference | None = None
        self.tuned = ""
        """The state of the caches in which the reference chose its way."""

    def start_others(self, team: Team, stack: ExitStack) -> None:
        self.plain = None
        if self.program is not None and team is self._first(team.ranks):
            largest = max(case.size for case in self.options.cases(team.ranks))
            self.plain = stack.enter_context(Reference(self.program, team.ranks, largest))

    def _first(self, ranks: int) -> Team:
        """Of the teams with so many ranks, the first has all peers."""
        return next(team for team in self.teams if team.ranks == ranks)

    def others(self, case: Case, most: int) -> list[Contestant]:
        if (plain := self.plain) is None:
            return []

        def burst(place: str) -> Callable[[int], tuple[Samples, int]]:
            return lambda calls: plain.burst(case, place, calls)

        places = case.collective.places
        return [Contestant(reference.NAME, p, [], burst(p), min(most, case.longest(p))) for p in places]

    def begin(self, bout: Bout, case: Case) -> None:
        self._tune_reference(bout, case, facts.caches())

    def round(self, bout: Bout, case: Case, left: list[Contestant]) -> bool:
        if not self._counts(bout.last):
            progress(f"{case.size} B, until caches are {self.cache}")
            time.sleep(_PAUSE)
            bout.last = facts.caches()
            return False
        if bout.last.label != self.tuned:
            self._tune_reference(bout, case, bout.last)
        super().round(bout, case, left)
        if self._counts(bout.last):
            return True
        bout.caches.pop()
        for contestant in left:
            contestant.forget()
        return False

    def _counts(self, caches: Caches) -> bool:
        """Whether rounds that begin or end with these caches count."""
        return self.cache in (None, caches.label)

    def _tune_reference(self, bout: Bout, case: Case, caches: Caches) -> None:
        """Another way may be the fastest now."""
        self.tuned = caches.label
        for contestant in bout.race.left:
            if self.plain is not None and contestant.peer == reference.NAME:
                way = self.plain.tune(case, contestant.place)
                contestant.ways += [way] if way not in contestant.ways else []

    def share(self, seconds: float) -> float:
        # Rounds that wait are short, so that they end before the CPUs move.
        return seconds if self.cache is None else 0.0

    def limits(self, contestants: list[Contestant]) -> tuple[int, int]:
        # Rounds may never come; time that one size does not use goes to sizes that wait for longer.
        return super().limits(contestants) if self.cache is None else (0, ROUNDS_AIM)

    def rows(self, bout: Bout, case: Case, buffers: str, team: Team, predictor: Predictor | None) -> Iterator[Row]:
        if bout.race.contestants and self.cache is not None and len(bout.caches) < FEWEST_ROUNDS:
            text = f"{case.size} B, {buffers}: only {len(bout.caches)} rounds while caches were {self.cache}"
            yield {"kind": "refusal", "text": text}
        else:
            yield from super().rows(bout, case, buffers, team, predictor)
