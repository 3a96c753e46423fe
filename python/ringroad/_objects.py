"""Collectives on Python objects: pickled, and sent as arrays of bytes, after their lengths."""

import io
import json
import pickle
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringroad._arrays import named
from ringroad._native import Communicator, MismatchError
from ringroad._support.files import parse_json
from ringroad._support.text import seconds

Bytes = NDArray[np.uint8]


def broadcast_object(
    comm: Communicator, obj: object, root: int, timeout: float | None, call: str = "broadcast_object"
) -> Any:
    left = countdown(comm, timeout)
    data = _packed(obj) if comm.rank == root else None
    length = named(np.array([0 if data is None else data.size]), call)
    comm.broadcast(length, root, timeout=left())
    if data is not None:
        comm.broadcast(data, root, timeout=left())
        return obj
    return _unpacked(comm.broadcast(np.empty(length.view(np.int64)[0], np.uint8), root, timeout=left()))


def allgather_object(
    comm: Communicator, obj: object, timeout: float | None, call: str = "allgather_object"
) -> list[Any]:
    return list(map(_unpacked, allgather_bytes(comm, _packed(obj), timeout, call)))


def allgather_bytes(
    comm: Communicator, data: Bytes, timeout: float | None, call: str, most: int | None = None
) -> list[Bytes]:
    """The bytes of every rank: at most this many of each, if ranks may be strangers."""
    left = countdown(comm, timeout)
    counts = _lengths(comm, call, [data.size], left)[:, 0]
    if most is not None and not all(0 <= count <= most for count in counts):
        raise MismatchError(f"{call}: ranks have {counts.tolist()} bytes, and each may have {most}")
    return np.split(comm.allgather(data, counts=counts.tolist(), timeout=left()), np.cumsum(counts)[:-1])


def allgather_json(comm: Communicator, value: object, shape: Any, most: int) -> list[Any]:
    """What every rank says, in this form (see `parse_json`). For ranks that may be strangers, whose pickles could do
    anything."""
    texts = allgather_bytes(comm, np.frombuffer(json.dumps(value).encode(), np.uint8), None, "allgather_json", most)
    try:
        return [parse_json(text.tobytes(), f"what rank {rank} says", shape) for rank, text in enumerate(texts)]
    except ValueError as error:
        raise MismatchError(str(error)) from None


def gather_object(comm: Communicator, obj: object, root: int, timeout: float | None) -> list[Any] | None:
    if root >= comm.size:
        raise ValueError(f"root {root} is not one of the ranks 0 to {comm.size - 1}")
    left = countdown(comm, timeout)
    data = _packed(obj)
    counts = _lengths(comm, "gather_object", [data.size], left)[:, 0]
    whole = comm.gather(data, None, root, counts=counts.tolist(), timeout=left())
    return None if whole is None else _parts(whole, counts)


def scatter_object(comm: Communicator, objects: Iterable[object] | None, root: int, timeout: float | None) -> Any:
    left = countdown(comm, timeout)
    parts = _one_each(comm, objects) if comm.rank == root else None
    counts = np.zeros(comm.size, np.int64) if parts is None else np.array([part.size for part in parts])
    comm.broadcast(named(counts, "scatter_object"), root, timeout=left())
    send = None if parts is None else np.concatenate(parts)
    out = np.empty(counts[comm.rank], np.uint8)
    return _unpacked(comm.scatter(send, out, root, counts=counts.tolist(), timeout=left()))


def alltoall_object(comm: Communicator, objects: Iterable[object], timeout: float | None) -> list[Any]:
    left = countdown(comm, timeout)
    parts = _one_each(comm, objects)
    counts = _lengths(comm, "alltoall_object", [part.size for part in parts], left)
    whole = comm.alltoall(np.concatenate(parts), counts=counts.tolist(), timeout=left())
    return _parts(whole, counts[:, comm.rank])


def _lengths(comm: Communicator, call: str, mine: list[int], left: Callable[[], float]) -> NDArray[np.int64]:
    """The lengths that each rank sends in this call, by rank."""
    said = comm.allgather(named(np.array(mine, np.int64), call), timeout=left())
    return said.view(np.int64).reshape(comm.size, len(mine))


def countdown(comm: Communicator, timeout: float | None) -> Callable[[], float]:
    """The seconds that are left for the next call, above 0. All calls together have `timeout` seconds."""
    end = time.monotonic() + (comm.timeout if timeout is None else seconds("timeout", timeout))
    return lambda: max(end - time.monotonic(), 1e-3)


def _packed(obj: object) -> Bytes:
    """The pickled object, in memory that can be written, since a broadcast takes no other."""
    buffer = io.BytesIO()
    pickle.dump(obj, buffer, pickle.HIGHEST_PROTOCOL)
    return np.frombuffer(buffer.getbuffer(), np.uint8)


def _unpacked(data: Bytes) -> Any:
    return pickle.loads(data.data)


def _parts(whole: Bytes, counts: NDArray[np.int64]) -> list[Any]:
    return [_unpacked(part) for part in np.split(whole, np.cumsum(counts)[:-1])]


def _one_each(comm: Communicator, objects: Iterable[object] | None) -> list[Bytes]:
    given = list(objects) if objects is not None and np.iterable(objects) else None
    if given is None or len(given) != comm.size:
        found = type(objects).__name__ if given is None else len(given)
        raise ValueError(f"rank {comm.rank} must pass one object for each of {comm.size} ranks, not {found}")
    return [_packed(obj) for obj in given]
