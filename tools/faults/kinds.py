"""The kinds of faults: how a fault is drawn and caused, and how each rank must react."""

import errno
import math
import os
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import ringroad
from ringroad import Communicator
from ringroad._oracle import CALLS as MEANINGS
from ringroad._oracle import FORMS, Case, Running, draw, part

from faults import seccomp
from faults.hosts import CABLE, Hosts
from faults.processes import CALLS, CLOSE, DONE, START, Board, Log, Ranks

TRANSPORTS: dict[str, dict[str, str]] = {
    "memory": {},
    "shm": {"RINGROAD_TRANSPORT": "ucx"},
    "tcp": {"RINGROAD_TRANSPORT": "ucx", "UCX_TLS": "tcp,self"},
    # Namespaces share a kernel, so UCX would use shared memory instead of the cable.
    "hosts": {"RINGROAD_TRANSPORT": "auto,ucx", "UCX_NET_DEVICES": CABLE, "UCX_TLS": "tcp,self"},
    "own": {"RINGROAD_TRANSPORT": "tcp"},
    "own-hosts": {"RINGROAD_TRANSPORT": "auto,tcp", "RINGROAD_NET_DEVICES": CABLE},
}
"""Shared memory, UCX over shared memory, UCX over tcp, and two namespaces of two ranks each; ringroad's own tcp, and
the same namespaces with it."""
HOSTS = ("hosts", "own-hosts")

LARGEST = 4 << 20  # bytes
PATIENCE = 20.0  # seconds: the timeout of calls that must not time out
SILENT = 5e-3  # seconds after its start in which a rank may not have published anything yet


@dataclass(frozen=True)
class Job:
    """The parameters of a run, all drawn from the seed."""

    seed: str
    transport: str
    ranks: int = 4
    victims: tuple[int, ...] = ()
    where: str = "calls"  # the phase of the fault
    delay: float = 0.0  # seconds from the start of the phase to the fault
    calls: int | None = None  # number of calls; None: until one fails
    largest: int = LARGEST
    timeout: float = PATIENCE  # of a call
    what: str = ""  # the variant of the fault
    first: Case | None = None  # both calls of a mismatch
    other: Case | None = None

    @property
    def survivors(self) -> list[int]:
        return [rank for rank in range(self.ranks) if rank not in self.victims]

    def side(self, rank: int) -> int:
        """The host of a rank, 0 or 1."""
        return 2 * rank // self.ranks


class Clock:
    """The time at which this rank began its current call."""

    began = 0.0


def run_calls(job: Job, comm: Communicator, log: Log, clock: Clock, board: Board) -> Iterator[None]:
    """Makes the same random calls on all ranks, one or a few at a time; yields after each."""
    random = Random(job.seed)
    done = 0
    while (job.calls is None or done < job.calls) and not board.missed():
        together = random.choice([0, 0, 0, 2, 4])  # 0: a single blocking call
        options: dict[str, Any] = {"async_op": together > 0, "timeout": job.timeout}
        clock.began = time.monotonic()
        running, failure = [], None
        try:
            for _ in range(together or 1):
                running.append(part(draw(random, comm.size, job.largest), comm.size, comm.rank).start(comm, **options))
        except Exception as error:
            failure = error
        for call in running:  # calls that succeed must have correct results, whatever happens to the others
            try:
                check(call, log)
            except Exception as error:
                failure = failure or error
        running.clear()
        if failure:
            raise failure
        done += together or 1
        yield


def check(call: Running, log: Log) -> None:
    wrong = call.finish()
    if wrong is not None:
        log("wrong", text=wrong)


