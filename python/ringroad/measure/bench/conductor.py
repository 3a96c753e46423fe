"""Measures size by size; all contestants take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from ringroad._support.text import progress
from ringroad.measure import facts, race
from ringroad.measure.bench.contestant import LONG_CALL, MOST_ROUNDS, Bout, Contestant, fewest_rounds, rivals
from ringroad.measure.bench.data import LONGEST, Case
from ringroad.measure.bench.launch import BenchError, Ranks, directory, hogs
from ringroad.measure.bench.options import BenchOptions
from ringroad.measure.bench.rows import Predict, Predictor, Row, caches_of, measurements
from ringroad.measure.bench.statistics import Samples
from ringroad.measure.bench.teams import Team, backends, is_mpi, require_peers, teams_of
from ringroad.measure.bench.worker import Setup
from ringroad.measure.race import Race
from ringroad.testbed.network import EmulatedNetwork

ROUNDS_AIM = 10
"""The length of bursts is chosen so that this many rounds fit into the time for a size."""
_BURST_AMONG_PEERS = 50
"""The most calls in a burst if other peers wait for their turn."""
_SHORTEST_BURST = 0.1
"""The least seconds of a burst, within the limit of calls: the first calls also wait for late ranks."""


class Conductor:
    """Runs all measurements. Programs that compare with more than the peers override `start_others` and the methods
    after it."""

    def __init__(self, options: BenchOptions, predict: Predict | None = None) -> None:
        self.options = options
        self.predict = predict
        self.teams = teams_of(options)
        require_peers(options)
        weight = sum(
            _weight(case) for team in self.teams for case in options.cases(team.ranks) for _ in options.buffers
        )
        self.weight = weight * options.launches
        self.deadline = time.monotonic() + options.budget
        self.hopeless: set[str] = set()

    def run(self) -> Iterator[Row]:
        """Runs all measurements and yields the rows of the record."""
        for team in self.teams:
            bouts: dict[tuple[str, Case], Bout] = {}
            for launch in range(1, self.options.launches + 1):
                yield from self._launch(team, bouts, launch)
            progress("")

    def _launch(self, team: Team, bouts: dict[tuple[str, Case], Bout], launch: int) -> Iterator[Row]:
        """Starts the team and measures all sizes; the last launch yields the rows of measurements."""
        options = self.options
        name = f"{team.ranks} ranks" + (f", launch {launch} of {options.launches}" if options.launches > 1 else "")
        progress(f"starting {name}")
        with ExitStack() as stack:
            setup = self._setup(team, stack.enter_context(directory()))
            network = self._network(stack)
            ranks = stack.enter_context(Ranks(setup, team.pml, network))
            self.start_others(team, stack)
            busy_cores = facts.busy_cores()
            if options.tune:
                self._tune(ranks)
            if launch == 1:
                yield {
                    "kind": "team",
                    "ranks": team.ranks,
                    "pml": team.pml,
                    "testbed": options.testbed.spec if options.testbed else None,
                    "rate": options.rate or None,
                    "busy_cores": busy_cores,
                    **ranks.about,
                }
            predictor = None
            if network is not None and self.predict is not None:
                predictor = self.predict(network.topology, ranks.about)
            stack.enter_context(hogs(options.hogs))
            for buffers in options.buffers:
                self.hopeless.clear()
                for case in options.cases(team.ranks):
                    progress(f"{name}, {buffers}, {case.size} B, {self._left():.0f} s left")
                    bout = bouts.setdefault((buffers, case), Bout())
                    bout.busy_cores = max(bout.busy_cores, busy_cores or 0.0)
                    yield from self._measure(bout, case, buffers, ranks)
                    if launch == options.launches:
                        yield from self.rows(bout, case, buffers, team, predictor)

    def _network(self, stack: ExitStack) -> EmulatedNetwork | None:
        """The emulated network of `--testbed`, or None."""
        options = self.options
        if options.testbed is None:
            return None
        return stack.enter_context(EmulatedNetwork(options.testbed, options.rate))

    def _setup(self, team: Team, path: str) -> Setup:
        options = self.options
        mpi = next(filter(is_mpi, team.peers), None)
        return Setup(
            path,
            team.ranks,
            options.timeout,
            backends(team.peers, options.buffers),
            mpi,
            options.buffers,
            options.warmup,
            options.check,
            options.algorithms,
            options.wires,
        )

    def _tune(self, ranks: Ranks) -> None:
        start = time.monotonic()
        largest = max(self.options.sizes)
        answers = ranks.ask("tune", self.options.collective.name, self.options.tune, largest)
        ranks.about |= _agreed(answers, same=False)[0][0]
        self.deadline += time.monotonic() - start

    def _left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    # ------------------------------------------------------------------------------------------ one size

    def _measure(self, bout: Bout, case: Case, buffers: str, ranks: Ranks) -> Iterator[Row]:
        """Runs the rounds of one launch. Yields rows for peers that cannot make the call."""
        seconds = self._left() * _weight(case) / max(self.weight, 1)
        self.weight -= _weight(case)
        try:
            new = {(one.peer, one.place): one for one in self._contestants(case, buffers, ranks)}
        except _Refusal as refusal:  # for example because memory is too short
            yield {"kind": "refusal", "text": f"{case.size} B, {buffers}: {refusal}"}
            return
        if not bout.launches:
            bout.race = Race(list(new.values()))
        bout.race.left = [one for one in bout.race.left if (one.peer, one.place) in new]
        for contestant in bout.race.left:
            contestant.restart(new[contestant.peer, contestant.place])
        self.begin(bout, case)
        for one in [one for one in bout.race.contestants if one.peer in self.hopeless]:
            bout.race.leave(one)
            yield {
                "kind": "refusal",
                "text": f"{one.peer}: {race.HOPELESS:g} times as slow as others, and left out from {case.size} B on",
            }
        for text in self._warm_up(bout, seconds):
            yield {"kind": "refusal", "text": text}
        start, bout.last = time.monotonic(), facts.caches()

        def take_turns(left: list[Contestant]) -> bool:
            return self.round(bout, case, left)

        def goes_on(rounds: int) -> bool:
            return self._another(bout.race.left, rounds, time.monotonic() - start < seconds)

        bout.race.run(take_turns, goes_on, lambda: rivals(bout.race.contestants) if self.options.calls is None else [])
        bout.launches += 1
        if case.size >= race.LARGE and self.options.calls is None:
            for group in rivals(bout.race.contestants):
                ratios = race.ratios([one.times for one in group])
                self.hopeless |= {one.peer for one, ratio in zip(group, ratios, strict=True) if ratio >= race.HOPELESS}

    # ------------------------------------------------------------------------------------------ to override

    def start_others(self, team: Team, stack: ExitStack) -> None:
        """Starts what else takes part beside the ranks of a team; `stack` ends it."""

    def others(self, case: Case, most: int) -> list[Contestant]:
        """Contestants that are not among the ranks, with at most so many calls in a burst."""
        return []

    def begin(self, bout: Bout, case: Case) -> None:
        """Called before the rounds of a size."""

    def round(self, bout: Bout, case: Case, left: list[Contestant]) -> bool:
        """Lets everyone have a turn. Returns whether the round counts."""
        for contestant in left:
            contestant.run()
        before, bout.last = bout.last, facts.caches()
        bout.caches.append((before, bout.last))
        return True

    def share(self, seconds: float) -> float:
        """The seconds of a burst, if its round is to have so many."""
        return seconds

    def limits(self, contestants: list[Contestant]) -> tuple[int, int]:
        """The fewest and the most rounds of a size, over all launches."""
        return fewest_rounds(contestants), MOST_ROUNDS

    def rows(self, bout: Bout, case: Case, buffers: str, team: Team, predictor: Predictor | None) -> Iterator[Row]:
        """The rows of a size."""
        shared = {
            "buffers": buffers,
            "pml": team.pml,
            "hogs": self.options.hogs,
            "busy_cores": bout.busy_cores,
            **caches_of(bout.caches),
        }
        yield from measurements(case, bout.race.contestants, shared, self.options.check, predictor)

    # ------------------------------------------------------------------------------------------ contestants

    def _contestants(self, case: Case, buffers: str, ranks: Ranks) -> list[Contestant]:
        found = _agreed(ranks.ask("case", case, buffers))
        others = self.others(case, _BURST_AMONG_PEERS)
        alone = len({peer for peer, _, _ in found}) == 1 and not others
        most = LONGEST if alone else _BURST_AMONG_PEERS

        def burst(peer: str, place: str) -> Callable[[int], tuple[Samples, int]]:
            def run(calls: int) -> tuple[Samples, int]:
                answers = _agreed(ranks.ask("burst", peer, place, calls), same=False)
                return np.stack([times for times, _ in answers]), sum(wrong for _, wrong in answers)

            return run

        contestants = [
            Contestant(
                peer, place, [algorithm] if algorithm else [], burst(peer, place), min(most, case.longest(place))
            )
            for peer, place, algorithm in found
        ]
        return contestants + others

    def _warm_up(self, bout: Bout, seconds: float) -> list[str]:
        """Runs a few calls and sets the lengths of bursts. Contestants that cannot make the call drop out; returns
        why."""
        refusals = []
        rounds, number = max(ROUNDS_AIM, self.options.launches), len(bout.race.contestants)
        for contestant in list(bout.race.left):
            try:
                times, _ = contestant.burst(1)
                if float(times.max()) < LONG_CALL:
                    most = min(self.options.warmup - 1, contestant.longest)
                    times, _ = contestant.burst(burst_length(float(times.max()), 0.1 * seconds, most))
            except _Refusal as refusal:
                refusals.append(f"{contestant.peer}, {contestant.place.replace('_', ' ')}: {refusal}")
                bout.race.leave(contestant)
                continue
            if not contestant.calls:
                time_of_call = float(np.median(times, axis=1).max())
                share = self.share(seconds * self.options.launches / rounds / number)
                fitting = burst_length(time_of_call, share, contestant.longest)
                contestant.calls = min(contestant.longest, self.options.calls or fitting)
        return refusals

    def _another(self, contestants: list[Contestant], rounds: int, in_time: bool) -> bool:
        """Whether to run another round in this launch."""
        if self.options.calls is not None:
            return any(rounds * contestant.calls < self.options.calls for contestant in contestants)
        fewest, most = (-(-count // self.options.launches) for count in self.limits(contestants))
        return bool(contestants) and (rounds < fewest or (in_time and rounds < most))


class _Refusal(Exception):
    """All ranks report that a library cannot make a call."""


def _agreed(answers: list[Any], same: bool = True) -> list[Any]:
    """The ranks' answers; with `same` only the first one. Raises _Refusal if all failed, BenchError if only some
    did."""
    texts = [answer for answer in answers if isinstance(answer, str)]
    if len(texts) == len(answers):
        raise _Refusal(texts[0])
    if texts:
        raise BenchError("bench: some ranks failed and others did not:\n" + "\n".join(texts))
    return list(answers[0]) if same else answers


def burst_length(time_of_call: float, seconds: float, most: int) -> int:
    """The number of calls in a burst of about `seconds`, from 1 to `most`, if a call takes `time_of_call`."""
    return max(1, min(most, int(max(seconds, _SHORTEST_BURST) / max(time_of_call, 1e-9))))


def _weight(case: Case) -> int:
    """The share of the time that a size gets. Long vectors take longer with more ranks."""
    return race.weight(case.size, max(2, 3 * case.ranks // 2))
