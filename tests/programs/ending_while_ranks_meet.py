"""Ends while threads of its own wait for others: in a directory, for a store, and for a process that does not come."""

import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

import ringroad

OTHER = "import ringroad; print(ringroad.handle(), flush=True); input()"
other = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
handles = [other.stdout.readline().strip(), ringroad.handle()]


def wait(meet):
    with suppress(ringroad.RingroadError):
        meet()


for meet in (
    lambda: ringroad.Communicator(ringroad.FileStore(tempfile.mkdtemp()), 0, 2),
    lambda: ringroad.TcpStore("127.0.0.1", int(sys.argv[1]), 1),
    lambda: ringroad.regroup(handles),
):
    threading.Thread(target=wait, args=(meet,), daemon=True).start()
time.sleep(0.3)
