"""Collectives, compared with NumPy."""

from typing import Any
from unittest import mock

import helpers
import numpy as np
import ringroad.torch.tensors
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
UNEVEN = ["allgather_list", "reduce_scatter_list", "alltoall_list", "alltoall_sizes"]
GUARD = 77
"""Lies between the elements of strided tensors."""

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
if not hasattr(dist, "gather_single"):
    MOVING.remove("gather")


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


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements with others between them, which nobody may touch."""
    view = torch.full((tensor.numel(), 2), GUARD).to(tensor.dtype)[:, 0]
    return view.copy_(tensor)


def is_guarded(tensor: torch.Tensor) -> bool:
    """Whether what lies between the elements of a `strided` tensor, or of pieces of it, is as it was."""
    if tensor.numel() < 2:
        return True
    between = tensor.as_strided((tensor.numel() - 1,), (2,), tensor.storage_offset() + 1)
    return bool((between == torch.tensor(GUARD).to(tensor.dtype)).all())


def pieces(tensor: torch.Tensor, ranks: int, adjacent: bool) -> list[torch.Tensor]:
    """The tensor as a list with one entry per rank: views of it, or tensors of their own."""
    views = list(tensor.view(ranks, -1).unbind())
    return views if adjacent or tensor.stride(0) > 1 else [view.clone() for view in views]


def call(
    kind: str, mine: torch.Tensor, op: Any, root: int, adjacent: bool, **options: Any
) -> tuple[Any, list[torch.Tensor]]:
    """Starts the collective: its Work or None, and the tensors that receive the result (none: it has no result).

    Outputs are laid out as the input is.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    is_root = rank == root

    def new(blocks: int, of: int = 1) -> torch.Tensor:
        fresh = torch.empty(mine.numel() * blocks // of, dtype=mine.dtype)
        return fresh if mine.stride(0) == 1 else strided(fresh)

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

    def __init__(
        self, kind: str, count: int, dtype: str, op: str, root: int, seed: int, async_op: bool, gaps: bool = False
    ) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.name = f"{kind} {count} {dtype} {op} root {root} async {async_op} gaps {gaps} on rank {rank} of {ranks}"
        self.dtype = helpers.dtype_of(dtype)
        blocks = ranks if kind.startswith(("reduce_scatter", "scatter", "alltoall")) else 1
        inputs = [helpers.vector(r, count * blocks, self.dtype, op, seed) for r in range(ranks)]
        self.expected, self.tolerance = expectation(kind, inputs, op, root, rank)
        self.sent = strided(to_torch(inputs[rank])) if gaps else to_torch(inputs[rank])
        self.gaps = gaps
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
        if self.gaps:
            assert all(is_guarded(tensor) for tensor in [self.sent, *self.outputs]), self.name
        return helpers.digest(result)


def torch_refuses(kind: str, dtype: str, op: str) -> bool:
    """all_reduce sees complex numbers as pairs of real ones."""
    return kind.startswith("allreduce") and dtype in helpers.COMPLEX and op == "product"


def pairs_of(kind: str) -> list[tuple[str, str]]:
    """What the collective can be called with: dtypes, and operations if it reduces."""
    pairs = helpers.PAIRS if kind in REDUCING else [(dtype, "sum") for dtype in helpers.DTYPES]
    return [pair for pair in pairs if not torch_refuses(kind, *pair)]


def check_values() -> list[str]:
    """All collectives, dtypes and operations, contiguous and strided, with sizes, roots and ways of calling in
    rotation; digests of what must be the same on all ranks."""
    digests = []
    with world() as (_, ranks):
        sizes = [0, 1, 2, ranks + 1, 1000, 20011]
        for kind in REDUCING + MOVING:
            for index, (dtype, op) in enumerate(pairs_of(kind)):
                count = sizes[(index + index // len(sizes)) % len(sizes)]
                for gaps in (False, True):
                    asynchronous = (index + gaps) % 2 == 0
                    digest = Running(kind, count, dtype, op, index % ranks, index, asynchronous, gaps).finish()
                    if kind.startswith(("allreduce", "allgather", "broadcast")):
                        digests.append(digest)
        for kind in REDUCING + MOVING:
            for async_op in (False, True):
                digests.append(Running(kind, 70_001, "float32", "sum", ranks - 1, 1, async_op).finish()[:0])
    return digests


def check_staging() -> None:
    """As CUDA tensors go: everything by way of other memory. There is no accelerator here; the copies are the CPU's."""
    with mock.patch.object(ringroad.torch.tensors, "is_here", lambda tensor: False), world() as (_, ranks):
        for index, kind in enumerate(REDUCING + MOVING):
            for async_op in (False, True):
                Running(kind, 1000 + index, "float32", "sum", ranks - 1, index, async_op, gaps=async_op).finish()
        for kind in UNEVEN:
            uneven(kind, 10, "float32", "sum", 1, True, False)


def check_in_flight() -> None:
    """Many calls at once, waited for in another order than that of their start."""
    kinds = REDUCING + MOVING
    with world() as (_, ranks):
        for order in (1, -1):
            running = [
                Running(kind, 1 + 997 * index, "float32", "sum", index % ranks, index, True, gaps=index % 3 == 0)
                for index, kind in enumerate(kinds)
            ]
            for one in running[::order]:
                one.finish()
                assert one.work.is_completed() if hasattr(one.work, "is_completed") else True


def check_uneven() -> None:
    """Pieces of different sizes, none among them; all dtypes and operations, contiguous and strided."""
    with world() as (_, ranks):
        for kind in UNEVEN:
            for index, (dtype, op) in enumerate(pairs_of(kind)):
                for gaps in (False, True):
                    uneven(kind, index % 3 * 50, dtype, op, index, index % 2 == 0, gaps)
        # Uneven on some ranks only.
        rank = dist.get_rank()
        outs = [torch.empty(1 + rank * peer) for peer in range(ranks)]
        dist.all_to_all(outs, [torch.full((1 + rank * peer,), float(rank)) for peer in range(ranks)])
        assert all((out == peer).all() for peer, out in enumerate(outs))
        # Sizes count rows.
        sizes = [rank + peer for peer in range(ranks)]
        sent = torch.cat([torch.full((rank + peer, 3), rank * 100 + peer) for peer in range(ranks)])
        got = torch.empty(sum(sizes), 3, dtype=sent.dtype)
        dist.all_to_all_single(got, sent, sizes, sizes)
        assert torch.equal(got, torch.cat([torch.full((rank + peer, 3), peer * 100 + rank) for peer in range(ranks)]))


def uneven(kind: str, base: int, dtype: str, op: str, seed: int, async_op: bool, gaps: bool) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    name = f"uneven {kind} {base} {dtype} {op} async {async_op} gaps {gaps} on rank {rank} of {ranks}"
    kept = helpers.dtype_of(dtype)

    def piece(source: int, target: int) -> np.ndarray:
        """What `source` has for `target`: to gather, the same for all; to reduce, as long from all."""
        count = {"allgather_list": source, "reduce_scatter_list": target}.get(kind, source + 2 * target)
        whole = helpers.vector(source, base + count, kept, op, seed + (0 if kind == "allgather_list" else target))
        return whole

    def tensor(array: np.ndarray) -> torch.Tensor:
        return strided(to_torch(array)) if gaps else to_torch(array)

    mine = [tensor(piece(rank, target)) for target in range(ranks)]
    outs = [tensor(np.zeros_like(piece(source, rank))) for source in range(ranks)]
    tolerance: Any = 0.0
    expected = [piece(source, rank) for source in range(ranks)]
    match kind:
        case "allgather_list":
            work = dist.all_gather(outs, mine[rank], async_op=async_op)
        case "reduce_scatter_list":
            work = dist.reduce_scatter(outs[rank], mine, reduce_op(op, rank), async_op=async_op)
            result, tolerance = helpers.reduced(op, expected)
            outs, expected = [outs[rank]], [result]
        case "alltoall_list":
            work = dist.all_to_all(outs, mine, async_op=async_op)
        case _:
            sizes = [[len(piece(a, b)) for a, b in pairs] for pairs in (
                [(source, rank) for source in range(ranks)], [(rank, target) for target in range(ranks)]
            )]  # fmt: skip
            out, given = tensor(np.zeros(sum(sizes[0]), kept)), tensor(np.concatenate([to_numpy(one) for one in mine]))
            work = dist.all_to_all_single(out, given, *sizes, async_op=async_op)
            outs = list(out.split(sizes[0]))
    assert (work is not None) == async_op, name
    if async_op:
        work.wait()
    for source, (out, wanted) in enumerate(zip(outs, expected, strict=True)):
        wrong = helpers.differences(to_numpy(out), wanted, kept, tolerance)
        assert wrong is None, f"{name}: piece {source}: {wrong}"
        assert not gaps or is_guarded(out), name


def check_scalars() -> None:
    """Tensors without a dimension, and without an element."""
    with world() as (rank, ranks):
        for shape in ((), (0,), (3, 0, 2)):
            count = int(np.prod(shape))
            dist.all_reduce(tensor := torch.full(shape, float(rank)))
            assert tensor.shape == shape and (tensor == sum(range(ranks))).all()
            dist.broadcast(tensor := torch.full(shape, rank), ranks - 1)
            assert (tensor == ranks - 1).all()
            dist.all_gather_into_tensor(out := torch.empty(ranks * count), torch.full(shape, float(rank)))
            assert torch.equal(out, torch.arange(float(ranks)).repeat_interleave(count))
            dist.all_gather(outs := [torch.empty(shape) for _ in range(ranks)], torch.full(shape, float(rank)))
            assert all((one == peer).all() for peer, one in enumerate(outs))
            dist.reduce_scatter(out := torch.empty(shape), [torch.full(shape, float(rank))] * ranks)
            assert (out == sum(range(ranks))).all()
            dist.scatter(out, [torch.full(shape, float(peer)) for peer in range(ranks)] if rank == 0 else None)
            assert (out == rank).all()
            dist.all_to_all(outs, [torch.full(shape, float(rank)) for _ in range(ranks)])
            assert all((one == peer).all() for peer, one in enumerate(outs))
