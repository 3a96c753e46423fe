"""Times every algorithm between real ranks, for `ringroad tune`.

All ranks run this together. They base every decision on agreed times (the slowest rank's), so that they always make the
same calls.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ringroad import _oracle as oracle
from ringroad._native import Communicator, Profile
from ringroad._support.text import bytes_text, length, print_wrapped, progress, seconds_text
from ringroad.measure import race
from ringroad.measure.facts import BUSY, busy_cores

COLLECTIVES = tuple(oracle.COLLECTIVES)
DEFAULT_COLLECTIVES = ("allreduce", "reduce_scatter", "allgather", "broadcast")
SIZES = tuple(sorted({8 * 4**power for power in range(12)} | {1 << power for power in range(18, 23)}))
"""The default sizes in bytes. They are closer to each other where vectors outgrow caches, because much changes
there."""

Measurement = tuple[str, str, int, float]
"""(collective, algorithm, bytes, seconds)."""

_ROUNDS = 12
"""The length of bursts is chosen so that this many rounds fit into the time for a size."""
_FEWEST = 3
"""The least number of rounds, however long they take."""
_CALLS = 2 * (_FEWEST + 2)
"""The least number of calls of each algorithm: pairs, in two rounds to warm up and the fewest that count."""
_MEASURING = 0.95
"""The part of the budget after which nothing is measured; the model is fitted in the rest."""
_DOUBTFUL = (0.9, 2.0, 4.0)
"""The errors of the fit, in the median, of nine tenths and at worst, above which the topology is doubtful. A disturbed
measurement does not exceed 1, because it makes times longer than predicted."""
_NOISE = 0.05
"""Times that vary by less than this from round to round tell algorithms apart well enough."""
_LONGEST = 200
"""The most pairs of calls in a burst."""


@dataclass(frozen=True)
class TuningOptions:
    """What `ringroad tune` measures.

    Attributes:
        collectives: Some of `COLLECTIVES`.
        sizes: The lengths of the whole vector: numbers of bytes, or texts such as "1MiB".
        budget: The most seconds that it may take, from the moment when the communicator is there. Only a call that
            takes much longer than shorter vectors promise can exceed it.

    Raises:
        ValueError: A collective cannot be measured, or there is nothing to measure.
    """

    collectives: Sequence[str] = DEFAULT_COLLECTIVES
    sizes: Sequence[int | str] = SIZES
    budget: float = 60.0

    def __post_init__(self) -> None:
        for name in self.collectives:
            if name not in COLLECTIVES:
                raise ValueError(f"tune: {name!r} cannot be measured; expected one of: {', '.join(COLLECTIVES)}")
        if not self.collectives or not self.sizes or self.lengths[0] < 1:
            raise ValueError("tune: name one collective and one size of a byte or more")
        if not self.budget > 0:
            raise ValueError("tune: the budget must be above 0 seconds")

    @property
    def lengths(self) -> list[int]:
        """The sizes in bytes, the shortest first."""
        return sorted(length("sizes", size) for size in self.sizes)


@dataclass
class _TunedCandidate:
    """An algorithm, with the agreed times of its bursts."""

    algorithm: str
    call: Callable[[], object]
    expected: float = 0.0
    """About how many seconds a call takes; 0 if unknown."""
    pairs: int = 1
    """Pairs of calls in a burst."""
    times: list[float] = field(default_factory=list)
    time: float = 0.0
    """The resulting time of a call, in seconds."""


@dataclass
class Measured:
    """What was measured; the same on all ranks.

    Attributes:
        times: Tuples of a collective, an algorithm, a number of bytes, and seconds.
        warnings: What makes the times doubtful or incomplete, a sentence each.
    """

    times: list[Measurement] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class _OutOfTimeError(Exception):
    """The time for a collective is over. All ranks raise it at the same place."""


class _Clock:
    """The seconds since the start, as all ranks agree on them: the slowest rank's."""

    def __init__(self, communicator: Communicator) -> None:
        self.communicator, self.start = communicator, time.perf_counter()
        self.now, self.until = 0.0, float("inf")

    def agree(self) -> None:
        """Reads the clock. Collective, and a barrier."""
        mine = np.array([time.perf_counter() - self.start])
        self.now = float(self.communicator.allreduce(mine, op="max")[0])

    def left(self) -> float:
        """The seconds that were left at the last reading."""
        return self.until - self.now

    def allow(self, seconds: float) -> None:
        """Reads the clock, and raises an error if fewer seconds are left. Collective, and a barrier."""
        self.agree()
        if seconds > self.left():
            raise _OutOfTimeError


Countdown = Callable[[str, float], None]
"""Is told what is measured, and about how many seconds are left."""


