"""Ctrl-C while a rank waits for the others."""

import os
import signal
import threading

import ringroad

# Python may lose a signal that comes while it imports modules, as the first communicator does.
ringroad.init(rank=0, size=1).close()
handle = ringroad.handle()
other = ringroad.handle()
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    ringroad.regroup([handle, other], own=(os.environ["RANK"] == "0" and handle) or other, timeout=50)
except KeyboardInterrupt:
    print("interrupted")
