"""What mypy must find out about calls; `make check` runs it over this file, and nothing else does."""

from typing import Any, assert_type

import numpy as np
import ringroad
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def blocking(comm: ringroad.Communicator, array: Floats) -> None:
    assert_type(comm.allreduce(array), Floats)
    assert_type(comm.allreduce(array, array, op="avg", async_op=False), Floats)
    assert_type(comm.reduce_scatter(array, counts=[1, 2]), Floats)
    assert_type(comm.broadcast(array, 1), Floats)
    assert_type(comm.reduce(array), Floats | None)
    assert_type(comm.gather(array), Floats | None)
    assert_type(comm.scatter(None, array), Floats)
    assert_type(comm.scan(array), Floats)
    assert_type(comm.exscan(array), Floats | None)
    assert_type(comm.gather(array, counts=[1, 2]), Floats | None)
    assert_type(comm.scatter(None, array, counts=[1, 2]), Floats)
    assert_type(comm.recv(array), Floats)
    assert_type(comm.sendrecv(array, 1, array, 1), Floats)
    assert_type(comm.sendrecv(array, 1), NDArray[Any] | None)
    assert_type(comm.sendrecv(array, 1, array, 1, async_op=True), ringroad.Work[Floats])
    assert_type(comm.recv(peer=1), NDArray[Any] | None)


def inputs(comm: ringroad.Communicator, array: Floats) -> None:
    assert_type(comm.allreduce(array[::2]), Floats)
    assert_type(comm.allreduce(3.0), NDArray[Any])
    assert_type(comm.allreduce([[1, 2], [3, 4]]), NDArray[Any])
    assert_type(comm.allgather([1.0], array), Floats)


def communicators(comm: ringroad.Communicator, color: int | None) -> None:
    assert_type(comm.split(0), ringroad.Communicator)
    assert_type(comm.split(None), None)
    assert_type(comm.split(color), ringroad.Communicator | None)
    assert_type(comm.dup(), ringroad.Communicator)


def asynchronous(comm: ringroad.Communicator, array: Floats) -> None:
    work = comm.allreduce(array, async_op=True)
    assert_type(work, ringroad.Work[Floats])
    assert_type(work.result(), Floats)
    assert_type(comm.reduce(array, async_op=True).result(), Floats | None)
    assert_type(comm.alltoall(array, counts=[[1]], async_op=True), ringroad.Work[Floats])
    assert_type(comm.send(array, 1, async_op=True), ringroad.Work[None])
    assert_type(comm.barrier(async_op=True), ringroad.Work[None])
    assert_type(ringroad.waitall([work, work]), list[Floats])


def either(comm: ringroad.Communicator, array: Floats, async_op: bool) -> None:
    assert_type(comm.allgather(array, async_op=async_op), ringroad.Work[Floats] | Floats)
    assert_type(comm.recv(array, async_op=async_op), ringroad.Work[Floats] | Floats)
    assert_type(comm.recv(async_op=async_op), ringroad.Work[NDArray[Any] | None] | NDArray[Any] | None)


def arrays(comm: ringroad.Communicator) -> None:
    assert_type(comm.empty(3), NDArray[np.float64])
    assert_type(comm.empty(3, None), NDArray[np.float64])
    assert_type(comm.empty((3, 4), np.float32), Floats)
    assert_type(comm.empty(3, "float32"), NDArray[Any])
    assert_type(comm.shared(3), NDArray[np.float64])
    assert_type(comm.shared(3, np.float32), Floats)
