"""Train with accelerate over ringroad.

    torchrun --nproc-per-node 4 examples/22_accelerate.py       # or: srun -n 4 python examples/22_accelerate.py

On CPUs accelerate refuses all backends but gloo and mpi, also as `InitProcessGroupKwargs(backend="ringroad")`. It keeps
a group that exists, though. So `ringroad.torch.init()` comes first.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 5
BATCH = 32  # of each rank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="ringroad", help="such as gloo, to compare [ringroad]")
    backend = parser.parse_args().backend

    ringroad.torch.init(backend)
    accelerator = Accelerator(cpu=True)
    pixels, digits = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, BATCH, shuffle=True))

    for epoch in range(EPOCHS):
        losses, right = [], []
        for images, labels in loader:
            optimizer.zero_grad()
            output = model(images)
            loss = cross_entropy(output, labels)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(accelerator.gather(loss.detach()).mean())
            right.append(accelerator.gather_for_metrics(output.argmax(1) == labels))
        loss, accuracy = torch.stack(losses).mean(), torch.cat(right).float().mean()
        accelerator.print(f"epoch {epoch + 1}: loss {loss:.6f}, {accuracy:.1%} of {len(torch.cat(right))} digits")
    accelerator.print(f"{accelerator.num_processes} ranks over {dist.get_backend()}: loss {loss:.6f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
