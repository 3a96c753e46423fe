"""What each child of a process that has imported torch does, and nothing else."""

import os
import sys
from importlib import import_module

import torch
import torch.distributed as dist

print([module for module in sys.modules if module.startswith("ringroad")], flush=True)
for backend in ("ringroad", "cpu:ringroad", "RINGROAD", ""):
    if os.fork() == 0:
        if not backend:
            torch.__version__ = "2.7.1"
            import_module("ringroad.torch")
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        tensor = torch.arange(3)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [0, 1, 2]
        print(type(dist.group.WORLD).__name__, type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__)
        dist.destroy_process_group()
        sys.exit()
    os.wait()
