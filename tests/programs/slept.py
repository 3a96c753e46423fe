"""All ranks are stopped for seconds, as when a machine sleeps, and work on. Then one is killed: the others go on."""

import os
import subprocess
import sys
import time

import numpy as np
import ringroad

comm = ringroad.init(timeout=40)
SLEEP = """
import os, signal, sys, time
pids = [int(pid) for pid in sys.argv[1:]]
[os.kill(pid, signal.SIGSTOP) for pid in pids]
time.sleep(4)
[os.kill(pid, signal.SIGCONT) for pid in pids]
time.sleep(4)
os.kill(pids[2], signal.SIGKILL)
"""
pids = comm.allgather(np.array([os.getpid()])).tolist()
if comm.rank == 0:
    subprocess.Popen([sys.executable, "-c", SLEEP, *map(str, pids)])
try:
    while True:
        comm.barrier()
        time.sleep(0.01)
except ringroad.PeerError:
    print(comm.shrink().size)
