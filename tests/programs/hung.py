"""A job that hangs in the way that its argument names, until it is killed. Rank 2 is to blame, or all are."""

import os
import re
import signal
import sys
import time

import numpy as np
import ringroad

how = sys.argv[1]
comm = ringroad.init(timeout=60)
pair = comm.split(comm.rank // 2)
assert pair is not None
comm.allreduce(np.ones(10))
print("ready", flush=True)


def think() -> None:
    time.sleep(100)


if how == "sends":
    comm.send(np.ones(1 << 20), (comm.rank + 1) % comm.size)
elif how == "tag":
    if comm.rank == 2:
        comm.recv(np.ones(4), 3, tag=5)
    if comm.rank == 3:
        comm.send(np.ones(1 << 20), 2, tag=6)
elif how == "loop":
    try:
        while True:
            comm.allreduce(np.ones(1000))
    except ringroad.PeerError:
        think()
elif how == "other":
    try:
        comm.barrier() if comm.rank == 2 else comm.allreduce(np.ones(1000))
    except ringroad.MismatchError:
        think()
elif how == "crossed" and comm.rank == 2:
    pair.allreduce(np.ones(3))
elif comm.rank == 2 and how == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
elif comm.rank == 2 and how == "missing":
    think()
elif comm.rank == 2 and how == "gil":
    re.match("(a+)+b", "a" * 100)
comm.allreduce(np.ones(1000))
time.sleep(100)
