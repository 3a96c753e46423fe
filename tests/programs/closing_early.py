"""A rank closes the communicator and goes on with other work. The others shrink theirs, and do not wait for it."""

import os
import time
from pathlib import Path

import numpy as np
import ringroad

over = Path(os.environ["PLACE"]) / "over"
comm = ringroad.init(timeout=30)
comm.barrier()
if comm.rank == 2:
    comm.close()
    try:
        comm.shrink()
    except ringroad.AbortedError as error:
        assert "call shrink before close" in str(error), error
    while not over.exists():
        time.sleep(0.01)
else:
    try:
        comm.allreduce(np.ones(1))
    except ringroad.PeerError as error:
        assert "rank 2" in str(error), error
    smaller = comm.shrink(timeout=20)
    assert smaller.allreduce(np.ones(1))[0] == smaller.size == 2
    over.touch()
print("done")