def measure(
    communicator: Communicator,
    options: TuningOptions,
    say: Callable[[str], None],
    countdown: Countdown = lambda what, left: None,
) -> Measured:
    """Measures the algorithms that differ in cost and leave the same bits on all ranks.

    It is collective: all ranks call it. Each collective gets a part of the budget. A size that would take longer than
    what is left of it is left out, with all larger ones. The smallest size of the first collective is measured in any
    case.

    Args:
        communicator: Where to measure.
        options: What to measure.
        say: Called with a line of text before each collective.
        countdown: Called before every round.

    Returns:
        The times, and warnings; the same on all ranks.
    """
    clock = _Clock(communicator)
    found = Measured(warnings=_busy(communicator))
    deadline = 0.0
    for collective in options.collectives:
        # Allreduce gets twice the time of other collectives, because training waits for it.
        weight = 2 if collective == "allreduce" else 1
        all_weights = len(options.collectives) + ("allreduce" in options.collectives)
        seconds = _MEASURING * options.budget * weight / all_weights
        deadline += seconds
        weights = {size: race.weight(size) for size in options.lengths}
        # Found by one rank only, because it takes long where ranks share cores.
        own = communicator._candidates(collective) if communicator.rank == 0 else None
        algorithms: list[str] = communicator.broadcast_object(own)
        say(f"{collective} by {', '.join(algorithms)}")
        hopeless: set[str] = set()
        noisy: list[str] = []
        candidates: list[_TunedCandidate] = []
        for size in options.lengths:
            case = _Case(communicator, collective, size)
            names = [name for name in algorithms if size < race.LARGE or name not in hopeless]
            tick = partial(_tick, countdown, f"{collective} of {bytes_text(case.bytes)}", options.budget, clock)
            # Without any times there would be no profile.
            clock.until = deadline if found.times else float("inf")
            try:
                clock.agree()
                known = [c for c in candidates if c.algorithm in names]
                slowdown = _slowdown(clock, known, case)
                expected = {c.algorithm: c.time * slowdown for c in known}
                racers = [_TunedCandidate(name, case.call(name), expected.get(name, 0.0)) for name in names]
                share = min(seconds * weights[size] / sum(weights.values()), clock.left())
                candidates = _compete(clock, racers, share, tick)
            except _OutOfTimeError:
                found.warnings.append(
                    f"{collective} from {bytes_text(size)} on is not measured: the budget of "
                    f"{seconds_text(options.budget)} is too short; allow more with --budget, or name fewer --sizes or "
                    "--collectives"
                )
                break
            limit = race.HOPELESS * min(candidate.time for candidate in candidates)
            if size < race.LARGE:
                hopeless.clear()  # an algorithm that is slow for short vectors may be the fastest for long ones
            hopeless |= {candidate.algorithm for candidate in candidates if candidate.time > limit}
            found.times += [(collective, c.algorithm, case.bytes, c.time) for c in candidates]
            if _is_noisy(candidates):
                noisy.append(bytes_text(case.bytes))
        if noisy:
            found.warnings.append(
                f"{collective} of {', '.join(noisy)}: times vary from round to round by more than the fastest two "
                "algorithms differ; measure on an idle machine, or with a larger --budget"
            )
    return found


def _tick(countdown: Countdown, what: str, budget: float, clock: _Clock) -> None:
    countdown(what, max(0.0, budget - clock.now))


def _busy(communicator: Communicator) -> list[str]:
    """A warning if other processes keep cores busy that the measurement needs. Collective."""
    communicator.barrier()
    most = float(communicator.allreduce(np.array([busy_cores() or 0.0]), op="max")[0])
    if most <= BUSY:
        return []
    return [f"other processes keep {most:.1f} cores busy: times are longer than on an idle machine, and vary"]


def _slowdown(clock: _Clock, candidates: Sequence[_TunedCandidate], case: "_Case") -> float:
    """How many times longer a size takes than the size before; 0 for the first size. Raises an error if it would take
    longer than what is left.

    The fastest algorithm of the size before makes a call, and up to two more while that is too long: another process
    may have held up the first. The other algorithms are assumed to be as far behind as there.
    """
    if not candidates:
        return 0.0
    fastest = min(candidates, key=lambda candidate: candidate.time)
    probe = _TunedCandidate(fastest.algorithm, case.call(fastest.algorithm), fastest.time)
    calls = _CALLS * sum(candidate.time / fastest.time for candidate in candidates)
    for _ in range(3):
        _round(clock, [probe])
        if calls * min(probe.times) <= clock.left():
            return min(probe.times) / fastest.time
    raise _OutOfTimeError


def _is_noisy(candidates: Sequence[_TunedCandidate]) -> bool:
    """Whether the fastest algorithm's times vary more from round to round than it differs from the next one."""
    fastest, *others = sorted(candidates, key=lambda candidate: candidate.time)
    typical = float(np.median(fastest.times))
    spread = float(np.median(np.abs(np.array(fastest.times) / typical - 1)))
    return spread > _NOISE and any(other.time / fastest.time - 1 < spread for other in others)


