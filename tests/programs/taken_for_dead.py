"""Rank 0 is stopped for so long that the others consider it dead."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
place = Path(os.environ["PLACE"])
WAKE = """
import os, pathlib, signal, sys, time
while not pathlib.Path(sys.argv[2], "decided").exists():
    time.sleep(0.05)
os.kill(int(sys.argv[1]), signal.SIGCONT)
"""
if comm.rank == 0:
    subprocess.Popen([sys.executable, "-c", WAKE, str(os.getpid()), str(place)])
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        comm.survivors()
    except ringroad.AbortedError as error:
        print(error)
    (place / "heard").touch()
else:
    print(comm.survivors())
    if comm.rank == 1:  # who has decided must be there to say so
        (place / "decided").touch()
        while not (place / "heard").exists():
            time.sleep(0.05)
