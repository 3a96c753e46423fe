"""Torch's libraries for models that are spread over ranks, and its tools for watching them: DTensor, tensor and
pipeline parallelism, functional collectives, compiled graphs, checkpoints.
"""

import functools
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from ranks import FORMS, world
from ranks.frameworks import like_gloo, named, seeded, step_through, whole

# ------------------------------------------------------------------------------------------------ DTensor


def dtensors() -> dict[str, torch.Tensor]:
    """All changes of placement, and operations on distributed tensors, on one and two dimensions."""
    ranks = dist.get_world_size()
    mesh, plane = init_device_mesh("cpu", (ranks,)), init_device_mesh("cpu", (2, ranks // 2))
    torch.manual_seed(0)
    matrix = torch.randn(10, 12)  # does not divide evenly
    results = {}
    layouts = [Replicate(), Shard(0), Shard(1)]
    for source in layouts:
        for target in layouts:
            moved = distribute_tensor(matrix, mesh, [source]).redistribute(mesh, [target])
            results[f"{source} to {target}"] = torch.cat([moved.to_local().flatten(), whole(moved).flatten()])
    for rows in layouts:
        for columns in layouts:
            if rows != columns or rows == Replicate():
                spread = distribute_tensor(matrix, plane, [rows, columns])
                results[f"plane {rows} {columns}"] = whole(spread @ spread.t())
                results[f"sum {rows} {columns}"] = whole((spread * spread).sum(0))
    weight = distribute_tensor(torch.randn(12, 8), mesh, [Shard(1)]).requires_grad_()
    (distribute_tensor(matrix, mesh, [Replicate()]) @ weight).square().sum().backward()
    results["gradient"] = whole(weight.grad)
    return results


class Feedforward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(torch.relu(self.up(self.norm(x))))
        return out


def tensor_parallel() -> dict[str, torch.Tensor]:
    """Column-wise, then row-wise layers, with a distributed sequence, and a loss of distributed logits."""
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    model = seeded(Feedforward)
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    parallelize_module(model, mesh, plan)
    x = torch.randn(3, 4 * ranks, 16)
    mine = x.chunk(ranks, 1)[dist.get_rank()]
    out = model(mine)
    out.square().sum().backward()
    results = {"out": whole(out)} | {name: whole(p.grad) for name, p in model.named_parameters()}
    head = seeded(lambda: nn.Linear(16, 8 * ranks))
    parallelize_module(head, mesh, ColwiseParallel(use_local_output=False))
    with loss_parallel():
        loss = nn.functional.cross_entropy(head(x[0]), torch.arange(4 * ranks) % (8 * ranks))
        loss.backward()
    return results | {"loss": whole(loss), "head": whole(head.weight.grad)}


def two_dimensions() -> dict[str, torch.Tensor]:
    """Tensor parallel within pairs, fully sharded across them."""
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "model"))
    model = seeded(lambda: nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 3)))
    parallelize_module(model, mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    torch.manual_seed(mesh["data"].get_local_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(6, 20)).square().mean().backward()
        optimizer.step()
    return named(model.named_parameters())


def check_spread() -> None:
    like_gloo(dtensors, tensor_parallel, two_dimensions)


# ------------------------------------------------------------------------------------------------ graphs


def collectives(x: torch.Tensor, group: dist.ProcessGroup) -> list[torch.Tensor]:
    ranks = group.size()
    summed = functional.all_reduce(x, "sum", group)
    return [
        summed * 2,
        functional.all_gather_tensor(x.sin(), 0, group),
        functional.reduce_scatter_tensor(torch.cat([x] * ranks), "sum", 0, group),
        functional.all_to_all_single(torch.cat([x] * ranks), None, None, group) + 1,
        functional.broadcast(x * 3, 1, group),
        *functional.all_reduce_coalesced([x, summed], "avg", group),
        *functional.all_gather_into_tensor_coalesced([x, x.cos()], group),
        *functional.reduce_scatter_tensor_coalesced([torch.cat([x] * ranks)] * 2, "sum", [0, 0], group),
    ]


def compiled(backend: str | None) -> dict[str, torch.Tensor]:
    """Functional collectives, run eagerly or in a compiled graph."""
    function = collectives if backend is None else torch.compile(collectives, backend=backend, fullgraph=True)
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(dist.get_rank()))
    return {str(index): whole(tensor) for index, tensor in enumerate(function(x, dist.group.WORLD))}


