"""Train a small GPT-2 with the Trainer of transformers over ringroad.

    torchrun --nproc-per-node 4 examples/23_hf_trainer.py

The model learns the bytes of a text; nothing is downloaded. On CPUs the Trainer refuses `ddp_backend="ringroad"`. It
keeps a group that exists, though. So `ringroad.torch.init()` comes before TrainingArguments.
"""

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores
os.environ["HF_HUB_OFFLINE"] = "1"

import ringroad.torch
import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

LENGTH = 64  # bytes of an example


class Text(Dataset):
    """Pieces of a text, as numbers of bytes."""

    def __init__(self, text: bytes) -> None:
        self.pieces = torch.tensor(list(text)).split(LENGTH)[:-1]

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.pieces[index], "labels": self.pieces[index]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="ringroad", help="such as gloo, to compare [ringroad]")
    parser.add_argument("--text", type=Path, default=Path(__file__).parent.parent / "LICENSE", help="[LICENSE]")
    options = parser.parse_args()

    ringroad.torch.init(options.backend)
    ranks, backend = dist.get_world_size(), dist.get_backend()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            ddp_find_unused_parameters=False,
            max_steps=40,
            per_device_train_batch_size=4,
            learning_rate=3e-3,
            logging_steps=10,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            seed=0,
        )
        torch.manual_seed(0)
        model = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=256, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
            )
        )
        text = Text(options.text.read_bytes())
        trainer = Trainer(model, arguments, train_dataset=text, eval_dataset=text)
        trainer.train()
        loss = trainer.evaluate()["eval_loss"]
        if trainer.is_world_process_zero():
            print(f"{ranks} ranks over {backend}: loss {loss:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
