"""Groups that change: with fewer, more and other ranks, and after one was killed during a call."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

import helpers
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

LONG = timedelta(seconds=30)


class Job:
    """A rank of a job whose ranks exchange handles through the launcher's store."""

    def __init__(self, store: dist.Store) -> None:
        self.store = store
        self.number = int(os.environ["RANK"])
        self.all = range(int(os.environ["WORLD_SIZE"]))
        self.rounds = 0

    def handles(self) -> list[str]:
        self.rounds += 1
        self.store.set(f"{self.rounds}/{self.number}", dist._get_reconfigure_handle())
        return [self.store.get(f"{self.rounds}/{number}").decode() for number in self.all]

    def check(self, uuid: int, handles: Sequence[str] | set[str], rank: int, size: int) -> None:
        """Regroups. Then all ranks add up their numbers, and each receives a message from the previous one."""
        dist._reconfigure(uuid, handles, timeout=LONG).wait()
        assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
        group = distributed_c10d._get_default_group()
        backend = distributed_c10d.get_backend_impl(group, torch.device("cpu"))
        assert (group.rank(), group.size(), backend.rank(), backend.size()) == (rank, size, rank, size)
        tensor = torch.full((1000,), rank + 1.0)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size * (size + 1) / 2] * 1000
        if size > 1:
            into = torch.zeros(3)
            sent = dist.isend(torch.full((3,), float(rank)), (rank + 1) % size)
            dist.recv(into, (rank - 1) % size)
            sent.wait()
            assert into.tolist() == [(rank - 1) % size] * 3
        dist.barrier()
        dist.monitored_barrier()


@contextmanager
def job() -> Iterator[Job]:
    store = next(iter(dist.rendezvous("env://")))[0]
    own = dist.PrefixStore("handles", store)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("ringroad", store=store, rank=rank, world_size=ranks, timeout=LONG, enable_reconfigure=True)
    assert dist._supports_reconfigure()
    yield Job(own)
    dist.destroy_process_group()


def check_shapes() -> None:
    """All, without the last, without a middle one, alone, all again, the same again, in another order, as a set."""
    with job() as self:
        number, handles = self.number, self.handles()
        kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(3)))
        assert kind == "RuntimeError" and "_reconfigure" in text, (kind, text)
        self.check(1, handles, number, 4)
        if number < 3:
            self.check(2, handles[:3], number, 3)
        if number != 1:
            self.check(3, handles[:1] + handles[2:], max(0, number - 1), 3)
        self.check(10 + number, [handles[number]], 0, 1)
        self.check(4, handles, number, 4)
        self.check(5, handles, number, 4)
        self.check(6, handles[::-1], 3 - number, 4)
        dist._reconfigure(7, set(handles)).wait()
        ranks = [torch.zeros(1, dtype=torch.int64) for _ in self.all]
        dist.all_gather(ranks, torch.tensor([number]))
        assert sorted(int(rank) for rank in ranks) == list(self.all)
        kind, text = helpers.failure_of(lambda: dist._reconfigure(7, handles))
        assert kind == "RuntimeError" and "already used" in text, (kind, text)
        dist.barrier()


def check_join_merge_and_abort() -> None:
    """Some ranks start and others come later; two groups become one; an aborted group is made again."""
    with job() as self:
        number, handles = self.number, self.handles()
        if number < 2:
            self.check(1, handles[:2], number, 2)
        self.check(2, handles, number, 4)
        self.check(3 + number // 2, handles[:2] if number < 2 else handles[2:], number % 2, 2)
        self.check(5, handles, number, 4)
        group = distributed_c10d._get_default_group()
        backend = distributed_c10d.get_backend_impl(group, torch.device("cpu"))
        backend.abort()
        assert backend.get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS
        self.check(6, self.handles(), number, 4)


def check_exit() -> None:
    """The process of a group that never got members ends in order: it waits for its threads."""
    reader, writer = os.pipe()

    def leave() -> None:
        store = dist.HashStore()
        dist.init_process_group("ringroad", store=store, rank=0, world_size=1, enable_reconfigure=True)
        threading.Thread(target=lambda: (time.sleep(0.2), os.write(writer, b"saved"))).start()

    child = multiprocessing.get_context("fork").Process(target=leave)
    child.start()
    child.join(20)
    os.close(writer)
    assert (child.exitcode, os.read(reader, 10)) == (0, b"saved")


def check_death(victim: int) -> float:
    """A rank is killed during a collective, and the others regroup. Returns how long that took."""
    with job() as self:
        number, handles = self.number, self.handles()
        self.check(1, handles, number, 4)
        if number == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(1 << 20)))
        assert kind == "PeerError" and f"rank {victim} " in text, (kind, text)
        left = [other for other in self.all if other != victim]
        start = time.monotonic()
        kind, text = helpers.failure_of(lambda: dist._reconfigure(2, handles))
        assert kind == "PeerError" and "has ended" in text, (kind, text)
        self.check(3, [handles[other] for other in left], left.index(number), 3)
        return time.monotonic() - start


def check_shrink(flag: int) -> None:
    """torch.distributed.shrink_group, without a rank that died and without one that lives."""
    store = next(iter(dist.rendezvous("env://")))[0]
    number = int(os.environ["RANK"])
    dist.init_process_group("ringroad", store=store, rank=number, world_size=4, timeout=LONG)
    dist.barrier()
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if flag:  # in flight, or refused because another rank has aborted it
        with suppress(RuntimeError):
            dist.all_reduce(torch.ones(3), async_op=True)
    else:
        kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(3)))
        assert kind == "PeerError" and "rank 2 " in text, (kind, text)
    dist.shrink_group([2], shrink_flags=flag)
    rank = number - (number > 2)
    assert (dist.get_rank(), dist.get_world_size()) == (rank, 3)
    tensor = torch.full((5,), rank + 1.0)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [6.0] * 5
    dist.barrier()
    if rank == 0:
        return
    dist.shrink_group([0], shrink_flags=flag)
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0] * 5
    dist.destroy_process_group()
