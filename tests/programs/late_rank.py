"""One rank runs but does not come."""

import os
import time
from pathlib import Path

import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
place = Path(os.environ["PLACE"])
if comm.rank == 2:
    while not all((place / str(rank)).exists() for rank in range(2)):
        time.sleep(0.01)
else:
    try:
        comm.survivors(timeout=1)
        raise SystemExit("came to an end without rank 2")
    except ringroad.TimeoutError as error:
        assert "rank 2 " in str(error) or comm.rank == 1, error
    (place / str(comm.rank)).touch()
print("done")
