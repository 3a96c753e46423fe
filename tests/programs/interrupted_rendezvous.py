"""Interrupts each of two ranks in `init` over MASTER_ADDR, on the ports that the arguments name. Prints the seconds."""

import os
import signal
import sys
import threading
import time

import ringroad

# Python may lose a signal that comes while it imports modules, as the first communicator does.
ringroad.init(rank=0, size=1).close()
signal.signal(signal.SIGINT, signal.default_int_handler)
for rank, port in enumerate(sys.argv[1:]):
    os.environ |= {"RANK": str(rank), "MASTER_PORT": port}
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        ringroad.init(timeout=60)
    except KeyboardInterrupt:
        print(time.monotonic() - start)
