"""Torch's libraries for data-parallel training: over ringroad they compute the same as over gloo."""

import contextlib
import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from ranks import FORMS, TORCH, world
from ranks.training import tiny_model

Program = Callable[[], dict[str, torch.Tensor]]


def like_gloo(*programs: Program | tuple[Program, float]) -> None:
    """Compares programs with their results over gloo. The tolerance, absolute and relative, is 1e-5 unless given."""
    pairs = [program if isinstance(program, tuple) else (program, 1e-5) for program in programs]
    with world("gloo"), averaging_gloo():  # once, since gloo cannot be made again over the same store
        expected = [program() for program, _ in pairs]
    for form in FORMS:
        with world(form):
            for index, (program, tolerance) in enumerate(pairs):
                found = program()
                for name, tensor in expected[index].items():
                    text = functools.partial("program {}, {} over {}: {}".format, index, name, form)
                    torch.testing.assert_close(found[name], tensor, rtol=tolerance, atol=tolerance, msg=text)


@contextlib.contextmanager
def averaging_gloo() -> Iterator[None]:
    """Torch 2.8's gloo sums where a reduce-scatter should average, which FSDP2 needs."""
    original = dist.reduce_scatter_tensor

    def reduce_scatter_tensor(
        output: torch.Tensor, input: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None
    ) -> None:
        original(output, input, dist.ReduceOp.SUM if op == dist.ReduceOp.AVG else op, group)
        if op == dist.ReduceOp.AVG:
            output /= dist.get_world_size(group)

    replaced = mock.patch.object(dist, "reduce_scatter_tensor", reduce_scatter_tensor)
    with replaced if TORCH < (2, 9) else contextlib.nullcontext():
        yield


def whole(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).clone()


def step_through(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, batch: int = 6
) -> dict[str, torch.Tensor]:
    """Trains on different data on each rank. Returns the losses, averaged over the ranks."""
    data = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for _ in range(steps):
        x, y = torch.randn(batch, 20, generator=data), torch.randint(0, 3, (batch,), generator=data)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).float(), y)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean / dist.get_world_size())
    return {"losses": torch.stack(losses)}


def seeded(model: Callable[[], nn.Module] = tiny_model) -> nn.Module:
    torch.manual_seed(0)
    return model()


def named(parameters: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: whole(tensor) for name, tensor in parameters}


# ------------------------------------------------------------------------------------------------ DDP


def ddp(hook: Callable[[], tuple[Any, Any]] | None = None, **options: Any) -> dict[str, torch.Tensor]:
    model = seeded()
    replica = DistributedDataParallel(model, **{"bucket_cap_mb": 0.002} | options)
    if hook is not None:
        state, function = hook()
        replica.register_comm_hook(state, function)
    results = step_through(replica, torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9), 6)
    return results | named(model.named_parameters())


def powersgd() -> tuple[Any, Any]:
    state = powerSGD_hook.PowerSGDState(dist.group.WORLD, matrix_approximation_rank=2, start_powerSGD_iter=2)
    return state, powerSGD_hook.powerSGD_hook


def check_ddp() -> None:
    """Small buckets, gradients as views of them, and hooks, which wait for futures in their own ways."""
    like_gloo(
        ddp,
        functools.partial(ddp, gradient_as_bucket_view=True, static_graph=True),
        functools.partial(ddp, lambda: (None, default_hooks.allreduce_hook)),
        (functools.partial(ddp, lambda: (None, default_hooks.fp16_compress_hook)), 2e-2),
        (functools.partial(ddp, lambda: (None, default_hooks.bf16_compress_hook)), 5e-2),
        # One bucket: with several, the order of the hooks' calls is undefined, over any backend.
        (functools.partial(ddp, powersgd, bucket_cap_mb=25), 1e-3),
    )


