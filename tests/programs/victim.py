"""Ranks make one call, CALL, over and over, until rank 2 is killed. Prints what the others are told."""

import json
import os
import signal
import time

import numpy as np
import ringroad

comm = ringroad.init(timeout=60)
data = np.ones(int(os.environ["COUNT"]), np.float32)
for call in range(1_000_000):
    if comm.rank == 2 and call == 100:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    try:
        getattr(comm, os.environ["CALL"])(data)
    except Exception as error:
        print(json.dumps({"type": type(error).__name__, "text": str(error), "seconds": time.monotonic() - start}))
        break
comm.close()
