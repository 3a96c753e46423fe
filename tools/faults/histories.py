"""Random histories of ranks that shrink: some are killed, paused or cut off, others come late or have little time.

Each rank goes on from one communicator to the next. What is checked: communicators that were made from the same one
have the same members, or, if a cable was cut, no member in common; nobody is left out who was there; nobody hangs.
Ranks mostly wait, so that many histories run at a time.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import ringroad

from faults.hosts import Hosts
from faults.kinds import TRANSPORTS
from faults.processes import Board, Log, Ranks, read_log

SILENCE = 5.0  # seconds: who was away for less is never left out
LIMIT = 150.0  # seconds: a rank that has not ended by then hangs
CALM = 15.0  # seconds at the end in which a rank that has a communicator does not use it any more
ENDLESS = 25.0  # seconds after the last event in which a rank goes on trying


@dataclass(frozen=True)
class Event:
    """Something that happens to a rank, or to the cable between the two hosts."""

    at: float  # seconds from the start
    what: str  # kill, stop, continue, cut, heal
    rank: int = 0


@dataclass(frozen=True)
class History:
    """What happens in one job; all of it is drawn from the seed."""

    seed: str
    transport: str
    ranks: int
    events: tuple[Event, ...]
    late: tuple[float, ...]  # for each rank, seconds before it calls shrink
    limits: tuple[float, ...]  # for each rank, the timeout of shrink
    quorum: bool

    @property
    def last(self) -> float:
        return max([*(event.at for event in self.events), *self.late])


def draw(random: Random, seed: str, with_hosts: bool) -> History:
    ranks = random.randint(2, 6)
    transport = random.choice(["memory", "tcp"])
    events = []
    cut = with_hosts and random.random() < 0.15
    if cut:
        transport = "hosts"
        at, length = random.random() * 2, random.choice([1.0, 4.0, 8.0, 15.0])
        events += [Event(at, "cut"), Event(at + length, "heal")]
    for _ in range(random.choice([0, 1, 1, 2])):
        rank, at = random.randrange(ranks), random.random() * 2
        length = random.choice([0.1, 2.0, 5.5, 6.0, 6.5, 9.0, 15.0]) * (0.9 + 0.2 * random.random())
        events += [Event(at, "stop", rank), Event(at + length, "continue", rank)]
    for _ in range(random.choice([0, 1, 1, 2]) if ranks > 2 else random.choice([0, 1])):
        # Half of them die within moments of another event.
        near = random.choice(events).at if events and random.random() < 0.5 else random.random() * 4
        events.append(Event(near + random.random() * 0.05, "kill", random.randrange(ranks)))
    late = tuple(random.choice([0, 0, 0, 0.1, 1, 5, 8]) * random.random() for _ in range(ranks))
    limits = tuple(random.choice([0.01, 0.5, 3.0, 7.0, 20.0, 20.0]) for _ in range(ranks))
    ordered = tuple(sorted(events, key=lambda event: event.at))
    return History(seed, transport, ranks, ordered, late, limits, quorum=random.random() < 0.3)


def live(history: History, hosts: Hosts | None, board: Board, directory: Path, rank: int, log: Log) -> None:
    """One rank: waits, shrinks until it has a communicator, uses it, and shrinks again when that fails."""
    if history.transport == "hosts":
        assert hosts is not None
        side = 2 * rank // history.ranks
        hosts.enter(side)
        os.environ["RINGROAD_HOST"] = f"host-{side}"
    os.environ |= TRANSPORTS[history.transport] | {"RINGROAD_STORE": f"file://{directory / 'store'}"}
    comm = ringroad.init(rank=rank, size=history.ranks, timeout=30)
    comm.barrier()
    board.phases[rank] = 1
    board.wait_for(1)
    end = time.monotonic() + history.last + ENDLESS
    time.sleep(history.late[rank])
    limit, members, parent = history.limits[rank], list(range(history.ranks)), "0"
    while time.monotonic() < end:
        try:
            smaller = comm.shrink(timeout=limit, quorum="majority" if history.quorum else None)
        except ringroad.TimeoutError:
            log("late")
            limit = min(2 * limit + 0.5, 20.0)
            continue
        except ringroad.RingroadError as error:
            log("left", parent=parent, error=type(error).__name__, text=str(error)[:300])
            return
        # What the new rank 0 draws names the communicator, for all that are in it.
        try:
            name = smaller.broadcast(np.array([os.getpid() * 1_000_000 + time.monotonic_ns() % 1_000_000]), timeout=20)
            who = smaller.allgather(np.array([rank]), timeout=20).tolist()
        except ringroad.RingroadError as error:
            # It was made: its members have the handles' order, and only their number is known here.
            log(
                "formed", parent=parent, size=smaller.size, members=None, error=f"{type(error).__name__}: {error}"[:300]
            )
            comm = smaller
            parent += "?"
            continue
        log("formed", parent=parent, size=smaller.size, members=who, name=int(name[0]))
        assert set(who) <= set(members), (who, members)
        comm, members, parent = smaller, who, str(int(name[0]))
        try:
            while (left := comm.allreduce(np.array([end - CALM - time.monotonic(), 1.0]), timeout=20))[0] > 0:
                assert left[1] == comm.size
                time.sleep(0.05)
            log("end", parent=parent)
            return
        except ringroad.RingroadError as error:
            log("failed", parent=parent, error=type(error).__name__, text=str(error)[:300])
    log("end", parent=parent)


def away(history: History) -> dict[int, float]:
    """For each rank, the longest time that it was dead or paused; cut off, for all ranks."""
    longest = dict.fromkeys(range(history.ranks), 0.0)
    since: dict[int, float] = {}
    for event in history.events:
        if event.what == "kill":
            longest[event.rank] = float("inf")
        elif event.what == "stop":
            since.setdefault(event.rank, event.at)
        elif event.what == "continue" and event.rank in since:
            longest[event.rank] = max(longest[event.rank], event.at - since.pop(event.rank))
    return longest


def judge(
    history: History, logs: dict[int, list[dict[str, Any]]], status: dict[int, int], hanging: list[int]
) -> list[str]:
    findings = [f"rank {rank} hangs" for rank in hanging]
    killed = {event.rank for event in history.events if event.what == "kill"}
    cut = any(event.what == "cut" for event in history.events)
    gone = away(history)
    findings += [
        f"rank {rank} ended with {status[rank]}" for rank in status if rank not in killed and status[rank] != 0
    ]
    formed: dict[str, list[tuple[int, frozenset[int]]]] = {}
    for rank, log in logs.items():
        for entry in log:
            if entry["event"] != "formed" or entry["members"] is None:
                continue
            members = frozenset(entry["members"])
            formed.setdefault(entry["parent"], []).append((rank, members))
            if entry["size"] != len(members) or rank not in members:
                findings.append(f"rank {rank} is in a communicator of {sorted(members)}")
            if history.quorum and entry["parent"] == "0" and 2 * len(members) <= history.ranks:
                findings.append(f"{sorted(members)} went on without a majority")
    for parent, made in formed.items():
        for rank, one in made:
            for other, another in made:
                if one != another and (one & another or not cut):
                    findings.append(f"from {parent}: rank {rank} has {sorted(one)}, rank {other} has {sorted(another)}")
        if parent == "0" and not cut:
            for _, members in made:
                missing = [rank for rank in set(range(history.ranks)) - members if gone[rank] < SILENCE]
                # A rank that has given up by itself is not there, either.
                gave_up = {rank for rank in missing if any(entry["event"] in ("left", "end") for entry in logs[rank])}
                if set(missing) - gave_up:
                    findings.append(f"ranks {missing} were left out of {sorted(members)}, and were there")
    if not cut:
        for rank, log in logs.items():
            left_out = [entry for entry in log if entry["event"] == "left" and entry["error"] == "AbortedError"]
            if left_out and gone[rank] < SILENCE - 3.5 and not history.quorum:
                findings.append(f"rank {rank} was left out, and was there: {left_out[0]['text']}")
    return sorted(set(findings))


def summary(entry: dict[str, Any]) -> str:
    """An entry of a log in a few words."""
    what = str(entry["event"])
    return f"{what} {entry['error']}" if what in ("left", "failed") else what


@dataclass
class Running:
    """A history that runs."""

    history: History
    directory: Path
    ranks: Ranks
    board: Board
    hosts: Hosts | None
    began: float = 0.0  # when all ranks had met; 0: not yet
    done: int = 0  # events that have happened
    since: float = field(default_factory=time.monotonic)

    def advance(self) -> bool:
        """Causes what is due. Returns whether the history has ended."""
        everybody = list(range(self.history.ranks))
        if not self.began and self.board.reached(everybody, 1):
            self.began = time.monotonic()
            self.board.let(1)
        while self.began and self.done < len(self.history.events):
            event = self.history.events[self.done]
            if time.monotonic() < self.began + event.at:
                break
            self.done += 1
            if event.what in ("cut", "heal"):
                assert self.hosts is not None
                self.hosts.cut("drop", 0) if event.what == "cut" else self.hosts.heal()
            else:
                number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "continue": signal.SIGCONT}[event.what]
                self.ranks.reap([event.rank])
                self.ranks.signal(event.rank, number)
        finished = self.ranks.reap(everybody) and (self.done == len(self.history.events) or not self.began)
        return finished or time.monotonic() > self.since + LIMIT


def run(count: int, parallel: int, seed: str, base: Path, verbose: bool) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Runs `count` histories. Returns what happened in them, and those with findings."""
    try:
        pool = [Hosts(f"-{number}") for number in range(max(1, parallel // 8))]
    except (OSError, subprocess.SubprocessError) as error:
        print(f"histories without cuts: {error}")
        pool = []
    free = list(pool)
    running: list[Running] = []
    happened: Counter[str] = Counter()
    failed: list[dict[str, Any]] = []
    number = 0
    try:
        while True:
            while number < count and len(running) < parallel:
                history = draw(Random(f"{seed}/history/{number}"), f"{seed}/{number}", bool(free))
                directory = base / f"history-{number}"
                directory.mkdir()
                number += 1
                hosts = free.pop() if history.transport == "hosts" else None
                board = Board(LIMIT)

                def work(rank: int, log: Log, history=history, hosts=hosts, board=board, directory=directory) -> None:  # type: ignore[no-untyped-def]
                    live(history, hosts, board, directory, rank, log)

                running.append(Running(history, directory, Ranks(history.ranks, directory, work), board, hosts))
            if not running:
                return happened, failed
            for one in [one for one in running if one.advance()]:
                running.remove(one)
                hanging = one.ranks.end()
                if one.hosts:
                    one.hosts.heal()
                    free.append(one.hosts)
                logs = {rank: read_log(one.directory / f"rank-{rank}.jsonl") for rank in range(one.history.ranks)}
                findings = judge(one.history, logs, one.ranks.status, hanging)
                happened["histories"] += 1
                happened.update(event.what for event in one.history.events)
                happened.update(summary(entry) for log in logs.values() for entry in log)
                if verbose or findings:
                    print(f"{one.directory.name} {one.history.transport}: {findings or 'well'}", flush=True)
                if findings:
                    failed.append(
                        {"history": asdict(one.history), "findings": findings, "directory": str(one.directory)}
                    )
                    (one.directory / "findings.json").write_text(json.dumps(failed[-1], indent=1) + "\n")
                else:
                    shutil.rmtree(one.directory)
            time.sleep(0.002)
    finally:
        for one in running:
            one.ranks.end()
        for hosts in pool:
            hosts.close()
