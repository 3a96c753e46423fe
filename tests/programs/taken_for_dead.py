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
end = Path(os.environ["END"])
if comm.rank == 0:
    code = "import os, signal, sys, time; time.sleep(9); os.kill(int(sys.argv[1]), signal.SIGCONT)"
    subprocess.Popen([sys.executable, "-c", code, str(os.getpid())])
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        comm.survivors()
    except ringroad.AbortedError as error:
        print(error)
    end.touch()
else:
    print(comm.survivors())
    while comm.rank == 1 and not end.exists():  # who has decided must be there to say so
        time.sleep(0.05)
