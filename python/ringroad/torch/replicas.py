"""Whether a model's parameters and buffers hold the same bits on all ranks of a group."""

from collections.abc import Iterator, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from ringroad._native import Communicator
from ringroad._replicas import Bytes, ReplicaCheck, ReplicaPart, check
from ringroad.torch.tensors import block_of, copy


def check_modules(
    comm: Communicator,
    module: nn.Module | Mapping[str, torch.Tensor],
    group: dist.ProcessGroup | None,
    repair: bool,
    timeout: float | None,
) -> ReplicaCheck:
    """As `ringroad.torch.check_replicas`, with the group's communicator."""
    return check(comm, lambda: [part_of(name, tensor, group) for name, tensor in _named(module)], repair, timeout)


def _named(module: nn.Module | Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(module, nn.Module):
        yield from module.named_parameters()
        yield from module.named_buffers()
    elif isinstance(module, Mapping):
        yield from ((str(name), tensor) for name, tensor in module.items())
    else:
        raise TypeError(f"ringroad: pass a module, or a mapping from names to tensors, not a {type(module).__name__}")


def part_of(name: str, given: torch.Tensor, group: dist.ProcessGroup | None) -> ReplicaPart:
    if not isinstance(given, torch.Tensor):
        raise TypeError(f"{name} must be a tensor, not a {type(given).__name__}")
    if isinstance(given, DTensor):
        _require_whole(name, given, group)
    if nn.parameter.is_lazy(given):
        raise ValueError(f"{name} has no shape yet; run the module once before")
    tensor = given.detach()
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    if local.is_meta or local.layout is not torch.strided or local.is_quantized:
        kind = "is on the device meta" if local.is_meta else "is quantized" if local.is_quantized else str(local.layout)
        raise TypeError(f"{name} {kind}: only dense tensors with memory can be compared")

    def store(bits: Bytes) -> None:
        block = torch.from_numpy(bits).view(local.dtype).reshape(local.shape)
        if block.data_ptr() != local.data_ptr():
            copy(local, block)

    kind = f"{str(local.dtype).removeprefix('torch.')} of shape {tuple(local.shape)}"
    return ReplicaPart(name, kind, local.nbytes, lambda: _bits(local), store)


def _bits(tensor: torch.Tensor) -> Bytes:
    bits: Bytes = block_of(tensor).reshape(-1).view(torch.uint8).numpy()
    return bits


def _require_whole(name: str, tensor: DTensor, group: dist.ProcessGroup | None) -> None:
    """Raises TypeError if members of the group hold different parts of the tensor: these differ, and must."""
    members = set(dist.get_process_group_ranks(group))
    for dimension, placement in enumerate(tensor.placements):
        holders = set(dist.get_process_group_ranks(tensor.device_mesh.get_group(dimension)))
        if not placement.is_replicate() and len(holders & members) > 1:
            raise TypeError(
                f"{name} is placed as {placement}, so that ranks of this group hold different values; pass the group "
                "of a mesh dimension along which the model is replicated"
            )
