"""What the ranks do: every function here runs in a process of its own, once per rank."""

import contextlib
import hashlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import helpers
import numpy as np
import ringroad.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import AllreduceOptions, ReduceOp

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
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


@contextlib.contextmanager
def world(backend: str = "ringroad", **options: Any) -> Iterator[tuple[int, int]]:
    dist.init_process_group(backend, **options)
    yield dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()


# ------------------------------------------------------------------------------------------------ values


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


def check_messages() -> None:
    """Everybody to everybody, with tags that arrive crosswise; and batches."""
    with world() as (rank, ranks):
        peers = [peer for peer in range(ranks) if peer != rank]
        works = []
        for peer, tag in itertools.product(peers, (0, 7)):
            works.append(dist.isend(torch.arange(100) + 1000 * rank + tag, peer, tag=tag))
        for peer, tag in itertools.product(peers, (7, 0)):
            got = torch.empty(100, dtype=torch.int64)
            assert dist.recv(got, peer, tag=tag) == peer
            assert torch.equal(got, torch.arange(100) + 1000 * peer + tag)
        for work in works:
            work.wait()
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        strided = torch.zeros(4, 6)[:, ::2]
        batch = [
            dist.P2POp(dist.irecv, strided, before),
            dist.P2POp(dist.isend, torch.full((4, 3), float(rank)).t().contiguous().t(), after),
        ]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        assert (strided == before).all()


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


def check_layouts() -> None:
    """Tensors whose memory is not the elements in order."""
    with world() as (rank, ranks):
        total = sum(range(1, ranks + 1))
        big = torch.zeros(6, 8)
        for view in (big[:, ::2], big.t(), big[1:3, 1:5]):
            for async_op in (False, True):
                big.zero_()
                view += rank + 1
                work = dist.all_reduce(view, async_op=async_op)
                if async_op:
                    while not work.is_completed():
                        time.sleep(0.001)
                assert (view == total).all() and big.sum() == total * view.numel()
        images = torch.full((2, 3, 4, 5), float(rank)).to(memory_format=torch.channels_last)
        dist.broadcast(images, ranks - 1)
        assert (images == ranks - 1).all() and images.is_contiguous(memory_format=torch.channels_last)

        negative = torch._neg_view(torch.ones(5))
        assert negative.is_neg()
        dist.all_reduce(negative)
        assert (negative == -ranks).all()
        gathered = torch.empty(ranks * 2, dtype=torch.complex64)
        dist.all_gather_into_tensor(gathered, torch.tensor([1 + 2j, 3j]).conj().resolve_conj())
        assert (gathered.view(ranks, 2) == torch.tensor([1 - 2j, -3j])).all()
        out = torch.zeros(4, 2)[:, 0]
        dist.reduce_scatter_tensor(out, torch.ones(2, 4 * ranks)[0])
        assert (out == ranks).all()
        leaf = torch.ones(3, requires_grad=True)
        dist.all_reduce(leaf.detach())
        assert (leaf == ranks).all()


def check_work() -> None:
    with world() as (rank, ranks):
        tensor = torch.full((1000,), float(rank))
        work = dist.all_reduce(tensor, async_op=True)
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
        assert work.result()[0] is tensor
        works = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(50)]
        futures = [work.get_future() for work in works]
        doubled = [future.then(lambda done: done.value()[0] * 2) for future in futures]
        assert all((future.wait() == 2 * ranks).all() for future in doubled)
        assert works[0].get_future() is futures[0]
        dist.barrier(async_op=True).get_future().wait()
        strided = torch.ones(4, 4)[:, 1]
        (result,) = dist.all_reduce(strided, async_op=True).get_future().wait()
        assert result is strided or torch.equal(result, strided)
        assert (strided == ranks).all()


def check_refusals() -> list[str]:
    with world() as (rank, _):
        attempts: list[Callable[[], Any]] = [
            lambda: dist.all_reduce(torch.ones(2, dtype=torch.uint32)),
            lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn)),
            lambda: dist.all_reduce(torch.eye(3).to_sparse()),
            lambda: dist.all_reduce(torch.ones(3, device="meta")),
            lambda: dist.all_reduce(torch.ones(3), ReduceOp.BAND),
            lambda: dist.all_gather_into_tensor(torch.ones(1), torch.ones(3)),
            lambda: dist.recv(torch.ones(3)),
            lambda: dist.send(torch.ones(3), 1 - rank, tag=1 << 30),
        ]
        texts = []
        for attempt in attempts:
            kind, text = helpers.failure_of(attempt)
            assert kind != "nothing"
            texts.append(f"{kind}: {text}")
        dist.barrier()  # nothing was started, so ranks are still in step
    return texts


