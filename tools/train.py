"""The training run between the two passes of `tools/build.sh`: the compiler optimises the code that is busy here.

It builds code that no call reaches for size. So this run makes every collective with every data type and in every way,
and short calls most often. With `--once` it makes few calls and each once, to find out whether they work.
"""

import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import ringroad
import torch
import torch.distributed as dist
from ringroad import CostModel, Schedule, Topology
from ringroad import _oracle as oracle

ONCE = sys.argv[1:] == ["--once"]
SIZES = [8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20]
if ONCE:
    SIZES = [64, 16 << 10, 1 << 20]


def calls(size: int, ranks: int) -> int:
    """The number of calls that take a few tenths of a second between few ranks."""
    return 1 if ONCE else max(1, min(2000, (64 << 20) // size) // ranks)


def allreduces(comm: ringroad.Communicator) -> None:
    """Allreduces in place, out of place, and in memory of `comm.empty`."""
    for size in SIZES:
        array = np.zeros(size // 4, np.float32)
        pooled = comm.empty(size // 4, np.float32)
        pooled.fill(0)
        for given, out in [(array, array), (array, array.copy()), (pooled, pooled)]:
            for _ in range(calls(size, comm.size)):
                comm.allreduce(given, out=out)


def collectives(comm: ringroad.Communicator) -> None:
    """All calls with equal and different blocks, and asynchronous ones."""
    for size in SIZES[1:9:2]:
        for name, blocks in oracle.FORMS:
            make(comm, oracle.Case(name, size // 4, output="out", blocks=blocks), calls(size, comm.size) // 8 + 1)
        average = oracle.Case("allreduce", size // 4, op="avg", output="in place")
        start = oracle.Part(average, comm.size, comm.rank).function(comm, async_op=True)
        for _ in range(calls(size, comm.size) // 8 + 1):
            start().wait()


def make(comm: ringroad.Communicator, case: oracle.Case, repeat: int) -> None:
    call = oracle.Part(case, comm.size, comm.rank).function(comm)
    for _ in range(repeat):
        call()


def reductions(comm: ringroad.Communicator) -> None:
    """Every reduction kernel."""
    for dtype, elements in itertools.product(oracle.DTYPES, [3, 5000, 200_000]):
        for op in oracle.ops("allreduce", dtype):
            make(comm, oracle.Case("allreduce", elements, dtype, op, output="in place"), 1 if ONCE else 8)


def distributed(comm: ringroad.Communicator, store: str) -> None:
    """The calls of torch.distributed that DDP, FSDP and pipelines use."""
    torch.set_num_threads(1)
    dist.init_process_group("ringroad", store=dist.FileStore(store, comm.size), rank=comm.rank, world_size=comm.size)
    peer = 1 - comm.rank
    for size in SIZES[:-1]:
        tensor = torch.zeros(size // 4)
        whole = torch.zeros(size // 4 * comm.size)
        parts = list(whole.chunk(comm.size))
        ways: list[Callable[[], object]] = [
            partial(dist.all_gather, parts, tensor),
            partial(dist.all_gather_into_tensor, whole, tensor),
            partial(dist.reduce_scatter, tensor, parts),
            partial(dist.reduce_scatter_tensor, tensor, whole),
            partial(dist.all_to_all_single, whole, whole.clone()),
            partial(dist.broadcast, tensor, 0),
            partial(dist.reduce, tensor, 0),
            partial(dist.send if comm.rank == 0 else dist.recv, tensor, peer),
            dist.barrier,
        ]
        for _ in range(calls(size, comm.size) // 4 + 1):
            dist.all_reduce(tensor)
            dist.all_reduce(tensor, op=dist.ReduceOp.AVG, async_op=True).wait()
            dist.all_reduce(tensor, async_op=True).get_future().wait()
        for way in ways:
            for _ in range(calls(size, comm.size) // 32 + 1):
                way()
    dist.destroy_process_group()


def hosts(comm: ringroad.Communicator, store: str) -> None:
    """Two hosts of two ranks each."""
    os.environ["RINGROAD_HOST"] = str(comm.rank // 2)
    both = ringroad.Communicator(ringroad.FileStore(store), comm.rank, comm.size)
    allreduces(both)
    collectives(both)


def models() -> None:
    """Building, verifying, choosing and simulating schedules."""
    model = CostModel()
    specs = ["ring:7", "torus:4x4", "torus:3x5", "torus:8x8", "mesh:4x4", "hosts:2x4", "fattree:4x8", "hyperx:4x4"]
    for spec in specs[:1] if ONCE else specs:
        topology = Topology(spec)
        model.compare("allreduce", topology, SIZES)
        for collective in oracle.COLLECTIVES:
            model.explain(collective, topology, 1 << 20)
        for algorithm in ringroad.algorithms(topology):
            if algorithm.supports(topology):
                schedule = Schedule.build(algorithm.name, topology)
                schedule.verify()
                ringroad.lab.simulate(schedule, topology, 1 << 20)


def main() -> None:
    # The build must not depend on the user's settings.
    for name in [name for name in os.environ if name.startswith("RINGROAD_") and name != "RINGROAD_UCX_LIBRARY"]:
        del os.environ[name]
    os.environ["RINGROAD_PROFILE"] = "none"
    models()
    for ranks in [2] if ONCE else [2, 4, 8]:
        with ringroad.local(ranks) as cluster:
            cluster.run(allreduces)
            cluster.run(collectives)
    network = {"UCX_TLS": "tcp,self"}
    with tempfile.TemporaryDirectory() as directory:
        with ringroad.local(2) as cluster:
            cluster.run(reductions)
            cluster.run(distributed, str(Path(directory, "torch")))
        with ringroad.local(4, env=network) as cluster:
            cluster.run(hosts, str(Path(directory, "hosts")))
    with ringroad.local(3, env={"RINGROAD_TRANSPORT": "ucx", **network}) as cluster:
        cluster.run(allreduces)
        cluster.run(collectives)


if __name__ == "__main__":
    main()
