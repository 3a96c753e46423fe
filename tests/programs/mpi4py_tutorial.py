"""The programs of mpi4py's tutorial on objects and arrays, each line as docs/moving.md has it. Four ranks or more.

mpirun -n 4 python tests/programs/mpi4py_tutorial.py    # prints what each rank has got, as JSON
"""

# ruff: noqa: SIM108 - the lines are the tutorial's

import json
import os
from typing import Any

import numpy as np
import ringroad


def objects_between_two(comm: ringroad.Communicator) -> Any:
    rank = comm.rank
    data = None
    if rank == 0:
        data = {"a": 7, "b": 3.14}
        comm.send_object(data, 1, 11)
    elif rank == 1:
        data = comm.recv_object(0, 11)
    return data


def objects_without_blocking(comm: ringroad.Communicator) -> Any:
    rank = comm.rank
    data = None
    if rank == 0:
        data = {"a": 7, "b": 3.14}
        req = comm.send_object(data, 1, 11, async_op=True)
        req.wait()
    elif rank == 1:
        work = comm.recv_object(0, 11, async_op=True)
        data = work.result()
    return data


def arrays_between_two(comm: ringroad.Communicator) -> Any:
    rank = comm.rank
    data = np.empty(0)
    if rank == 0:
        data = np.arange(1000, dtype="i")
        comm.send(data, 1, 77)
        data = np.arange(100, dtype=np.float64)
        comm.send(data, 1, 13)
    elif rank == 1:
        data = np.empty(1000, dtype="i")
        comm.recv(data, 0, 77)
        assert data.sum() == 499500
        data = np.empty(100, dtype=np.float64)
        comm.recv(data, 0, 13)
    return data.tolist()


def broadcast_an_object(comm: ringroad.Communicator) -> Any:
    rank = comm.rank
    if rank == 0:
        data = {"key1": [7, 2.72, "2+3j"], "key2": ("abc", "xyz")}
    else:
        data = None
    return comm.broadcast_object(data, 0)


def scatter_objects(comm: ringroad.Communicator) -> Any:
    size, rank = comm.size, comm.rank
    if rank == 0:
        data = [(i + 1) ** 2 for i in range(size)]
    else:
        data = None
    data = comm.scatter_object(data, 0)
    assert data == (rank + 1) ** 2
    return data


def gather_objects(comm: ringroad.Communicator) -> Any:
    size, rank = comm.size, comm.rank
    data = comm.gather_object((rank + 1) ** 2, 0)
    if rank == 0:
        assert data == [(i + 1) ** 2 for i in range(size)]
    else:
        assert data is None
    return data


def broadcast_an_array(comm: ringroad.Communicator) -> Any:
    rank = comm.rank
    if rank == 0:
        data = np.arange(100, dtype="i")
    else:
        data = np.empty(100, dtype="i")
    comm.broadcast(data, root=0)
    for i in range(100):
        assert data[i] == i
    return data.tolist()


def scatter_arrays(comm: ringroad.Communicator) -> Any:
    size, rank = comm.size, comm.rank
    sendbuf = None
    if rank == 0:
        sendbuf = np.empty([size, 100], dtype="i")
        sendbuf.T[:, :] = range(size)
    recvbuf = np.empty(100, dtype="i")
    comm.scatter(sendbuf, recvbuf, root=0)
    assert np.allclose(recvbuf, rank)
    return recvbuf.tolist()


def gather_arrays(comm: ringroad.Communicator) -> Any:
    size, rank = comm.size, comm.rank
    sendbuf = np.zeros(100, dtype="i") + rank
    recvbuf = None
    if rank == 0:
        recvbuf = np.empty([size, 100], dtype="i")
    comm.gather(sendbuf, recvbuf, root=0)
    if recvbuf is not None:
        for i in range(size):
            assert np.allclose(recvbuf[i, :], i)
    return recvbuf is None


def matrix_vector_product(comm: ringroad.Communicator) -> Any:
    def matvec(comm: ringroad.Communicator, A: Any, x: Any) -> Any:
        m = A.shape[0]  # local rows
        p = comm.size
        xg = np.zeros(m * p, dtype="d")
        comm.allgather(x, xg)
        return np.dot(A, xg)

    size, rank = comm.size, comm.rank
    m = 3
    return matvec(comm, np.full((m, m * size), rank + 1.0), np.full(m, float(rank))).tolist()


def self_scheduling(comm: ringroad.Communicator) -> Any:
    """mpi4py's demo of a task farm, with tags and a Status."""
    ready, done, leave, start = range(4)
    if comm.rank == 0:
        tasks, closed, total = list(range(20)), 0, 0
        while closed < comm.size - 1:
            message = comm.probe(ringroad.ANY, ringroad.ANY)
            data = comm.recv_object(message.source, message.tag)
            if message.tag == ready:
                comm.send_object(tasks.pop() if tasks else None, message.source, start if tasks else leave)
            elif message.tag == done:
                total += data
            else:
                closed += 1
        return total
    while True:
        comm.send_object(None, 0, ready)
        work = comm.recv_object(0, ringroad.ANY, async_op=True)
        task = work.result()
        if task is not None:
            comm.send_object(2 * task, 0, done)
        if work.message.tag == leave:
            break
    comm.send_object(None, 0, leave)
    return None


def reductions(comm: ringroad.Communicator) -> Any:
    rank, size = comm.rank, comm.size
    assert comm.allreduce(rank % 2 == 0) == (size + 1) // 2
    assert comm.allreduce(True) == size
    largest = comm.allreduce(float(rank), op="max")
    step, total = 1.0 / 100, np.array(0.0)
    local = np.array(sum(4.0 / (1.0 + ((i + 0.5) * step) ** 2) for i in range(rank, 100, size)) * step)
    comm.reduce(local, total, op="sum", root=0)
    return [float(largest), round(float(total), 3) if rank == 0 else None]


PROGRAMS = [
    objects_between_two,
    objects_without_blocking,
    arrays_between_two,
    broadcast_an_object,
    scatter_objects,
    gather_objects,
    broadcast_an_array,
    scatter_arrays,
    gather_arrays,
    matrix_vector_product,
    self_scheduling,
    reductions,
]


def everything(comm: ringroad.Communicator) -> dict[str, Any]:
    """What all programs have returned, as JSON has it."""
    results: dict[str, Any] = json.loads(json.dumps({program.__name__: program(comm) for program in PROGRAMS}))
    return results


if __name__ == "__main__":
    with ringroad.init(timeout=60) as comm:
        os.write(1, json.dumps([comm.rank, everything(comm)]).encode() + b"\n")  # lines of several ranks do not mix
