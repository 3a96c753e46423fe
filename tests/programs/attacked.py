"""A thread of rank 0 attacks while all ranks make calls."""

import contextlib
import json
import os
import random
import resource
import socket
import struct
import threading
from pathlib import Path

import numpy as np
import ringroad

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
comm = ringroad.init(timeout=20)
comm.allreduce(np.ones(10))


def listening():
    own = {os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[1].split(":") for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]


addresses = listening()
numbers = np.array([int(port, 16) for _, port in addresses], np.int64)
assert len(numbers) == 2, addresses
ports, over, held = comm.allgather(numbers).tolist(), threading.Event(), []


def attack():
    noise = random.Random(1)
    try:
        for port in ports:
            for number in range(40 + int(os.environ["IDLE"])):
                held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                sent = [noise.randbytes(1 << number % 16), b"\xff" * 64, struct.pack("<Q", 2**63) * 4, bytes(4096)]
                if number < 40:
                    with contextlib.suppress(OSError):  # refused already
                        held[-1].sendall(sent[number % 4])
                if number % 3 == 0 and number < 40:
                    held.pop().close()
        for number in range(0, len(held), 7):  # slow ones
            with contextlib.suppress(OSError):
                held[number].send(noise.randbytes(1))
    finally:
        over.set()


def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


for _ in range(20):
    comm.allreduce(np.ones(50_000, np.float32))
before = memory()
if comm.rank == 0:
    threading.Thread(target=attack, daemon=True).start()
calls = 0
while not comm.allreduce(np.array([over.is_set()], np.int32))[0]:
    assert (comm.allreduce(np.ones(50_000, np.float32)) == comm.size).all()
    calls += 1
comm.barrier()
found = {"on": [address for address, _ in addresses], "calls": calls, "transport": str(comm.transport)}
grown = memory() - before if comm.rank else 0  # the attacker's own memory does not count
print(json.dumps(found | {"grown": grown}))