# ------------------------------------------------------------------------------------------------ groups


def check_forms() -> None:
    """What a group is made of, and that both forms do everything a training job needs."""
    with world() as (_, ranks):
        assert type(dist.group.WORLD).__name__ == "RingroadProcessGroup"
        assert dist.get_backend() == "ringroad" and dist.group.WORLD.name() == "ringroad"
        assert type(dist.all_reduce(torch.ones(1), async_op=True)).__name__ == "Work"
        gloo = dist.new_group(backend="gloo")
        dist.all_reduce(tensor := torch.ones(2), group=gloo)
        assert (tensor == ranks).all()
    for backend in ("cpu:ringroad,cuda:gloo", "meta:gloo,cpu:ringroad"):
        with world(backend) as (rank, ranks):
            group = dist.group.WORLD
            assert type(group) is dist.ProcessGroup
            assert type(group._get_backend(torch.device("cpu"))).__name__ == "RingroadBackend"
            for kind in REDUCING + MOVING:
                for async_op in (False, True):
                    if kind != "gather":  # torch 2.15 does not let Python serve gather_single in a Backend
                        Running(kind, 1000, "float32", "sum", 0, 1, async_op).finish()
            check_objects(rank, ranks)
            work = dist.all_reduce(tensor := torch.ones(5), async_op=True)
            assert (work.get_future().wait()[0] == ranks).all()
            dist.monitored_barrier()
    with world("gloo") as (_, ranks):
        ours = dist.new_group(backend="ringroad")
        dist.all_reduce(tensor := torch.ones(2), group=ours)
        assert (tensor == ranks).all() and type(ours).__name__ == "RingroadProcessGroup"
        dist.destroy_process_group(ours)


def check_objects(rank: int, ranks: int) -> None:
    everybody: list[Any] = [None] * ranks
    dist.all_gather_object(everybody, {"rank": rank, "text": "x" * rank})
    assert [one["rank"] for one in everybody] == list(range(ranks))
    shared = [f"from {rank}", rank]
    dist.broadcast_object_list(shared, src=ranks - 1)
    assert shared == [f"from {ranks - 1}", ranks - 1]
    gathered: list[Any] | None = [None] * ranks if rank == 0 else None
    dist.gather_object((rank, rank * "y"), gathered, dst=0)
    assert rank or gathered == [(r, r * "y") for r in range(ranks)]
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, [{"for": r} for r in range(ranks)] if rank == 0 else None, src=0)
    assert mine == [{"for": rank}]


def check_subgroups() -> None:
    with world() as (rank, ranks):
        check_objects(rank, ranks)
        even, odd = (dist.new_group(list(range(start, ranks, 2))) for start in (0, 1))
        mine, members = (even, range(0, ranks, 2)) if rank % 2 == 0 else (odd, range(1, ranks, 2))
        for _ in range(3):  # groups overlap the world, and take turns with it
            dist.all_reduce(tensor := torch.tensor([rank]), group=mine)
            assert tensor.item() == sum(members)
            dist.all_reduce(tensor := torch.tensor([rank]))
            assert tensor.item() == sum(range(ranks))
        dist.broadcast(tensor := torch.tensor([rank]), src=members[-1], group=mine)
        assert tensor.item() == members[-1]
        dist.destroy_process_group(mine)

        reverse = dist.new_group(list(range(ranks))[::-1], sort_ranks=False)
        assert dist.get_rank(reverse) == ranks - 1 - rank
        got = torch.empty(ranks, dtype=torch.int64)
        dist.all_gather_into_tensor(got, torch.tensor([rank]), group=reverse)
        assert got.tolist() == list(range(ranks))[::-1]

        local = dist.new_group([rank], use_local_synchronization=True)
        dist.all_reduce(tensor := torch.tensor([rank]), group=local)
        assert tensor.item() == rank

        if TORCH >= (2, 15):  # before, split_group takes an accelerator
            check_split(rank, ranks)


def check_split(rank: int, ranks: int) -> None:
    half = ranks // 2
    parts = [list(range(half)), list(range(half, ranks - 1))]  # the last rank is in neither
    part = dist.split_group(split_ranks=parts, group_desc="half")
    if rank == ranks - 1:
        assert part is None or part == dist.GroupMember.NON_GROUP_MEMBER
        return
    own = parts[0] if rank < half else parts[1]
    dist.all_reduce(tensor := torch.tensor([rank]), group=part)
    assert tensor.item() == sum(own) and part.group_desc == "half"
    assert dist.get_process_group_ranks(part) == own