class Kind:
    """Kills ranks; the base of all kinds."""

    name = "kills"
    share = 9.0  # of the time
    goal = 1000  # runs in 30 minutes
    bound = 2.0  # seconds from the fault to the last error
    named = "any"  # the error must name any, or all, of `culprits`
    types: tuple[str, ...] = ("PeerError", "TimeoutError")
    dies = True  # whether the victims die
    aborts = False  # whether the victims abort when they fail
    told_early = False  # whether others may raise before the last rank has come or the victim has raised
    over_hosts = True

    def __init__(self, hosts: Hosts | None, slack: float = 1) -> None:
        self.hosts = hosts
        self.bound = type(self).bound * slack
        self.start_limit = self.bound + 1  # a rank that reaches it is late
        self.transports = [name for name in TRANSPORTS if name not in HOSTS or (hosts and self.over_hosts)]

    def draw(self, random: Random, number: int) -> Job:
        transport = self.transports[number % len(self.transports)]
        ranks = 4 if transport in HOSTS else random.choice([2, 3, 4, 4, 5])
        where = random.choice(["start", "calls", "calls", "close"])
        victims = random.sample(range(ranks), 2 if ranks > 3 and random.random() < 0.15 else 1)
        # Closing takes one or two milliseconds, starting up to a hundred times as long.
        shortest, longest = {"start": (1e-4, 0.15), "calls": (1e-4, 0.1), "close": (1e-5, 0.01)}[where]
        return Job(
            seed=str(random.random()),
            transport=transport,
            ranks=ranks,
            victims=tuple(sorted(victims)),
            where=where,
            delay=shortest * math.exp(random.random() * math.log(longest / shortest)),
            calls=random.randrange(10) if where == "close" else None,
            largest=random.choice([64, 64 << 10, LARGEST]),
        )

    def left(self, job: Job) -> list[int]:
        """The ranks that go on after the fault."""
        return job.survivors if self.dies else list(range(job.ranks))

    # These run in the ranks.

    def prepare(self, job: Job, rank: int) -> None:
        """Runs before a rank opens anything."""

    def limit(self, job: Job, rank: int, where: str) -> None:
        """Runs at the start of a phase."""

    def lift(self) -> None:
        """Runs after an error."""

    def work(self, job: Job, comm: Communicator, log: Log, clock: Clock, board: Board) -> None:
        for _ in run_calls(job, comm, log, clock, board):
            pass

    # This runs in their parent.

    def strike(self, job: Job, ranks: Ranks, board: Board) -> None:
        phase = {"start": START, "calls": CALLS, "close": CLOSE}[job.where]
        waited = list(job.victims) if job.where == "close" else list(range(job.ranks))
        board.wait(lambda: board.reached(waited, phase) or ranks.reap(waited))
        time.sleep(job.delay)
        for victim in job.victims:
            ranks.signal(victim, signal.SIGKILL)
        board.fault = time.monotonic()

    # These say how ranks must react.

    def errors(self, job: Job) -> tuple[str, ...]:
        """The types that their errors may have."""
        return self.types

    def must_fail(self, job: Job, rank: int, errors: dict[int, dict[str, Any]]) -> bool:
        """Whether this rank must raise an error. A rank that has ended all calls need not notice a death."""
        return job.where != "close"

    def culprits(self, job: Job, rank: int) -> set[int]:
        """Whom its error must name. A victim that lives, such as a stopped rank, gets the error of the others."""
        return set() if rank in job.victims else set(job.victims)

    def deadline(self, job: Job, error: dict[str, Any], fault: float) -> float:
        """The time by which the error must come. A rank that dies before it has published anything looks like a late
        one."""
        silent = self.dies and job.where == "start" and job.delay < SILENT
        return fault + self.bound + (self.start_limit if silent else 0)


class Stops(Kind):
    """Stops a rank for longer than a call's timeout, then continues it."""

    name = "stops"
    share = 4.0
    goal = 200
    dies = False
    # A rank that hears between two calls that others gave up raises that the communicator failed earlier.
    types = (*Kind.types, "AbortedError")

    def draw(self, random: Random, number: int) -> Job:
        job = super().draw(random, number)
        delay = 1e-4 * 1000 ** random.random()
        return replace(job, where="calls", victims=job.victims[:1], calls=None, timeout=0.5, delay=delay)

    def strike(self, job: Job, ranks: Ranks, board: Board) -> None:
        (victim,) = job.victims
        board.wait(lambda: board.reached(list(range(job.ranks)), CALLS))
        time.sleep(job.delay)
        ranks.signal(victim, signal.SIGSTOP)
        board.fault = time.monotonic()
        board.wait(lambda: board.reached(job.survivors, DONE))
        time.sleep(max(0.0, board.fault + 2 * job.timeout - time.monotonic()))
        ranks.signal(victim, signal.SIGCONT)

    def deadline(self, job: Job, error: dict[str, Any], fault: float) -> float:
        return max(error["began"], fault) + job.timeout + self.bound


