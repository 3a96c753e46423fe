"""Collectives, compared with NumPy."""

from typing import Any

import helpers
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import ReduceOp

from ranks import world

OPS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}
REDUCING = ["allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_list"]
MOVING = [
    "broadcast",
    "allgather",
    "allgather_list",
    "gather",
    "gather_list",
    "scatter_list",
    "alltoall",
    "alltoall_sizes",
    "alltoall_list",
]


def to_torch(array: np.ndarray) -> torch.Tensor:
    array = array.copy()
    if array.dtype == helpers.dtype_of("bfloat16"):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().resolve_conj().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(helpers.dtype_of("bfloat16"))
    return tensor.numpy()


def reduce_op(name: str, rank: int) -> Any:
    if name == "premul_sum":
        return dist._make_nccl_premul_sum(helpers.factor_of(rank))
    return OPS[name]


def expectation(kind: str, inputs: list[np.ndarray], op: str, root: int, rank: int) -> tuple[Any, Any]:
    """The result on this rank, flat (None: it has none), and its tolerance."""
    count = inputs[0].size // len(inputs)
    here = slice(rank * count, (rank + 1) * count)
    match kind.removesuffix("_list").removesuffix("_coalesced").removesuffix("_sizes"):
        case "allreduce":
            return helpers.reduced(op, inputs)
        case "reduce":
            return helpers.reduced(op, inputs) if rank == root else (None, 0.0)
        case "reduce_scatter":
            result, tolerance = helpers.reduced(op, inputs)
            return result[here], tolerance[here] if isinstance(tolerance, np.ndarray) else tolerance
        case "broadcast":
            return inputs[root], 0.0
        case "allgather":
            return np.concatenate(inputs), 0.0
        case "gather":
            return (np.concatenate(inputs), 0.0) if rank == root else (None, 0.0)
        case "scatter":
            return inputs[root][here], 0.0
        case "alltoall":
            return np.concatenate([x[here] for x in inputs]), 0.0
    raise AssertionError(kind)


def pieces(tensor: torch.Tensor, ranks: int, adjacent: bool) -> list[torch.Tensor]:
    """The tensor as a list with one entry per rank: views of it, or tensors of their own."""
    views = list(tensor.view(ranks, -1).unbind())
    return views if adjacent else [view.clone() for view in views]


