"""Ways of calling: layouts, handles, messages, overloads, coalescing, refusals."""

import itertools
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import helpers
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import AllreduceOptions, ReduceOp

from ranks import TAKES_AN_ORDER, TORCH, world


def check_path() -> list[str]:
    """The files of ringroad.torch through which a blocking call goes to the extension, in order."""
    found: list[str] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ == "_run_tensors":
            files = [each.f_code.co_filename for each, _ in traceback.walk_stack(frame)]
            found.extend(Path(file).name for file in files[::-1] if "/ringroad/torch/" in file)

    with world():
        sys.setprofile(note)
        dist.all_reduce(torch.ones(1000))
        sys.setprofile(None)
    return found


def check_messages() -> None:
    """Every rank sends to every rank, with tags that arrive in reverse order; and batches."""
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


def check_high_tags() -> None:
    """Messages with any tag are separate from those of an all-to-all of uneven pieces, which consists of messages."""
    with world() as (rank, ranks):
        sizes = [rank + peer + 1 for peer in range(ranks)]
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        for tag in ((1 << 26) - 1, (1 << 28) - 2):
            sent = dist.isend(torch.full((rank + after + 1,), -1.0), after, tag=tag)
            got = torch.empty(sum(sizes))
            dist.all_to_all_single(got, torch.full((sum(sizes),), float(rank)), sizes, sizes)
            assert torch.equal(got, torch.cat([torch.full((size,), float(peer)) for peer, size in enumerate(sizes)]))
            dist.recv(late := torch.empty(before + rank + 1), before, tag=tag)
            assert (late == -1).all()
            sent.wait()
        for post in (dist.send, dist.recv):
            kind, text = helpers.failure_of(lambda post=post: post(torch.ones(1), after, tag=(1 << 28) - 1))
            assert kind == "ValueError" and "tag 268435455" in text, (kind, text)


def check_any_source() -> None:
    """Every rank sends to every rank, and receives from any source. The source is reported as a rank of the world."""
    with world() as (rank, ranks):
        groups: list[Any] = [None]
        if TAKES_AN_ORDER:
            groups.append(dist.new_group(list(range(ranks))[::-1], sort_ranks=False))
        everybody = set(range(ranks)) - {rank}
        for group in groups:
            sent = [
                dist.isend(torch.full((size,), float(rank)), peer, group=group, tag=tag)
                for tag, size in enumerate((1, 70_001))
                for peer in sorted(everybody)
            ]
            sources = set()
            for _ in everybody:
                sources.add(source := dist.recv(got := torch.empty(1), group=group))
                assert got.item() == source
            assert sources == everybody
            # The columns of a matrix are memory with gaps.
            gathered = torch.full((70_001, ranks), -1.0)
            works = [dist.irecv(gathered[:, index], group=group, tag=1) for index in range(ranks - 1)]
            for work in works:
                assert work.wait()
                assert 0 <= work.source_rank() < ranks
            assert {int(value) for value in gathered[0, :-1]} == everybody
            assert (gathered[:, -1] == -1).all() and torch.equal(gathered, gathered[:1].expand_as(gathered))
            for work in sent:
                work.wait()
        # One message is sent before its receive is posted, the other after.
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        waiting = dist.irecv(got := torch.empty(5), tag=3)
        future = waiting.get_future()
        assert not waiting.is_completed()
        dist.barrier()
        dist.send(torch.full((5,), float(rank)), after, tag=3)
        future.wait()
        assert waiting.source_rank() == before and (got == before).all()


def check_layouts() -> None:
    """Tensors whose memory is not their elements in order."""
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


