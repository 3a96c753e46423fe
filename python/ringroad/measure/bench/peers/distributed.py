"""A backend of torch.distributed: gloo, ringroad, or any other that torch knows by name."""

from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

import ringroad.torch  # registers the backend with torch before 2.14
from ringroad.measure.bench.collectives import IN
from ringroad.measure.bench.data import Buffers
from ringroad.measure.bench.peers import OURS, OURS_IN_TORCH, Call
from ringroad.measure.bench.peers.tensors import tensor_of
from ringroad.torch.tensors import OP_NAMES

_OPS: Any = {name: kind for kind, name in OP_NAMES.items() if kind != dist.ReduceOp.PREMUL_SUM}


def join(store: str, rank: int, ranks: int, timeout: float, backends: list[str]) -> "list[Distributed]":
    """One group of all ranks for every backend; the first is the default group."""
    torch.set_num_threads(1)
    peers: list[Distributed] = []
    for backend in backends:
        limit = timedelta(seconds=timeout)
        if not peers:
            file = torch._C._distributed_c10d.FileStore(store, ranks)
            dist.init_process_group(backend, store=file, rank=rank, world_size=ranks, timeout=limit)
        group: Any = dist.new_group(backend=backend, timeout=limit) if peers else dist.group.WORLD
        peers.append(Distributed(backend, group))
    return peers


class Distributed:
    def __init__(self, backend: str, group: Any) -> None:
        self.name = OURS_IN_TORCH if backend == OURS else backend
        self.group = group

    def call(self, buffers: Buffers, place: str) -> Call | None:
        case, group = buffers.case, self.group
        name, op = case.collective.name, _OPS.get(case.op)
        if name == "barrier":
            return self.barrier
        if op is None:
            return None
        send, recv = map(tensor_of, buffers.views(place))
        match name:
            case "allreduce" if place == IN:
                return partial(dist.all_reduce, recv, op, group)
            case "reduce" if place == IN:
                return partial(dist.reduce, recv, case.root, op, group)
            case "reduce_scatter":
                return partial(dist.reduce_scatter_tensor, recv, send, op, group)
            case "allgather":
                return partial(dist.all_gather_into_tensor, recv, send, group)
            case "alltoall":
                return partial(dist.all_to_all_single, recv, send, group=group)
            case "gather":
                parts = list(recv.chunk(case.ranks)) if buffers.rank == case.root else None
                return partial(dist.gather, send, parts, case.root, group)
            case "scatter":
                parts = list(send.chunk(case.ranks)) if buffers.rank == case.root else None
                return partial(dist.scatter, recv, parts, case.root, group)
            case "broadcast":
                return partial(dist.broadcast, recv, case.root, group)
        return None  # torch's allreduce and reduce are in place, and it has no scans

    def barrier(self) -> Any:
        return dist.barrier(self.group)

    def algorithm(self, buffers: Buffers) -> str | None:
        if self.name != OURS_IN_TORCH or buffers.case.collective.name == "barrier":
            return None
        case = buffers.case
        op: Any = case.op
        communicator = ringroad.torch.communicator(self.group)
        return communicator.algorithm_for(case.collective.name, case.size, dtype=case.dtype, op=op)

    def close(self) -> None:
        if self.group is dist.group.WORLD:
            dist.destroy_process_group()
