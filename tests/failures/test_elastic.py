"""Groups whose members come and go: random histories of starts, kills and pauses.

All members have the same bits after each step; no step is lost or applied twice; nobody hangs. A member may only differ
in the last step before it is lost: then it alone knew that the step was committed.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from faults.hosts import Hosts
from faults.kinds import TRANSPORTS as OVER_HOSTS
from helpers import FULL, OWN, PROGRAMS, long

LIMIT = 60.0
"""Seconds after the last event within which all must be together again, and then within which all must end."""
PAUSE = 2.5
"""Seconds: who was stopped for less never goes missing for good."""


@dataclass(frozen=True)
class Event:
    at: float  # seconds after all first members have come
    what: str  # start, kill, stop, cut
    who: int = 0  # among those that run
    length: float = 0.0  # of a stop or a cut


def draw(random: Random, cuts: bool) -> tuple[int, list[Event]]:
    """How many processes found the group, and what happens to it."""
    count = random.randint(2 if cuts else 1, 6)
    events = [Event(3 * random.random(), "start") for _ in range(random.choice([0, 1, 1, 2, 3]))]
    events += [Event(3 * random.random(), "kill", random.randrange(6)) for _ in range(random.choice([0, 1, 1, 2, 3]))]
    for _ in range(random.choice([0, 0, 1, 2])):
        length = random.choice([0.1, 1.0, 2.0, 4.0, 8.0, 12.0]) * (0.8 + 0.4 * random.random())
        events.append(Event(3 * random.random(), "stop", random.randrange(6), length))
    if cuts:
        how = random.choice(["cut drop", "cut drop one way"])
        events.append(Event(3 * random.random(), how, random.randrange(2), random.choice([1.0, 4.0, 12.0, 20.0])))
    if random.random() < 0.3:  # several at once
        at = 3 * random.random()
        events += [
            Event(at + 0.02 * random.random(), random.choice(["start", "kill"]), random.randrange(6)) for _ in "12"
        ]
    return count, sorted(events, key=lambda event: event.at)


class History:
    """One group while it runs."""

    def __init__(self, place: Path, count: int, events: list[Event], hosts: Hosts | None = None) -> None:
        self.place, self.count, self.events, self.hosts = place, count, events, hosts
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"tcp://10.77.0.1:{port},10.77.0.2:{port}" if hosts else f"tcp://127.0.0.1:{port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.away: set[int] = set()  # process numbers of those that were stopped or cut off for long

    def start(self, minimum: int) -> None:
        command = [sys.executable, PROGRAMS / "elastic_member.py", self.address, str(minimum), self.place]
        env = os.environ | (OWN["own"] if self.count % 2 else {}) | {"PYTHONHASHSEED": "0"}
        enter = None
        if hosts := self.hosts:
            side = len(self.processes) % 2
            env |= OVER_HOSTS["own-hosts"] | {"RINGROAD_HOST": f"host-{side}"}
            enter = lambda: hosts.enter(side)  # noqa: E731
        with (self.place / "errors").open("ab") as errors:
            self.processes.append(subprocess.Popen(command, env=env, stdout=errors, stderr=errors, preexec_fn=enter))

    def log(self, pid: int) -> list[dict]:
        path = self.place / f"{pid}.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self.processes if process.poll() is None]

    def wait(self, what: str, good) -> None:
        end = time.monotonic() + LIMIT
        while not good():
            assert time.monotonic() < end, f"{what}: {self.told()}"
            time.sleep(0.05)

    def told(self) -> str:
        ends = {process.pid: (process.poll(), self.log(process.pid)[-2:]) for process in self.processes}
        return f"{ends}\n{(self.place / 'errors').read_text()[-3000:]}"

    def are_together(self) -> bool:
        last = [(self.log(process.pid) or [{"event": "none"}])[-1] for process in self.running()]
        now = time.time()
        return all(one["event"] == "step" and one["size"] == len(last) and now - one["at"] < 1 for one in last)

    def run(self) -> None:
        for _ in range(self.count):
            self.start(self.count)
        self.wait("the first members do not come together", self.are_together)
        begin = time.monotonic()
        stopped: list[tuple[float, subprocess.Popen[bytes]]] = []
        healing = 0.0
        for event in [*self.events, Event(3.0, "none")]:
            due = begin + event.at
            while stopped or healing or time.monotonic() < due:
                if self.hosts and healing and time.monotonic() > healing:
                    self.hosts.heal()
                    healing = 0.0
                for end, process in [one for one in stopped if one[0] <= time.monotonic()]:
                    process.send_signal(signal.SIGCONT)
                    stopped.remove((end, process))
                if time.monotonic() >= due and event.what != "none":
                    break
                time.sleep(0.01)
            running = [process for process in self.running() if process not in [process for _, process in stopped]]
            if event.what == "start":
                self.start(0)
            elif event.what == "kill" and running:
                victim = running[event.who % len(running)]
                if any(self.log(other.pid) for other in running if other is not victim):  # a member is left
                    victim.kill()
                    victim.wait()
            elif event.what.startswith("cut"):
                assert self.hosts
                self.hosts.cut(event.what.removeprefix("cut "), event.who)
                healing = time.monotonic() + event.length
            elif event.what == "stop" and running:
                process = running[event.who % len(running)]
                process.send_signal(signal.SIGSTOP)
                stopped.append((time.monotonic() + event.length, process))
                if event.length > PAUSE:
                    self.away.add(process.pid)
        if self.hosts:
            self.away = {process.pid for process in self.processes}
        if not self.away:
            self.wait("the members do not come together again", self.are_together)
        else:
            # If all others have ended, who was stopped must not go on alone.
            self.wait("members neither come together nor give up", lambda: not self.running() or self.are_together())
        (self.place / "stop").touch()
        self.wait("members do not end", lambda: not self.running())

    def judge(self) -> None:
        after: dict[int, set[int]] = defaultdict(set)
        ends, seen = set(), set()
        for process in self.processes:
            log = self.log(process.pid)
            log = [entry for entry in log if entry["event"] != "changed"]
            for entry, following in itertools.pairwise(log):
                if entry["event"] == "step" and following["event"] in ("step", "end"):
                    if process.pid in self.away and following["at"] - entry["at"] > 1:
                        continue  # the others may have gone on without it
                    assert following["step"] - entry["step"] == (following["event"] == "step"), self.told()
                    after[entry["step"]].add(entry["digest"])
            for entry in log:
                if entry["event"] == "step":
                    seen.add(entry["step"])
                elif entry["event"] == "end":
                    ends.add((entry["step"], entry["digest"]))
                elif entry["event"] == "error":
                    assert entry["kind"] == "TimeoutError" and self.away, self.told()
            if process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, self.told()
                assert log[-1]["event"] in ("end", "error"), self.told()
        assert all(len(digests) == 1 for digests in after.values()), self.told()
        may_be_lost = self.away and any(event.what != "stop" for event in self.events if event.what != "start")
        assert len(ends) == 1 or (may_be_lost and not ends), self.told()
        assert not ends or seen >= set(range(1, max(ends)[0] + 1)), self.told()

    def close(self) -> None:
        for process in self.running():
            process.kill()
            process.wait()


@pytest.mark.parametrize("seeds", [range(seed, seed + 5) for seed in range(0, 200, 5)] if FULL else [(1, 3, 5, 7)])
def test_histories(seeds: Sequence[int], tmp_path: Path) -> None:
    """Several at a time, since the processes mostly wait."""

    def run(seed: int) -> None:
        place = tmp_path / str(seed)
        place.mkdir()
        history = History(place, *draw(Random(seed), cuts=False))
        try:
            history.run()
        finally:
            history.close()
        history.judge()

    with ThreadPoolExecutor(len(seeds)) as pool:
        list(pool.map(run, seeds))


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    try:
        both = Hosts("-elastic")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(str(error))
    yield both
    both.close()


@long
@pytest.mark.parametrize("seed", range(50 if FULL else 1))
def test_histories_with_cuts(seed: int, hosts: Hosts, tmp_path: Path) -> None:
    history = History(tmp_path, *draw(Random(1000 + seed), cuts=True), hosts)
    try:
        history.run()
    finally:
        hosts.heal()
        history.close()
    history.judge()
