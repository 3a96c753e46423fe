"""Measures size by size; all contestants take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from ringroad._native import Topology
from ringroad._support.text import progress
from ringroad.measure import facts, race
from ringroad.measure.bench.data import LONGEST, Case
from ringroad.measure.bench.launch import BenchError, Ranks, directory, hogs, mpirun, require_backend
from ringroad.measure.bench.options import MPI, PMLS, Options
from ringroad.measure.bench.peers import OURS, OURS_IN_TORCH
from ringroad.measure.bench.statistics import Samples, Statistics
from ringroad.measure.bench.worker import Setup
from ringroad.measure.facts import Caches
from ringroad.measure.race import Race
from ringroad.testbed.network import EmulatedNetwork

Row = dict[str, Any]
"""One line of the record; `kind` is its kind."""

NOTHING = {"model": None, "simulated": None}
"""What is predicted of a call if nobody predicts."""


class Predictor(Protocol):
    """Predicts the times of calls, beside which they are shown."""

    def of(self, algorithm: str, case: Case, /) -> Mapping[str, float | None]:
        """The seconds of a call, by the keys of `NOTHING`."""


Predict = Callable[[Topology, Mapping[str, Any]], Predictor]
"""Makes a predictor for an emulated network and what the ranks say of themselves: their `model` and `segment`."""

FEWEST_ROUNDS, MOST_ROUNDS = 3, 100
ROUNDS_AIM = 10
"""The length of bursts is chosen so that this many rounds fit into the time for a size."""
_BURST_AMONG_PEERS = 50
"""The most calls in a burst if other peers wait for their turn."""
_SHORTEST_BURST = 0.1
"""The least seconds of a burst, within the limit of calls: the first calls also wait for late ranks."""
_LONG_CALL, _FEWEST_LONG_ROUNDS = 0.5, 2
"""Calls of at least `_LONG_CALL` seconds vary little: one call warms up, and fewer rounds are enough."""
_HOPELESS, _LARGE = 4.0, 1 << 20
"""A fixed algorithm that takes `_HOPELESS` times the fastest's time at a size of `_LARGE` bytes or more is not measured
at larger sizes."""


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


@dataclass(frozen=True)
class Team:
    """Peers that share processes. A process can use one PML of Open MPI only, so each PML needs a team of its own."""

    ranks: int
    pml: str | None
    peers: list[str]


def _teams(options: Options) -> list[Team]:
    """The first team for each number of ranks has all peers; further teams have only Open MPI with another PML."""
    ways = [pml for pml in PMLS if MPI in options.peers or f"{MPI}-{pml}" in options.peers]
    others = [peer for peer in options.peers if not _is_mpi(peer)]
    if not ways:
        return [Team(ranks, None, others) for ranks in options.ranks]
    first, *more = ways
    return [
        Team(ranks, pml, [*others, f"{MPI}-{pml}"] if pml == first else [f"{MPI}-{pml}"])
        for ranks in options.ranks
        for pml in (first, *more)
    ]


def _backends(peers: list[str], buffers: list[str]) -> list[str]:
    """The backends of torch.distributed among the peers; with torch's buffers also ringroad's own."""
    ours = [OURS] if "torch" in buffers else []
    return ours + [peer for peer in peers if not _is_mpi(peer)]


def _is_mpi(peer: str) -> bool:
    return peer == MPI or peer in [f"{MPI}-{pml}" for pml in PMLS]


def _require_peers(options: Options) -> None:
    """Checks that all peers can take part. Raises BenchError."""
    for backend in _backends(options.peers, options.buffers):
        require_backend(backend)
    if any(map(_is_mpi, options.peers)):
        mpirun()


class Conductor:
    """Runs all measurements. Programs that compare with more than the peers override `start_others` and the methods
    after it."""

    def __init__(self, options: Options, predict: Predict | None = None) -> None:
        self.options = options
        self.predict = predict
        self.teams = _teams(options)
        _require_peers(options)
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
        mpi = next(filter(_is_mpi, team.peers), None)
        return Setup(
            path,
            team.ranks,
            options.timeout,
            _backends(team.peers, options.buffers),
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
                "text": f"{one.peer}: {_HOPELESS:g} times as slow as others, and left out from {case.size} B on",
            }
        for text in self._warm_up(bout, seconds):
            yield {"kind": "refusal", "text": text}
        start, bout.last = time.monotonic(), facts.caches()

        def take_turns(left: list[Contestant]) -> bool:
            return self.round(bout, case, left)

        def goes_on(rounds: int) -> bool:
            return self._another(bout.race.left, rounds, time.monotonic() - start < seconds)

        bout.race.run(take_turns, goes_on, lambda: _rivals(bout.race.contestants) if self.options.calls is None else [])
        bout.launches += 1
        if case.size >= _LARGE and self.options.calls is None:
            for group in _rivals(bout.race.contestants):
                ratios = race.ratios([one.times for one in group])
                self.hopeless |= {one.peer for one, ratio in zip(group, ratios, strict=True) if ratio >= _HOPELESS}

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
        return _fewest_rounds(contestants), MOST_ROUNDS

    def rows(self, bout: Bout, case: Case, buffers: str, team: Team, predictor: Predictor | None) -> Iterator[Row]:
        """The rows of a size."""
        shared = {
            "buffers": buffers,
            "pml": team.pml,
            "hogs": self.options.hogs,
            "busy_cores": bout.busy_cores,
            **_cache(bout.caches),
        }
        yield from _rows(case, bout.race.contestants, shared, self.options.check, predictor)

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
                if float(times.max()) < _LONG_CALL:
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


def _fewest_rounds(contestants: list[Contestant]) -> int:
    typical = [float(np.median(one.samples[-1], axis=1).max()) for one in contestants if one.samples]
    return _FEWEST_LONG_ROUNDS if typical and min(typical) >= _LONG_CALL else FEWEST_ROUNDS


def _rivals(contestants: list[Contestant]) -> list[list[Contestant]]:
    """The groups of fixed algorithms, by place. Only they may drop out, because only the fastest of them matters."""
    groups: dict[str, list[Contestant]] = {}
    for one in contestants:
        if one.peer.startswith(f"{OURS}:"):
            groups.setdefault(one.place, []).append(one)
    return list(groups.values())


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
    """The share of the time that a size gets: large sizes are slow, more so with more ranks, but need several rounds,
    too."""
    return 1 if case.size < 1 << 20 else 2 if case.size < 16 << 20 else max(2, 3 * case.ranks // 2)


def _cache(rounds: list[tuple[Caches, Caches]]) -> Row:
    """Whether the CPUs shared a cache while a size was measured."""
    labels = [before.label if before.label == after.label else "mixed" for before, after in rounds]
    return {
        "cache": "unknown" if not labels else labels[0] if len(set(labels)) == 1 else "mixed",
        "cache_by_round": labels,
        "cache_nanoseconds": [[before.nanoseconds, after.nanoseconds] for before, after in rounds],
    }


def _rows(
    case: Case, contestants: list[Contestant], shared: Row, checked: bool, predictor: Predictor | None
) -> Iterator[Row]:
    statistics = {(c.peer, c.place): Statistics.of(np.stack(c.samples, axis=1)) for c in contestants}
    collective = case.collective
    for contestant in contestants:
        mine = statistics[contestant.peer, contestant.place]
        ours = statistics.get((OURS, contestant.place))
        theirs = statistics.get((OURS_IN_TORCH, contestant.place))
        algbw = case.size / mine.time
        yield {
            "kind": "measurement",
            "collective": collective.name,
            "peer": contestant.peer,
            "place": contestant.place,
            "ranks": case.ranks,
            "size": case.size,
            "count": case.count,
            "type": case.dtype,
            "redop": case.op if collective.reduces else "none",
            "root": case.root if collective.rooted else -1,
            "algorithm": ", ".join(contestant.ways) or None,
            **asdict(mine),
            "algbw": algbw,
            "busbw": algbw * collective.bus_factor(case.ranks),
            "wrong": contestant.wrong if checked else None,
            "ratio": race.ratio(mine.by_round, ours.by_round) if ours else None,
            "ratio_torch": race.ratio(mine.by_round, theirs.by_round) if theirs else None,
            **_predicted(predictor, contestant, case),
            **shared,
        }


def _predicted(predictor: Predictor | None, contestant: Contestant, case: Case) -> Row:
    """The predictions of the model and the simulator, if the contestant used one known algorithm."""
    known = predictor is not None and contestant.peer.split(":")[0] == OURS and len(contestant.ways) == 1
    return dict(predictor.of(contestant.ways[0], case)) if predictor and known else NOTHING
