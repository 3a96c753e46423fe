"""Whether models hold the same bits on all ranks."""

from typing import Any

import helpers
import ringroad.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from ranks import FORMS, world
from ranks.frameworks import seeded


class Odd(nn.Module):
    """Parameters and buffers of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("float64", "bfloat16", "float8_e4m3fn", "complex64", "int64", "bool"):
            values = torch.arange(12).to(getattr(torch, name))
            self.register_buffer(f"of_{name}", values.reshape(3, 4))
        self.number = nn.Parameter(torch.tensor(1.5))
        self.nothing = nn.Parameter(torch.empty(0, 3))
        self.strided = nn.Parameter(torch.arange(24.0).reshape(4, 6).t()[::2])
        self.register_buffer("conjugate", torch.complex(torch.ones(3), torch.ones(3)).conj())
        self.norm = nn.BatchNorm1d(4)
        self.tied = self.norm.weight


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's memory if it is contiguous, else a copy."""
    return tensor.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8)


def check_models() -> None:
    """Every tensor in turn differs on one rank, and is repaired, whatever its dtype and strides."""
    for form in FORMS:
        with world(form) as (rank, ranks):
            model = Odd()
            tensors = dict(model.named_parameters()) | dict(model.named_buffers())
            found = ringroad.torch.check_replicas(model)
            assert found.same and found.arrays == len(tensors)
            kept = {name: bits(tensor).clone() for name, tensor in tensors.items()}
            for index, (name, tensor) in enumerate(tensors.items()):
                bad = index % ranks
                if rank == bad and tensor.numel():
                    if bits(tensor).data_ptr() == tensor.data_ptr():
                        bits(tensor)[0] ^= 1
                    else:
                        tensor.detach().mul_(2)
                found = ringroad.torch.check_replicas(model, repair=True)
                groups = [[r for r in range(ranks) if r != bad], [bad]]
                assert found.differences == [ringroad.results.ReplicaDifference(name, groups)] * (tensor.numel() > 0), (
                    name,
                    found,
                )
                for other, before in kept.items():
                    assert torch.equal(bits(tensors[other]), before), (name, other)
            assert ringroad.torch.check_replicas({"x": torch.ones(2)}).bytes == 8


def check_ddp() -> None:
    """A step on one rank only, as a program's error may make it."""
    with world() as (rank, _):
        model = DistributedDataParallel(seeded())
        assert ringroad.torch.check_replicas(model).same
        if rank == 1:
            with torch.no_grad():
                model.module[2].bias[3] += 1e-7
        found = ringroad.torch.check_replicas(model, repair=True)
        assert [(one.name, one.minority) for one in found.differences] == [("module.2.bias", [1])]
        pair = dist.new_group([0, 1])
        if rank < 2:
            model.module[4].weight.data += rank
            kind, text = helpers.failure_of(lambda: ringroad.torch.check_replicas(model, pair, repair=True))
            assert kind == "ReplicaError" and "module.4.weight: no majority" in text, (kind, text)
            assert "rank 0 / rank 1" in text


def refusal(module: Any, group: Any = None) -> str:
    kind, text = helpers.failure_of(lambda: ringroad.torch.check_replicas(module, group, repair=True))
    assert kind == "ReplicaError", (kind, text)
    return text


def check_sharded() -> None:
    """Shards differ, and must: only the group of replicas can be compared."""
    with world():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
        model = seeded()
        fully_shard(model, mesh=mesh)
        for group in (None, mesh.get_group("shards")):
            assert "rank 1: 0.weight is placed as" in refusal(model, group)
        replicas = mesh.get_group("replicas")
        assert ringroad.torch.check_replicas(model, replicas).same
        if dist.get_rank() == 3:
            model[0].weight.to_local().data[0] += 1
        found = ringroad.torch.check_replicas(model, replicas)
        assert [one.name for one in found.differences] == (["0.weight"] if dist.get_rank() % 2 else [])


def check_refusals() -> None:
    with world() as (rank, _):
        wrong = {"meta": torch.empty(3, device="meta"), "sparse": torch.ones(3).to_sparse(), "list": [1.0]}
        for name, tensor in wrong.items():
            assert f"rank 1: {name} " in refusal({name: tensor if rank else torch.ones(3)})
        assert "rank 0: weight has no shape yet" in refusal(nn.LazyLinear(3))
        assert "not a Tensor" in refusal(torch.ones(3))
    kind, text = helpers.failure_of(lambda: ringroad.torch.check_replicas(nn.Linear(1, 1)))
    assert kind == "ValueError" and "no process group" in text
