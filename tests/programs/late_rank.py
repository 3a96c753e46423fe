"""One rank runs but does not come. Another one was stopped for so long that the others consider it dead."""

import time

import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
if comm.rank == 2:
    time.sleep(3)
else:
    try:
        comm.survivors(timeout=1)
        raise SystemExit("came to an end without rank 2")
    except ringroad.TimeoutError as error:
        assert "rank 2 " in str(error) or comm.rank == 1, error
print("done")