class Branches(nn.Module):
    """Ranks take different branches, so that each leaves some parameters without gradients; and there are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(20, 16), nn.BatchNorm1d(16)
        self.branches = nn.ModuleList(nn.Linear(16, 3) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.branches[dist.get_rank() % 2](self.norm(self.first(x)))
        return out


def unused() -> dict[str, torch.Tensor]:
    model = seeded(Branches)
    replica = DistributedDataParallel(model, find_unused_parameters=True)
    results = step_through(replica, torch.optim.SGD(replica.parameters(), lr=0.1), 6)
    return results | named(model.named_parameters()) | named(model.named_buffers())


def uneven_inputs() -> dict[str, torch.Tensor]:
    model = seeded()
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(dist.get_rank())
    with Join([replica]):
        for _ in range(3 + 2 * dist.get_rank()):
            optimizer.zero_grad()
            replica(torch.randn(6, 20, generator=data)).square().mean().backward()
            optimizer.step()
    return named(model.named_parameters())


def check_ddp_uneven() -> None:
    """Parameters that some ranks do not use, with buffers; ranks with fewer batches than others; accumulation."""
    like_gloo(unused, uneven_inputs, accumulated)


def accumulated() -> dict[str, torch.Tensor]:
    model = seeded()
    replica = DistributedDataParallel(model)
    data = torch.Generator().manual_seed(dist.get_rank())
    with replica.no_sync():
        replica(torch.randn(6, 20, generator=data)).square().mean().backward()
    replica(torch.randn(6, 20, generator=data)).square().mean().backward()
    return {name: whole(parameter.grad) for name, parameter in model.named_parameters()}


def zero() -> dict[str, torch.Tensor]:
    model = seeded()
    replica = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(replica.parameters(), torch.optim.Adam, lr=0.01)
    results = step_through(replica, optimizer, 5)
    optimizer.consolidate_state_dict(0)
    if dist.get_rank() == 0:
        moments = optimizer.state_dict()["state"]
        results |= {f"moment {index}": whole(state["exp_avg"]) for index, state in moments.items()}
    return results | named(model.named_parameters())


def check_zero() -> None:
    like_gloo(zero)


# ------------------------------------------------------------------------------------------------ FSDP


def fsdp1(strategy: ShardingStrategy) -> dict[str, torch.Tensor]:
    model = FullyShardedDataParallel(
        seeded(),
        sharding_strategy=strategy,
        auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
        use_orig_params=True,
        device_id=torch.device("cpu"),
    )
    results = step_through(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), 5)
    with FullyShardedDataParallel.summon_full_params(model):
        return results | named(model.named_parameters())


def fsdp2(shape: tuple[int, ...] = (-1,), reduced: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """Fully sharded. With two dimensions, the shards have replicas."""
    rest = dist.get_world_size() // math.prod(abs(size) for size in shape)
    shape = tuple(rest if size < 0 else size for size in shape)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicas", "shards")[-len(shape) :])
    policy = MixedPrecisionPolicy(param_dtype=reduced, reduce_dtype=torch.float32 if reduced else None)
    model = seeded()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    results = step_through(model, torch.optim.AdamW(model.parameters(), lr=0.01), 5)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return results | {"norm": whole(norm)} | named(model.named_parameters())


def check_fsdp1() -> None:
    strategies = (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD)
    like_gloo(*(functools.partial(fsdp1, strategy) for strategy in strategies))


def check_fsdp2() -> None:
    like_gloo(fsdp2, functools.partial(fsdp2, (2, -1)), (functools.partial(fsdp2, reduced=torch.bfloat16), 2e-2))


# ------------------------------------------------------------------------------------------------ bits


def digest(tensors: Iterable[torch.Tensor]) -> str:
    return hashlib.sha256(b"".join(whole(tensor).numpy().tobytes() for tensor in tensors)).hexdigest()


def check_replicas(steps: int = 50) -> dict[str, str]:
    """Digests of the parameters after many steps, which must be the same on all ranks."""
    digests = {}
    for form in FORMS:
        with world(form):
            model = seeded()
            replica = DistributedDataParallel(model, bucket_cap_mb=0.002)
            step_through(replica, torch.optim.AdamW(replica.parameters(), lr=0.01), steps)
            digests[f"DDP {form}"] = digest(model.parameters())
            mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("replicas", "shards"))
            sharded = fully_shard(seeded(), mesh=mesh)
            step_through(sharded, torch.optim.AdamW(sharded.parameters(), lr=0.01), steps)
            digests[f"FSDP2 {form}"] = digest(sharded.parameters())
            # The shards, before they are gathered, must be the same among their replicas.
            replicas = mesh["replicas"]
            found = [""] * replicas.size()
            local = digest(parameter.to_local() for parameter in sharded.parameters())
            dist.all_gather_object(found, local, group=replicas.get_group())
            assert len(set(found)) == 1, found
    return digests
