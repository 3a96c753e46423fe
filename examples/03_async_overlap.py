"""Compute during communication, exchange messages with neighbours, and survive an error.

    python examples/03_async_overlap.py

With `async_op=True` a call returns a Work at once. Do not use its arrays until `wait()` has returned.
"""

import numpy as np
import ringroad


def layers_backwards(comm):
    """Reduces each layer's gradient while the next one is computed."""
    works = []
    for layer in range(4):
        gradient = np.full((256, 256), float(layer + comm.rank), np.float32)  # stands in for a computation
        works.append(comm.allreduce(gradient, op="avg", async_op=True))
    return [float(work.result()[0, 0]) for work in works]


def halo_exchange(comm):
    """Every rank sends its last element to the next rank."""
    mine = np.arange(4.0) + 10 * comm.rank
    halo = np.empty(1)
    sending = comm.send(mine[-1:], (comm.rank + 1) % comm.size, async_op=True)
    comm.recv(halo, (comm.rank - 1) % comm.size)
    sending.wait()
    return float(halo[0])


def different_calls(comm):
    comm.allreduce(np.ones(10 + comm.rank))


with ringroad.local(3, timeout=30) as cluster:
    print("averages:", cluster.run(layers_backwards)[0])
    print("halos:", cluster.run(halo_exchange))
    try:
        cluster.run(different_calls)
    except ringroad.WorkerError as error:
        print("\nranks whose calls differ get an error:\n", error.__cause__)
    print("\nand the cluster goes on:", cluster.run(lambda comm: comm.allreduce(np.array([comm.rank])).item()))
