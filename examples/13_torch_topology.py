"""Tell torch's process groups what the network looks like, and choose an algorithm.

    python examples/13_torch_topology.py

Every group can have its own options. The cost model computes with the stated topology. Here the networks are not real,
because all ranks share one host, so look at the choice and not at the time. All groups must compute the same result.
"""

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from ringroad.torch import Options

RANKS = 4
ELEMENTS = 300_000
GROUPS = {
    "as found": Options(),
    "a ring": Options(topology="ring:4"),
    "a 2 x 2 torus": Options(topology="torus:2x2"),
    "two hosts of two ranks": Options(topology="hosts:2x2"),
    "a switch, by ring": Options(topology="switch:4", algorithm="ring"),
    "a ring, by swing or bucket": Options(topology="ring:4", algorithm="allreduce:swing,bucket", timeout=30),
}


def main() -> None:
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        os.execv(sys.executable, [sys.executable, *launcher, __file__])
    # The default group's options are also what RINGROAD_TOPOLOGY and RINGROAD_ALGO say.
    dist.init_process_group("ringroad")
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        print(f"{'network':<28}{'topology':<12}{'8 B':<18}{'1.2 MB':<34}time of 1.2 MB")
    for name, options in GROUPS.items():
        group = dist.new_group(pg_options=options)
        communicator = ringroad.torch.communicator(group)
        # Ranks of this host read these tensors in place, without a copy.
        tensor = ringroad.torch.empty(ELEMENTS, group=group)
        times = []
        for _ in range(10):
            tensor.copy_(torch.arange(ELEMENTS) + rank)
            dist.barrier(group=group)
            start = time.perf_counter()
            dist.all_reduce(tensor, group=group)
            times.append(time.perf_counter() - start)
        assert torch.equal(tensor, ranks * torch.arange(float(ELEMENTS)) + sum(range(ranks))), name
        small, large = (communicator.algorithm_for("allreduce", size) for size in (8, 4 * ELEMENTS))
        if rank == 0:
            print(f"{name:<28}{communicator.topology:<12}{small:<18}{large:<34}{1e3 * min(times):.2f} ms")
        del tensor
        dist.destroy_process_group(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
