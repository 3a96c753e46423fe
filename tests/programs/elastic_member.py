"""A member of an elastic group, which logs every step, until a file says that it is enough.

Arguments: the address, how many processes found the group (0: join), a directory, the point at which this process
falls once the group is together, or nothing: `Progress.level before kill`; `after`; `stop` (for 9 seconds); and the
name of the record, or nothing.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import ringroad
from ringroad.start.elastic import ElasticGroup
from ringroad.start.membership import Membership
from ringroad.start.state import Progress

faulthandler.register(signal.SIGUSR1)
address, minimum, place, fall = sys.argv[1], int(sys.argv[2]) or None, Path(sys.argv[3]), sys.argv[4]
record = place / sys.argv[5] if sys.argv[5] else None
state = {"steps": np.zeros(1, np.int64), "chain": np.zeros(20_000), "end": np.zeros(1)}
log = (place / f"{os.getpid()}.jsonl").open("w", buffering=1)


def note(event, **what):
    log.write(json.dumps({"at": time.time(), "event": event} | what) + "\n")


def compute(comm):
    time.sleep(0.02)
    own = np.full(20_000, 1 + comm.rank / 16)
    own[0] = (place / "stop").exists()
    return comm.allreduce(own) / comm.size


def apply(total):
    """Every step leaves another chain of bits behind, and its number is counted apart from the group's."""
    state["steps"] += 1
    state["end"] += total[0]
    state["chain"][:] = np.cos(state["chain"] + total + state["steps"])


def digest():
    return hash(b"".join(array.tobytes() for array in state.values()))


def stand(event, group):
    comm = group.comm
    note(event, group=group._members._group, step=group.step, size=comm.size, rank=comm.rank, digest=digest())


def fall_at(function, when, how):
    """Lets this process fall before or after the first call of a function."""
    owner, _, name = function.partition(".")
    kind = {"ElasticGroup": ElasticGroup, "Membership": Membership, "Progress": Progress}[owner]
    call, ready = getattr(kind, name), True

    def falls():
        nonlocal ready
        if ready and (place / "armed").exists():
            ready = False
            note("falls")
            if how == "stop":
                subprocess.Popen(["sh", "-c", f"sleep 9; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)

    def called(*arguments, **named):
        if when == "before":
            falls()
        result = call(*arguments, **named)
        if when == "after":
            falls()
        return result

    setattr(kind, name, called)


def joins(group, join=ElasticGroup._join):
    """Also again, if the others have gone on without this process."""
    join(group)
    stand("joined", group)


ElasticGroup._join = joins
if fall:
    fall_at(*fall.split())
note("begins")
while not (place / f"go-{os.getpid()}").exists():
    time.sleep(0.01)
try:
    with ringroad.elastic(address, state, minimum=minimum, timeout=3, patience=40, record=record) as group:
        while not state["end"][0]:
            if group.update():
                stand("changed", group)
            group.run(compute, apply)
            assert state["steps"][0] == group.step
            stand("step", group)
    stand("end", group)
except ringroad.RingroadError as error:
    note("error", kind=type(error).__name__, text=str(error))
