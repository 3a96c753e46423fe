"""Processes that a killed testbed has left behind.

The ranks of a testbed end with it, in whatever way it ends, but processes that they have started may not. All of them
have a variable in their environment that names the testbed's process. The start of a testbed kills the processes of
testbeds that have ended.
"""

import contextlib
import os
import signal
from pathlib import Path

_MARK = "_RINGROAD_TESTBED"


def mark() -> dict[str, str]:
    """The environment variable for all processes of a testbed that this process runs."""
    return {_MARK: f"{_pid_space()} {os.getpid()} {_started(os.getpid())}"}


def end() -> list[int]:
    """Kills the processes of testbeds that have ended. Returns their process ids."""
    ended = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        # It may have ended, and its number be another's, or belong to another user.
        with contextlib.suppress(OSError), open(os.pidfd_open(int(entry.name)), "rb", buffering=0) as process:
            if _is_left_behind((entry / "environ").read_bytes()):
                signal.pidfd_send_signal(process.fileno(), signal.SIGKILL)
                ended.append(int(entry.name))
    return ended


def _is_left_behind(environ: bytes) -> bool:
    prefix = f"{_MARK}=".encode()
    marks = [os.fsdecode(line[len(prefix) :]) for line in environ.split(b"\0") if line.startswith(prefix)]
    if not marks:
        return False
    space, _, testbed = marks[0].partition(" ")
    pid, _, started = testbed.partition(" ")
    # In another PID namespace the same id means another process.
    return space == _pid_space() and pid.isdigit() and _started(int(pid)) != started


def _pid_space() -> str:
    """The PID namespace of this process."""
    return os.readlink("/proc/self/ns/pid")


def _started(pid: int) -> str:
    """The start time of a process, in the kernel's ticks; empty if there is no such process."""
    try:
        # The name of the program, in brackets, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
