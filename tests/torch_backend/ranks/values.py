"""Collectives, compared with NumPy."""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import helpers
import numpy as np
import torch
import torch.distributed as dist
from ringroad import _oracle as oracle
from ringroad.measure.bench.peers.tensors import array_of, tensor_of
from ringroad.torch.tensors import OP_NAMES
from ringroad.torch.work import Work

from ranks import world

OPS = {name: op for op, name in OP_NAMES.items()}
REDUCING = ["allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_list"]
UNEVEN = ["allgather_list", "reduce_scatter_list", "alltoall_list", "alltoall_sizes"]
GUARD = 77
"""The value between the elements of strided tensors."""

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


def reduce_op(name: str, rank: int) -> Any:
    if name == "premul_sum":
        return dist._make_nccl_premul_sum(oracle.factor_of(rank))
    return OPS[name]


def length(kind: str, count: int, uneven: bool, source: int, target: int) -> int:
    """The number of elements of a block: the one of `target`, or in an all-to-all the one that `source` has for it."""
    more = source + 2 * target if kind.startswith("alltoall") else target
    return count + more if uneven else count


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements with guards between them, which no call may change."""
    view = torch.full((tensor.numel(), 2), GUARD).to(tensor.dtype)[:, 0]
    return view.copy_(tensor)


def is_guarded(tensor: torch.Tensor) -> bool:
    """Whether the guards between the elements of a `strided` tensor, or of pieces of it, are unchanged."""
    if tensor.numel() < 2:
        return True
    between = tensor.as_strided((tensor.numel() - 1,), (2,), tensor.storage_offset() + 1)
    return bool((between == torch.tensor(GUARD).to(tensor.dtype)).all())


def call(
    kind: str, mine: torch.Tensor, lengths: list[list[int]], op: Any, root: int, adjacent: bool, **options: Any
) -> tuple[Any, list[torch.Tensor]]:
    """Starts the collective. Returns its Work or None, and the tensors that receive the result (none if it has no
    result).

    Outputs have the layout of the input. With `adjacent`, the tensors of a list are views of one tensor.
    """
    rank = dist.get_rank()
    is_root = rank == root
    sent = lengths[rank]
    received = [row[rank] for row in lengths] if kind.startswith("alltoall") else sent

    def new(count: int) -> torch.Tensor:
        fresh = torch.full((count,), GUARD).to(mine.dtype)
        return fresh if mine.stride(0) == 1 else strided(fresh)

    def pieces(tensor: torch.Tensor, sizes: list[int]) -> list[torch.Tensor]:
        views = list(tensor.split(sizes))
        return views if adjacent or tensor.stride(0) > 1 else [view.clone() for view in views]

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
            out = new(sum(received))
            return dist.all_gather_into_tensor(out, mine, **options), [out]
        case "allgather_list":
            outs = pieces(new(sum(received)), received)
            return dist.all_gather(outs, mine, **options), outs
        case "reduce_scatter":
            out = new(received[rank])
            return dist.reduce_scatter_tensor(out, mine, op, **options), [out]
        case "reduce_scatter_list":
            out = new(received[rank])
            return dist.reduce_scatter(out, pieces(mine, sent), op, **options), [out]
        case "gather":
            out = new(sum(received)) if is_root else None
            return dist.gather_single(mine, out, root, **options), [out] if is_root else []
        case "gather_list":
            outs = pieces(new(sum(received)), received) if is_root else []
            return dist.gather(mine, outs, root, **options), outs
        case "scatter_list":
            out = new(received[root])
            given = pieces(mine, sent) if is_root else None
            return dist.scatter(out, given, root, **options), [out]
        case "alltoall":
            out = new(sum(received))
            return dist.all_to_all_single(out, mine, **options), [out]
        case "alltoall_sizes":
            out = new(sum(received))
            return dist.all_to_all_single(out, mine, received, sent, **options), [out]
        case "alltoall_list":
            outs = pieces(new(sum(received)), received)
            return dist.all_to_all(outs, pieces(mine, sent), **options), outs
    raise AssertionError(kind)


@dataclass(frozen=True)
class Case:
    kind: str
    count: int
    dtype: str = "float32"
    op: str = "sum"
    root: int = 0
    async_op: bool = False
    gaps: bool = False
    uneven: bool = False
    seed: int = 0

    def call(self, lengths: oracle.Table) -> oracle.Case:
        """The same for the oracle, which names no ways of calling."""
        name = self.kind.removesuffix("_list").removesuffix("_coalesced").removesuffix("_sizes")
        blocks = lengths if oracle.CALLS[name].blocks else "even"
        return oracle.Case(name, self.count, self.dtype, self.op, self.root, seed=self.seed, blocks=blocks)


class Running:
    """A collective that was started. `finish` waits for it and compares its result with NumPy's."""

    def __init__(self, case: Case) -> None:
        self.case = case
        rank, ranks = dist.get_rank(), dist.get_world_size()
        lengths = [[length(case.kind, case.count, case.uneven, r, t) for t in range(ranks)] for r in range(ranks)]
        self.part = oracle.part(case.call(tuple(map(tuple, lengths))), ranks, rank)
        self.sent = tensor_of(self.part.send.copy())
        if case.gaps:
            self.sent = strided(self.sent)
        adjacent = case.seed % 2 == 0
        self.work, self.outputs = call(
            case.kind, self.sent, lengths, reduce_op(case.op, rank), case.root, adjacent, async_op=case.async_op
        )
        assert (self.work is not None) == case.async_op, case

    def finish(self) -> str:
        """A digest of the result."""
        if self.work is not None:
            self.work.wait()
            assert not isinstance(self.work, Work) or self.work.is_completed(), self.case
        if self.part.expected[0] is None:
            return ""
        result = np.concatenate([array_of(output.detach().resolve_conj().reshape(-1)) for output in self.outputs])
        wrong = self.part.wrong(result)
        assert wrong is None, f"{self.case} on rank {dist.get_rank()} of {dist.get_world_size()}: {wrong}"
        if self.case.gaps:
            assert all(is_guarded(tensor) for tensor in [self.sent, *self.outputs]), self.case
        return helpers.digest(result)


