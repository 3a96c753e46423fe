"""Train with Lightning over ringroad.

    python examples/24_lightning.py         # Lightning starts 4 ranks by itself; srun works as well

The strategy names the backend.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.strategies import DDPStrategy
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Classifier(LightningModule):
    """Recognises digits."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        images, labels = batch
        return cross_entropy(self.layers(images), labels)

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        images, labels = batch
        output = self.layers(images)
        self.log("loss", cross_entropy(output, labels), sync_dist=True)
        self.log("accuracy", (output.argmax(1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="ringroad", help="such as gloo, to compare [ringroad]")
    backend = parser.parse_args().backend

    seed_everything(0, verbose=False)
    pixels, digits = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits))
    trainer = Trainer(
        accelerator="cpu",
        devices=4,
        strategy=DDPStrategy(process_group_backend=backend),
        max_epochs=5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), DataLoader(data, 32, shuffle=True), DataLoader(data, 32))
    if trainer.is_global_zero:
        loss, accuracy = trainer.callback_metrics["loss"], trainer.callback_metrics["accuracy"]
        print(f"{trainer.world_size} ranks over {dist.get_backend()}: loss {loss:.6f}, {accuracy:.1%} of the digits")


if __name__ == "__main__":
    main()