class Cuts(Kind):
    """Cuts the network between two hosts, and restores it when all ranks have noticed."""

    name = "cuts"
    share = 5.0
    goal = 100
    bound = 5.0
    dies = False

    def __init__(self, hosts: Hosts | None, slack: float = 1) -> None:
        super().__init__(hosts, slack)
        self.transports = list(HOSTS) if hosts else []

    def draw(self, random: Random, number: int) -> Job:
        job = super().draw(random, number)
        how = ["down", "drop", "drop one way"][number % 3]
        side, delay = random.randrange(2), 1e-4 * 1000 ** random.random()
        return replace(job, where="calls", calls=None, delay=delay, what=how, victims=(2 * side,))

    def strike(self, job: Job, ranks: Ranks, board: Board) -> None:
        everybody = list(range(job.ranks))
        board.wait(lambda: board.reached(everybody, CALLS))
        time.sleep(job.delay)
        assert self.hosts is not None
        try:
            self.hosts.cut(job.what, job.side(job.victims[0]))
            board.fault = time.monotonic()
            board.wait(lambda: board.reached(everybody, DONE))
        finally:
            self.hosts.heal()

    def culprits(self, job: Job, rank: int) -> set[int]:
        """Any other rank: one of the other host, or one that a rank of the own host has named."""
        return set(range(job.ranks)) - {rank}


class Mismatches(Kind):
    """One rank makes a different call."""

    name = "mismatches"
    share = 3.0
    goal = 400
    named = "all"
    types = ("MismatchError",)
    dies = False
    told_early = True

    def __init__(self, hosts: Hosts | None, slack: float = 1) -> None:
        super().__init__(hosts, slack)
        self.forms = [form for form in FORMS if form[0] != "exchange"]
        self.variants = [
            (what, (name, blocks), count)
            for count in (1, 100, 3_000, 100_000, 500_000)
            for what in ("dtype", "count", "op", "root", "collective", "order")
            for name, blocks in self.forms
            if (what != "op" or MEANINGS[name].reduces) and (what != "root" or MEANINGS[name].rooted)
            if name != "barrier" or (what in ("collective", "order") and count == 1)
        ]
        Random(0).shuffle(self.variants)  # so that even few runs cover all variants

    def draw(self, random: Random, number: int) -> Job:
        job = super().draw(random, number)
        what, form, count = self.variants[number % len(self.variants)]
        firsts = [Case(form[0], count, root=root, blocks=form[1]) for root in range(job.ranks)]
        # A victim whose block is empty may exchange nothing that could differ.
        first = random.choice([case for case in firsts if case.lengths(job.ranks)[0][job.victims[0]]])
        name, blocks = random.choice([other for other in self.forms if other != form])
        other = {
            "dtype": replace(first, dtype=random.choice(["int32", "float64", "int8"])),
            "count": replace(first, count=random.choice([count + 1, 2 * count, 1000 * count if count < 1000 else 1])),
            "op": replace(first, op=random.choice(["min", "max"])),
            "root": replace(first, root=(first.root + 1) % job.ranks),
        }.get(what, replace(first, name=name, blocks=blocks))
        # If all ranks wait and none sends, only the deadline reveals the mismatch.
        return replace(
            job, where="calls", victims=job.victims[:1], what=what, first=first, other=other, calls=5, timeout=1.0
        )

    def work(self, job: Job, comm: Communicator, log: Log, clock: Clock, board: Board) -> None:
        for _ in run_calls(replace(job, largest=1 << 16, timeout=PATIENCE), comm, log, clock, board):
            pass
        comm.barrier()
        assert job.first and job.other
        calls = [job.first, job.other] if job.what == "order" else [job.first]
        if comm.rank in job.victims:
            calls = [job.other, job.first] if job.what == "order" else [job.other]
        prepared = [part(call, comm.size, comm.rank) for call in calls]
        clock.began = board.faults[comm.rank] = time.monotonic()
        for one in prepared:
            one.start(comm, timeout=job.timeout).finish()  # the result is not checked
        for _ in range(10):  # a rank that only sends may notice the mismatch late
            comm.barrier(timeout=job.timeout)

    def strike(self, job: Job, ranks: Ranks, board: Board) -> None:
        pass

    def errors(self, job: Job) -> tuple[str, ...]:
        # As in Stops: the first of two calls may only send.
        return (*self.types, "AbortedError") if job.what == "order" else self.types

    def culprits(self, job: Job, rank: int) -> set[int]:
        return set(range(job.ranks))

    def deadline(self, job: Job, error: dict[str, Any], fault: float) -> float:
        assert job.first and job.other
        kinds = [MEANINGS[call.name] for call in (job.first, job.other)]
        silent = any(kind.rooted or kind.prefix or kind.name == "barrier" for kind in kinds)
        silent &= job.what in ("root", "collective", "order")
        return fault + self.bound + (2 * job.timeout if silent else 0)


