"""Rank 0 dies while rank 1 waits for rank 2 in its store.

Then rank 2 ends by an exception while its call is in flight.
"""

import os
import signal
import threading

import numpy as np
import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
if comm.rank < 2:
    if comm.rank == 0:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    try:
        ringroad.regroup(comm.handles)
    except ringroad.PeerError as error:
        print("rank 0 " in str(error))
comm = comm.shrink()
comm.barrier()
if comm.rank == 1:
    work = comm.allreduce(np.ones(1000), async_op=True)
    raise ValueError("for the test")
while comm.size > 1:
    try:
        comm.allreduce(np.ones(1000))
    except ringroad.PeerError as error:
        print("rank 1 " in str(error))
        comm = comm.shrink()