def call(
    kind: str, mine: torch.Tensor, op: Any, root: int, adjacent: bool, **options: Any
) -> tuple[Any, list[torch.Tensor]]:
    """Starts the collective: its Work or None, and the tensors that receive the result (none: it has no result)."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    is_root = rank == root

    def new(blocks: int, of: int = 1) -> torch.Tensor:
        return torch.empty(mine.numel() * blocks // of, dtype=mine.dtype)

    match kind:
        case "allreduce":
            return dist.all_reduce(mine, op, **options), [mine]
        case "allreduce_coalesced":
            parts = list(mine.split([mine.numel() // 3, mine.numel() - mine.numel() // 3]))
            with dist.distributed_c10d._coalescing_manager(async_ops=options["async_op"]) as manager:
                for part in parts:
                    dist.all_reduce(part, op)
            return manager if options["async_op"] else None, parts
        case "broadcast":
            return dist.broadcast(mine, root, **options), [mine]
        case "reduce":
            return dist.reduce(mine, root, op, **options), [mine] if is_root else []
        case "allgather":
            out = new(ranks)
            return dist.all_gather_into_tensor(out, mine, **options), [out]
        case "allgather_list":
            outs = pieces(new(ranks), ranks, adjacent)
            return dist.all_gather(outs, mine, **options), outs
        case "reduce_scatter":
            out = new(1, of=ranks)
            return dist.reduce_scatter_tensor(out, mine, op, **options), [out]
        case "reduce_scatter_list":
            out = new(1, of=ranks)
            return dist.reduce_scatter(out, pieces(mine, ranks, adjacent), op, **options), [out]
        case "gather":
            out = new(ranks) if is_root else None
            return dist.gather_single(mine, out, root, **options), [out] if is_root else []
        case "gather_list":
            outs = pieces(new(ranks), ranks, adjacent) if is_root else []
            return dist.gather(mine, outs, root, **options), outs
        case "scatter_list":
            out = new(1, of=ranks)
            given = pieces(mine, ranks, adjacent) if is_root else None
            return dist.scatter(out, given, root, **options), [out]
        case "alltoall":
            out = new(1)
            return dist.all_to_all_single(out, mine, **options), [out]
        case "alltoall_sizes":
            out, sizes = new(1), [mine.numel() // ranks] * ranks
            return dist.all_to_all_single(out, mine, sizes, sizes, **options), [out]
        case "alltoall_list":
            outs = pieces(new(1), ranks, adjacent)
            return dist.all_to_all(outs, pieces(mine, ranks, adjacent), **options), outs
    raise AssertionError(kind)


class Running:
    """A collective that was started; `finish` waits for it and compares with NumPy."""

    def __init__(self, kind: str, count: int, dtype: str, op: str, root: int, seed: int, async_op: bool) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.name = f"{kind} {count} {dtype} {op} root {root} async {async_op} on rank {rank} of {ranks}"
        self.dtype = helpers.dtype_of(dtype)
        blocks = ranks if kind.startswith(("reduce_scatter", "scatter", "alltoall")) else 1
        inputs = [helpers.vector(r, count * blocks, self.dtype, op, seed) for r in range(ranks)]
        self.expected, self.tolerance = expectation(kind, inputs, op, root, rank)
        self.sent = to_torch(inputs[rank])
        self.work, self.outputs = call(
            kind, self.sent, reduce_op(op, rank), root, adjacent=seed % 2 == 0, async_op=async_op
        )
        assert (self.work is not None) == async_op, self.name

    def finish(self) -> str:
        """A digest of the result."""
        if self.work is not None:
            self.work.wait()
        if self.expected is None:
            return ""
        result = np.concatenate([to_numpy(output).reshape(-1) for output in self.outputs])
        wrong = helpers.differences(result, self.expected, self.dtype, self.tolerance)
        assert wrong is None, f"{self.name}: {wrong}"
        return helpers.digest(result)


def torch_refuses(kind: str, dtype: str, op: str) -> bool:
    """all_reduce sees complex numbers as pairs of real ones."""
    return kind.startswith("allreduce") and dtype in helpers.COMPLEX and op == "product"


def check_values() -> list[str]:
    """All collectives, dtypes and operations, with sizes, roots and ways of calling in rotation; digests of what must
    be the same on all ranks."""
    digests = []
    with world() as (_, ranks):
        sizes = [0, 1, 2, ranks + 1, 1000, 20011]
        for kind in REDUCING + MOVING:
            pairs = helpers.PAIRS if kind in REDUCING else [(dtype, "sum") for dtype in helpers.DTYPES]
            pairs = [pair for pair in pairs if not torch_refuses(kind, *pair)]
            for index, (dtype, op) in enumerate(pairs):
                count = sizes[(index + index // len(sizes)) % len(sizes)]
                digest = Running(kind, count, dtype, op, index % ranks, index, index % 3 == 0).finish()
                if kind.startswith(("allreduce", "allgather", "broadcast")):
                    digests.append(digest)
        for kind in REDUCING + MOVING:
            for async_op in (False, True):
                digests.append(Running(kind, 70_001, "float32", "sum", ranks - 1, 1, async_op).finish()[:0])
    return digests


def check_in_flight() -> None:
    """Many calls at once, waited for in another order than that of their start."""
    kinds = REDUCING + MOVING
    with world() as (_, ranks):
        for order in (1, -1):
            running = [
                Running(kind, 1 + 997 * index, "float32", "sum", index % ranks, index, True)
                for index, kind in enumerate(kinds)
            ]
            for one in running[::order]:
                one.finish()
                assert one.work.is_completed() if hasattr(one.work, "is_completed") else True


def check_uneven() -> None:
    with world() as (rank, ranks):
        outs = [torch.empty(peer + 1, 2) for peer in range(ranks)]
        dist.all_gather(outs, torch.full((rank + 1, 2), float(rank)))
        assert all((out == peer).all() for peer, out in enumerate(outs))

        out = torch.empty(rank + 1)
        work = dist.reduce_scatter(out, [torch.full((peer + 1,), float(rank)) for peer in range(ranks)], async_op=True)
        work.wait()
        assert (out == sum(range(ranks))).all()

        # Rank r sends r + p rows to rank p.
        sent = torch.cat([torch.full((rank + peer, 3), rank * 100 + peer) for peer in range(ranks)])
        sizes = [rank + peer for peer in range(ranks)]
        got = torch.empty(sum(sizes), 3, dtype=sent.dtype)
        dist.all_to_all_single(got, sent, sizes, sizes)
        assert torch.equal(got, torch.cat([torch.full((rank + peer, 3), peer * 100 + rank) for peer in range(ranks)]))

        # Even on rank 0 alone.
        outs = [torch.empty(1 + rank * peer) for peer in range(ranks)]
        dist.all_to_all(outs, [torch.full((1 + rank * peer,), float(rank)) for peer in range(ranks)])
        assert all((out == peer).all() for peer, out in enumerate(outs))
