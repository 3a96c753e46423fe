"""Gradients in fewer bytes: groups with a format, DDP's hook, FSDP2's reduce-scatter, error feedback."""

import functools
from typing import Any

import helpers
import ringroad.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from ranks import FORMS, world
from ranks.frameworks import seeded

FORMATS = {"bf16": 3e-2, "f16": 3e-3, "fp8": 0.3, "int8": 5e-2, "int4": 1.0}
"""The largest error of an average of standard normal numbers that is allowed here."""


def check_groups() -> None:
    """Sums and averages of floats are rounded, the same on all ranks; everything else is exact."""
    for wire, most in FORMATS.items():
        with world(pg_options=ringroad.torch.Options(wire=wire)) as (rank, ranks):
            given = [torch.randn(5000, generator=torch.Generator().manual_seed(r)) for r in range(ranks)]
            exact = torch.stack(given).mean(0)
            for op, scale in ((dist.ReduceOp.SUM, ranks), (dist.ReduceOp.AVG, 1)):
                dist.all_reduce(found := given[rank].clone(), op)
                error = (found / scale - exact).abs().max()
                assert 0 < error < most, (wire, op, error)
                assert ringroad.torch.check_replicas({"found": found}).same
                shard = torch.empty(5000 // ranks)
                dist.reduce_scatter_tensor(shard, given[rank][: len(shard) * ranks].clone(), op)
                own = exact[rank * len(shard) :][: len(shard)]
                assert 0 < (shard / scale - own).abs().max() < most
            dist.all_reduce(found := given[rank].clone(), dist.ReduceOp.MAX)
            assert torch.equal(found, torch.stack(given).max(0).values)
            dist.all_reduce(whole := torch.full((5000,), 1234567 + rank))
            assert (whole == sum(1234567 + r for r in range(ranks))).all()
            dist.broadcast(sent := given[rank].clone(), 0)
            assert torch.equal(sent, given[0])
            gathered = [torch.empty(5000) for _ in range(ranks)]
            dist.all_gather(gathered, given[rank])
            assert all(map(torch.equal, gathered, given))
    for call in (ringroad.torch.Options, ringroad.torch.Compression, ringroad.torch.CompressedReduceScatter):
        kind, text = helpers.failure_of(functools.partial(call, wire="int9"))
        assert kind == "ValueError" and "int8" in text, (kind, text)


def train(model: nn.Module, steps: int = 60) -> list[float]:
    """Losses of all ranks' mean, on data that a network of the same kind has made."""
    rank, teacher = dist.get_rank(), seeded()
    for parameter in teacher.parameters():
        parameter.data.mul_(3)
    draw = torch.Generator().manual_seed(100 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 20, generator=draw)
        loss = nn.functional.mse_loss(model(x), teacher(x).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(mean := loss.detach().clone(), dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def ddp(state: Any = None) -> tuple[list[float], nn.Module]:
    model = DistributedDataParallel(seeded(), bucket_cap_mb=0.002)
    if state is not None:
        model.register_comm_hook(state, ringroad.torch.compressed)
    losses = train(model)
    assert ringroad.torch.check_replicas(model).same
    return losses, model


def check_hook() -> None:
    """Replicas stay identical, and training follows that with exact gradients."""
    for form in FORMS:
        with world(form, apart=True):
            exact, _ = ddp()
            assert exact[-1] < exact[0] / 2
            for wire in ("bf16", "int8", "int4"):
                losses, _ = ddp(ringroad.torch.Compression(wire))
                assert losses != exact
                assert abs(losses[-1] / exact[-1] - 1) < (0.3 if wire == "int4" else 0.05), (
                    wire,
                    losses[-1],
                    exact[-1],
                )
            words = nn.Embedding(5, 2, sparse=True)
            model = DistributedDataParallel(words)
            model.register_comm_hook(ringroad.torch.Compression("int4"), ringroad.torch.compressed)
            model(torch.tensor([0, 1 + dist.get_rank()])).sum().backward()
            gradient = words.weight.grad
            assert gradient is not None and gradient.is_sparse
            assert torch.equal(gradient.to_dense()[0], torch.ones(2))


class Constant(nn.Module):
    """Its gradients are the same in every step: on each rank other ones, some of them far below the others."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1024))

    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        return (self.weight * gradient).sum()


def check_feedback() -> None:
    """Numbers that a format rounds to zero every time arrive, too, if they are kept for later."""
    with world() as (rank, ranks):
        gradient = torch.full((1024,), 0.02)
        gradient[::256] = 1 + rank  # a step of int4 is then a seventh of it, or more
        mean = gradient.clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        found = {}
        for feedback in (False, True):
            state = ringroad.torch.Compression("int4", error_feedback=feedback)
            model = DistributedDataParallel(Constant())
            model.register_comm_hook(state, ringroad.torch.compressed)
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            for _ in range(100):
                optimizer.zero_grad()
                model(gradient).backward()
                optimizer.step()
            found[feedback] = -model.module.weight.detach() / 100
        small = mean < 0.5
        assert (found[False][small] == 0).all(), "without feedback they are lost"
        assert (found[True][small] - 0.02).abs().max() < 0.01, found[True][small]
        assert ranks > 1


def check_not_finite() -> None:
    """A gradient that is not finite reaches all ranks once, and does not stay."""
    with world() as (rank, _):
        model = DistributedDataParallel(Constant())
        model.register_comm_hook(ringroad.torch.Compression("int8"), ringroad.torch.compressed)
        for step, value in enumerate([1.0, float("nan"), float("inf"), 1.0]):
            gradient = torch.ones(1024)
            gradient[700] = value if rank == 0 else 1.0
            model.zero_grad()
            model(gradient).backward()
            grad = model.module.weight.grad
            assert grad[:256].isfinite().all(), step
            expected = torch.tensor((value + dist.get_world_size() - 1) / dist.get_world_size())
            torch.testing.assert_close(grad[700], expected, equal_nan=True, rtol=2e-2, atol=2e-2)


def sharded(wire: str | None) -> tuple[list[float], list[torch.Tensor]]:
    model = seeded()
    for module in (*(layer for layer in model if isinstance(layer, nn.Linear)), model):
        fully_shard(module)
        if wire is not None:
            module.set_custom_reduce_scatter(ringroad.torch.CompressedReduceScatter(wire))
    losses = train(model)
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    return losses, [tensor.detach() for tensor in whole]


class Alternating(nn.Module):
    """Uses one of two weights of the same size in turn, as experts of a mixture are."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.zeros(1024) for _ in range(2))

    def forward(self, turn: int, gradient: torch.Tensor) -> torch.Tensor:
        return (self.weights[turn] * gradient).sum()


def check_alternating() -> None:
    """What rounding has left of one parameter's gradients is not added to another's."""
    with world():
        model = fully_shard(Alternating())
        model.set_custom_reduce_scatter(ringroad.torch.CompressedReduceScatter("int4"))
        gradients = [torch.full((1024,), 0.02), torch.zeros(1024)]
        gradients[0][::256] = 1
        for turn in range(60):
            model(turn % 2, gradients[turn % 2]).backward()
        first, second = (whole.grad.full_tensor() for whole in model.weights)
        assert (second == 0).all(), second
        assert (first / 30 - gradients[0]).abs().max() < 0.01, first
        call = functools.partial(ringroad.torch.CompressedReduceScatter("int4"), op=dist.ReduceOp.SUM)
        kind, text = helpers.failure_of(lambda: call(torch.empty(2), torch.ones(4), dist.group.WORLD))
        assert kind == "TypeError" and "error_feedback=False" in text, (kind, text)


def check_fsdp2() -> None:
    with world():
        exact, _ = sharded(None)
        for wire in ("bf16", "int8"):
            losses, parameters = sharded(wire)
            assert losses != exact and abs(losses[-1] / exact[-1] - 1) < 0.05, (wire, losses[-1], exact[-1])
            assert ringroad.torch.check_replicas({str(i): tensor for i, tensor in enumerate(parameters)}).same
