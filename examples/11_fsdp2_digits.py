"""Train on handwritten digits with fully sharded data parallelism (FSDP2) over ringroad.

    python examples/11_fsdp2_digits.py                          # starts 4 ranks by itself
    torchrun --nproc-per-node 4 examples/11_fsdp2_digits.py     # or torchrun starts them

Parameters, gradients and the optimizer's state are sharded over the ranks: each layer is gathered when it is needed
(all-gather), and its gradient goes to the owners of the shards (reduce-scatter). The mesh has two dimensions: shards
within a pair of ranks, replicas across the pairs. At the end the replicas must hold the same bits, and rank 0 prints
how little of the model it keeps.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh

RANKS = 4
EPOCHS = 6
BATCH = 128


def main() -> None:
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        os.execv(sys.executable, [sys.executable, *launcher, __file__])
    dist.init_process_group("ringroad")  # no import needed: torch finds it
    torch.set_num_threads(1)
    ranks, rank = dist.get_world_size(), dist.get_rank()
    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("replicas", "shards"))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)

    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    images = images.float() / 16
    test = torch.arange(len(images)) % 5 == 0
    train = torch.nonzero(~test).flatten()
    order = torch.Generator().manual_seed(1)
    for epoch in range(EPOCHS):
        for batch in train[torch.randperm(len(train), generator=order)].split(BATCH):
            mine = batch[rank::ranks]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {mean:.4f}")

    with torch.no_grad():
        accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    parts = [parameter.to_local() for parameter in model.parameters()]
    kept, total = sum(part.numel() for part in parts), sum(parameter.numel() for parameter in model.parameters())
    bits = torch.cat([part.flatten() for part in parts]).view(torch.int32)
    replicas = mesh["replicas"].get_group()
    copies = [torch.empty_like(bits) for _ in range(2)]
    dist.all_gather(copies, bits, group=replicas)
    assert torch.equal(copies[0], copies[1]), "the replicas differ in their bits"
    assert accuracy > 0.9, accuracy
    if rank == 0:
        print(f"test accuracy {accuracy:.1%}; rank 0 keeps {kept:,} of {total:,} parameters; replicas have equal bits")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