def check_wrappers() -> None:
    """What functional collectives return has no memory of its own; nor have its parts, which begin elsewhere."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor, all_reduce

    with world() as (rank, ranks):
        whole = all_reduce(torch.arange(2.0 * ranks), "sum", dist.group.WORLD)
        sums = ranks * torch.arange(2.0 * ranks)
        assert type(whole) is AsyncCollectiveTensor
        part, expected = whole[ranks:], sums[ranks:]
        dist.all_gather_into_tensor(out := torch.empty(ranks * ranks), part)
        assert torch.equal(out, expected.repeat(ranks))
        dist.all_gather(outs := [torch.empty(ranks) for _ in range(ranks)], part)
        assert all(torch.equal(each, expected) for each in outs)
        dist.reduce_scatter(out := torch.empty(2), list(whole.chunk(ranks)))
        assert torch.equal(out, ranks * sums.chunk(ranks)[rank])
        sizes = [1, *[2] * (ranks - 2), 2 * ranks - 1 - 2 * (ranks - 2)]
        dist.reduce_scatter(out := torch.empty(sizes[rank]), list(whole.split(sizes)))
        assert torch.equal(out, ranks * sums.split(sizes)[rank])
        # Nothing has started when the second tensor turns out to be one.
        both = [torch.ones(3), all_reduce(torch.ones(3), "sum", dist.group.WORLD)]
        dist.all_reduce_coalesced(both)
        assert (both[0] == ranks).all() and (both[1] == ranks * ranks).all()
        sent = dist.isend(part, (rank + 1) % ranks)
        dist.recv(out := torch.empty(ranks), (rank - 1) % ranks)
        sent.wait()
        assert torch.equal(out, expected)
        sizes = [1] * ranks
        dist.all_to_all_single(out := torch.empty(ranks), part, sizes, sizes)
        assert torch.equal(out, expected[rank].repeat(ranks))
        dist.all_to_all_single(part, torch.arange(float(ranks)), sizes, sizes)
        assert (part == rank).all()
        dist.all_reduce(part)
        assert (part == sum(range(ranks))).all() and torch.equal(whole[:ranks] + 0, sums[:ranks])


def check_moved_types() -> None:
    """Types that cannot be reduced can be moved, by all calls and in any layout."""
    with world() as (rank, ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32):
            for layout in (torch.clone, lambda x: torch.stack([x, x], 1)[:, 0]):
                each = [layout(torch.arange(float(ranks)).add(r).to(dtype)) for r in range(ranks)]
                mine, whole = each[rank], torch.cat(each)
                dist.broadcast(sent := layout(mine), 1)
                dist.all_gather(gathered := [torch.empty_like(mine) for _ in range(ranks)], mine)
                dist.all_gather_into_tensor(flat := torch.empty_like(whole), mine)
                dist.all_to_all_single(turned := torch.empty_like(mine), mine)
                dist.all_to_all_single(sized := torch.empty_like(mine), mine, [1] * ranks, [1] * ranks)
                dist.scatter(part := torch.empty_like(mine), each if rank == 0 else None)
                dist.gather(mine, outs := [torch.empty_like(mine) for _ in range(ranks)] if rank == 0 else None)
                work = dist.isend(mine, after)
                dist.recv(got := torch.empty_like(mine), before)
                work.wait()
                column = torch.stack([one[rank] for one in each])
                pairs = [
                    (sent, each[1]),
                    (flat, whole),
                    (torch.cat(gathered), whole),
                    (turned, column),
                    (sized, column),
                ]
                pairs += [(part, mine), (got, each[before]), *zip(outs or [], each, strict=False)]
                assert all(torch.equal(a.to(torch.complex64), b.to(torch.complex64)) for a, b in pairs), (dtype, pairs)
        different = torch.ones(ranks).to(torch.float8_e5m2), torch.ones(1).to(torch.float8_e4m3fn)
        kind, text = helpers.failure_of(lambda: dist.all_gather_into_tensor(*different))
        assert kind == "TypeError" and "one dtype" in text, (kind, text)


def check_freed() -> None:
    """A tensor whose storage was freed, as FSDP does it, has no memory unless it has no elements."""
    with world() as (rank, ranks):

        def freed(view: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
            part = view(whole := torch.ones(9 * ranks))
            whole.untyped_storage().resize_(0)
            return part

        views = [lambda x: x[4:], lambda x: x[1::2], lambda x: torch.nn.Parameter(x[:5]), lambda x: torch._neg_view(x)]
        alive = torch.ones(9)
        for view in views:
            gone = freed(view)
            calls: list[Callable[[], Any]] = [
                lambda gone=gone: dist.all_reduce(gone),
                lambda gone=gone: dist.all_reduce_coalesced([alive, gone]),
                lambda gone=gone: dist.all_gather([gone, *[torch.ones(9)] * (ranks - 1)], alive),
                lambda gone=gone: dist.all_to_all([gone] * ranks, [alive] * ranks),
                lambda gone=gone: dist.send(gone, 1 - rank),
                lambda gone=gone: dist.irecv(gone, 1 - rank),
            ]
            for call in calls:
                kind, text = helpers.failure_of(call)
                assert kind in ("ValueError", "Wrapper") and "has no memory" in text, (kind, text)
        dist.all_reduce(empty := freed(lambda x: x[4:4]))
        assert empty.numel() == 0 and (alive == 1).all()


def check_overlaps() -> None:
    """Input and output overlap, and not on all ranks."""
    with world() as (rank, ranks):
        each = torch.arange(3.0 * ranks + 1) + 100 * torch.arange(ranks)[:, None]
        sums = each.sum(0)

        def check(call: Callable[[torch.Tensor], Any], begin: int, expected: torch.Tensor) -> None:
            for asynchronous in (False, True):
                mine = each[rank].clone()
                work = call(mine, async_op=asynchronous)  # type: ignore[call-arg]
                if asynchronous:
                    work.wait()
                assert torch.equal(mine[begin:][: len(expected)], expected), (mine, expected)
                left = torch.cat([mine[:begin], mine[begin + len(expected) :]])
                assert torch.equal(left, torch.cat([each[rank][:begin], each[rank][begin + len(expected) :]]))

        first, shifted = each[:, :3].flatten(), each[:, 1:4].flatten()
        turned = each[:, 3 * rank :][:, :3].flatten()
        check(lambda x, **how: dist.all_gather(list(x[:-1].chunk(ranks)), x[:3], **how), 0, first)
        check(lambda x, **how: dist.all_gather_into_tensor(x[:-1], x[1:4], **how), 0, shifted)
        check(lambda x, **how: dist.reduce_scatter_tensor(x[:3], x[:-1], **how), 0, sums[3 * rank :][:3])
        check(lambda x, **how: dist.reduce_scatter(x[1:4], list(x[:-1].chunk(ranks)), **how), 1, sums[3 * rank :][:3])
        check(lambda x, **how: dist.all_to_all_single(x[1:], x[:-1], **how), 1, turned)
        check(lambda x, **how: dist.all_to_all(list(x[1:].chunk(ranks)), list(x[:-1].chunk(ranks)), **how), 1, turned)
        check(lambda x, **how: dist.all_to_all_single(x[1:], x[:-1], [3] * ranks, [3] * ranks, **how), 1, turned)
        root, is_root = ranks - 1, rank == ranks - 1
        whole = first if is_root else torch.empty(0)

        def parts(x: torch.Tensor) -> list[torch.Tensor] | None:
            return list(x[:-1].chunk(ranks)) if is_root else None

        check(lambda x, **how: dist.gather(x[:3], parts(x), root, **how), 0, whole)
        check(lambda x, **how: dist.scatter(x[:3], parts(x), root, **how), 0, each[root][3 * rank :][:3])
        pieces = [each[rank].clone() for _ in range(2)]
        with dist.distributed_c10d._coalescing_manager():
            for piece in pieces:
                dist.all_gather_into_tensor(piece[:-1], piece[:3])
        assert all(torch.equal(piece[:-1], first) for piece in pieces)
        # One call of several writes what another one reads.
        one, two = each[rank].clone(), 2 * each[rank]
        with dist.distributed_c10d._coalescing_manager():
            dist.reduce_scatter_tensor(one[:3], two[:-1])
            dist.reduce_scatter_tensor(two[:3], one[:-1])
        own = sums[3 * rank :][:3]
        assert torch.equal(one[:3], 2 * own) and torch.equal(two[:3], own), (one, two)
        one, two = each[rank].clone(), 2 * each[rank]
        with dist.distributed_c10d._coalescing_manager():
            dist.all_gather_into_tensor(one[:-1], two[:3])
            dist.all_gather_into_tensor(two[:-1], one[:3])
        assert torch.equal(one[:-1], 2 * first) and torch.equal(two[:-1], first), (one, two)
        mine = [torch.full((2,), rank), torch.full((2,), -rank)]
        outs = [[torch.empty_like(mine[0]), torch.empty_like(mine[0])] for _ in range(ranks)]
        outs[0][0] = mine[1]
        dist.all_gather_coalesced(outs, mine)
        assert all((a == r).all() and (b == -r).all() for r, (a, b) in enumerate(outs)), outs


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
        # A thread that completes a future is not in the caller's mode.
        with torch.inference_mode():
            inferred = torch.ones(4, 4)[:, 1]
            dist.all_reduce(inferred, async_op=True).get_future().wait()
        assert (inferred == ranks).all()
        (result,) = dist.all_to_all_single(out := torch.ones(2), torch.ones(2), [1, 1], [1, 1], async_op=True).result()
        assert result is out


def check_sparse() -> None:
    """Sums of sparse tensors, some of them empty, with and without dense dimensions."""
    with world() as (rank, ranks):
        for shape, dense in [((7,), 0), ((4, 5), 0), ((6, 3), 1)]:
            generator = torch.Generator().manual_seed(5)
            parts = [torch.rand(shape, generator=generator) for _ in range(ranks)]
            parts = [part * (part > 0.6) * (number != 1) for number, part in enumerate(parts)]
            for op, expected in ((ReduceOp.SUM, sum(parts)), (ReduceOp.AVG, sum(parts) / ranks)):
                mine = parts[rank].to_sparse(len(shape) - dense)
                dist.all_reduce(mine, op)
                assert torch.allclose(mine.to_dense(), expected)
                dist.all_gather(others := [torch.empty(shape) for _ in range(ranks)], mine.to_dense())
                assert all(torch.equal(other, mine.to_dense()) for other in others)
            work = dist.all_reduce(mine := parts[rank].to_sparse(len(shape) - dense), async_op=True)
            (result,) = work.get_future().wait()
            assert result is mine and torch.allclose(mine.to_dense(), sum(parts))
        kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.eye(2 + rank).to_sparse()))
        assert kind == "ValueError" and "(2, 2), (3, 3), (4, 4)" in text, text


def check_integer_averages() -> None:
    """Rounded towards zero, as NCCL does; frameworks average counts."""
    with world() as (rank, ranks):
        signed = (torch.int64, torch.int32, torch.int16, torch.int8)
        for dtype in (*signed, torch.uint64, torch.uint32, torch.uint16, torch.uint8):
            first = -9 if dtype in signed else 9
            for asynchronous in (False, True):
                wide = [torch.arange(first, 3 * ranks + first) + 2 * r for r in range(ranks)]
                values = [value.to(dtype) for value in wide]
                expected = sum(wide).div(ranks, rounding_mode="trunc").to(dtype)
                tensors = [values[rank].clone(), torch.zeros(3 * ranks, 2, dtype=dtype)[:, 1].copy_(values[rank])]
                for tensor in tensors:  # a block, and one that is not
                    work = dist.all_reduce(tensor, ReduceOp.AVG, async_op=asynchronous)
                    if work is not None:
                        (result,) = work.get_future().wait()
                        assert result is tensor
                    assert torch.equal(tensor, expected), (tensor, expected)
                work = dist.reduce(root := values[rank].clone(), 1, ReduceOp.AVG, async_op=asynchronous)
                if work is not None:
                    work.wait()
                assert torch.equal(root, expected) or rank != 1
                part = torch.zeros(3, dtype=dtype)
                work = dist.reduce_scatter_tensor(part, values[rank], ReduceOp.AVG, async_op=asynchronous)
                if work is not None:
                    work.wait()
                assert torch.equal(part, expected.chunk(ranks)[rank])
            if dtype not in (torch.int64, torch.uint64):  # the sum of these has no wider type
                most = torch.iinfo(dtype).max
                dist.all_reduce(tensor := torch.tensor([most, most - rank * ranks], dtype=dtype), ReduceOp.AVG)
                assert tensor.tolist() == [most, most - ranks * (ranks - 1) // 2], tensor
                pieces = torch.full((2 * ranks,), most, dtype=dtype).chunk(ranks)
                dist.reduce_scatter(pieces[rank], list(pieces), ReduceOp.AVG)
                assert (torch.cat(pieces) == most).all()
        kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), ReduceOp.AVG))
        assert kind == "TypeError" and "avg does not support bool" in text, (kind, text)


def check_exchange() -> None:
    """Which tensors go directly, and which must be staged. If neither is known, results are right but slow."""
    with world() as (_, ranks):
        communicator = dist.group.WORLD.backend.communicator
        plain, other = torch.ones(6 * ranks), torch.ones(6)

        def taken(collective: str, source: torch.Tensor, target: torch.Tensor, **how: Any) -> bool:
            return communicator._run_tensors(collective, source, target, **how) is None

        for dtype in (
            torch.float32,
            torch.bfloat16,
            torch.float16,
            torch.int8,
            torch.uint8,
            torch.int64,
            torch.uint32,
            torch.bool,
        ):
            assert taken("allreduce", tensor := torch.ones(5, dtype=dtype), tensor, op="max") and (tensor == 1).all()
        for tensor in (torch.ones(()), torch.ones(0, 3), torch.ones(3, 1, 2).transpose(0, 1), plain[1:]):
            assert taken("allreduce", tensor, tensor)
        assert taken("allgather", other, plain) and taken("reduce_scatter", plain, other)
        assert taken("broadcast", other, other, root=ranks - 1) and (other == other[0]).all()
        strided, small = torch.ones(4, 2)[:, 0], torch.ones(5)
        for collective, source, target in [
            ("allreduce", strided, strided),
            ("allreduce", torch.nn.Parameter(other), other),
            ("allreduce", other, small),
            ("allreduce", other, other.double()),
            ("allreduce", tensor := torch.ones(2, dtype=torch.complex64), tensor),
            ("allreduce", tensor := torch.ones(2).to(torch.float8_e4m3fn), tensor),
            ("allreduce", tensor := torch.ones(2, device="meta"), tensor),
            ("allreduce", tensor := torch.eye(3).to_sparse(), tensor),
            ("allgather", small, plain),
            ("reduce_scatter", plain[1:], other),
            ("reduce_scatter", small, other),
        ]:
            assert communicator._run_tensors(collective, source, target) is NotImplemented, (collective, source)
        assert communicator._run_tensors("broadcast", other, other, root=ranks) is NotImplemented
        # Only torch knows about the negative bit.
        negative = torch.complex(torch.zeros(4), torch.ones(4)).conj().imag
        assert negative.is_neg()
        dist.all_reduce(negative)
        assert (negative == -ranks).all()


def check_refusals() -> list[str]:
    with world() as (rank, _):
        attempts: list[Callable[[], Any]] = [
            lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn)),
            lambda: dist.broadcast(torch.empty(2, dtype=torch.bits8), 0),
            lambda: dist.all_reduce(torch.eye(3).to_sparse(), ReduceOp.MAX),
            lambda: dist.broadcast(torch.eye(3).to_sparse(), 0),
            lambda: dist.all_reduce(torch.ones(3, device="meta")),
            lambda: dist.all_reduce(torch.ones(3), ReduceOp.BAND),
            lambda: dist.all_gather_into_tensor(torch.ones(1), torch.ones(3)),
            lambda: dist.send(torch.ones(3), 1 - rank, tag=1 << 30),
            lambda: dist.recv(torch.ones(3), tag=1 << 30),
            lambda: dist.all_reduce(torch.ones(3), async_op=True).source_rank(),
            lambda: dist.all_reduce(torch.ones(8).as_strided((2, 3), (2, 2))),
            lambda: dist.broadcast(torch.ones(8).as_strided((2, 3), (2, 1)), 0) if rank else 1 // 0,
        ]
        texts = []
        for attempt in attempts:
            kind, text = helpers.failure_of(attempt)
            assert kind != "nothing"
            texts.append(f"{kind}: {text}")
        dist.barrier()  # no call was started, so the ranks still agree on the next one
        interleaved = torch.ones(8).as_strided((2, 3), (3, 2))
        dist.all_reduce(interleaved)
        assert (interleaved == 2).all()
    return texts


def check_overloads() -> None:
    """ProcessGroup's methods called directly, as torch's own libraries call them."""
    with world() as (rank, ranks):
        group, total = dist.group.WORLD, sum(range(ranks))

        def mine() -> torch.Tensor:
            return torch.full((3,), float(rank))

        starts = [
            lambda t: group.allreduce([t]),
            lambda t: group.allreduce(t),
            lambda t: group.allreduce([t], AllreduceOptions()),
            lambda t: group.allreduce([t], opts=AllreduceOptions()),
            lambda t: group.allreduce([t], op=ReduceOp.SUM),
            lambda t: group.allreduce_coalesced([t]),
        ]
        if "timeout" in (dist.ProcessGroup.allreduce.__doc__ or ""):  # it lists the overloads; torch 2.8 lacks this
            starts.append(lambda t: group.allreduce(t, ReduceOp.SUM, timeout=timedelta(seconds=30)))
        for start in starts:
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
        if TORCH >= (2, 14):  # older versions send one of these over gloo, like all calls of torch's dispatcher
            (group.gather(outs, mine(), 0) if rank == 0 else group.gather([], [mine()])).wait()
        group.barrier().wait()
        own, outs, sparse = mine(), [torch.empty(6)[::2] for _ in range(ranks)], torch.eye(3).to_sparse()
        with torch.device("meta"):  # the caller's default device, on which nothing must be staged
            group.allgather([outs], [own]).wait()
            group.allreduce([sparse]).wait()
        assert all((out == peer).all() for peer, out in enumerate(outs))
        assert torch.equal(sparse.to_dense(), ranks * torch.eye(3))


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
