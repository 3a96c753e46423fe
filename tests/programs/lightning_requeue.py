"""Trains with Lightning as Slurm starts it, and gets the signal by which Slurm announces a preemption.

Prints how often Slurm was asked to requeue the job, and how many checkpoints were written.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

with socket.create_server(("127.0.0.1", 0)) as free:
    port = str(free.getsockname()[1])
os.environ |= {"SLURM_JOB_ID": "4242", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
os.environ |= {"SLURM_NODEID": "0", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS_PER_NODE": "1"}
os.environ |= {"SLURM_JOB_NAME": "train", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
os.environ |= dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"), "localhost")

import lightning
import torch
from lightning.pytorch.plugins.environments import SLURMEnvironment
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.trainer.connectors import signal_connector

asked = []


def record(command, *_, **__):
    asked.append(command)
    return subprocess.CompletedProcess(command, 0) if not hasattr(signal_connector, "call") else 0


if hasattr(signal_connector, "call"):
    signal_connector.call = record
else:
    signal_connector.subprocess = type("Recorder", (), {"run": staticmethod(record)})


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        if number == 5:
            os.kill(os.getpid(), signal.SIGUSR1)  # as `#SBATCH --signal=USR1@90` lets Slurm do
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


folder = tempfile.mkdtemp()
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=1,
    max_epochs=1,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    enable_checkpointing=False,
    default_root_dir=folder,
    plugins=[SLURMEnvironment(auto_requeue=True)],
    strategy=DDPStrategy(process_group_backend=sys.argv[1]),
)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=2))
print("requeued", len(asked), "checkpoints", len([path for path in Path(folder).rglob("*") if path.is_file()]))
