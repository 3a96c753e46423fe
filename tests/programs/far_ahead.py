"""Rank 1 starts none of the calls until rank 0 is blocked."""

import os
import time
from pathlib import Path

import numpy as np
import ringroad

with ringroad.init(timeout=60) as comm:
    comm.barrier()
    far = Path(os.environ["FAR"])
    if comm.rank == 0:
        calls = [comm.broadcast(np.full(1, number), 0, async_op=True) for number in range(16_500)]
        ended = -1
        while (now := sum(call.is_completed() for call in calls)) > ended:  # until no more do
            ended = now
            time.sleep(0.3)
        far.touch()
        assert 16_000 < ended < 16_400, ended
        for call in calls:
            call.wait()
    else:
        while not far.exists():
            time.sleep(0.01)
        assert [int(comm.broadcast(np.zeros(1, int), 0)[0]) for _ in range(16_500)] == list(range(16_500))
    comm.barrier()
