"""`ringroad.local`: worker processes on this machine, for scripts, notebooks and tests.

Each worker is a fresh interpreter (never a fork) that holds one communicator and runs the functions that it receives.
The parent talks to it over a socket pair: no other process can reach it, and when one end dies the other reads end of
file.
"""

import contextlib
import os
import pickle
import shutil
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from textwrap import indent
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ringroad._native import AbortedError, Communicator, PeerError, RingroadError, Topology
from ringroad._support.processes import Processes, ending
from ringroad._support.text import by_key, check_class, seconds, whole

P = ParamSpec("P")
T = TypeVar("T")

Starter = Callable[[int, list[str]], tuple[list[str], Mapping[str, str]]]
"""From a rank and its command line to the command line that starts it on its host, and that host's environment
variables."""

_MAX_WORKERS = 1024  # workers; a wrong number would start processes until the machine has no memory left
_START_SECONDS = 120.0  # long enough to import NumPy from a slow disk
_GRACE_SECONDS = 5.0  # for the other workers after one died, and for a worker to exit by itself
_FAILURE_SECONDS = 30.0  # for the other workers after a function failed
_FIRST_PORT = 28_000  # on an emulated host nobody else has ports
_POLL_SECONDS = 1.0  # between checks for processes whose end the socket does not show


@dataclass(frozen=True)
class WorkerFailure:
    """The failure of one rank.

    Attributes:
        rank: The rank.
        pid: The id of its process.
        text: A traceback, or how the process ended.
        exception: What was raised; None if the process ended, or if the exception's class exists on the worker
            only.
    """

    rank: int
    pid: int
    text: str
    exception: BaseException | None = None


class WorkerError(RingroadError):
    """A function failed on some workers, or workers died.

    The message has every failed rank's traceback; `failures` has them as a tuple of
    `ringroad.start.local.WorkerFailure`. `__cause__` is the exception that most likely caused the others. The next
    `LocalCluster.run` starts new workers where that is needed.
    """

    def __init__(self, message: str, failures: tuple[WorkerFailure, ...] = ()) -> None:
        super().__init__(message)
        self.failures = failures


def local(
    n: int,
    *,
    topology: Topology | str | int | None = None,
    algorithm: str | None = None,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
) -> "LocalCluster":
    """Starts worker processes on this machine, connected by a communicator, for scripts, notebooks and tests.

    Args:
        n: The number of workers, from 1 to 1024.
        topology: The network, as in `ringroad.init`.
        algorithm: The algorithms to choose among, as in `ringroad.init`.
        timeout: Seconds after which a collective fails. None: RINGROAD_TIMEOUT, or 300.
        env: Variables to add to the workers' environment.

    Returns:
        A `LocalCluster`. Use it in a `with` block, or close it.

    Raises:
        WorkerError: A worker does not start, or the workers cannot connect.
        TopologyError: The topology is malformed.
        ValueError: `n` is less than 1 or more than 1024.

    Example:
        >>> with ringroad.local(2) as cluster:
        ...     cluster.run(lambda comm: comm.allreduce(np.full(3, comm.rank + 1.0)))
        [array([3., 3., 3.]), array([3., 3., 3.])]
    """
    return LocalCluster(n, topology=topology, algorithm=algorithm, timeout=timeout, env=env)


