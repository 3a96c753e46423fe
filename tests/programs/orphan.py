"""The others end their job while a rank is stopped; it must not go on alone."""

import os
import signal
import subprocess
import sys

import ringroad

comm = ringroad.init(timeout=40)
comm.barrier()
if comm.rank == 2:
    code = "import os, signal, sys, time; time.sleep(11); os.kill(int(sys.argv[1]), signal.SIGCONT)"
    subprocess.Popen([sys.executable, "-c", code, str(os.getpid())])
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    print(comm.shrink().size)
except ringroad.AbortedError as error:
    print(error)
