"""Connects to the ports that are named: with noise, with what looks like a message, slowly, and IDLE times silently.

Prints a line when it is done, and holds the connections until its input ends.
"""

import contextlib
import os
import random
import resource
import socket
import struct
import sys

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
noise, held, idle = random.Random(1), [], int(os.environ["IDLE"])
for port in sys.argv[1:]:
    for number in range(40 + idle):
        held.append(socket.create_connection(("127.0.0.1", int(port))))
        if number >= 40:
            continue
        sent = [noise.randbytes(1 << number % 16), b"\xff" * 64, struct.pack("<Q", 2**63) * 4, bytes(4096)]
        with contextlib.suppress(OSError):  # refused already
            held[-1].sendall(sent[number % 4])
        if number % 3 == 0:
            held.pop().close()
for number in range(0, len(held), 7):  # slow ones
    with contextlib.suppress(OSError):
        held[number].send(noise.randbytes(1))
print(len(held), flush=True)
sys.stdin.read()
