"""Messages between two ranks: whether they arrive as sent, how fast, and over what."""

import time
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ringroad._native import Communicator, Config, RingroadError
from ringroad._network import Transport
from ringroad._support.text import seconds_text, significant
from ringroad.doctor import Finding
from ringroad.start.local import WorkerError, local

_SECONDS = 0.002
"""About the time of each of the two measurements, once both ranks are ready."""
_FIRST = 64 << 10
_LONGEST = 4 << 20
_TIMES = 3


class Damaged(RingroadError):
    """A message came back changed."""


def measure(comm: Communicator, peer: int, timeout: float) -> dict[str, float] | None:
    """Exchanges messages with `peer`, which calls this too. The lower rank of the two returns latency and bandwidth.

    Raises:
        Damaged: What came back is not what was sent.
        RingroadError: The messages did not arrive.
    """
    pair = _Pair(comm, peer, timeout)
    if comm.rank < peer:
        return pair.lead()
    pair.follow()
    return None


class _Pair:
    """Round trips of messages between this rank and a peer."""

    def __init__(self, comm: Communicator, peer: int, timeout: float) -> None:
        self.comm, self.peer, self.timeout = comm, peer, timeout

    def lead(self) -> dict[str, float]:
        short = _pattern(8)
        self._round_trip(short)  # connects
        count = int(np.clip(_SECONDS / self._round_trip(short), 2, 100))
        self._say(count)
        latency = min(self._round_trip(short) for _ in range(count)) / 2
        first = _pattern(_FIRST)
        self._round_trip(first)
        length = int(np.clip(_FIRST * _SECONDS / self._round_trip(first), _FIRST, _LONGEST))
        self._say(length)
        long = _pattern(length)
        self._round_trip(long)
        best = min(self._round_trip(long) for _ in range(_TIMES))
        return {"latency": latency, "bandwidth": 2 * length / best}

    def follow(self) -> None:
        for _ in range(2):
            self._return(8)
        for _ in range(self._listen()):
            self._return(8)
        for _ in range(2):
            self._return(_FIRST)
        length = self._listen()
        for _ in range(1 + _TIMES):
            self._return(length)

    def _round_trip(self, sent: np.ndarray[Any, np.dtype[np.uint8]]) -> float:
        back = np.empty_like(sent)
        start = time.perf_counter()
        self.comm.send(sent, self.peer, timeout=self.timeout)
        self.comm.recv(back, self.peer, timeout=self.timeout)
        seconds = time.perf_counter() - start
        if not np.array_equal(sent, back):
            wrong = int((sent != back).sum())
            raise Damaged(f"{wrong} of {len(sent)} bytes came back wrong from rank {self.peer}")
        return max(seconds, 1e-9)

    def _return(self, length: int) -> None:
        received = self.comm.recv(np.empty(length, np.uint8), self.peer, timeout=self.timeout)
        self.comm.send(received, self.peer, timeout=self.timeout)

    def _say(self, number: int) -> None:
        self.comm.send(np.array([number]), self.peer, timeout=self.timeout)

    def _listen(self) -> int:
        return int(self.comm.recv(np.zeros(1, np.int64), self.peer, timeout=self.timeout)[0])


def _pattern(length: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)


def over(transport: Transport, local: bool) -> str:
    """What carries the messages of a pair."""
    if local and transport.sharing:
        return "shared memory"
    means = ", ".join(transport.means)
    if transport.ucx is None:
        return means or transport.text
    return f"UCX ({means})" if means else "UCX"


def speed_text(measured: Mapping[str, float]) -> str:
    """Latency and bandwidth in words."""
    bandwidth = measured["bandwidth"]
    unit, size = ("GB/s", 1e9) if bandwidth >= 1e9 else ("MB/s", 1e6)
    return f"{seconds_text(measured['latency'])}, {significant(bandwidth / size)} {unit}"


# ------------------------------------------------------------------------------------------------ two local processes


def shared_memory(timeout: float) -> Finding:
    """Messages through ringroad's shared memory."""
    remedy = "See the findings on memfd and settings; RINGROAD_DEBUG=INFO ringroad doctor prints more"
    found = _between_two({"RINGROAD_TRANSPORT": "auto"}, timeout)
    if isinstance(found, str):
        return Finding("shared memory", "failure", f"two processes cannot communicate: {found}", remedy)
    text = f"{speed_text(found)}, between two processes"
    if not found["transport"].sharing:
        return Finding("shared memory", "warning", f"not used, but {found['transport']}: {text}", remedy)
    return Finding("shared memory", "ok", text)


_REMEDIES = {
    "UCX": "See the findings on UCX, CMA and /dev/shm; UCX_LOG_LEVEL=info ringroad doctor prints more",
    "tcp": "See the findings on interfaces and settings, and whether a firewall blocks connections to this host itself",
}


def over_network(carrier: Literal["UCX", "tcp"], timeout: float) -> Finding:
    """Messages over what carries them between hosts."""
    found, name = _between_two({"RINGROAD_TRANSPORT": carrier.lower()}, timeout), f"{carrier} messages"
    if isinstance(found, str):
        return Finding(name, "failure", f"two processes cannot communicate: {found}", _REMEDIES[carrier])
    return Finding(name, "ok", f"{speed_text(found)}, over {found['transport']}")


def _between_two(environ: Mapping[str, str], timeout: float) -> dict[str, Any] | str:
    """What two processes measured, or why they could not. The network and the files of the user's job do not count."""
    plain = {setting.name: "" for setting in Config.defaults().settings if setting._scope != "any"}
    try:
        with local(2, env=plain | dict(environ), timeout=timeout) as cluster:
            return next(found for found in cluster.run(_exchange, timeout) if found)
    except WorkerError as error:
        return one_line(error.__cause__ or error)


def _exchange(comm: Communicator, timeout: float) -> dict[str, Any] | None:
    found = measure(comm, 1 - comm.rank, timeout)
    return found and {**found, "transport": comm.transport}


def one_line(error: BaseException) -> str:
    """An error's text in one line."""
    return " ".join(str(error).split())