def check_again() -> None:
    """Groups over one store, one after the other, with other members under the same names."""
    for attempt in range(3):
        with world() as (rank, ranks):
            dist.all_reduce(tensor := torch.tensor([rank + attempt]))
            assert tensor.item() == sum(r + attempt for r in range(ranks))
            members = [attempt, (attempt + 1) % ranks]
            group = dist.new_group(members)
            if rank in members:
                dist.all_reduce(tensor := torch.tensor([rank]), group=group)
                assert tensor.item() == sum(members)


def check_options() -> None:
    with world(pg_options=ringroad.torch.Options(algorithm="ring")) as (_, ranks):
        assert ringroad.torch.communicator().algorithm_for("allreduce", 8) == "ring"
        dist.all_reduce(tensor := torch.ones(10))
        assert (tensor == ranks).all()
        group = dist.new_group(timeout=timedelta(seconds=77))
        assert ringroad.torch.communicator(group).timeout == 77
    kind, text = helpers.failure_of(lambda: dist.init_process_group("ringroad", pg_options={"algorithm": "ring"}))
    assert kind == "TypeError" and "ringroad.torch.Options" in text, (kind, text)


def check_empty() -> None:
    with world() as (rank, ranks):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            for count in (0, 5, 100_003):
                tensor = ringroad.torch.empty(count, 2, dtype=dtype)
                assert tensor.shape == (count, 2) and tensor.dtype == dtype
                tensor.fill_(rank + 1)
                dist.all_reduce(tensor)
                assert (tensor == ranks * (ranks + 1) // 2).all()
        assert ringroad.torch.empty(3).dtype == torch.get_default_dtype()
        assert ringroad.torch.empty((2, 3)).shape == ringroad.torch.empty(torch.ones(2, 3).shape).shape == (2, 3)


# ------------------------------------------------------------------------------------------------ ways of calling


def check_overloads() -> None:
    """ProcessGroup's methods called directly, as torch's own libraries do."""
    with world() as (rank, ranks):
        group, total = dist.group.WORLD, sum(range(ranks))

        def mine() -> torch.Tensor:
            return torch.full((3,), float(rank))

        for start in (
            lambda t: group.allreduce([t]),
            lambda t: group.allreduce(t),
            lambda t: group.allreduce([t], AllreduceOptions()),
            lambda t: group.allreduce([t], opts=AllreduceOptions()),
            lambda t: group.allreduce([t], op=ReduceOp.SUM),
            lambda t: group.allreduce(t, ReduceOp.SUM, timeout=timedelta(seconds=30)),
            lambda t: group.allreduce_coalesced([t]),
        ):
            start(tensor := mine()).wait()
            assert (tensor == total).all()
        group.broadcast(tensor := mine(), ranks - 1).wait()
        assert (tensor == ranks - 1).all()
        group.reduce(tensor := mine(), 0).wait()
        assert rank or (tensor == total).all()
        outs = [torch.empty(3) for _ in range(ranks)]
        group.allgather(outs, mine()).wait()
        assert all((out == peer).all() for peer, out in enumerate(outs))
        group.allgather([outs], [mine()]).wait()
        group._allgather_base(out := torch.empty(3 * ranks), mine()).wait()
        assert torch.equal(out, torch.cat(outs))
        group.reduce_scatter(out := torch.empty(3), [mine() for _ in range(ranks)]).wait()
        assert (out == total).all()
        group.alltoall_base(out := torch.empty(ranks), mine()[:1].repeat(ranks), [], []).wait()
        assert out.tolist() == list(range(ranks))
        group.gather(outs if rank == 0 else [], mine(), 0).wait() if rank == 0 else group.gather([], [mine()]).wait()
        group.barrier().wait()


def check_listeners() -> None:
    """Who listens at the dispatcher hears the calls; functional collectives, DTensor and FSDP2 work."""
    from torch.distributed._functional_collectives import all_gather_tensor, all_reduce, reduce_scatter_tensor
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode

    with world() as (rank, ranks):
        with CommDebugMode() as listener:
            dist.all_reduce(tensor := torch.ones(3))
            dist.all_gather_into_tensor(torch.empty(3 * ranks), tensor)
        assert (tensor == ranks).all() and listener.get_total_counts() == 2

        everybody = list(range(ranks))
        assert (all_reduce(torch.ones(3), "sum", everybody) == ranks).all()
        assert all_gather_tensor(torch.tensor([rank]), 0, everybody).tolist() == everybody
        assert (reduce_scatter_tensor(torch.ones(ranks), "sum", 0, everybody) == ranks).all()

        mesh = init_device_mesh("cpu", (ranks,))
        whole = torch.arange(24.0).view(6, 4)
        sharded = DTensor.from_local(whole, mesh, [Replicate()]).redistribute(mesh, [Shard(0)])
        assert torch.equal((sharded @ sharded.t()).full_tensor(), whole @ whole.t())

        torch.manual_seed(0)
        model, twin = tiny_model(), tiny_model()
        twin.load_state_dict(model.state_dict())
        fully_shard(model, mesh=mesh)
        x = torch.randn(8, 20, generator=torch.Generator().manual_seed(rank))
        (model(x) ** 2).sum().backward()
        (twin(x) ** 2).sum().backward()
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            dist.all_reduce(theirs.grad, ReduceOp.AVG)
            torch.testing.assert_close(ours.grad.full_tensor(), theirs.grad)


def check_coalescing() -> None:
    with world() as (rank, ranks):
        group, cpu = dist.group.WORLD, torch.device("cpu")
        tensors = [torch.full((n,), float(rank)) for n in (3, 5)]
        group._start_coalescing(cpu)
        for tensor in tensors:
            group.allreduce([tensor], AllreduceOptions())
        group.send([torch.full((3,), float(rank))], (rank + 1) % ranks, 0)
        group.recv([got := torch.empty(3)], (rank - 1) % ranks, 0)
        group._end_coalescing(cpu).wait()
        assert all((tensor == sum(range(ranks))).all() for tensor in tensors) and (got == (rank - 1) % ranks).all()


# ------------------------------------------------------------------------------------------------ failures


def check_timeouts() -> list[str]:
    """The last rank does not come; the others say so, in the group's time or in the call's."""
    second = timedelta(seconds=1)
    with world(timeout=timedelta(seconds=30)) as (rank, ranks):
        hasty, hastened = dist.new_group(timeout=second), dist.new_group()
        dist.set_timeout(second, hastened)
        late = rank == ranks - 1
        texts = []
        attempts: list[Callable[[], Any]] = [
            lambda: dist.all_reduce(torch.ones(3), group=hasty),
            lambda: dist.all_reduce(torch.ones(3), group=hastened, async_op=True).wait(),
            lambda: dist.barrier(timeout=second),
        ]
        for attempt in attempts:
            start = time.monotonic()
            if late:
                time.sleep(1.5)
                continue
            kind, text = helpers.failure_of(attempt)
            assert kind in ("TimeoutError", "AbortedError"), (kind, text)
            assert 0.5 < time.monotonic() - start < 6, time.monotonic() - start
            texts.append(f"{kind}: {text}")
    return texts


def check_mismatch() -> str:
    """Rank 1 calls something else: everybody raises, and nobody hangs."""
    with world(timeout=timedelta(seconds=20)) as (rank, _):
        start = time.monotonic()
        if rank == 1:
            kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(5)))
        else:
            kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(4)))
        assert kind == "MismatchError", (kind, text)
        assert time.monotonic() - start < 10
    return text


