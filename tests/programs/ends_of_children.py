"""Forked children end in many ways, while the parent's calls are in flight."""

import gc
import os
import sys

import numpy as np
import ringroad

comm = ringroad.init(timeout=20)
shared = comm.empty(100_000)
shared[:] = comm.rank
work = comm.recv(out := np.zeros(3), 1 - comm.rank, tag=9, async_op=True)
children = []
for ending in ("exit", "quick", "collect", "raise", "close"):
    children.append(os.fork())
    if children[-1] == 0:
        if ending == "quick":
            os._exit(0)
        if ending == "collect":
            del comm, work, shared, out
            gc.collect()
        if ending == "close":
            with comm:
                sys.exit(0)
        if ending == "raise":
            sys.excepthook = lambda *error: None
            raise RuntimeError
        sys.exit(0)
statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert statuses == [0, 0, 0, 1, 0], statuses
comm.send(np.full(3, comm.rank + 1.0), 1 - comm.rank, tag=9)
work.wait()
assert (out == 2 - comm.rank).all()
assert (shared == comm.rank).all()
assert (comm.allreduce(shared) == 1).all()
comm.close()
print(1)
