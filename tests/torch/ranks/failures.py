"""What goes wrong, and who is told what."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import helpers
import torch
import torch.distributed as dist

from ranks import world


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
