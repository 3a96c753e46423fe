"""A leader ends as soon as it has decided; another rank comes late.

Then a rank ends before it has joined the others.
"""

import os
import time

import numpy as np
import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
if comm.rank == 3:
    time.sleep(0.3)
assert comm.survivors() == [0, 1, 2, 3]
if comm.rank == 0:
    os._exit(0)
if comm.rank == 3:
    assert comm.agree(True)  # the first step of shrink
    time.sleep(0.3)
    os._exit(0)
start = time.monotonic()
smaller = comm.shrink(timeout=25)
assert time.monotonic() - start < 15
assert (smaller.size, smaller.allreduce(np.ones(1))[0]) == (2, 2.0)
try:
    smaller.shrink(quorum=3)
except ValueError as error:
    assert "there are only 2 ranks" in str(error)
smaller.barrier()
if smaller.rank == 0:
    os._exit(0)
try:
    smaller.shrink(quorum="majority")
except ringroad.AbortedError as error:
    assert "fewer than the quorum of 2" in str(error), error
print("done")