def check_failed_futures() -> str:
    """Errors come out of futures, as DistributedDataParallel awaits them."""
    with world(timeout=timedelta(seconds=20)) as (rank, _):
        work = dist.all_reduce(torch.ones(4 + (rank == 1)), async_op=True)
        future = work.get_future()
        kind, text = helpers.failure_of(future.wait)
        assert "MismatchError" in kind + text, (kind, text)
        assert work.is_completed() and not work.is_success() and work.exception() is not None
        kind, text = helpers.failure_of(work.wait)
        assert kind == "MismatchError", (kind, text)
    return text


def check_death() -> str:
    """Rank 1 vanishes: the others learn it at once, and can go on to destroy the group."""
    with world(timeout=timedelta(seconds=30)) as (rank, _):
        dist.all_reduce(torch.ones(3))
        if rank == 1:
            os._exit(0)
        start = time.monotonic()
        kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(3)))
        assert time.monotonic() - start < 10
    return f"{kind}: {text}"


def check_monitored_barrier() -> str:
    with world() as (rank, ranks):
        dist.monitored_barrier()
        text = ""
        if rank != ranks - 1:
            kind, text = helpers.failure_of(lambda: dist.monitored_barrier(timeout=timedelta(seconds=1)))
            assert kind == "RuntimeError", (kind, text)
        dist.barrier()
    return text


# ------------------------------------------------------------------------------------------------ training


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
    """Digests by rank, of ringroad's replicas; their losses are gloo's."""
    steps = 4 if compile else 20
    reference, _ = train("gloo", steps)
    digests = []
    for backend in ("ringroad", "cpu:ringroad,cuda:gloo"):
        losses, digest = train(backend, steps, compile=compile)
        np.testing.assert_allclose(losses, reference, rtol=1e-4)
        digests.append(digest)
    return digests
