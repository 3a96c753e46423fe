"""Process groups: their forms, subgroups, options."""

import os
import time
from datetime import timedelta
from typing import Any

import helpers
import numpy as np
import ringroad.torch
import torch
import torch.distributed as dist

from ranks import TAKES_AN_ORDER, TORCH, world
from ranks.values import MOVING, REDUCING, Case, Running


def check_forms() -> None:
    """The classes that a group consists of. Both forms do everything that a training job needs."""
    with world() as (_, ranks):
        assert type(dist.group.WORLD).__name__ == "RingroadProcessGroup"
        assert dist.get_backend() == "ringroad" and dist.group.WORLD.name() == "ringroad"
        assert type(dist.all_reduce(torch.ones(1), async_op=True)).__name__ == "Work"
        gloo = dist.new_group(backend="gloo")
        dist.all_reduce(tensor := torch.ones(2), group=gloo)
        assert (tensor == ranks).all()
    if TORCH < (2, 14):
        kind, text = helpers.failure_of(lambda: dist.init_process_group("cpu:ringroad,cuda:gloo"))
        assert kind == "RuntimeError" and "needs torch 2.14" in text, (kind, text)
        return
    for backend in ("cpu:ringroad,cuda:gloo", "meta:gloo,cpu:ringroad"):
        with world(backend, apart=True) as (rank, ranks):
            group = dist.group.WORLD
            assert type(group) is dist.ProcessGroup
            assert type(group._get_backend(torch.device("cpu"))).__name__ == "RingroadBackend"
            for kind in REDUCING + MOVING:
                for async_op in (False, True):
                    if kind != "gather":  # torch 2.15 does not let Python implement gather_single in a Backend
                        Running(Case(kind, 1000, async_op=async_op, seed=1)).finish()
            check_objects(rank, ranks)
            work = dist.all_reduce(tensor := torch.ones(5), async_op=True)
            assert (work.get_future().wait()[0] == ranks).all()
            dist.monitored_barrier()
    with world("cpu:gloo,cuda:ringroad", apart=True) as (_, ranks):
        group = dist.group.WORLD
        assert type(group._get_backend(torch.device("cpu"))).__name__ == "ProcessGroupGloo"
        assert type(group._get_backend(torch.device("cuda"))).__name__ == "RingroadBackend"
        assert ringroad.torch.communicator().size == ranks
        dist.all_reduce(tensor := torch.ones(2))
        assert (tensor == ranks).all()
    with world("gloo", apart=True) as (_, ranks):
        kind, text = helpers.failure_of(lambda: ringroad.torch.communicator())
        assert kind == "TypeError" and "none of them ringroad" in text, (kind, text)
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


def check_parts_of_a_topology() -> None:
    """RINGROAD_TOPOLOGY describes the job. Subgroups have the part on which they stand."""
    with world() as (rank, _):

        def check(group: Any, topology: str) -> None:
            assert ringroad.torch.communicator(group).topology == topology
            dist.all_reduce(tensor := torch.ones(3), group=group)
            assert (tensor == dist.get_world_size(group)).all()

        check(None, "torus:2x2")
        mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        for name in ("replicate", "shard"):
            check(mesh.get_group(name), "ring:2")
        three = dist.new_group([0, 1, 3])
        if rank != 2:
            check(three, "graph:torus-2x2-3-of-4")
            inner = three.split_group([0, 2])  # they are ranks 0 and 3, with others between them
            if inner is not None:
                check(inner, "graph:torus-2x2-3-of-4-2-of-3")
                inner.shutdown()


