"""Forks while threads make the first communicator of the process. The child makes one, too, whatever they were at."""

import os
import signal
import sys
import threading
import time

import numpy as np
from ringroad import Communicator, MemoryStore


def start() -> list[float]:
    """The sums of two ranks, each a thread of this process."""
    store, sums = MemoryStore(), []

    def rank(number: int) -> None:
        with Communicator(store, number, 2, timeout=30) as comm:
            sums.append(comm.allreduce(np.ones(1)).item())

    threads = [threading.Thread(target=rank, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sums


threading.Thread(target=start).start()
time.sleep(float(sys.argv[1]))
child = os.fork()
if child == 0:
    signal.alarm(15)
    os._exit(start() != [2, 2])
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