def compiled_model() -> dict[str, torch.Tensor]:
    """A fully sharded model with compiled layers."""
    model = fully_shard(seeded())
    model.compile(backend="aot_eager")
    return step_through(model, torch.optim.SGD(model.parameters(), lr=0.1), 3)


def check_functional() -> None:
    like_gloo(functools.partial(compiled, None))


def check_compiled() -> None:
    like_gloo(functools.partial(compiled, "aot_eager"), compiled_model)


def check_inductor() -> None:
    """In generated code."""
    with world():
        torch.testing.assert_close(compiled("inductor"), compiled(None))


# ------------------------------------------------------------------------------------------------ pipelines


def pipeline(schedule: type) -> dict[str, torch.Tensor]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(12, 12), nn.Tanh()) for _ in range(ranks)]
    x, target = torch.randn(8, 12), torch.randn(8, 12)
    stage = PipelineStage(layers[rank], rank, ranks, torch.device("cpu"))
    run = schedule(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    losses: list[torch.Tensor] = []
    if rank == 0:
        run.step(x)
    else:
        run.step(target=target, losses=losses) if rank == ranks - 1 else run.step()
    results = {name: whole(parameter.grad) for name, parameter in layers[rank].named_parameters()}
    return results | ({"losses": torch.stack(losses).detach()} if losses else {})


def check_pipelines() -> None:
    like_gloo(functools.partial(pipeline, ScheduleGPipe), functools.partial(pipeline, Schedule1F1B))


# ------------------------------------------------------------------------------------------------ checkpoints


def check_checkpoints() -> None:
    """One group saves, at once, or in the background while training goes on; a group of another form loads."""
    with tempfile.TemporaryDirectory() as here:
        for form in FORMS:
            with world(form):
                shared = [here]
                dist.broadcast_object_list(shared, src=0)
                folder = Path(shared[0]) / form.replace(":", "-")
                model, optimizer = trained()
                before = named(model.named_parameters())
                parts = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
                dcp.save(parts, checkpoint_id=folder / "sync")
                saving = dist.new_group(backend=form)
                saved = dcp.async_save(parts, checkpoint_id=folder / "async", process_group=saving)
                step_through(model, optimizer, 5)
                saved.result()
                for name in ("sync", "async"):
                    fresh, its_optimizer = trained(steps=1)
                    assert any(not torch.equal(before[n], t) for n, t in named(fresh.named_parameters()).items())
                    parts = dict(zip(("model", "optimizer"), get_state_dict(fresh, its_optimizer), strict=True))
                    dcp.load(parts, checkpoint_id=folder / name)
                    set_state_dict(
                        fresh, its_optimizer, model_state_dict=parts["model"], optim_state_dict=parts["optimizer"]
                    )
                    for parameter, tensor in named(fresh.named_parameters()).items():
                        assert torch.equal(tensor, before[parameter]), (form, name, parameter)
                dist.barrier()  # the first rank deletes the folder when it leaves


def trained(steps: int = 3) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = fully_shard(seeded())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step_through(model, optimizer, steps)
    return model, optimizer


# ------------------------------------------------------------------------------------------------ who watches


def check_watchers() -> list[str]:
    """CommDebugMode counts calls, and the profiler sees them by name."""
    with world() as (rank, ranks):
        with CommDebugMode() as watcher:
            dist.all_reduce(tensor := torch.ones(3))
            dist.all_gather_into_tensor(torch.empty(3 * ranks), tensor)
            DTensor.from_local(torch.ones(2), init_device_mesh("cpu", (ranks,)), [Shard(0)]).full_tensor()
            sent = dist.isend(tensor, (rank + 1) % ranks)
            assert dist.recv(torch.empty(3)) == (rank - 1) % ranks
            sent.wait()
        assert (tensor == ranks).all() and watcher.get_total_counts() == 3
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            dist.all_reduce(torch.ones(100))
            dist.all_reduce(torch.ones(100), async_op=True).wait()
            dist.broadcast(torch.ones(100), 0)
            dist.all_gather_into_tensor(torch.empty(3 * ranks), tensor)
            dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * ranks))
            dist.all_to_all_single(torch.empty(ranks), torch.ones(ranks))
            dist.isend(torch.ones(2), (rank + 1) % ranks)
            dist.recv(torch.empty(2), (rank - 1) % ranks)
            dist.barrier()
    return sorted(f"{event.key} {event.count}" for event in profile.key_averages() if event.key.startswith("ringroad:"))
