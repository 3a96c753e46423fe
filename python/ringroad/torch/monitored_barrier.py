"""A barrier that names the ranks that do not come."""

from __future__ import annotations

import time
from datetime import timedelta

from torch._C._distributed_c10d import Store

_ALL_HERE = "all here"


def monitored_barrier(store: Store, rank: int, ranks: int, seconds: float, wait_all_ranks: bool) -> None:
    """Rank 0 waits for all others, or until one does not come in time if not `wait_all_ranks`.

    Goes through the store (one that no other barrier uses), so that it works where the communicator hangs. The texts
    are gloo's, which people search their logs for.
    """
    if rank == 0:
        verdict = _await_ranks(store, ranks, seconds, wait_all_ranks)
        store.set("verdict", verdict)
        if verdict != _ALL_HERE:
            raise RuntimeError(verdict)
        return
    store.set(str(rank), "here")
    try:
        # Rank 0 may be as late as the timeout allows, and then needs its own to look for the others.
        store.wait(["verdict"], timedelta(seconds=2 * seconds + 1))
        verdict = store.get("verdict").decode()
    except RuntimeError:
        verdict = f"Rank 0 did not reach monitoredBarrier in {seconds:g} s"
    if verdict != _ALL_HERE:
        raise RuntimeError(
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
            f"rank 0: {verdict}"
        )


def _await_ranks(store: Store, ranks: int, seconds: float, wait_all_ranks: bool) -> str:
    """What rank 0 finds out."""
    deadline = time.monotonic() + seconds
    missing: list[str] = []
    for rank in range(1, ranks):
        left = deadline - time.monotonic()
        if left <= 0 and not missing:
            return f"Rank 0 timed out in monitoredBarrier after {seconds:g} s"
        try:
            store.wait([str(rank)], timedelta(seconds=max(0.001, left)))
        except RuntimeError:
            missing.append(str(rank))
            if not wait_all_ranks:
                break
    if not missing:
        return _ALL_HERE
    return (
        f"[Rank 0]: Rank{'s' if len(missing) > 1 else ''} {', '.join(missing)} failed to pass monitoredBarrier in "
        f"{seconds:g} s"
    )
