"""Failures, and what each rank is told about them."""

import functools
import inspect
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import helpers
import torch
import torch.distributed as dist
from ringroad._status import asking, hangs
from torch.distributed.distributed_c10d import ReduceOp

from ranks import TORCH, world
from ranks.training import tiny_model


def check_timeouts() -> list[str]:
    """The last rank does not come. The others report it, within the group's timeout or the call's."""
    second = timedelta(seconds=1)
    with world(timeout=timedelta(seconds=30)) as (rank, ranks):
        hasty, hastened = dist.new_group(timeout=second), dist.new_group()
        if TORCH >= (2, 14):
            dist.set_timeout(second, hastened)
        else:
            hastened = dist.new_group(timeout=second)
        if "timeout" in inspect.signature(dist.barrier).parameters:
            barrier = functools.partial(dist.barrier, timeout=second)
        else:  # torch 2.8 and 2.9
            barrier = functools.partial(dist.barrier, dist.new_group(timeout=second))
        late = rank == ranks - 1
        texts = []
        attempts: list[Callable[[], Any]] = [
            lambda: dist.all_reduce(torch.ones(3), group=hasty),
            lambda: dist.all_reduce(torch.ones(3), group=hastened, async_op=True).wait(),
            barrier,
        ]
        for attempt in attempts:
            start = time.monotonic()
            if late:
                time.sleep(1.5)
                continue
            kind, text = helpers.failure_of(attempt)
            assert kind in ("TimeoutError", "AbortedError"), (kind, text)
            assert 0.5 < time.monotonic() - start < 20, time.monotonic() - start
            texts.append(f"{kind}: {text}")
    return texts


def check_status() -> None:
    """A rank that is late is told from outside, and no signal is taken for that."""
    with world(timeout=timedelta(seconds=60)) as (rank, _):
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL

        def is_named() -> bool:
            causes = hangs.causes(asking.of_this_process(), 0.1)
            return any(cause.ranks == [1] and "has not made call" in cause.text for cause in causes)

        assert rank != 1 or helpers.within(30, is_named)
        dist.all_reduce(torch.ones(3))


def check_mismatch() -> str:
    """Rank 1 calls something else: all ranks raise an error, and none hangs."""
    with world(timeout=timedelta(seconds=20)) as (rank, _):
        start = time.monotonic()
        if rank == 1:
            kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(5)))
        else:
            kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(4)))
        assert kind == "MismatchError", (kind, text)
        assert time.monotonic() - start < 20
    return text


def different_calls() -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """Pairs: the call of all ranks except one, and the call of that one."""
    ranks = dist.get_world_size()
    return {
        "shape": (lambda g: dist.all_reduce(torch.ones(4), group=g), lambda g: dist.all_reduce(torch.ones(5), group=g)),
        "shapes of several": (
            lambda g: dist.all_reduce_coalesced([torch.ones(4), torch.ones(4)], group=g),
            lambda g: dist.all_reduce_coalesced([torch.ones(3), torch.ones(5)], group=g),
        ),
        "dtype": (
            lambda g: dist.all_reduce(torch.ones(4), group=g),
            lambda g: dist.all_reduce(torch.ones(4, dtype=torch.float64), group=g),
        ),
        "op": (
            lambda g: dist.all_reduce(torch.ones(4), group=g),
            lambda g: dist.all_reduce(torch.ones(4), ReduceOp.MAX, group=g),
        ),
        "root": (
            # A rank that has received everything it waits for continues, and learns of the error in its next call.
            lambda g: (dist.broadcast(torch.ones(4), group=g, group_src=0), dist.barrier(group=g)),
            lambda g: (dist.broadcast(torch.ones(4), group=g, group_src=1), dist.barrier(group=g)),
        ),
        "collective": (
            lambda g: dist.all_reduce(torch.ones(4), group=g),
            lambda g: dist.all_gather_into_tensor(torch.ones(4 * ranks), torch.ones(4), group=g),
        ),
        "order": (
            lambda g: (dist.barrier(group=g), dist.all_reduce(torch.ones(4), group=g)),
            lambda g: (dist.all_reduce(torch.ones(4), group=g), dist.barrier(group=g)),
        ),
        "a list of another size": (
            lambda g: dist.reduce_scatter(torch.ones(4), [torch.ones(4)] * ranks, group=g),
            lambda g: dist.reduce_scatter(torch.ones(3), [torch.ones(3)] * ranks, group=g),
        ),
        "an asynchronous call": (
            lambda g: dist.all_reduce(torch.ones(4), group=g, async_op=True).wait(),
            lambda g: dist.all_reduce(torch.ones(4, dtype=torch.int32), group=g, async_op=True).wait(),
        ),
    }


