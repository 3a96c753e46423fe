"""Ranks make calls until rank 3 is killed."""

import os
import signal
import time

import numpy as np
import ringroad

comm = ringroad.init(timeout=30)
data = np.ones(100_000, np.float32)
for call in range(1_000_000):
    if comm.rank == 3 and call == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.allreduce(data)
    except ringroad.PeerError as error:
        print(time.monotonic())
        assert "rank 3" in str(error), error
        break
