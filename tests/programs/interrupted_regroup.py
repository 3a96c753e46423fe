"""Ctrl-C while a rank waits for the others."""

import os
import signal
import threading

import ringroad

handle = ringroad.handle()
other = ringroad.handle()
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    ringroad.regroup([handle, other], own=(os.environ["RANK"] == "0" and handle) or other, timeout=50)
except KeyboardInterrupt:
    print("interrupted")
