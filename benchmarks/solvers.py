"""Conjugate gradients on a square grid, with ringroad and with mpi4py, which take turns in the same processes:

    mpirun -n 4 --oversubscribe python benchmarks/solvers.py --side 512

Each rank has some rows of the grid. An iteration exchanges a row with both neighbours and adds up two numbers. What is
shown is the time of an iteration: the median over the rounds of the slowest rank's time.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy as np
import ringroad
from mpi4py import MPI

Exchange = Callable[[np.ndarray], None]
Sum = Callable[[float], float]


def rows_of(rank: int, ranks: int, side: int) -> range:
    return range(rank * side // ranks, (rank + 1) * side // ranks)


def with_ringroad(comm: ringroad.Communicator) -> tuple[Exchange, Sum]:
    above, below = comm.rank - 1, comm.rank + 1
    one, total = np.empty(1), np.empty(1)

    def exchange(block: np.ndarray) -> None:
        coming = []
        if above >= 0:
            coming.append(comm.recv(block[0], above, async_op=True))
        if below < comm.size:
            coming.append(comm.recv(block[-1], below, async_op=True))
        if above >= 0:
            comm.send(block[1], above)
        if below < comm.size:
            comm.send(block[-2], below)
        for work in coming:
            work.wait()

    def add(value: float) -> float:
        one[0] = value
        comm.allreduce(one, total)
        return float(total[0])

    return exchange, add


def with_mpi4py(comm: MPI.Comm) -> tuple[Exchange, Sum]:
    rank, size = comm.Get_rank(), comm.Get_size()
    above = rank - 1 if rank else MPI.PROC_NULL
    below = rank + 1 if rank + 1 < size else MPI.PROC_NULL
    one, total = np.empty(1), np.empty(1)

    def exchange(block: np.ndarray) -> None:
        MPI.Request.Waitall([
            comm.Irecv(block[0], above), comm.Irecv(block[-1], below),
            comm.Isend(block[1], above), comm.Isend(block[-2], below),
        ])  # fmt: skip

    def add(value: float) -> float:
        one[0] = value
        comm.Allreduce(one, total)
        return float(total[0])

    return exchange, add


def solve(right: np.ndarray, exchange: Exchange, add: Sum, iterations: int) -> tuple[np.ndarray, float]:
    """Solves -laplace(x) = right, with zeros around the grid. Returns x and the norm of what is left."""
    solution, rest = np.zeros_like(right), right.copy()
    direction = np.zeros((right.shape[0] + 2, right.shape[1] + 2))
    inside = direction[1:-1, 1:-1]
    inside[:] = rest
    norm = add(float(np.vdot(rest, rest)))
    for _ in range(iterations):
        exchange(direction)
        image = 4 * inside - direction[:-2, 1:-1] - direction[2:, 1:-1] - direction[1:-1, :-2] - direction[1:-1, 2:]
        length = norm / add(float(np.vdot(inside, image)))
        solution += length * inside
        rest -= length * image
        norm, before = add(float(np.vdot(rest, rest))), norm
        inside *= norm / before
        inside += rest
    return solution, norm**0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=512, help="rows and columns of the grid")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with ringroad.init() as comm:
        mine = rows_of(comm.rank, comm.size, options.side)
        right = np.random.default_rng(0).standard_normal((options.side, options.side))[mine.start : mine.stop].copy()
        libraries = {"ringroad": with_ringroad(comm), "mpi4py": with_mpi4py(MPI.COMM_WORLD)}
        times: dict[str, list[float]] = {name: [] for name in libraries}
        rests = {}
        for _ in range(options.rounds):
            for name, (exchange, add) in libraries.items():
                comm.barrier()
                began = time.perf_counter()
                _, rests[name] = solve(right, exchange, add, options.iterations)
                taken = float(comm.allreduce(time.perf_counter() - began, op="max"))
                times[name].append(taken / options.iterations)
        if comm.rank == 0:
            assert np.isclose(rests["ringroad"], rests["mpi4py"], rtol=1e-6), rests
            print(f"{comm.size} ranks, {options.side} x {options.side}, on {len(os.sched_getaffinity(0))} cores")
            for name, taken in times.items():
                print(f"{name:10} {statistics.median(taken) * 1e6:8.1f} us an iteration")


if __name__ == "__main__":
    main()
