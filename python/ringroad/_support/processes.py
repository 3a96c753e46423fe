"""Processes that this one starts, watches and ends together: the ranks of clusters, benchmarks and tests."""

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

MOST = 1024
"""The most processes that a command starts on this machine."""


class Processes:
    """Processes in the order of their start. A context manager; at its end it kills those that still run."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[Any]] = []

    def start(self, command: Sequence[str], environ: Mapping[str, str], **how: Any) -> subprocess.Popen[Any]:
        """Starts a process without standard input. `how` are further arguments of subprocess.Popen."""
        process = subprocess.Popen(list(command), env=dict(environ), stdin=subprocess.DEVNULL, **how)
        self.all.append(process)
        return process

    def ended(self) -> subprocess.Popen[Any] | None:
        """The first process that has ended, or None if all run."""
        return next((process for process in self.all if process.poll() is not None), None)

    def stop(self, patience: float = 0.0, grace: float = 0.0) -> None:
        """Ends all processes. Waits up to `patience` seconds for them to end by themselves, then terminates them, waits
        up to `grace` seconds more, and kills the rest. Without `grace` it kills them at once."""
        _wait(self.all, patience)
        if grace:
            for process in self.all:
                if process.poll() is None:
                    process.terminate()
            _wait(self.all, grace)
        for process in self.all:
            process.kill()
            process.wait()

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _wait(processes: Sequence[subprocess.Popen[Any]], seconds: float) -> None:
    """Waits until all have ended, or for `seconds` in all."""
    deadline = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return


def ending(process: subprocess.Popen[Any], seconds: float) -> str:
    """A text that says how a process ended, or that it still runs after `seconds`."""
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"process {process.pid} closed its connection but still runs"
    if status >= 0:
        return f"process {process.pid} exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"process {process.pid} was killed by {name} (exit status {status})"