def check_different_calls() -> dict[str, str]:
    """One rank calls something else: all ranks are told what every rank called."""
    texts = {}
    with world(timeout=timedelta(seconds=20)) as (rank, ranks):
        for name, (all_call, one_calls) in different_calls().items():
            group = dist.new_group()  # a group that has failed is not used again
            odd = rank == ranks - 1
            start = time.monotonic()
            kind, text = helpers.failure_of(lambda g=group, call=one_calls if odd else all_call: call(g))
            assert kind == "MismatchError", (name, kind, text)
            assert time.monotonic() - start < 20, name
            for peer in range(ranks):
                assert f"rank {peer} (" in text, (name, text)
            texts[name] = text
            dist.destroy_process_group(group)
        dist.barrier()  # the world is unaffected
    return texts


def check_abort() -> list[float]:
    """One rank aborts during a call. The same processes make a new group and continue training."""
    losses = []
    torch.manual_seed(0)
    model = tiny_model()
    for attempt in range(3):
        dist.init_process_group("ringroad", timeout=timedelta(seconds=30))
        rank = dist.get_rank()
        replica = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
        for step in range(3):
            x = torch.randn(8, 20, generator=torch.Generator().manual_seed(100 * attempt + 10 * step + rank))
            optimizer.zero_grad()
            loss = replica(x).square().mean()
            loss.backward()
            optimizer.step()
            dist.all_reduce(mean := loss.detach().clone(), ReduceOp.AVG)
            losses.append(mean.item())
        if rank == 1:
            time.sleep(0.2)  # the others are in a call by then, or soon after: both must end it
            dist.group.WORLD.abort()
        else:
            kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(3)))
            assert kind == "AbortedError" and "rank 1 " in text and "aborted" in text, (kind, text)
        kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(3)))
        assert kind == "AbortedError", (kind, text)
        del replica
        dist.destroy_process_group()
    assert losses[-1] < losses[0]
    return losses


def check_failed_futures() -> str:
    """Futures deliver errors, as DistributedDataParallel awaits them."""
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
    """Rank 1 dies. The others learn of it at once, and can still destroy the group."""
    with world(timeout=timedelta(seconds=30)) as (rank, _):
        dist.all_reduce(torch.ones(3))
        if rank == 1:
            os._exit(0)
        start = time.monotonic()
        kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(3)))
        assert time.monotonic() - start < 20
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


def check_monitored_barrier_without(dead: int) -> str:
    """A rank dies. The others learn of it long before the timeout."""
    with world(timeout=timedelta(seconds=50)) as (rank, _):
        dist.monitored_barrier()
        if rank == dead:
            os._exit(0)
        start = time.monotonic()
        kind, text = helpers.failure_of(dist.monitored_barrier)
        assert kind == "RuntimeError" and time.monotonic() - start < 20, (kind, text)
        return text


def check_monitored_barrier_interrupted() -> None:
    """Ctrl-C ends rank 0's wait for rank 2, and rank 1's wait for rank 0."""
    with world(timeout=timedelta(seconds=50)) as (rank, _):
        if rank != 2:
            start = time.monotonic()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            threading.Timer(0.3, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()
            try:
                dist.monitored_barrier()
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError(f"rank {rank} was not interrupted")
            assert time.monotonic() - start < 20
        dist.barrier()