class _Case:
    """The arrays of a call."""

    def __init__(self, communicator: Communicator, collective: str, size: int) -> None:
        what = oracle.COLLECTIVES[collective]
        pieces = communicator.size if what.blocks else 1
        # Vectors that are shorter than a float are measured as bytes.
        dtype = "float32" if size >= 4 * pieces else "uint8"
        unit = oracle.dtype_of(dtype).itemsize * pieces
        count = max(1, size // unit)
        self.communicator, self.bytes = communicator, count * unit
        self.case = oracle.Case(collective, count, dtype)
        # Write the arrays: unwritten memory may be a single page of zeros, which is in every cache.
        lengths = {"block": count, "vector": count * pieces}
        self.send, self.out = np.full(lengths[what.gives], 0, dtype), np.full(lengths[what.gets], 0, dtype)

    def call(self, algorithm: str) -> Callable[[], object]:
        """A function that makes one call; allreduces alternate between out of place and in place."""
        case = replace(self.case, algorithm=algorithm)
        apart = oracle.bind(self.communicator, case, self.send, self.out)
        if case.name != "allreduce":
            return apart
        turns = itertools.cycle([apart, oracle.bind(self.communicator, case, self.out, self.out)])
        return lambda: next(turns)()


def _compete(
    clock: _Clock, candidates: list[_TunedCandidate], seconds: float, tick: Callable[[], None]
) -> list[_TunedCandidate]:
    """Measures the candidates for about `seconds`, and sets their times. Calls `tick` before each round.

    Raises an error if the time ends before there are enough rounds.
    """
    spent = 0.0
    for _ in range(2):  # the first round makes the plans, the second times calls with plans; neither counts
        tick()
        spent += _round(clock, candidates)
        _lengthen(candidates, seconds / _ROUNDS)
        for candidate in candidates:
            candidate.times.clear()
    rounds = race.Race(candidates)

    def goes_on(done: int) -> bool:
        if done:
            _lengthen(rounds.left, (seconds - spent) / max(_ROUNDS - done, 1))
        return done < _FEWEST or (spent < seconds and len(rounds.left) > 1)

    def take_turns(left: list[_TunedCandidate]) -> bool:
        nonlocal spent
        tick()
        spent += _round(clock, left)
        return True

    try:
        rounds.run(take_turns, goes_on, lambda: [candidates])
    except _OutOfTimeError:
        if max(len(candidate.times) for candidate in candidates) < _FEWEST:
            raise
    ratios = race.ratios([candidate.times for candidate in candidates])
    fastest = float(np.median(candidates[int(ratios.argmin())].times))
    for candidate, ratio in zip(candidates, ratios, strict=True):
        candidate.time = fastest * float(ratio)
    return candidates


def _lengthen(candidates: Sequence[_TunedCandidate], seconds: float) -> None:
    """Sets the lengths of bursts so that a round takes about `seconds`."""
    for candidate in candidates:
        share = seconds / len(candidates) / max(float(np.median(candidate.times)), 1e-9) / 2
        candidate.pairs = max(1, min(_LONGEST, int(share)))


def _round(clock: _Clock, candidates: Sequence[_TunedCandidate]) -> float:
    """Runs a burst of each candidate and adds the slowest rank's times. Returns the seconds of the round."""
    start = time.perf_counter()
    mine = [_time(clock, candidate) for candidate in candidates]
    mine.append(time.perf_counter() - start)
    *times, took = clock.communicator.allreduce(np.array(mine), op="max").tolist()
    for candidate, agreed in zip(candidates, times, strict=True):
        candidate.times.append(agreed)
        candidate.expected = agreed
    return float(took)


def _time(clock: _Clock, candidate: _TunedCandidate) -> float:
    """Seconds for a call: half the median of pairs of calls. A time slice of another process does not change the
    median."""
    call, now, times = candidate.call, time.perf_counter, np.empty(candidate.pairs)
    clock.allow(2 * candidate.pairs * candidate.expected)
    for index in range(candidate.pairs):
        start = now()
        call()
        call()
        times[index] = now() - start
    return float(np.median(times)) / 2


def tune(communicator: Communicator, options: TuningOptions, quiet: bool = True) -> tuple[str, list[str]]:
    """Measures, and makes a profile. It is collective: all ranks call it.

    Args:
        communicator: Where to measure.
        options: What to measure.
        quiet: False: rank 0 prints what it measures, and on a terminal how much time is left.

    Returns:
        The profile as JSON, and warnings; the same on all ranks.
    """
    shows = communicator.rank == 0 and not quiet

    def say(text: str) -> None:
        if shows:
            progress("")
            print_wrapped(f"measuring {text}", "  ")

    def countdown(text: str, left: float) -> None:
        if shows:
            progress(f"{text}, about {left:.0f} s left")

    measured = measure(communicator, options, say, countdown)
    if shows:
        progress("")
    profile = communicator._calibrate(measured.times)
    return profile.to_json(), measured.warnings + _doubts(profile, communicator.topology)


def _doubts(profile: Profile, topology: str) -> list[str]:
    """A warning if the model does not fit the measurements at all."""
    if all(error <= limit for error, limit in zip(profile.errors, _DOUBTFUL, strict=True)):
        return []
    median, _, worst = profile.errors
    return [
        f"the model is off by {100 * median:.0f} % in the median, and by {100 * worst:.0f} % at worst: the topology "
        f"{topology} is probably not that of this network; pass the right one with --topology. For sizes that were "
        "measured, the measured times decide"
    ]
