"""Random programs of collectives and messages in legal orders: they end if every start of a call returns at once, and
every call that all its ranks have started goes on by itself, whatever their threads do meanwhile.

A program is drawn as one order of all steps of all threads, of which each thread then runs its own. A thread waits for
a call only once all ranks that it needs have started it, or blocks while these ranks' threads are free to do so. So no
order in which the threads really run can hang.
"""

import sys
import threading
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np
from ringroad._oracle import COLLECTIVES, Case, bind, part

THREADS = 2
"""Threads of a rank. Each has communicators of its own."""
LARGE = 96 << 10
"""Elements of a long call: 768 KiB."""
AHEAD = range(100, 200)
"""How many calls a rank starts before it waits, where it runs far ahead."""
COPIES = 2
"""Copies of the first communicator."""

Actor = tuple[int, int]
"""A rank and its thread."""


class Group(NamedTuple):
    """A communicator: its ranks, as the first numbers them, and the thread of each that uses it."""

    ranks: tuple[int, ...]
    threads: tuple[int, ...]

    @property
    def actors(self) -> list[Actor]:
        return list(zip(self.ranks, self.threads, strict=True))


@dataclass(eq=False)
class Call:
    """A collective call, or a message, whose case has its length."""

    number: int
    group: int
    case: Case
    actors: list[Actor]
    """The ranks that take part; of a message first the sender, then the receiver."""
    tag: int | None = None
    """Of a message."""
    started: set[Actor] = field(default_factory=set)

    @property
    def missing(self) -> list[Actor]:
        return [actor for actor in self.actors if actor not in self.started]

    def __str__(self) -> str:
        ranks = " to ".join(str(rank) for rank, _ in self.actors)
        what = self.case.name if self.tag is None else f"message {ranks}"
        return f"{what} of {self.case.count}, call {self.number} on communicator {self.group}"


class Step(NamedTuple):
    """What a thread does: it starts a call in one of three ways, waits for it, or sleeps."""

    what: Literal["start", "block", "prepare", "wait", "sleep"]
    call: Call | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.what} {self.call or f'{self.seconds:.2f} s'}"


def members(size: int) -> list[tuple[int, ...]]:
    """The ranks of all communicators: the first and its copies, the other way round, and both halves."""
    everyone = tuple(range(size))
    halves = [everyone[0::2], everyone[1::2]]
    return [*[everyone] * (1 + COPIES), everyone[::-1], *[half for half in halves if len(half) > 1]]


def communicators(comm: Any) -> list[Any]:
    """This rank's communicators, None for those that it is not in. All but the first are new."""
    made = [comm, *[comm.dup() for _ in range(COPIES)], comm.split(0, comm.size - comm.rank)]
    half = comm.split(comm.rank % 2, comm.rank)
    return made + [half if comm.rank in ranks else None for ranks in members(comm.size)[len(made) :]]