def check_subgroups() -> None:
    with world() as (rank, ranks):
        check_objects(rank, ranks)
        even, odd = (dist.new_group(list(range(start, ranks, 2))) for start in (0, 1))
        mine, members = (even, range(0, ranks, 2)) if rank % 2 == 0 else (odd, range(1, ranks, 2))
        for _ in range(3):  # the groups overlap the world and take turns with it
            dist.all_reduce(tensor := torch.tensor([rank]), group=mine)
            assert tensor.item() == sum(members)
            dist.all_reduce(tensor := torch.tensor([rank]))
            assert tensor.item() == sum(range(ranks))
        dist.broadcast(tensor := torch.tensor([rank]), src=members[-1], group=mine)
        assert tensor.item() == members[-1]
        dist.destroy_process_group(mine)

        if TAKES_AN_ORDER:
            reverse = dist.new_group(list(range(ranks))[::-1], sort_ranks=False)
            assert dist.get_rank(reverse) == ranks - 1 - rank
            got = torch.empty(ranks, dtype=torch.int64)
            dist.all_gather_into_tensor(got, torch.tensor([rank]), group=reverse)
            assert got.tolist() == list(range(ranks))[::-1]

        local = dist.new_group([rank], use_local_synchronization=True)
        dist.all_reduce(tensor := torch.tensor([rank]), group=local)
        assert tensor.item() == rank

        if TORCH >= (2, 15):  # older versions of split_group need an accelerator
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
    """Groups over one store, one after the other, with different members under the same names."""
    for attempt in range(3):
        with world() as (rank, ranks):
            dist.all_reduce(tensor := torch.tensor([rank + attempt]))
            assert tensor.item() == sum(r + attempt for r in range(ranks))
            members = [attempt, (attempt + 1) % ranks]
            group = dist.new_group(members)
            if rank in members:
                dist.all_reduce(tensor := torch.tensor([rank]), group=group)
                assert tensor.item() == sum(members)


def check_after_a_failure() -> None:
    """Groups that could not be made can be made over the same store, whichever rank was late or wrong."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    for late in range(ranks):
        place = {"store": store, "rank": rank, "world_size": ranks}
        options: Any = {"pg_options": "none"} if rank == late else {"timeout": timedelta(seconds=0.5)}
        kind, text = helpers.failure_of(lambda more=place | options: dist.init_process_group("ringroad", **more))
        assert kind == "TypeError" if rank == late else f"rank {late} did not come" in text, (kind, text)
        store.add(f"failed {late}", 1)
        while store.add(f"failed {late}", 0) < ranks:
            time.sleep(0.01)
        with world(**place):
            dist.all_reduce(tensor := torch.ones(1))
            assert tensor.item() == ranks
            dist.monitored_barrier()
            kind, text = helpers.failure_of(lambda more=options: dist.new_group(**more))
            assert kind == "TypeError" if rank == late else f"rank {late} did not come" in text, (kind, text)
            dist.barrier()
            group = dist.new_group()
            dist.all_reduce(tensor := torch.ones(1), group=group)
            assert tensor.item() == ranks


def check_options() -> None:
    with world(pg_options=ringroad.torch.Options(algorithm="ring")) as (_, ranks):
        assert ringroad.torch.communicator().algorithm_for("allreduce", 8) == "ring"
        dist.all_reduce(tensor := torch.ones(10))
        assert (tensor == ranks).all()
        group = dist.new_group(timeout=timedelta(seconds=77))
        assert ringroad.torch.communicator(group).timeout == 77
        for timeout in (55, timedelta(seconds=55)):
            options = ringroad.torch.Options(topology=f"ring:{ranks}", timeout=timeout)
            group = dist.new_group(pg_options=options)
            assert ringroad.torch.communicator(group).timeout == 55
            assert ringroad.torch.communicator(group).topology == f"ring:{ranks}"
            dist.all_reduce(tensor := torch.ones(10), group=group)
            assert (tensor == ranks).all()
        if TORCH >= (2, 15):
            part = dist.split_group(
                split_ranks=[list(range(ranks))], pg_options=ringroad.torch.Options(algorithm="swing")
            )
            assert ringroad.torch.communicator(part).algorithm_for("allreduce", 8) == "swing"
    for wrong, words in (
        ({"timeout": 0}, "above 0"),
        ({"timeout": timedelta(seconds=-1)}, "above 0"),
        ({"deterministic": "yes"}, "size-invariant"),
    ):
        kind, text = helpers.failure_of(lambda wrong=wrong: ringroad.torch.Options(**wrong))
        assert kind == "ValueError" and words in text, (kind, text)
    check_deterministic()
    kind, text = helpers.failure_of(lambda: dist.init_process_group("ringroad", pg_options={"algorithm": "ring"}))
    assert kind == "TypeError" and "ringroad.torch.Options" in text, (kind, text)


def check_deterministic() -> None:
    """The order of reduction is the same for all lengths."""
    options = ringroad.torch.Options(deterministic="size-invariant")
    with world(pg_options=options) as (rank, _):
        whole = torch.randn(5000, generator=torch.Generator().manual_seed(rank))
        dist.all_reduce(expected := whole.clone())
        for length in (1, 7, 100, 1023, 4096):
            dist.all_reduce(some := whole[:length].clone())
            assert torch.equal(some, expected[:length]), length


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
        assert ringroad.torch.empty(np.int64(3)).shape == (3,) and ringroad.torch.empty(()).shape == ()
