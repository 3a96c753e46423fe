"""One history of an elastic group: processes come, are killed, stopped and cut off, and what they log is judged.

All members have the same bits after each step; no step is lost or applied twice; nobody hangs. A member may only differ
in the last step before it is lost: then it alone knew that the step was committed.

With a supervisor, who was killed, or has ended with an error, is started again at once by the same command. So a second
group can be founded while members of the first are stopped; then one must stay, and no state may give way to one of an
earlier step.
"""

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from faults.hosts import Hosts
from faults.kinds import TRANSPORTS as OVER_HOSTS
from helpers import OWN, PROGRAMS, ROOT, free_port

LIMIT = 60.0
"""Seconds after the last event within which all must be together again, and then within which all must end."""
PAUSE = 2.5
"""Seconds: who was stopped for less never goes missing for good."""


@dataclass(frozen=True)
class Event:
    at: float  # seconds after all first members have come
    what: str  # start, kill, stop, stop others (all but the first), cut
    who: int = 0  # among those that run
    length: float = 0.0  # of a stop or a cut


class History:
    """One group while it runs."""

    def __init__(
        self,
        place: Path,
        count: int,
        events: Sequence[Event],
        falls: Mapping[int, str] = {},
        hosts: Hosts | None = None,
        supervised: str = "",
    ) -> None:
        """So many processes found a group in a new directory, and this happens. Some, by the order in which they
        start, fall at a point, as `tests/programs/elastic_member.py` says. `supervised` is "plain", or "record" if
        every process has a record."""
        place.mkdir(exist_ok=True)
        self.place, self.count, self.events, self.falls, self.hosts = place, count, events, falls, hosts
        self.begin = time.time()
        self.happened: list[str] = []
        port = free_port()
        self.address = f"tcp://10.77.0.1:{port},10.77.0.2:{port}" if hosts else f"tcp://127.0.0.1:{port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.supervised = supervised
        self.commands: dict[int, tuple[int, int]] = {}  # by the process numbers that run: minimum, number of the record
        self.restarted = 0
        self.gave_up: set[int] = set()  # numbers of those that have found no group
        self.away: set[int] = set()  # process numbers of those that were stopped or cut off for long

    def start(self, minimum: int, number: int | None = None) -> None:
        """Starts a new process, or one that has ended again, by the number of its record."""
        fall = self.falls.get(len(self.processes), "")
        number = len(self.processes) if number is None else number
        record = f"record-{number}" if self.supervised == "record" else ""
        command = [sys.executable, PROGRAMS / "elastic_member.py", self.address, str(minimum), self.place, fall, record]
        env = os.environ | (OWN["own"] if self.count % 2 else {}) | {"PYTHONHASHSEED": "0"}
        enter = None
        if hosts := self.hosts:
            side = len(self.processes) % 2
            env |= OVER_HOSTS["own-hosts"] | {"RINGROAD_HOST": f"host-{side}"}
            enter = lambda: hosts.enter(side)  # noqa: E731
        with (self.place / f"errors-{len(self.processes)}").open("wb") as errors:
            self.processes.append(subprocess.Popen(command, env=env, stdout=errors, stderr=errors, preexec_fn=enter))
        self.note(f"start {self.processes[-1].pid} {fall}")
        self.commands[self.processes[-1].pid] = minimum, number
        if "stop" in fall:
            self.away.add(self.processes[-1].pid)

    def supervise(self) -> None:
        """Starts again who has ended before it should."""
        for process in self.processes if self.supervised else []:
            if process.poll() is not None and (command := self.commands.pop(process.pid, None)):
                last = (self.log(process.pid) or [{}])[-1]
                if last.get("kind") == "TimeoutError":
                    self.gave_up.add(command[1])
                self.start(*command)
                self.go(self.processes[-1])
                self.restarted += 1

    def go(self, process: subprocess.Popen[bytes]) -> None:
        (self.place / f"go-{process.pid}").touch()

    def log(self, pid: int) -> list[dict]:
        path = self.place / f"{pid}.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def has_joined(self, process: subprocess.Popen[bytes]) -> bool:
        return any(entry["event"] == "joined" for entry in self.log(process.pid))

    def running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self.processes if process.poll() is None]

    def wait(self, what: str, good) -> None:
        end = time.monotonic() + LIMIT * (2 if self.supervised else 1)
        while not good():
            assert time.monotonic() < end, what
            self.supervise()
            time.sleep(0.05)

    def note(self, what: str) -> None:
        self.happened.append(f"{time.time() - self.begin:.2f} {what}")

    def told(self) -> str:
        """All that happened. Processes that still run say where they are; the whole logs are kept."""
        for process in self.running():
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.3)
        kept = ROOT / "target" / "histories" / f"{self.place.name}-{time.time():.0f}"
        shutil.copytree(self.place, kept)
        lines = [f"{self.count} processes, {self.events} {self.falls}; all logs are in {kept}", *self.happened]
        for number, process in enumerate(self.processes):
            lines.append(f"process {process.pid} ({process.poll()}):")
            log = self.log(process.pid)
            for before, entry, after in zip([{}, *log], log, [*log[1:], {}], strict=False):
                step = entry.get("step", 0)
                if [one.get("step") for one in (before, after)] != [step - 1, step + 1]:
                    lines.append(f"  {entry['at'] - self.begin:.2f} {entry}")
            lines.append((self.place / f"errors-{number}").read_text()[-20_000:])
        return "\n".join(lines)

    def is_served(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.address.rpartition(":")[2]))) == 0

    def have_given_up(self) -> bool:
        """Whether every process has ended; with a supervisor, whether each has found no group and was started again."""
        return not self.running() or (bool(self.supervised) and self.gave_up >= {n for _, n in self.commands.values()})

    def are_together(self) -> bool:
        last = [(self.log(process.pid) or [{"event": "none"}])[-1] for process in self.running()]
        now = time.time()
        good = all(one["event"] == "step" and one["size"] == len(last) and now - one["at"] < 1 for one in last)
        return good and len({one["group"] for one in last}) < 2

    def run(self) -> None:
        for _ in range(self.count):
            self.start(self.count)
        self.wait("the first processes do not begin", lambda: all(self.log(one.pid) for one in self.processes))
        for process in self.processes:
            self.go(process)
            if self.falls:
                self.wait("nobody founds the group", self.is_served)  # so that the first process leads
        self.wait("the first members do not come together", self.are_together)
        begin = time.monotonic()
        (self.place / "armed").touch()
        stopped: list[tuple[float, subprocess.Popen[bytes]]] = []
        healing = 0.0
        for event in self.events:
            due = begin + event.at
            while stopped or healing or time.monotonic() < due:
                if self.hosts and healing and time.monotonic() > healing:
                    self.hosts.heal()
                    self.note("heal")
                    healing = 0.0
                for end, process in [one for one in stopped if one[0] <= time.monotonic()]:
                    process.send_signal(signal.SIGCONT)
                    self.note(f"go on {process.pid}")
                    stopped.remove((end, process))
                if time.monotonic() >= due and event.what != "none":
                    break
                self.supervise()
                time.sleep(0.01)
            running = [process for process in self.running() if process not in [process for _, process in stopped]]
            if event.what == "start":
                self.start(0)
                self.go(self.processes[-1])
            elif event.what == "kill" and running:
                victim = running[event.who % len(running)]
                others = self.running() if self.supervised else running
                if any(self.has_joined(other) for other in others if other is not victim):  # a member is left
                    victim.kill()
                    self.note(f"kill {victim.pid}")
                    victim.wait()
            elif event.what.startswith("cut"):
                assert self.hosts
                self.hosts.cut(event.what.removeprefix("cut "), event.who)
                self.note(f"{event.what} {event.who}")
                healing = time.monotonic() + event.length
            elif event.what.startswith("stop") and running:
                for process in running[1:] if "others" in event.what else [running[event.who % len(running)]]:
                    process.send_signal(signal.SIGSTOP)
                    self.note(f"stop {process.pid}")
                    stopped.append((time.monotonic() + event.length, process))
                    if event.length > PAUSE:
                        self.away.add(process.pid)
        if self.hosts:
            self.away = {process.pid for process in self.processes}
        if not self.away:
            self.wait("the members do not come together again", self.are_together)
        else:
            # If all others have ended, who was stopped must not go on alone.
            self.wait("members neither come together nor give up", lambda: self.are_together() or self.have_given_up())
        self.supervised = ""
        (self.place / "stop").touch()
        self.wait("members do not end", lambda: not self.running())

    def judge(self) -> None:
        after: dict[tuple[str, int], set[int]] = defaultdict(set)
        ends, seen, given_up = set(), set(), []
        latest: dict[str, int] = defaultdict(int)  # by group
        for process in self.processes:
            log = self.log(process.pid)
            for entry in log:
                if entry["event"] in ("changed", "joined"):
                    after[entry["group"], entry["step"]].add(entry["digest"])
                if "group" in entry:
                    latest[entry["group"]] = max(latest[entry["group"]], entry["step"])
            log = [entry for entry in log if entry["event"] in ("joined", "step", "end", "error")]
            for entry, following in itertools.pairwise(log):
                if entry["event"] == "step" and following["event"] in ("step", "end"):
                    more = following["step"] - entry["step"]
                    assert more == (following["event"] == "step"), f"{process.pid} after step {entry['step']}"
                    after[entry["group"], entry["step"]].add(entry["digest"])
            for before, entry in zip([{}, *log], log, strict=False):
                if entry["event"] == "step":
                    seen.add(entry["step"])
                elif entry["event"] == "end":
                    ends.add((entry["step"], entry["digest"]))
                elif (
                    entry["event"] == "error"
                    and (self.restarted or self.away)
                    and "there are two elastic groups" in entry["text"]
                ):
                    given_up.append((process.pid, before["group"], before["step"]))
                elif entry["event"] == "error" and "there are two elastic groups" in entry["text"]:
                    assert self.restarted or self.away, f"{process.pid} has found another group"
                    given_up.append((process.pid, before["group"], before["step"]))
                elif entry["event"] == "error":
                    assert entry["kind"] == "TimeoutError" and self.away, f"error of {process.pid}"
            if process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, f"{process.pid} has failed"
                assert log[-1]["event"] in ("end", "error"), f"{process.pid} has no end"
            joined = [entry["event"] for entry in log].count("joined")
            assert joined <= 1 or process.pid in self.away, f"{process.pid} was left out, and was there"
        for pid, group, step in given_up:
            assert any(other != group and latest[other] >= step for other in latest), f"{pid} has given up step {step}"
        for number in self.falls:
            pid = self.processes[number].pid
            assert "falls" in [entry["event"] for entry in self.log(pid)], f"{pid} has not come to its point"
        differ = [step for step, digests in after.items() if len(digests) > 1]
        assert not differ, f"members hold different states after steps {differ}"
        may_be_lost = self.away and any(event.what != "stop" for event in self.events if event.what != "start")
        assert len(ends) == 1 or (may_be_lost and not ends), f"the ends are {ends}"
        assert not ends or seen >= set(range(1, max(ends)[0] + 1)), "steps were skipped"

    def close(self) -> None:
        for process in self.running():
            process.kill()
            process.wait()


def live(history: History) -> None:
    """Runs and judges it. A failure tells all."""
    try:
        history.run()
        history.judge()
    except Exception as error:
        raise AssertionError(f"{history.place.name}: {error!r}\n{history.told()}") from error
    finally:
        history.close()


def live_all(histories: Iterable[History]) -> None:
    """Several at a time, since the processes mostly wait."""
    with ThreadPoolExecutor(6) as pool:
        lives = [pool.submit(live, history) for history in histories]
    failures = [str(error) for one in lives if (error := one.exception())]
    assert not failures, "\n\n".join(failures)
