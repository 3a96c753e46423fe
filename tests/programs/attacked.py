"""A process attacks all ranks while they make calls."""

import json
import os
import resource
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import ringroad

comm = ringroad.init(timeout=20)
comm.allreduce(np.ones(10))


def listening():
    own = {os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[1].split(":") for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]


addresses = listening()
numbers = np.array([int(port, 16) for _, port in addresses], np.int64)
assert len(numbers) == 2, addresses
ports = comm.allgather(numbers).tolist()


def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def call():
    began = time.monotonic()
    assert (comm.allreduce(np.ones(50_000, np.float32)) == comm.size).all()
    return time.monotonic() - began


usual = sorted(call() for _ in range(50))[25]
before, times, held = memory(), [], 0
if comm.rank == 0:
    command = [sys.executable, "-S", str(Path(__file__).with_name("attacker.py")), *map(str, ports)]
    attacker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
while not held:
    times.append(call())
    if comm.rank == 0 and attacker.stdout and select.select([attacker.stdout], [], [], 0)[0]:
        held = int(attacker.stdout.readline())
    held = int(comm.allreduce(np.array([held]))[0])
times += [call() for _ in range(50)]
grown = memory() - before
comm.barrier()
if comm.rank == 0:
    attacker.communicate()
found = {"on": [address for address, _ in addresses], "held": held, "transport": str(comm.transport), "grown": grown}
found |= {"calls": len(times), "usual": usual, "slowed": sorted(times)[len(times) // 2], "longest": max(times)}
print(json.dumps(found))
