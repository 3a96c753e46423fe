"""All ranks call. Then the cable between the hosts is cut, or rank 1 stops for a while."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import ringroad

comm = ringroad.init(timeout=60)
data, cut = np.ones(300_000, np.float32), os.environ["WHAT"] == "cut"
others = comm.allgather(np.array([os.getpid()]))
for _ in range(20):
    comm.allreduce(data)
Path(os.environ["BEGUN"]).touch()
if comm.rank == 0 and not cut:
    threading.Timer(6, os.kill, (int(others[1]), signal.SIGCONT)).start()
if comm.rank == 1 and not cut:
    os.kill(os.getpid(), signal.SIGSTOP)
start, found = time.monotonic(), "none"
try:
    for _ in range(1_000_000 if cut else 100):
        comm.allreduce(data)
except ringroad.PeerError as error:
    found = str(error)
print(json.dumps([found, time.monotonic() - start]))
