"""Train with Ray Train over ringroad.

    python examples/25_ray_train.py         # starts a Ray of its own on this machine

TorchConfig names the backend. On a cluster, `ray.init()` without arguments finds it, and ringroad must be installed on
all of its hosts.
"""

import argparse
import os
import tempfile
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # this example sends nothing to anyone

import ray
import torch
import torch.distributed as dist
from ray import train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

RANKS = 4
EPOCHS = 5
BATCH = 32  # of each rank


def learn() -> None:
    """What every worker does."""
    torch.set_num_threads(1)
    pixels, digits = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits))
    torch.manual_seed(0)
    model = prepare_model(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = prepare_data_loader(DataLoader(data, BATCH, shuffle=True))
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)
        total = torch.zeros(())
        for images, labels in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        ranks = dist.get_world_size()
        found = {"loss": total.item() / len(loader) / ranks, "ranks": ranks, "backend": dist.get_backend()}
        with tempfile.TemporaryDirectory() as folder:
            # Ray keeps what is reported with a checkpoint.
            checkpoint = Checkpoint.from_directory(folder) if dist.get_rank() == 0 else None
            if checkpoint:
                torch.save(model.module.state_dict(), Path(folder) / "model.pt")
            train.report(found, checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="ringroad", help="such as gloo, to compare [ringroad]")
    backend = parser.parse_args().backend

    ray.init(num_cpus=RANKS + 1, include_dashboard=False, _node_ip_address="127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        trainer = TorchTrainer(
            learn,
            torch_config=TorchConfig(backend=backend),
            scaling_config=ScalingConfig(num_workers=RANKS),
            run_config=RunConfig(storage_path=folder),
        )
        found = trainer.fit().metrics
    print(f"{found['ranks']} ranks over {found['backend']}: loss {found['loss']:.6f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
