"""One rank's part in a run: start, calls, the fault, regrouping with the survivors, and cleaning up."""

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import ringroad
from ringroad import Communicator

from faults.kinds import HOSTS, PATIENCE, TRANSPORTS, Clock, Job, Kind
from faults.processes import CALLS, CLOSE, DONE, LOOK, START, WARM, Board, Log, open_things

Start = Callable[[str, int, int, float], Communicator]

SETTLE = 3.0  # seconds that threads may take to end
MET, TIDY = 1, 2  # steps for which ranks wait until the parent allows them


def live(job: Job, kind: Kind, board: Board, directory: Path, rank: int, log: Log) -> None:
    if job.transport in HOSTS:
        assert kind.hosts is not None
        kind.hosts.enter(job.side(rank))
        os.environ["RINGROAD_HOST"] = f"host-{job.side(rank)}"
    os.environ |= TRANSPORTS[job.transport] | {"RANK": str(rank), "WORLD_SIZE": str(job.ranks)}
    kind.prepare(job, rank)

    def start(place: str, rank: int, size: int, timeout: float) -> Communicator:
        os.environ["RINGROAD_STORE"] = f"file://{directory / place}"
        return ringroad.init(rank=rank, size=size, timeout=timeout)

    # Resources that a process opens once and keeps, such as libraries and the socket for regrouping, are no leaks.
    with start("warm", rank, job.ranks, PATIENCE) as comm:
        comm.allreduce(np.ones(1))
        comm.barrier(async_op=True).wait()
        with comm.shrink() as again:
            again.barrier()
    del comm, again
    gc.collect()
    board.phases[rank] = WARM
    board.wait_for(MET)
    before = open_things()

    clock = Clock()
    comms: list[Communicator] = []
    main(job, kind, board, rank, log, clock, comms, start)
    gc.collect()
    board.phases[rank] = DONE
    if kind.dies and rank in job.victims:
        while True:
            time.sleep(1)
    if not kind.dies:  # after a death ranks must not wait: others may still have to notice it
        board.wait_for(TIDY)

    regroup(kind.left(job), job, rank, log, comms, start)
    comms.clear()
    gc.collect()
    until = time.monotonic() + SETTLE
    while (more := open_things() - before) and time.monotonic() < until:
        time.sleep(10 * LOOK)
    log("end", leaks=dict(more))


def main(
    job: Job, kind: Kind, board: Board, rank: int, log: Log, clock: Clock, comms: list[Communicator], start: Start
) -> None:
    """The part with the fault. No reference to a failed call remains when it returns."""
    try:
        board.phases[rank] = START
        clock.began = time.monotonic()
        kind.limit(job, rank, "start")
        comms.append(start("main", rank, job.ranks, PATIENCE if job.where != "start" else kind.start_limit))
        board.phases[rank] = CALLS
        kind.limit(job, rank, "calls")
        kind.work(job, comms[0], log, clock, board)
        board.phases[rank] = CLOSE
        if job.where == "close":
            comms.pop().close()
    except Exception as error:
        at = time.monotonic()
        kind.lift()
        if comms and kind.aborts and rank in job.victims:
            comms[0].abort("gives up")
        log(
            "error", at=at, began=clock.began, type=type(error).__name__, text=str(error), phase=int(board.phases[rank])
        )
    kind.lift()


def regroup(left: list[int], job: Job, rank: int, log: Log, comms: list[Communicator], start: Start) -> None:
    """The survivors make a new communicator and use it: by `shrink`, or by a new start if some may have none."""
    own = left.index(rank)
    began = time.monotonic()
    try:
        if job.where == "calls" and comms:
            again = comms[0].shrink(timeout=PATIENCE)
        else:
            again = start("again", own, len(left), PATIENCE)
        with again:
            assert (again.rank, again.size) == (own, len(left)), f"rank {again.rank} of {again.size}"
            total = again.allreduce(np.full(1000, rank + 1, np.int64))
            assert (total == sum(left) + len(left)).all(), f"wrong sum {total}"
            again.barrier()
        log("usable", seconds=time.monotonic() - began)
    except Exception as error:
        log("unusable", text=f"{type(error).__name__}: {error}")
    for comm in comms:
        comm.close()
