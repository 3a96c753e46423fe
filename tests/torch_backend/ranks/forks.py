"""What forked children may do with a group: nothing."""

import itertools
import multiprocessing
from datetime import timedelta

import helpers
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from ranks import world


def refused(action) -> str:
    """The text of the error that a child gets."""
    kind, text = helpers.in_child(lambda: helpers.failure_of(action))
    assert kind == "AbortedError" and "forked" in text and "spawn" in text, (kind, text)
    return text


def leave(action=lambda: None) -> int:
    """The exit status of a child that ends as workers do, including its exit handlers."""
    child = multiprocessing.get_context("fork").Process(target=action)
    child.start()
    child.join(20)
    return child.exitcode


def check_children() -> None:
    """Calls, works and aborts are refused. A child that destroys the group only drops it. The parents continue."""
    with world(timeout=timedelta(seconds=30)) as (rank, ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        work = dist.irecv(got := torch.zeros(4), before, tag=1)
        actions = [
            lambda: dist.all_reduce(torch.ones(3)),
            lambda: dist.all_reduce(torch.ones(3), async_op=True),
            lambda: dist.send(torch.ones(3), after),
            dist.barrier,
            work.wait,
            lambda: work.wait(timedelta(seconds=1)),
            work.result,
            lambda: dist.group.WORLD.abort(),
        ]
        for action in actions:
            refused(action)
        assert helpers.in_child(lambda: (work.is_completed(), work.is_success())) == [True, False]
        kind, text = helpers.in_child(lambda: helpers.failure_of(work.get_future().wait))
        assert "forked" in text, (kind, text)
        assert helpers.in_child(dist.destroy_process_group) is None
        assert leave() == 0 and leave(dist.destroy_process_group) == 0
        dist.send(torch.full((4,), float(rank)), after, tag=1)
        work.wait()
        assert (got == before).all()
        dist.all_reduce(total := torch.ones(1000))
        assert (total == ranks).all()


class Squares(Dataset):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index * index)])


def check_loaders() -> None:
    """Workers of a DataLoader start and end while calls are in flight."""
    with world(timeout=timedelta(seconds=30)) as (_, ranks):
        for _ in range(2):
            work = None
            for batch in DataLoader(Squares(), batch_size=10, num_workers=2, multiprocessing_context="fork"):
                pending = dist.all_reduce(batch, async_op=True)
                if work is not None:
                    work.wait()
                work = pending
            work.wait()
            assert batch.sum() == ranks * sum(index * index for index in itertools.islice(itertools.count(30), 10))
