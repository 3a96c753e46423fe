"""Ranks as processes forked from this one, a board in shared memory, and the open resources of a process."""

import ctypes
import faulthandler
import json
import mmap
import os
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WAITING, WARM, START, CALLS, CLOSE, DONE = range(6)
LOOK = 0.002  # seconds between two checks
UNNOTICED = 25.0  # seconds after which nobody will notice a fault any more
MOST = 64  # ranks
PR_SET_PDEATHSIG = 1


class Board:
    """Memory that the ranks and their parent share. Times are of the monotonic clock; 0 means not set."""

    def __init__(self, limit: float) -> None:
        self._numbers = np.frombuffer(mmap.mmap(-1, 8 * (8 + 2 * MOST)), np.float64)
        self.phases = self._numbers[8 : 8 + MOST]
        self.faults = self._numbers[8 + MOST :]  # times of faults that ranks cause themselves
        self._numbers[2] = time.monotonic() + limit

    @property
    def fault(self) -> float:
        """The time of the fault."""
        return float(max(self._numbers[0], self.faults.max()))

    @fault.setter
    def fault(self, at: float) -> None:
        self._numbers[0] = at

    def let(self, step: int) -> None:
        """Lets the ranks that wait for this step go on."""
        self._numbers[1] = step

    def wait_for(self, step: int) -> None:
        self.wait(lambda: self._numbers[1] >= step)

    def over(self) -> bool:
        return time.monotonic() > self._numbers[2]

    def missed(self) -> bool:
        """Whether the fault was so long ago that nobody will notice it any more."""
        return self.over() or 0 < self.fault < time.monotonic() - UNNOTICED

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Waits for the condition. Returns False if the time limit came first."""
        while not condition():
            if self.over():
                return False
            time.sleep(LOOK)
        return True

    def reached(self, ranks: list[int], phase: int) -> bool:
        return bool((self.phases[ranks] >= phase).all())


class Log:
    """A rank's log, in lines of JSON."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def __call__(self, event: str, **fields: Any) -> None:
        self._file.write(json.dumps({"event": event, "at": time.monotonic()} | fields) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """All complete lines: a rank may have died while it wrote the last one."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


class Ranks:
    """Forks `size` processes that run `work(rank, log)`, with their logs and standard errors in a directory."""

    def __init__(self, size: int, directory: Path, work: Callable[[int, Log], None]) -> None:
        self.directory = directory
        self.status: dict[int, int] = {}
        sys.stdout.flush()
        self.pids = [self._fork(rank, work) for rank in range(size)]

    def _fork(self, rank: int, work: Callable[[int, Log], None]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid != 0:
            return pid
        status = 1
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
            error = os.open(self.directory / f"rank-{rank}.err", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(error, 2)
            os.close(error)
            faulthandler.enable(2)
            faulthandler.register(signal.SIGUSR1, 2, all_threads=True)
            work(rank, Log(self.directory / f"rank-{rank}.jsonl"))
            status = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(status)

    def reap(self, ranks: list[int]) -> bool:
        """Whether all of these ranks have ended. Does not wait."""
        for rank in ranks:
            if rank not in self.status:
                pid, status = os.waitpid(self.pids[rank], os.WNOHANG)
                if pid:
                    self.status[rank] = os.waitstatus_to_exitcode(status)
        return all(rank in self.status for rank in ranks)

    def any_failed(self, ranks: list[int]) -> bool:
        """Whether one of these ranks has failed, as far as `reap` has seen."""
        return any(self.status.get(rank) for rank in ranks)

    def signal(self, rank: int, number: int) -> None:
        if rank not in self.status:
            os.kill(self.pids[rank], number)

    def end(self) -> list[int]:
        """Kills all remaining ranks, after they have dumped their stacks. Returns these ranks."""
        left = [rank for rank in range(len(self.pids)) if not self.reap([rank])]
        for rank in left:
            self.signal(rank, signal.SIGCONT)
            self.signal(rank, signal.SIGUSR1)
        if left:
            time.sleep(0.3)
        for rank in left:
            self.signal(rank, signal.SIGKILL)
            os.waitpid(self.pids[rank], 0)
            self.status[rank] = -signal.SIGKILL
        return left


def open_things() -> Counter[str]:
    """The numbers of descriptors, threads, shared mappings and children of this process, by kind."""
    things: Counter[str] = Counter()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue  # the descriptor of the directory itself
        things["descriptor of " + re.sub(r":\[\d+\]$", "", target)] += 1
    for thread in os.listdir("/proc/self/task"):
        try:
            things["thread " + Path(f"/proc/self/task/{thread}/comm").read_text().strip()] += 1
            children = Path(f"/proc/self/task/{thread}/children").read_text().split()
        except OSError:
            continue  # it has ended meanwhile
        things["child"] += len(children)
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(None, 5)
        if fields[1].endswith("s") and len(fields) == 6:
            things[f"mapping of {re.sub(r'[0-9a-f]{6,}', '*', fields[5])}"] += 1
    return things
