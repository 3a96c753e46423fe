"""Train with DistributedDataParallel under any launcher, on one host or several.

    torchrun --nproc-per-node 4 examples/20_torch_launchers.py
    mpirun -n 4 python examples/20_torch_launchers.py
    srun -n 4 python examples/20_torch_launchers.py         # in a batch script: examples/21_slurm.sbatch

`ringroad.torch.init()` reads what the launcher says and makes torch's default group. Under torchrun,
`torch.distributed.init_process_group("ringroad")` does the same; srun and mpirun do not set what torch reads.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

STEPS = 60
BATCH = 120  # over all ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="ringroad", help="such as gloo, to compare [ringroad]")
    backend = parser.parse_args().backend

    ringroad.torch.init(backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    order = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        mine = torch.randperm(len(images), generator=order)[:BATCH][rank::ranks]
        optimizer.zero_grad()
        loss = cross_entropy(replica(images[mine]), labels[mine])
        loss.backward()
        optimizer.step()

    mean = loss.detach() / ranks
    dist.all_reduce(mean)
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    copies = [torch.empty_like(weights) for _ in range(ranks)]
    dist.all_gather(copies, weights)
    assert all(torch.equal(copy, weights) for copy in copies), "the replicas differ in their bits"
    if rank == 0:
        accuracy = (model(images).argmax(1) == labels).float().mean()
        print(f"{ranks} ranks over {dist.get_backend()}: loss {mean:.6f}, {accuracy:.1%} of the digits")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
