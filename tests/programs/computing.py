"""Rank 1 computes for longer than tcp allows sent data to stay unread."""

import time

import numpy as np
import ringroad

with ringroad.init(timeout=30) as comm:
    comm.barrier()
    message = np.full(4000, 7, np.uint8)
    if comm.rank == 1:
        time.sleep(3)
    for _ in range(500):
        if comm.rank == 0:
            comm.send(message, 1)
        else:
            message[:] = 0
            comm.recv(message, 0)
            assert (message == 7).all()
    comm.barrier()
