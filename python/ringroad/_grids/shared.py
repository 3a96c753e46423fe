"""Arrays that the ranks of a host share: files without a name, which others find through their host's first rank."""

import fcntl
import math
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ringroad._grids.neighbours import numbers
from ringroad._native import Communicator, TransportError
from ringroad._objects import allgather_object, countdown


def shared(comm: Communicator, shape: Any, dtype: DTypeLike, timeout: float | None) -> NDArray[Any]:
    lengths = tuple(numbers(shape, "shape"))
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"the objects of dtype {kind} cannot be shared")
    if lengths and min(lengths) < 0:
        raise ValueError(f"shape {lengths} has a negative length")
    left = countdown(comm, timeout)
    host = comm.hosts[comm.rank]
    bytes = max(1, math.prod(lengths) * kind.itemsize)
    local = [rank for rank, name in enumerate(comm.hosts) if name == host]
    descriptor = memory = None
    problem: str | None = None
    try:
        if comm.rank == local[0]:
            try:
                descriptor = _file(bytes)
            except (OSError, OverflowError) as error:
                problem = f"rank {comm.rank} cannot make {bytes} bytes of shared memory: {error}"
        said = (lengths, str(kind), problem, None if descriptor is None else _place(descriptor))
        everybody = allgather_object(comm, said, left(), "shared")
        for rank, (theirs, their_kind, text, _) in enumerate(everybody):
            if text is not None:
                raise TransportError(text)
            first = everybody[comm.hosts.index(comm.hosts[rank])]
            if (theirs, their_kind) != first[:2]:
                raise ValueError(
                    f"ranks {comm.hosts.index(comm.hosts[rank])} and {rank} are on one host but want different arrays: "
                    f"{first[1]} of shape {first[0]} and {their_kind} of shape {theirs}"
                )
        try:
            memory = _mapped(everybody[local[0]][3], bytes)
        except OSError as error:
            problem = f"rank {comm.rank} cannot map the memory of rank {local[0]}, which names the same host: {error}"
        # Nobody uses the memory before all have it, and until then its first rank keeps the file open.
        for text in allgather_object(comm, problem, left(), "shared"):
            if text is not None:
                raise TransportError(text)
        assert memory is not None
        return np.ndarray(lengths, kind, buffer=memory)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _file(bytes: int) -> int:
    """A file of zeros without a name, which nobody can shrink."""
    descriptor = os.memfd_create("ringroad-shared", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _place(descriptor: int) -> tuple[int, int, tuple[int, int]]:
    """Where other processes find the file, and by what they know it."""
    return os.getpid(), descriptor, _identity(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    state = os.fstat(descriptor)
    return state.st_dev, state.st_ino


def _mapped(place: tuple[int, int, tuple[int, int]], bytes: int) -> mmap.mmap:
    process, number, identity = place
    descriptor = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
    try:
        # In another container, the number may be that of another process.
        if _identity(descriptor) != identity:
            raise OSError("its process has another number there")
        return mmap.mmap(descriptor, bytes)
    finally:
        os.close(descriptor)