def torch_refuses(kind: str, dtype: str, op: str) -> bool:
    """all_reduce treats complex numbers as pairs of real ones, so it has no product of them."""
    return kind.startswith("allreduce") and dtype.startswith("complex") and op == "product"


def pairs_of(kind: str) -> list[tuple[str, str]]:
    """The dtypes that the collective takes, with the operations if it reduces."""
    pairs = helpers.PAIRS if kind in REDUCING else [(dtype, "sum") for dtype in oracle.DTYPES]
    return [pair for pair in pairs if not torch_refuses(kind, *pair)]


def cases(kind: str, dtype: str, op: str, turn: int) -> Iterator[Case]:
    """Empty tensors, a few elements and uneven pieces, contiguous and strided. The turns bring all sizes and roots, and
    the seed decides whether lists are pieces of one tensor or separate tensors. Each case is synchronous and
    asynchronous.
    """
    ranks = dist.get_world_size()
    sizes = [1, 2, ranks + 1, 1000, 20011]
    large = 70_001 if (dtype, op) == ("float32", "sum") else sizes[turn % len(sizes)]
    layouts = [(0, False, False), (13, False, False), (13, True, False), (large, turn // len(sizes) % 2 == 1, False)]
    if kind in UNEVEN:
        layouts += [(turn % 3 * 50, False, True), (turn % 3 * 50, True, True)]
    for index, (count, gaps, uneven) in enumerate(layouts):
        for async_op in (True, False):
            seed = 2 * index + async_op + turn % 2
            yield Case(kind, count, dtype, op, (turn + index) % ranks, async_op, gaps, uneven, seed)


def check_values() -> dict[str, str]:
    """All collectives with all dtypes, operations, layouts and ways of calling. Returns digests of the results that
    must be the same on all ranks. All asynchronous calls of a dtype and operation are in flight at once, and each rank
    waits for them in an order of its own.
    """
    digests = {}
    turns = {kind: itertools.count() for kind in REDUCING + MOVING}
    roots: dict[str, set[int]] = {kind: set() for kind in turns}
    with world() as (rank, ranks):
        shuffle = random.Random(rank).shuffle
        for dtype, op in helpers.PAIRS:
            running = []
            for kind in turns:
                if (dtype, op) not in pairs_of(kind):
                    continue
                for case in cases(kind, dtype, op, next(turns[kind])):
                    roots[kind].add(case.root)
                    one = Running(case)
                    if case.async_op:
                        running.append(one)
                    else:
                        digests[case] = one.finish()
            shuffle(running)
            digests |= {one.case: one.finish() for one in running}
        assert all(met == set(range(ranks)) for met in roots.values()), roots
    everywhere = ("allreduce", "allgather", "broadcast")
    return {str(case): digest for case, digest in digests.items() if case.kind.startswith(everywhere)}


def shaped(rank: int) -> torch.Tensor:
    """6 + rank elements; on rank 0 neither in order nor in the shape that others know."""
    return torch.arange(6.0).reshape(2, 3).t() if rank == 0 else torch.full((6 + rank,), float(rank))


def check_uneven() -> None:
    """Sizes that only some ranks know."""
    with world() as (rank, ranks):
        # Pieces are uneven on some ranks only.
        outs = [torch.empty(1 + rank * peer) for peer in range(ranks)]
        dist.all_to_all(outs, [torch.full((1 + rank * peer,), float(rank)) for peer in range(ranks)])
        assert all((out == peer).all() for peer, out in enumerate(outs))
        # Sizes count rows.
        dist.all_gather(outs := [torch.empty(6 + peer) for peer in range(ranks)], shaped(rank))
        assert all(torch.equal(out, shaped(peer).reshape(-1)) for peer, out in enumerate(outs))
        sizes = [rank + peer for peer in range(ranks)]
        sent = torch.cat([torch.full((rank + peer, 3), rank * 100 + peer) for peer in range(ranks)])
        got = torch.empty(sum(sizes), 3, dtype=sent.dtype)
        dist.all_to_all_single(got, sent, sizes, sizes)
        expected = torch.cat([torch.full((rank + peer, 3), peer * 100 + rank) for peer in range(ranks)])
        assert torch.equal(got, expected)
        # In place.
        pieces = list(sent.clone().split(sizes))
        dist.all_to_all(pieces, pieces)
        assert torch.equal(torch.cat(pieces), expected)
        dist.all_to_all_single(sent, sent, sizes, sizes)
        assert torch.equal(sent, expected)
        pieces = list(torch.arange(float(sum(range(1, ranks + 1)))).split(list(range(1, ranks + 1))))
        total = ranks * pieces[rank]
        work = dist.reduce_scatter(pieces[rank], pieces, async_op=True)
        work.wait()
        assert torch.equal(pieces[rank], total)


def check_sizes_on_some_ranks() -> None:
    """An all-to-all with sizes on one rank and without on the others, or with sizes that do not fit: all ranks get an
    error at once, not at the limit.
    """
    with world() as (rank, ranks):
        for dtype in (torch.float32, torch.int64):  # the latter is also the type of sizes
            group = dist.new_group()
            sizes = [1] * ranks if rank == 0 else []
            mine = torch.ones(ranks, dtype=dtype)
            expect_mismatch(lambda s=sizes, m=mine, g=group: dist.all_to_all_single(m.clone(), m, s, s, group=g))
        group, sent, expected = dist.new_group(), [1] * ranks, [1] * ranks
        if rank == 0:
            sent[1] = 0
        got, mine = torch.empty(sum(expected)), torch.ones(sum(sent))
        expect_mismatch(lambda: dist.all_to_all_single(got, mine, expected, sent, group=group))
        dist.all_to_all([torch.empty(2) for _ in range(ranks)], [torch.ones(2) for _ in range(ranks)])


def expect_mismatch(call: Callable[[], Any]) -> None:
    """A rank that comes after the others have noticed gets an AbortedError, which repeats theirs."""
    start = time.monotonic()
    kind, text = helpers.failure_of(call)
    assert kind in ("MismatchError", "AbortedError"), (kind, text)
    assert time.monotonic() - start < 30, "noticed at the limit only"


def check_disagreement() -> None:
    """All ranks learn which rank expects a length other than the one it gets, and the group stays usable."""
    with world() as (rank, ranks):
        sent, expected = [1] * ranks, [1] * ranks
        if rank == 1:
            expected[2] = 3
        got = torch.empty(sum(expected))
        text = ""
        try:
            dist.all_to_all_single(got, torch.ones(ranks), expected, sent)
        except ValueError as error:
            text = str(error)
        assert "rank 2 has 1 elements for rank 1, which expects 3" in text, text
        dist.all_to_all([torch.empty(2) for _ in range(ranks)], [torch.ones(2) for _ in range(ranks)])
        # Some pieces are empty, and the call is asynchronous.
        sizes = [0 if rank == peer else rank + peer for peer in range(ranks)]
        got = torch.empty(sum(sizes))
        work = dist.all_to_all_single(got, torch.full((sum(sizes),), float(rank)), sizes, sizes, async_op=True)
        work.wait()
        assert torch.equal(got, torch.cat([torch.full((size,), float(peer)) for peer, size in enumerate(sizes)]))


def check_scalars() -> None:
    """Tensors without dimensions, and tensors without elements."""
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