class LocalCluster:
    """Worker processes that run functions together. `ringroad.local` starts them.

    They end at `close`, at the end of the `with` block, at garbage collection, or when the parent ends, however it
    does. What functions print goes to the parent's output. `ringroad.local` explains arguments and errors.

    Args:
        n: The number of workers, from 1 to 1024.
        topology: The network.
        algorithm: The algorithms to choose among.
        timeout: Seconds after which a collective fails.
        env: Variables to add to the workers' environment.
    """

    def __init__(
        self,
        n: int,
        *,
        topology: Topology | str | int | None = None,
        algorithm: str | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        _place: "Starter | None" = None,
        _meet: str | None = None,
    ) -> None:
        if not 1 <= (n := whole("n", n)) <= _MAX_WORKERS:
            raise ValueError(f"a cluster has from 1 to {_MAX_WORKERS} workers, not {n}")
        self._size = n
        self._env = dict(by_key("env", env))
        for name, value in self._env.items():
            check_class(f"the value of {name} in env", value, str, os.PathLike)
        self._place = _place or (lambda rank, command: (command, {}))
        self._meet = _meet  # the address of rank 0, if the workers meet there; None: in a directory
        if algorithm is not None:
            check_class("algorithm", algorithm, str)
        if timeout is not None:
            timeout = seconds("timeout", timeout)
        self._options = (None if topology is None else Topology(topology), algorithm, timeout)
        self._lock = threading.Lock()
        self._team: _Team | None = None
        self._finalizer: Callable[[], object] = lambda: None
        self._connected = False
        self._closed = False
        with self._lock:
            self._prepare()

    @property
    def size(self) -> int:
        """The number of workers."""
        return self._size

    @property
    def pids(self) -> list[int]:
        """The workers' process ids by rank; empty while none run."""
        return [worker.process.pid for worker in self._team.workers] if self._team else []

    def run(self, function: Callable[Concatenate[Communicator, P], T], /, *args: P.args, **kwargs: P.kwargs) -> list[T]:
        """Calls `function(comm, *args, **kwargs)` on every worker.

        Functions, arguments and results are pickled by cloudpickle, so lambdas and functions of a notebook work.
        `run` has no time limit of its own; collectives have theirs.

        Args:
            function: It is passed the worker's communicator first.
            args: Its further arguments, the same on all workers.
            kwargs: Its keyword arguments.

        Returns:
            The results by rank.

        Raises:
            WorkerError: The function raised on a worker, which also aborts the others' collectives, or a worker died.
                The other workers get a little time before they are stopped. The next `run` makes new communicators
                and, if needed, new workers.
            RuntimeError: The cluster is closed.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     cluster.run(lambda comm, factor: comm.rank * factor, 10)
            [0, 10]
        """
        from ringroad._support.pickles import pickled

        message = pickled((function, args, kwargs))
        with self._lock:
            self._prepare()
            results = self._ask("run", message)
        return [pickle.loads(result) for result in results]

    def close(self) -> None:
        """Ends the workers. A second call does nothing."""
        with self._lock:
            self._closed = True
            self._dismiss()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LocalCluster of {self._size} workers{', closed' if self._closed else ''}>"

    def _prepare(self) -> None:
        """Starts workers and connects them, if there are none that work."""
        if self._closed:
            raise RuntimeError("the cluster is closed; make a new one with ringroad.local")
        if self._team is None:
            self._team = _Team(self._size, self._env, self._place)
            self._finalizer = weakref.finalize(self, self._team.stop)
        if not self._connected:
            self._ask("connect", (self._team.new_store(self._meet), *self._options), limit=_START_SECONDS)
            self._connected = True

    def _ask(self, command: str, content: object, limit: float | None = None) -> list[Any]:
        """Every worker's reply. After an error no broken worker or communicator is used again."""
        assert self._team is not None
        try:
            replies = self._team.ask((command, content), limit)
        except BaseException:  # such as the user's Ctrl-C
            self._dismiss(patient=False)
            raise
        if lost := self._team.lost:
            self._dismiss(patient=False)
        failures = [reply for reply in replies if isinstance(reply, WorkerFailure)]
        if failures:
            self._connected = False
            advice = ["the next run starts new workers"] if lost else []
            if command == "connect":
                advice.append("`ringroad doctor` checks whether processes of this machine can communicate")
            raise _error(self._size, failures, advice)
        return replies

    def _dismiss(self, patient: bool = True) -> None:
        if self._team is not None:
            self._team.patient = patient
            self._finalizer()
        self._team = None
        self._connected = False


def _error(size: int, failures: list[WorkerFailure], advice: list[str]) -> WorkerError:
    def follows(failure: WorkerFailure) -> bool:
        return isinstance(failure.exception, AbortedError | PeerError)

    failures.sort(key=follows)
    ranks_by_text: dict[str, list[int]] = {}
    for failure in failures:
        ranks_by_text.setdefault(failure.text, []).append(failure.rank)
    lines = [f"{len(failures)} of {size} ranks failed"]
    for text, ranks in ranks_by_text.items():
        lines.append(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}:")
        lines.append(indent(text.rstrip(), "  "))
    error = WorkerError("\n".join(lines + advice), tuple(failures))
    error.__cause__ = next((failure.exception for failure in failures if failure.exception), None)
    return error