class Limits(Kind):
    """A rank runs out of memory while it makes a communicator or allocates arrays."""

    name = "memory"
    share = 2.0
    goal = 150
    types = ("MemoryError", "TransportError", "StoreError", "PeerError", "AbortedError", "TimeoutError")
    dies = False
    aborts = True
    told_early = True
    over_hosts = False
    resource = resource.RLIMIT_AS
    phases = ("start", "calls")

    def draw(self, random: Random, number: int) -> Job:
        job = super().draw(random, number)
        where = random.choice(self.phases)
        return replace(job, where=where, victims=job.victims[:1], calls=40, what=str(self.room(random)))

    def room(self, random: Random) -> int:
        """The amount of the resource that the rank may still take."""
        return int((64 << 10) * 2 ** (10 * random.random()))

    def most(self, room: int) -> int:
        """The limit that leaves this much room."""
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + room

    def limit(self, job: Job, rank: int, where: str) -> None:
        if rank in job.victims and where == job.where:
            hard = resource.getrlimit(self.resource)[1]
            resource.setrlimit(self.resource, (self.most(int(job.what)), hard))

    def lift(self) -> None:
        hard = resource.getrlimit(self.resource)[1]
        resource.setrlimit(self.resource, (hard, hard))

    def work(self, job: Job, comm: Communicator, log: Log, clock: Clock, board: Board) -> None:
        hoard: list[np.ndarray] = []
        random = Random(job.seed + "hoard")
        for _ in run_calls(job, comm, log, clock, board):
            if comm.rank in job.victims:
                try:
                    hoard.append(comm.empty(1 + int(LARGEST ** random.random()), np.uint8))
                except (MemoryError, ringroad.TransportError):
                    hoard.clear()
        hoard.clear()
        comm.barrier(timeout=job.timeout)

    def strike(self, job: Job, ranks: Ranks, board: Board) -> None:
        pass

    def must_fail(self, job: Job, rank: int, errors: dict[int, dict[str, Any]]) -> bool:
        return job.victims[0] in errors  # the rank may have had enough room


class Descriptors(Limits):
    """A rank's table of descriptors is full."""

    name = "descriptors"
    goal = 150
    resource = resource.RLIMIT_NOFILE
    phases = ("start", "start", "start", "calls")

    def room(self, random: Random) -> int:
        return random.randrange(14)

    def most(self, room: int) -> int:
        taken = {int(name) for name in os.listdir("/proc/self/fd")}
        return next(end for end in range(10**6) if end - len([one for one in taken if one < end]) > room)

    def deadline(self, job: Job, error: dict[str, Any], fault: float) -> float:
        """The time by which the error must come. Without any descriptor a rank cannot notify the ranks that wait for
        it, and one that comes after this waits whether rank 0 begins anew."""
        silent = int(job.what) < 2 or "did not start a new rendezvous" in error["text"]
        return super().deadline(job, error, fault) + (self.start_limit if silent and job.where == "start" else 0)


class Refusals(Kind):
    """The kernel refuses system calls, to all ranks or to one; then one of them is killed."""

    name = "seccomp"
    share = 2.0
    goal = 150

    def draw(self, random: Random, number: int) -> Job:
        refused = list(seccomp.LISTS)[number // len(self.transports) % len(seccomp.LISTS)]
        answer = random.choice(["EPERM", "ENOSYS"])
        to = random.choice(["all", "one"])
        return replace(super().draw(random, number), where="calls", calls=None, what=f"{refused} {answer} {to}")

    def prepare(self, job: Job, rank: int) -> None:
        refused, answer, to = job.what.split()
        if to == "all" or rank == job.survivors[0]:
            seccomp.refuse(seccomp.LISTS[refused], getattr(errno, answer))


KINDS: list[type[Kind]] = [Kind, Stops, Cuts, Mismatches, Limits, Descriptors, Refusals]
