"""Rank 0 does not run until the root has given up and uses its array for something else.

The root gives up because of its own deadline, or because of another rank's deadline in the next call.
"""

import os
import signal
import time
from pathlib import Path

import numpy as np
import ringroad

comm = ringroad.init(timeout=30)
comm.allreduce(np.ones(10))
comm.barrier()
array = np.full(int(os.environ["BYTES"]), 7 if comm.rank == 3 else 0, np.uint8)
end = Path(os.environ["END"])
stopped = int(comm.broadcast(np.array([os.getpid()]), 0)[0])
if comm.rank == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    comm.broadcast(array, 3, timeout=float(os.environ["TIMEOUT"]))
    assert (array == 7).all(), "the call ended well, with a wrong result"
    comm.barrier(timeout=0.3)
except ringroad.RingroadError:
    array[:] = 0  # the caller's again
finally:
    if comm.rank == 3:
        os.kill(stopped, signal.SIGCONT)
    if comm.rank == 0:
        end.touch()
while not end.exists():
    time.sleep(0.01)
