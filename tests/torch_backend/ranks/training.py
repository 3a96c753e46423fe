"""DistributedDataParallel."""

import hashlib
from typing import Any

import numpy as np
import torch
import torch._dynamo  # optimizers import it at their first use: once here, instead of in every rank
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import ReduceOp

from ranks import FORMS, world


def tiny_model() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 3))


def train(backend: str, steps: int, **options: Any) -> tuple[list[float], str]:
    """Losses and a digest of the parameters after some steps on random data."""
    with world(backend) as (rank, _):
        torch.manual_seed(0)
        model = tiny_model()
        bucket = {} if options.get("compile") else {"bucket_cap_mb": 0.002}
        replica = nn.parallel.DistributedDataParallel(model, **bucket)
        forward = torch.compile(replica, backend="eager") if options.get("compile") else replica
        optimizer = torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9)
        data = torch.Generator().manual_seed(rank)
        losses = []
        for _ in range(steps):
            x, y = torch.randn(16, 20, generator=data), torch.randint(0, 3, (16,), generator=data)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(forward(x), y)
            loss.backward()
            optimizer.step()
            dist.all_reduce(mean := loss.detach().clone(), ReduceOp.SUM)
            losses.append(mean.item())
        bits = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    return losses, hashlib.sha256(bits).hexdigest()


def check_training(compile: bool = False) -> list[str]:
    """Digests of ringroad's replicas by rank. The losses must be equal to gloo's."""
    steps = 4 if compile else 20
    reference, _ = train("gloo", steps)
    digests = []
    for backend in FORMS:
        losses, digest = train(backend, steps, compile=compile)
        np.testing.assert_allclose(losses, reference, rtol=1e-4)
        digests.append(digest)
    return digests
