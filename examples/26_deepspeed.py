"""Train with DeepSpeed (ZeRO stage 2) over ringroad.

    DS_ACCELERATOR=cpu torchrun --nproc-per-node 4 examples/26_deepspeed.py

Gradients and the optimizer's state are sharded over the ranks.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores
os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

STEPS = 60
BATCH = 32  # of each rank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="ringroad", help="such as gloo, to compare [ringroad]")
    backend = parser.parse_args().backend

    deepspeed.init_distributed(dist_backend=backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3),
        config={"train_micro_batch_size_per_gpu": BATCH, "zero_optimization": {"stage": 2}},
    )
    order = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        mine = torch.randperm(len(images), generator=order)[: BATCH * ranks][rank::ranks]
        loss = cross_entropy(engine(images[mine]), labels[mine])
        engine.backward(loss)
        engine.step()

    mean = loss.detach() / ranks
    dist.all_reduce(mean)
    if rank == 0:
        accuracy = (model(images).argmax(1) == labels).float().mean()
        print(f"{ranks} ranks over {dist.get_backend()}: loss {mean:.6f}, {accuracy:.1%} of the digits")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
