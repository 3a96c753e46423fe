"""Ranks that hang in the ways that they are told: in that of each line of a file, until the line `end` follows."""

import ctypes
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import ringroad
from ringroad import Communicator

SHORT, LONG = np.ones(1000), np.ones(1 << 20)
"""An array, and one that no send copies."""
over = threading.Event()
"""That the hang is to end."""


def think(*_: object) -> None:
    over.wait()


def compute(*_: object) -> None:
    while not over.is_set():
        SHORT @ SHORT


def keep_the_gil(*_: object) -> None:
    ctypes.PyDLL(None).pause()  # until SIGUSR2


def stop(comm: Communicator) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    reduce(comm)


def reduce(comm: Communicator) -> None:
    comm.allreduce(SHORT)


def call_once_less(comm: Communicator) -> None:
    for _ in range(3 + (comm.rank != 2)):
        reduce(comm)
    think()


def slowly(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    think()
    return left + right


def one(does: Callable[[Communicator], object], others: Callable[[Communicator], object] = reduce, rank: int = 2):
    """One rank does something else than the others."""
    return lambda comm: does(comm) if comm.rank == rank else others(comm)


def right(comm: Communicator) -> int:
    return (comm.rank + 1) % comm.size


def left(comm: Communicator) -> int:
    return (comm.rank - 1) % comm.size


def exchange(comm: Communicator) -> None:
    """With both neighbours in a row of ranks, one of which does not take part."""
    beside = [rank for rank in (comm.rank - 1, comm.rank + 1) if 0 <= rank < comm.size]
    works = [comm.recv(np.empty(8), rank, async_op=True) for rank in beside]
    works += [comm.send(np.ones(8), rank, async_op=True) for rank in beside]
    ringroad.waitall(works)


def orders(comm: Communicator) -> None:
    """Two communicators of the same ranks, in another order at rank 1."""
    parts.extend(twins := [comm.dup(), comm.dup()])
    for twin in twins if comm.rank != 1 else twins[::-1]:
        twin.allreduce(LONG)


def repeat(comm: Communicator) -> None:
    while True:
        reduce(comm)


def halves(comm: Communicator) -> None:
    """One rank makes a call among two ranks that the other one of them makes among all."""
    pair = comm.split(comm.rank // 2)
    parts.append(pair)
    reduce(pair if comm.rank == 2 else comm)


WAYS: dict[str, Callable[[Communicator], object]] = {
    "missing": one(think),
    "most missing": one(reduce, think, 0),
    "computes": one(compute),
    "gil": one(keep_the_gil),
    "stopped": one(stop),
    "one call fewer": call_once_less,
    "left": one(lambda comm: comm.close()),
    "root missing": one(think, lambda comm: comm.reduce(LONG, root=0), 0),
    "leaf missing": one(think, lambda comm: comm.broadcast(LONG.copy())),
    "other collective": one(lambda comm: comm.allgather(SHORT)),
    "barrier": one(lambda comm: comm.barrier()),
    "other size": one(lambda comm: comm.allreduce(SHORT[1:])),
    "other type": one(lambda comm: comm.allreduce(SHORT.astype(int))),
    "other operation": one(lambda comm: comm.allreduce(SHORT, op="max")),
    "other root": one(lambda comm: comm.broadcast(SHORT.copy(), 1), lambda comm: comm.broadcast(SHORT.copy(), 0)),
    "all send": lambda comm: comm.send(LONG, right(comm)),
    "all receive": lambda comm: comm.recv(np.empty(4), left(comm)),
    "sends to itself": one(lambda comm: comm.send(LONG, 2), think),
    "tag": lambda comm: (
        comm.recv(np.empty(4), 3, 5) if comm.rank == 2 else comm.send(LONG, 2, 6) if comm.rank == 3 else think()
    ),
    "nobody sends": one(lambda comm: comm.recv(np.empty(4), 3), think),
    "nobody receives": one(lambda comm: comm.send(LONG, 3), think),
    "nobody sends to any": one(lambda comm: comm.recv(np.empty(4)), think),
    "nobody sends what is probed": one(lambda comm: comm.probe(1), think),
    "message and collective": one(lambda comm: comm.send(LONG, 3)),
    "neighbour missing": one(think, exchange),
    "halo missing": one(think, lambda comm: comm.cart(4).halo(np.ones(10))),
    "halves": halves,
    "orders": orders,
    "loop": repeat,
    "own operation": lambda comm: comm.allreduce(SHORT, op=slowly),
    "rendezvous": one(think, lambda comm: comm.split(0)),
    "died": one(lambda _: os._exit(1), think),
}


def follow(path: str, told: "queue.Queue[str]") -> None:
    """Passes on what is written in the file; ends a hang itself, since the main thread hangs."""
    with open(path) as file:
        while True:
            line = file.readline().strip()
            if not line:
                time.sleep(0.01)
            elif line == "end":
                over.set()
                for part in list(parts):
                    with suppress(ringroad.RingroadError):
                        part.abort("enough")
            else:
                told.put(line)


parts: list[Communicator] = []
"""The communicators that hang."""


def main() -> None:
    signal.signal(signal.SIGUSR2, lambda *_: None)
    told: queue.Queue[str] = queue.Queue()
    comm = ringroad.init(timeout=60)
    threading.Thread(target=follow, args=(sys.argv[1], told), daemon=True).start()
    print("ready", flush=True)
    while True:
        way = told.get()
        over.clear()
        parts[:] = [comm.dup()]
        with suppress(ringroad.RingroadError):
            WAYS[way](parts[0])
        over.wait()
        while parts:
            parts.pop().close()


main()
