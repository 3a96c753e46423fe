"""A barrier that names missing ranks."""

import time
from collections.abc import Callable

from torch._C._distributed_c10d import Store

_ALL_HERE = "all here"
_SHORTEST, _LONGEST = 0.001, 0.05
"""The seconds between two checks of the store grow from the first to the second value."""
_WATCH = 0.25
"""Seconds between two checks for ranks that have died."""

Lost = Callable[[], list[tuple[int, str]]]


def monitored_barrier(store: Store, rank: int, ranks: int, seconds: float, wait_all_ranks: bool, lost: Lost) -> None:
    """Rank 0 waits for all others. Without `wait_all_ranks` it stops at the first rank that is late or has died.

    The barrier uses the store (a part that no other barrier uses), so that it works even if the communicator hangs.
    `lost` returns the ranks that have died, each with the evidence. The messages are gloo's, because people search
    their logs for them.
    """
    if rank == 0:
        verdict = _await_ranks(store, ranks, seconds, wait_all_ranks, lost)
        store.set("verdict", verdict)
        # torch's `set` does not wait for the server of the store, where others look once this rank has ended.
        store.check(["verdict"])
        if verdict != _ALL_HERE:
            raise RuntimeError(verdict)
        return
    store.set(str(rank), "here")
    # Rank 0 may start as late as the timeout allows, and then waits for the others for another timeout.
    absent = _await(store, {0: "verdict"}, 2 * seconds + 1, True, lost)
    verdict = f"Rank 0 did not reach monitoredBarrier in {seconds:g} s" if absent else store.get("verdict").decode()
    verdict += _reasons(absent)
    if verdict != _ALL_HERE:
        raise RuntimeError(
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
            f"rank 0: {verdict}"
        )


def _await_ranks(store: Store, ranks: int, seconds: float, wait_all_ranks: bool, lost: Lost) -> str:
    """The verdict of rank 0: `_ALL_HERE`, or the error message."""
    if seconds <= 0:
        return f"Rank 0 timed out in monitoredBarrier after {seconds:g} s"
    absent = _await(store, {rank: str(rank) for rank in range(1, ranks)}, seconds, wait_all_ranks, lost)
    if not absent:
        return _ALL_HERE
    return (
        f"[Rank 0]: Rank{'s' if len(absent) > 1 else ''} {', '.join(map(str, absent))} failed to pass monitoredBarrier "
        f"in {seconds:g} s{_reasons(absent)}"
    )


def _reasons(absent: dict[int, str]) -> str:
    reasons = "; ".join(f"rank {rank}: {reason}" for rank, reason in absent.items() if reason)
    return f" ({reasons})" if reasons else ""


def _await(store: Store, keys: dict[int, str], seconds: float, wait_all: bool, lost: Lost) -> dict[int, str]:
    """Waits for the keys that ranks set in the store. Returns the missing ranks (only the first that is found without
    `wait_all`), each with the evidence if it has died, else with an empty text.

    Polls the store: a wait inside the store would block Ctrl-C.
    """
    deadline = time.monotonic() + seconds
    missing, absent = dict(keys), dict[int, str]()
    pause = watch = 0.0
    while missing and (wait_all or not absent):
        rank = next(iter(missing))
        now = time.monotonic()
        if store.check([missing[rank]]):
            del missing[rank]
            pause = 0.0
        elif now >= deadline:
            absent[rank] = ""
            del missing[rank]
        elif now >= watch:
            watch = now + _WATCH
            # A rank may have set its key before it died.
            dead = {rank: reason for rank, reason in lost() if rank in missing and not store.check([missing[rank]])}
            absent |= dead
            missing = {rank: key for rank, key in missing.items() if rank not in dead}
        else:
            pause = min(max(1.5 * pause, _SHORTEST), _LONGEST)
            time.sleep(min(pause, deadline - now))
    return dict(sorted(absent.items()))
