"""A rank of `benchmarks/scale.py`: `python scale_rank.py ringroad|mpi4py`. Rank 0 prints one object of JSON.

It imports ringroad only where it measures it: the Python of Open MPI need not have it.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (8, 64 << 10, 1 << 20)
"""Bytes of whole vectors. Where each rank has a block, it has at least one element."""
SECONDS, LEAST, MOST = 0.5, 3, 200  # about how long the calls of a size take, and how many they are

Calls = dict[str, Callable[[np.ndarray, np.ndarray], object]]


def ringroad_calls() -> tuple[int, int, Callable[[], object], Calls]:
    """The rank, the number of ranks, a barrier, and what the collectives do with a whole vector and a block or another
    vector."""
    import ringroad

    comm = ringroad.init(timeout=120)
    calls: Calls = {
        "allreduce": lambda whole, out: comm.allreduce(whole, out),
        "allgather": lambda whole, block: comm.allgather(block, whole),
        "reduce_scatter": lambda whole, block: comm.reduce_scatter(whole, block),
        "broadcast": lambda whole, _: comm.broadcast(whole),
        "alltoall": lambda whole, out: comm.alltoall(whole, out),
        "barrier": lambda *_: comm.barrier(),
    }
    return comm.rank, comm.size, comm.barrier, calls


def mpi_calls() -> tuple[int, int, Callable[[], object], Calls]:
    from mpi4py import MPI

    world: Any = MPI.COMM_WORLD
    calls: Calls = {
        "allreduce": lambda whole, out: world.Allreduce(whole, out),
        "allgather": lambda whole, block: world.Allgather(block, whole),
        "reduce_scatter": lambda whole, block: world.Reduce_scatter_block(whole, block),
        "broadcast": lambda whole, _: world.Bcast(whole),
        "alltoall": lambda whole, out: world.Alltoall(whole, out),
        "barrier": lambda *_: world.Barrier(),
    }
    return world.Get_rank(), world.Get_size(), world.Barrier, calls


def memory() -> float:
    """This process's part of the machine's memory, in bytes (Pss)."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def main() -> None:
    began = time.time()
    rank, size, barrier, calls = {"ringroad": ringroad_calls, "mpi4py": mpi_calls}[sys.argv[1]]()
    barrier()
    met = time.time()

    def of_all(value: float) -> np.ndarray:
        found = np.empty(size)
        calls["allgather"](found, np.array([value]))
        return found

    def timed(call: Callable[[], object], count: int) -> float:
        """Seconds a call, on the slowest rank, in a row of calls that a barrier ends: so no root is ahead."""
        barrier()
        start = time.perf_counter()
        for _ in range(count):
            call()
        barrier()
        return float(of_all((time.perf_counter() - start) / count).max())

    started = float(os.environ["SCALE_START"])
    found: dict[str, Any] = {"begun": of_all(began).max() - started, "met": of_all(met).max() - started}
    found["memory"] = of_all(memory()).tolist()
    found["calls"] = {}
    for name, call in calls.items():
        for bytes in SIZES[:1] if name == "barrier" else SIZES:
            each = max(1, bytes // 4 // size)
            blocks = name in ("allgather", "reduce_scatter", "alltoall")
            whole = np.ones(each * size if blocks else bytes // 4, np.float32)
            other = np.ones(each if blocks and name != "alltoall" else len(whole), np.float32)
            bound = lambda call=call, whole=whole, other=other: call(whole, other)  # noqa: E731
            bound()
            count = int(np.clip(SECONDS / timed(bound, 1), LEAST, MOST))
            found["calls"].setdefault(name, {})[bytes] = timed(bound, count)
    found["memory_after"] = of_all(memory()).tolist()
    if rank == 0:
        print(json.dumps(found), flush=True)
    barrier()


if __name__ == "__main__":
    main()
