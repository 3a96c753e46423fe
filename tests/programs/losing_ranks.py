"""Some ranks die during calls.

The others report who is left, regroup, add up, and regroup again without the first rank.
"""

import os
import signal
import time

import numpy as np
import ringroad

victims = [int(rank) for rank in os.environ["VICTIMS"].split(",")]
comm = ringroad.init(timeout=30)
for _ in range(20):
    comm.allreduce(np.ones(1000))
if comm.rank in victims:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        comm.allreduce(np.ones(1000))
except ringroad.PeerError as error:
    assert any(f"rank {victim} " in str(error) for victim in victims), error
left = [rank for rank in range(comm.size) if rank not in victims]
assert comm.survivors() == left
assert comm.agree(True) and not comm.agree(comm.rank != left[-1])
start = time.monotonic()
smaller = comm.shrink()
seconds = time.monotonic() - start
assert (smaller.rank, smaller.size) == (left.index(comm.rank), len(left))
assert smaller.topology == ringroad.Topology("ring:5").induced(left).spec
assert smaller.allreduce(np.full(1000, comm.rank))[0] == sum(left)
smaller.barrier()
if smaller.rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
last = smaller.shrink()
assert last.size == len(left) - 1 and last.timeout == 30
last.barrier()
print(seconds)
