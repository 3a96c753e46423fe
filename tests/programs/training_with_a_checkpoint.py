"""Trains from the last checkpoint on; in the first attempt rank 1 is killed."""

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("ringroad")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
path = os.environ["CHECKPOINT"]
weights = torch.load(path) if os.path.exists(path) else torch.zeros(4)
for step in range(int(weights[0].item()) // 2, 6):
    gradient = torch.ones(4)
    dist.all_reduce(gradient)
    weights += gradient
    if dist.get_rank() == 0:
        torch.save(weights, path)
    dist.barrier()
    if attempt == 0 and step == 2 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
dist.destroy_process_group()
print(f"attempt {attempt} ended with {weights.tolist()}")
