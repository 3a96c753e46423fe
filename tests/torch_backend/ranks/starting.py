"""Groups without torchrun's variables, and groups of which torch.distributed does not know."""

import os
import signal
from datetime import timedelta
from typing import Any

import helpers
import ringroad
import ringroad.torch
import torch
import torch.distributed as dist
from ringroad.torch import Options
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAUNCHED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
)
"""What torchrun sets."""


def check_init(launcher: dict[str, str], local: bool) -> None:
    """The default group under a launcher, twice. `{rank}` and `{size}` in its variables stand for numbers."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for name in LAUNCHED:
        os.environ.pop(name, None)
    os.environ |= {name: value.format(rank=rank, size=size) for name, value in launcher.items()}
    for _ in range(2):
        ringroad.torch.init(timeout=30, options=Options(algorithm="ring"))
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, size, "ringroad")
        assert ringroad.torch.communicator().timeout == 30
        dist.all_reduce(tensor := torch.tensor([rank + 1]))
        assert tensor.item() == size * (size + 1) // 2
        kind, text = helpers.failure_of(ringroad.torch.init)
        assert kind == "ValueError" and "initialized already" in text, (kind, text)
        dist.destroy_process_group()
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == (str(rank), str(size))
    if local:
        assert (os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"]) == (str(rank), str(size))
    if "MASTER_ADDR" in os.environ:  # gloo, and NumPy's communicator, meet at the same place
        ringroad.torch.init("gloo", timeout=timedelta(seconds=30))
        dist.all_reduce(tensor := torch.tensor([1]))
        assert tensor.item() == size and dist.get_backend() == "gloo"
        dist.destroy_process_group()
        with ringroad.init(timeout=30) as comm:
            assert (comm.rank, comm.size) == (rank, size)


def place() -> tuple[dist.Store, int, int]:
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    return store, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def check_group() -> None:
    """Several groups over one store, at the same time and one after the other."""
    store, rank, ranks = place()
    groups = {name: ringroad.torch.process_group(store, rank, ranks, Options(timeout=30), name=name) for name in "ab"}
    order = list(groups) if rank == 0 else list(groups)[::-1]
    works = {name: [torch.full((1000,), rank + 1.0)] for name in order}
    for name in order:
        works[name].append(dist.all_reduce(works[name][0], group=groups[name], async_op=True))
    for tensor, work in works.values():
        work.wait()
        assert (tensor == ranks * (ranks + 1) / 2).all()
    group = groups["a"]
    assert not dist.is_initialized() and (group.rank(), group.size()) == (rank, ranks)
    assert ringroad.torch.communicator(group).timeout == 30
    dist.broadcast(tensor := torch.tensor([rank]), group=group, group_src=ranks - 1)
    assert tensor.item() == ranks - 1
    everybody: list[Any] = [None] * ranks
    dist.all_gather_object(everybody, ("x" * rank, rank), group=group)
    assert everybody == [("x" * r, r) for r in range(ranks)]
    check_training(group, rank)
    ringroad.torch.empty(3, group=group)
    group.shutdown()
    again = ringroad.torch.process_group(store, ranks - 1 - rank, ranks, Options(algorithm="ring"), name="a")
    assert again.rank() == ranks - 1 - rank
    again.barrier().wait()
    for one in (again, groups["b"]):
        one.shutdown()

    wrong: list[tuple[Any, str, str]] = [
        ((ringroad.MemoryStore(), 0, 1), "TypeError", "TCPStore, not in a MemoryStore"),
        ((store, 2, 2), "ValueError", "rank 2 of 2"),
    ]
    for arguments, expected, words in wrong:
        kind, text = helpers.failure_of(lambda given=arguments: ringroad.torch.process_group(*given))
        assert kind == expected and words in text, (kind, text)


def check_training(group: dist.ProcessGroup, rank: int) -> None:
    torch.manual_seed(rank)
    model = nn.Linear(4, 2)
    replica = DistributedDataParallel(model, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        replica(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    copies = [torch.empty_like(weights) for _ in range(group.size())]
    dist.all_gather(copies, weights, group=group)
    assert all(torch.equal(copy, weights) for copy in copies), "the replicas differ in their bits"


def check_death(victim: int) -> None:
    """After a rank was killed in a call, the others make a new group over the same store."""
    store, rank, ranks = place()
    group = ringroad.torch.process_group(store, rank, ranks, Options(timeout=30))
    group.barrier().wait()
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(1000), group=group))
    assert kind == "PeerError" and f"rank {victim}" in text, (kind, text)
    group.abort()
    left = [r for r in range(ranks) if r != victim]
    group = ringroad.torch.process_group(store, left.index(rank), len(left), Options(timeout=30))
    dist.all_reduce(tensor := torch.ones(1000), group=group)
    assert (tensor == len(left)).all()
    group.shutdown()
