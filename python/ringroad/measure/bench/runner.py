"""Measures size by size; all candidates take turns."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ringroad._support.text import progress
from ringroad.measure import facts, race
from ringroad.measure.bench.candidate import BenchCandidate, rivals, slowest
from ringroad.measure.bench.data import LONGEST, BenchCase
from ringroad.measure.bench.launch import Ranks, Refusal, hogs, require_peers
from ringroad.measure.bench.options import BenchOptions, Team
from ringroad.measure.bench.rows import Predict, Row, measurements
from ringroad.measure.facts import Caches
from ringroad.measure.race import Race
from ringroad.testbed.network import EmulatedNetwork

_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 100
_LONG_CALL, _FEWEST_LONG_ROUNDS = 0.5, 2
"""Calls of at least `_LONG_CALL` seconds vary little: one call warms up, and fewer rounds are enough."""
_ROUNDS_AIM = 10
"""The length of bursts is chosen so that this many rounds fit into the time for a size."""
_BURST_AMONG_PEERS = 50
"""The most calls in a burst if other peers wait for their turn."""
_SHORTEST_BURST = 0.1
"""The least seconds of a burst, within the limit of calls: the first calls also wait for late ranks."""
_PAUSE = 0.5
"""Seconds between two probes of the caches while a round waits for their state."""


class Guest(Protocol):
    """A program that takes part beside the ranks."""

    def candidates(self, case: BenchCase, /) -> list[BenchCandidate]: ...


Invite = Callable[[int, int], AbstractContextManager[Guest]]
"""Starts a guest for a number of ranks and the most bytes of a vector."""


@dataclass
class _Bout:
    """The measurements of one size and kind of buffers in one team."""

    race: Race[BenchCandidate] = field(default_factory=lambda: Race([]))
    caches: list[tuple[Caches, Caches]] = field(default_factory=list)
    """The caches before and after every round that counts."""
    last: Caches = field(init=False)
    """The caches after the last round."""
    launches: int = 0
    busy_cores: float = 0.0
    """The cores that other processes used before the measurements, the maximum over all launches."""


class Runner:
    """Runs all measurements.

    Args:
        options: What to measure.
        predict: Predicts the times of calls on emulated networks.
        cache: "shared" or "separate": only rounds count that begin and end with the caches of the CPUs so. None: all.
        invite: Starts a program that takes part, too.
    """

    def __init__(
        self,
        options: BenchOptions,
        predict: Predict | None = None,
        *,
        cache: str | None = None,
        invite: Invite | None = None,
    ) -> None:
        self.options, self.predict, self.cache, self.invite = options, predict, cache, invite
        self.teams = options.teams()
        require_peers(self.teams)
        cases = [case for team in self.teams for case in options.cases(team.ranks)]
        self.weight = sum(map(_weight, cases)) * len(options.buffers) * options.launches
        self.deadline = time.monotonic() + options.budget
        self.hopeless: set[str] = set()
        self.guest: Guest | None = None
        self.chosen = ""
        """The state of the caches in which candidates have chosen their ways."""

    def run(self) -> Iterator[Row]:
        """Runs all measurements and yields the rows of the record."""
        for team in self.teams:
            bouts: dict[tuple[str, BenchCase], _Bout] = defaultdict(_Bout)
            for launch in range(1, self.options.launches + 1):
                yield from self._launch(team, bouts, launch)
            progress("")

    def _launch(self, team: Team, bouts: dict[tuple[str, BenchCase], _Bout], launch: int) -> Iterator[Row]:
        """Starts the team and measures all sizes; the last launch yields the rows of measurements."""
        options, cases = self.options, self.options.cases(team.ranks)
        name = f"{team.ranks} ranks" + (f", launch {launch} of {options.launches}" if options.launches > 1 else "")
        progress(f"starting {name}")
        with ExitStack() as stack:
            network = None
            if options.testbed is not None:
                network = stack.enter_context(EmulatedNetwork(options.testbed, options.rate))
            ranks = stack.enter_context(Ranks(options, team, network))
            self.guest = None
            if self.invite is not None and team.pml == self.teams[0].pml:  # in the team that has all peers
                self.guest = stack.enter_context(self.invite(team.ranks, max(case.size for case in cases)))
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
            predicted = None
            if network is not None and self.predict is not None:
                predicted = self.predict(network.topology, ranks.about)
            stack.enter_context(hogs(options.hogs))
            for buffers in options.buffers:
                self.hopeless.clear()
                for case in cases:
                    progress(f"{name}, {buffers}, {case.size} B, {self._left():.0f} s left")
                    bout = bouts[buffers, case]
                    bout.busy_cores = max(bout.busy_cores, busy_cores or 0.0)
                    yield from self._measure(bout, case, buffers, ranks)
                    if launch < options.launches:
                        continue
                    if self.cache and bout.race.candidates and len(bout.caches) < _FEWEST_ROUNDS:
                        rounds = f"only {len(bout.caches)} rounds while caches were {self.cache}"
                        yield {"kind": "refusal", "text": f"{case.size} B, {buffers}: {rounds}"}
                        continue
                    about = {"buffers": buffers, "pml": team.pml, "hogs": options.hogs, "busy_cores": bout.busy_cores}
                    about |= _caches_of(bout.caches)
                    yield from measurements(case, bout.race.candidates, about, options.check, predicted)

    def _tune(self, ranks: Ranks) -> None:
        start = time.monotonic()
        ranks.about |= ranks.ask("tune")[0]
        self.deadline += time.monotonic() - start

    def _left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    # ------------------------------------------------------------------------------------------ one size

    def _measure(self, bout: _Bout, case: BenchCase, buffers: str, ranks: Ranks) -> Iterator[Row]:
        """Runs the rounds of one launch. Yields rows for peers that cannot make the call."""
        seconds = self._left() * _weight(case) / max(self.weight, 1)
        self.weight -= _weight(case)
        try:
            new = {(one.peer, one.place): one for one in self._candidates(case, buffers, ranks)}
        except Refusal as refusal:  # for example because memory is too short
            yield {"kind": "refusal", "text": f"{case.size} B, {buffers}: {refusal}"}
            return
        if not bout.launches:
            bout.race = Race(list(new.values()))
        bout.race.left = [one for one in bout.race.left if (one.peer, one.place) in new]
        for candidate in bout.race.left:
            candidate.restart(new[candidate.peer, candidate.place])
        if self.guest is not None:
            self._choose(bout, facts.caches())
        for one in [one for one in bout.race.candidates if one.peer in self.hopeless]:
            bout.race.leave(one)
            yield {
                "kind": "refusal",
                "text": f"{one.peer}: {race.HOPELESS:g} times as slow as others, and left out from {case.size} B on",
            }
        for text in self._warm_up(bout, seconds):
            yield {"kind": "refusal", "text": text}
        start, bout.last = time.monotonic(), facts.caches()

        def take_turns(left: list[BenchCandidate]) -> bool:
            return self._round(bout, case, left)

        def goes_on(rounds: int) -> bool:
            return self._another(bout.race.left, rounds, time.monotonic() - start < seconds)

        def groups() -> list[list[BenchCandidate]]:
            return rivals(bout.race.candidates) if self.options.calls is None else []

        bout.race.run(take_turns, goes_on, groups)
        bout.launches += 1
        for group in groups() if case.size >= race.LARGE else []:
            ratios = race.ratios([one.times for one in group])
            self.hopeless |= {one.peer for one, ratio in zip(group, ratios, strict=True) if ratio >= race.HOPELESS}

    def _candidates(self, case: BenchCase, buffers: str, ranks: Ranks) -> list[BenchCandidate]:
        found = [
            BenchCandidate(peer, place, [algorithm] if algorithm else [], partial(ranks.burst, peer, place))
            for peer, place, algorithm in ranks.ask("case", case, buffers)[0]
        ]
        if self.guest is not None:
            found += self.guest.candidates(case)
        most = LONGEST if len({one.peer for one in found}) == 1 else _BURST_AMONG_PEERS
        for one in found:
            one.longest = min(most, case.longest(one.place))
        return found

    def _choose(self, bout: _Bout, caches: Caches) -> None:
        """With other caches another way may be the fastest."""
        self.chosen = caches.label
        for one in bout.race.left:
            if one.choose is not None:
                one.add_ways([one.choose()])

    def _warm_up(self, bout: _Bout, seconds: float) -> list[str]:
        """Runs a few calls and sets the lengths of bursts. Candidates that cannot make the call drop out; returns
        why."""
        refusals = []
        rounds, number = max(_ROUNDS_AIM, self.options.launches), len(bout.race.candidates)
        # Rounds that wait for caches are short, so that they end before the CPUs move.
        share = 0.0 if self.cache else seconds * self.options.launches / rounds / max(number, 1)
        for candidate in list(bout.race.left):
            try:
                times, _ = candidate.burst(1)
                if float(times.max()) < _LONG_CALL:
                    most = min(self.options.warmup - 1, candidate.longest)
                    times, _ = candidate.burst(burst_length(float(times.max()), 0.1 * seconds, most))
            except Refusal as refusal:
                refusals.append(f"{candidate.peer}, {candidate.place.replace('_', ' ')}: {refusal}")
                bout.race.leave(candidate)
                continue
            if not candidate.calls:
                fitting = burst_length(slowest(times), share, candidate.longest)
                candidate.calls = min(candidate.longest, self.options.calls or fitting)
        return refusals

    def _round(self, bout: _Bout, case: BenchCase, left: list[BenchCandidate]) -> bool:
        """Lets everyone have a turn, or waits for caches. Returns whether the round counts."""
        if not self._counts(bout.last):
            progress(f"{case.size} B, until caches are {self.cache}")
            time.sleep(_PAUSE)
            bout.last = facts.caches()
            return False
        if self.guest is not None and bout.last.label != self.chosen:
            self._choose(bout, bout.last)
        turns = [one.burst(one.calls) for one in left]
        before, bout.last = bout.last, facts.caches()
        for one, (times, wrong) in zip(left, turns, strict=True):
            one.wrong += wrong
            if self._counts(bout.last):
                one.add(times)
        if self._counts(bout.last):
            bout.caches.append((before, bout.last))
        return self._counts(bout.last)

    def _counts(self, caches: Caches) -> bool:
        """Whether rounds that begin or end with these caches count."""
        return self.cache in (None, caches.label)

    def _another(self, candidates: list[BenchCandidate], rounds: int, in_time: bool) -> bool:
        """Whether to run another round in this launch."""
        if self.options.calls is not None:
            return any(rounds * candidate.calls < self.options.calls for candidate in candidates)
        typical = [slowest(one.samples[-1]) for one in candidates if one.samples]
        fewest = _FEWEST_LONG_ROUNDS if typical and min(typical) >= _LONG_CALL else _FEWEST_ROUNDS
        # Rounds that wait may never come; time that one size does not use goes to sizes that wait for longer.
        limits = (0, _ROUNDS_AIM) if self.cache else (fewest, _MOST_ROUNDS)
        fewest, most = (-(-count // self.options.launches) for count in limits)
        return bool(candidates) and (rounds < fewest or (in_time and rounds < most))


def burst_length(time_of_call: float, seconds: float, most: int) -> int:
    """The number of calls in a burst of about `seconds`, from 1 to `most`, if a call takes `time_of_call`."""
    return max(1, min(most, int(max(seconds, _SHORTEST_BURST) / max(time_of_call, 1e-9))))


def _weight(case: BenchCase) -> int:
    """The share of the time that a size gets. Long vectors take longer with more ranks."""
    return race.weight(case.size, max(2, 3 * case.ranks // 2))


def _caches_of(rounds: list[tuple[Caches, Caches]]) -> Row:
    """Whether the CPUs shared a cache while a size was measured."""
    labels = [before.label if before.label == after.label else "mixed" for before, after in rounds]
    return {
        "cache": "unknown" if not labels else labels[0] if len(set(labels)) == 1 else "mixed",
        "cache_by_round": labels,
        "cache_nanoseconds": [[before.nanoseconds, after.nanoseconds] for before, after in rounds],
    }