class _WorkerProcess:
    """The parent's view of one worker."""

    def __init__(self, rank: int, size: int, env: Mapping[str, str], place: Starter, processes: Processes) -> None:
        self.rank = rank
        ours, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            # With -P the worker imports from the working directory only what the parent would import from there.
            interpreter = [sys.executable, "-P", "-X", "faulthandler", "-m", "ringroad.start.worker"]
            path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
            command, there = place(rank, [*interpreter, str(fd), str(rank), str(size)])
            environ = {**os.environ, "PYTHONPATH": path, **there, **env}
            self.process = processes.start(command, environ, pass_fds=[fd])
        self.pipe = Connection(ours.detach())

    def receive(self) -> Any:
        """The reply: a result, or the failure."""
        try:
            result, text, exception = self.pipe.recv()
        except (EOFError, OSError):
            return self.failure(self.ending())
        if text is None:
            return result
        try:
            return self.failure(text, exception and pickle.loads(exception))
        except Exception:  # the exception's class exists on the worker only
            return self.failure(text)

    def ending(self) -> str:
        return ending(self.process, _GRACE_SECONDS)

    def failure(self, text: str, exception: BaseException | None = None) -> WorkerFailure:
        return WorkerFailure(self.rank, self.process.pid, text, exception)


class _Team:
    """The processes and files behind a cluster, until the first death."""

    def __init__(self, size: int, env: Mapping[str, str], place: Starter) -> None:
        self.directory = tempfile.mkdtemp(prefix="ringroad-")
        self.processes = Processes()
        self.workers: list[_WorkerProcess] = []
        self.stores = 0
        self.lost = False  # whether a worker died or does not answer
        self.patient = True
        self.owner = os.getpid()
        try:
            for rank in range(size):
                self.workers.append(_WorkerProcess(rank, size, env, place, self.processes))
        except BaseException:
            self.stop()
            raise

    def new_store(self, host: str | None) -> str | tuple[str, int]:
        """The path of a new, empty directory, or rank 0's host and a port that was not used before."""
        self.stores += 1
        if host is not None:
            return host, _FIRST_PORT + self.stores
        path = os.path.join(self.directory, str(self.stores))
        os.mkdir(path)
        return path

    def ask(self, message: object, limit: float | None) -> list[Any]:
        """Sends the message to all workers and returns the replies by rank. After a failure it waits only a little
        longer."""
        for worker in self.workers:
            with contextlib.suppress(OSError):  # it died; its missing reply will show that
                worker.pipe.send(message)
        replies: dict[int, Any] = {}
        waiting = {worker.pipe: worker for worker in self.workers}
        deadline = float("inf") if limit is None else time.monotonic() + limit
        while waiting and (left := deadline - time.monotonic()) > 0:
            ready = {pipe for pipe in wait(list(waiting), min(left, _POLL_SECONDS)) if isinstance(pipe, Connection)}
            # A child process that the worker left behind may keep the socket open.
            ended = {pipe for pipe, worker in waiting.items() if worker.process.poll() is not None}
            for pipe in ready | ended:
                worker = waiting.pop(pipe)
                readable = pipe in ready or pipe.poll()
                reply = worker.receive() if readable else worker.failure(worker.ending())
                replies[worker.rank] = reply
                died = worker.process.poll() is not None
                self.lost |= died
                if died or isinstance(reply, WorkerFailure):
                    grace = _GRACE_SECONDS if died else _FAILURE_SECONDS
                    deadline = min(deadline, time.monotonic() + grace)
        for worker in waiting.values():
            self.lost = True
            replies[worker.rank] = worker.failure(f"process {worker.process.pid} did not answer and is stopped")
        return [replies[rank] for rank in range(len(self.workers))]

    def stop(self) -> None:
        """Ends the processes, and kills those that do not end by themselves."""
        if os.getpid() != self.owner:
            return  # a fork of the owner exits
        for worker in self.workers:
            worker.pipe.close()
        self.processes.stop(2 * _GRACE_SECONDS if self.patient else 0)
        shutil.rmtree(self.directory, ignore_errors=True)