class Drawing:
    """Draws a program for so many ranks."""

    def __init__(self, seed: str, size: int, sleeps: bool = True) -> None:
        self.random = random = Random(seed)
        self.sleeps = sleeps
        self.groups = [Group(ranks, tuple(random.randrange(THREADS) for _ in ranks)) for ranks in members(size)]
        self.steps: dict[Actor, list[Step]] = {(rank, at): [] for rank in range(size) for at in range(THREADS)}
        self.calls: list[Call] = []
        self.queues: dict[tuple[Any, ...], list[Call]] = defaultdict(list)
        """Calls that match in their order: those of a group, or messages of two of its ranks with the same tag."""
        self.places: dict[tuple[Any, ...], int] = defaultdict(int)
        """How many calls of a queue an actor has started."""
        self.due: dict[Actor, dict[tuple[Any, ...], None]] = {actor: {} for actor in self.steps}
        """The queues whose next call others have started, and this actor has not."""
        self.open: dict[Actor, list[Call]] = {actor: [] for actor in self.steps}
        """What an actor has started and not waited for."""
        self.blocked: dict[Actor, Call] = {}
        self.large = random.choice([0, 0, 1, 3])
        self.asleep = 0
        for _ in range(random.choice([20, 50, 100])):
            self.act(random.choice([actor for actor in self.steps if actor not in self.blocked]))
        self.finish()

    def own(self, actor: Actor) -> list[int]:
        return [at for at, group in enumerate(self.groups) if actor in group.actors]

    def act(self, actor: Actor) -> None:
        """Lets an actor, which is not blocked, do anything legal."""
        random, own = self.random, self.own(actor)
        kinds = ["call"] * 4 + ["message"] * 4 + ["owed"] * 3 + ["wait"] * 5 + ["sleep"]
        match random.choice([*kinds, *["ahead"] * (random.random() < 0.1)]):
            case "call" if own:
                self.start(actor, self.collective(random.choice(own)))
            case "ahead" if own:
                group = random.choice(own)
                for _ in range(random.choice(AHEAD)):
                    self.start(actor, self.collective(group, short=True), how="start")
            case "message" if own:
                group = random.choice(own)
                peer = random.choice([one for one in self.groups[group].actors if one != actor])
                self.start(actor, self.message(group, *random.sample([actor, peer], 2)))
            case "owed" if self.due[actor]:
                self.start(actor, self.owed(actor))
            case "wait" if waiting := self.open[actor]:
                call = random.choice(waiting)
                if self.may_block(actor, call):
                    self.step(actor, Step("wait", call))
                    waiting.remove(call)
                    self.block(actor, call)
            case "sleep" if self.sleeps and self.asleep < 2 and random.random() < 0.3:
                self.asleep += 1
                self.step(actor, Step("sleep", seconds=random.uniform(0.1, random.choice([0.3, 0.3, 2.0]))))

    def collective(self, group: int, short: bool = False) -> tuple[Any, ...]:
        """A queue, whose next call is this one if nobody else has started it yet."""
        random, name = self.random, self.random.choice([*COLLECTIVES, "barrier", "allreduce", "allreduce", "broadcast"])
        case = Case(name, self.count(short), "int64", root=random.randrange(len(self.groups[group].ranks)))
        return (group,), case, self.groups[group].actors, None

    def message(self, group: int, source: Actor, target: Actor) -> tuple[Any, ...]:
        tag = self.random.randrange(2)
        return (group, source, target, tag), Case("exchange", self.count(), "int64"), [source, target], tag

    def count(self, short: bool = False) -> int:
        if self.large and not short and self.random.random() < 0.1:
            self.large -= 1
            return LARGE
        return self.random.choice([1, 5, 100, 1000])

    def owed(self, actor: Actor) -> tuple[Any, ...]:
        """A queue that is due."""
        return self.random.choice([*self.due[actor]]), None, None, None

    def start(self, actor: Actor, what: tuple[Any, ...], how: str | None = None) -> None:
        """Starts the next call of a queue, which is new or one that others have started."""
        queue, case, actors, tag = what
        calls, at = self.queues[queue], self.places[actor, queue]
        if at == len(calls):
            if case.count == LARGE and case.name in ("gather", "scatter", "allgather", "alltoall", "reduce_scatter"):
                case = Case(case.name, LARGE // len(actors), case.dtype, root=case.root)
            case = Case(case.name, case.count, case.dtype, root=case.root, seed=self.random.randrange(8))
            calls.append(Call(len(self.calls), queue[0], case, actors, tag))
            self.calls.append(calls[-1])
        call = calls[at]
        self.places[actor, queue] += 1
        call.started.add(actor)
        for one in call.actors:
            if self.places[one, queue] < len(calls):
                self.due[one][queue] = None
            else:
                self.due[one].pop(queue, None)
        how = how or self.random.choice(["start", "start", "prepare", "block"])
        if how == "prepare" and call.case.name not in COLLECTIVES:
            how = "start"
        if how == "block" and not self.may_block(actor, call):
            how = "start"
        self.step(actor, Step(how, call))
        for one, waited in list(self.blocked.items()):
            if not waited.missing:
                del self.blocked[one]
        if how == "block":
            self.block(actor, call)
        else:
            self.open[actor].append(call)

    def may_block(self, actor: Actor, call: Call) -> bool:
        """Whether all who must still start the call can: then nobody ever waits for each other in a circle."""
        return all(one not in self.blocked and one != actor for one in call.missing)

    def block(self, actor: Actor, call: Call) -> None:
        if call.missing:
            self.blocked[actor] = call

    def step(self, actor: Actor, step: Step) -> None:
        self.steps[actor].append(step)

    def finish(self) -> None:
        """Starts what has been started by some, and waits for everything, in any order."""
        while owing := [actor for actor, queues in self.due.items() if queues and actor not in self.blocked]:
            actor = self.random.choice(owing)
            self.start(actor, self.owed(actor), how="start")
        assert not self.blocked and not any(call.missing for call in self.calls)
        for actor, waiting in self.open.items():
            for call in self.random.sample(waiting, len(waiting)):
                self.step(actor, Step("wait", call))


class Thread(threading.Thread):
    """Runs the steps of an actor."""

    def __init__(self, drawing: Drawing, actor: Actor, comms: list[Any], limit: float) -> None:
        super().__init__(daemon=True, name=f"rank {actor[0]}, thread {actor[1]}")
        self.drawing, self.actor, self.comms, self.limit = drawing, actor, comms, limit
        self.steps, self.at, self.since = drawing.steps[actor], 0, time.monotonic()
        self.running: dict[int, Any] = {}
        self.longest = 0.0
        """How long the longest start took that need not wait, in seconds."""
        self.problem: str | None = None
        self.start()

    def run(self) -> None:
        try:
            for at, step in enumerate(self.steps):
                self.at, self.since = at, time.monotonic()
                wrong = self.take(step)
                if step.what == "start":
                    self.longest = max(self.longest, time.monotonic() - self.since)
                if wrong:
                    self.problem = self.describe(wrong)
                    return
        except BaseException as error:
            self.problem = self.describe(f"{type(error).__name__}: {error}")

    def take(self, step: Step) -> str | None:
        """Does a step. Says what is wrong with the result, if there is one."""
        if step.call is None:
            time.sleep(step.seconds)
            return None
        number = step.call.number
        if step.what != "wait":
            self.running[number] = Running(self, step.call, step.what)
        return self.running.pop(number).finish() if step.what in ("wait", "block") else None

    def describe(self, what: str) -> str:
        """What has happened, where this thread is, and what it has started and not waited for."""
        left = [str(one.call) for one in self.running.values()]
        more = f" and {len(left) - 5} more" * (len(left) > 5)
        took = time.monotonic() - self.since
        return (
            f"{self.name}, step {self.at} of {len(self.steps)} ({self.steps[self.at]}), {took:.1f} s after its start: "
            f"{what}; not waited for: {'; '.join(left[:5]) or 'nothing'}{more}"
        )

    @cached_property
    def stack(self) -> str:
        """Where it is now, in Python."""
        return "".join(traceback.format_stack(sys._current_frames()[self.ident or 0])[-2:])


class Running:
    """A call that this rank has started."""

    def __init__(self, thread: Thread, call: Call, how: str) -> None:
        comm, ranks, case = thread.comms[call.group], thread.drawing.groups[call.group].ranks, call.case
        self.call, self.how = call, how
        options: dict[str, Any] = {"timeout": thread.limit} | ({"async_op": True} if how == "start" else {})
        if call.tag is None:
            self.part = part(case, comm.size, comm.rank)
            send, out = self.part.arrays()
            make: Any = bind(comm, case, send, out, **options)
            if how == "prepare":
                arrays = make.args[: 1 if case.name == "broadcast" else 2]
                make = comm.prepare(case.name, *arrays, root=case.root, **options).start
        else:
            (source, _), (target, _) = call.actors
            # By the sender's place, so that the receiver can tell from whom it is.
            self.sent = np.arange(case.count, dtype=case.dtype) * (case.seed or 0) + 31 * source + call.number
            if thread.actor[0] == source:
                make = lambda: comm.send(self.sent, ranks.index(target), call.tag, **options)  # noqa: E731
            else:
                out = np.empty_like(self.sent)
                make = lambda: comm.recv(out, ranks.index(source), call.tag, **options)  # noqa: E731
            self.is_receive = thread.actor[0] == target
        self.got = make()

    def finish(self) -> str | None:
        """Waits for it. Says what is wrong with the result."""
        got = self.got if self.how == "block" else self.got.result()
        if self.call.tag is None:
            return self.part.wrong(got)
        return None if not self.is_receive or np.array_equal(got, self.sent) else f"got {got!r}, not {self.sent!r}"


class Played(NamedTuple):
    """What has become of a rank's programs: how many have ended well, and of the first that has not, what is wrong."""

    done: int
    steps: int
    longest: float
    wrong: list[str]


def play(comm: Any, seeds: list[str], limit: float, sleeps: bool = True) -> Played:
    """Runs programs, one after the other, until one goes wrong. `limit`: how many seconds each call may take; the
    threads of a program have as many more."""
    comms, steps, longest = communicators(comm), 0, 0.0
    for done, seed in enumerate(seeds):
        drawing = Drawing(seed, comm.size, sleeps)
        threads = [Thread(drawing, (comm.rank, at), comms, limit) for at in range(THREADS)]
        deadline = time.monotonic() + 2 * limit
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for thread in threads:
            if thread.is_alive():
                thread.problem = thread.describe(f"it does not end\n{thread.stack}")
        steps += sum(len(thread.steps) for thread in threads)
        longest = max(longest, *(thread.longest for thread in threads))
        if any(thread.problem for thread in threads):
            # All ranks need as long to say so: nobody's end shall end the calls of others.
            where = [thread.problem or thread.describe("well") for thread in threads]
            return Played(done, steps, longest, [f"program {seed!r}, {text}" for text in where])
    for one in comms[1:]:
        if one is not None:
            one.barrier()
            one.close()
    return Played(len(seeds), steps, longest, [])
