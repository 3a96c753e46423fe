"""Rank 0 dies. Its communicators fail; the one without it goes on, and those that are left shrink theirs."""

import os
import signal

import ringroad

comm = ringroad.init(timeout=30)
half = comm.split(comm.rank % 2)
comm.barrier()
if comm.rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        comm.allreduce(1)
except ringroad.PeerError:
    pass
if comm.rank % 2 == 0:
    try:
        while True:
            half.allreduce(1)
    except ringroad.PeerError:
        half = half.shrink()
assert half.allgather(comm.rank).tolist() == [[2, 4], [1, 3]][comm.rank % 2]
smaller = comm.shrink()
assert smaller.split(0).allgather(comm.rank).tolist() == [1, 2, 3, 4]
print("done")
