"""Interrupts the rendezvous of a rank by each of several signals, over stores that its arguments name."""

import json
import os
import signal
import sys
import threading
import time

import ringroad


class Plain(dict):
    """A store in Python."""

    set = dict.__setitem__


class Enough(Exception):
    """What a handler raises."""


def torch():
    import torch.distributed

    return torch.distributed


def leave(*_):
    sys.exit(7)


def enough(*_):
    raise Enough


def interrupt(store):
    """Whether each signal's exception is raised, as what, and after how many seconds."""
    found = []
    for number, expected in [
        (signal.SIGINT, KeyboardInterrupt),
        (signal.SIGTERM, SystemExit),
        (signal.SIGUSR1, Enough),
    ]:
        for rank in (0, 1):
            timer = threading.Timer(0.3, os.kill, (os.getpid(), number))
            start = time.monotonic()
            timer.start()
            try:
                ringroad.Communicator(store, rank, 2, timeout=60)
            except BaseException as error:
                found.append([type(error) is expected, repr(error), time.monotonic() - start])
    return found


def meet(store):
    def join(rank):
        with ringroad.Communicator(store, rank, 2, timeout=60) as comm:
            comm.barrier()

    threads = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    # Python may lose a signal that comes while it imports modules, as the first communicator does.
    ringroad.init(rank=0, size=1).close()
    place, *stores = sys.argv[1:]
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGUSR1, enough)
    results = []
    for how in stores:
        made = eval(how)
        results += interrupt(made)
        meet(made)
    print(json.dumps(results))
