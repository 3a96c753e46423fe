"""Two threads start the same call. At the end of the interpreter, a destructor makes a call."""

import faulthandler
import sys
import threading

import numpy as np
import ringroad

faulthandler.dump_traceback_later(20, exit=True)
sys.setswitchinterval(1e-6)
(comm,) = ringroad.Communicator.in_process(1)
call = comm.prepare("allreduce", np.zeros(1 << 12))
started = threading.Barrier(2)


def start():
    started.wait()
    done = 0
    while done < 2000:
        try:
            call.start().wait()
            done += 1
        except ValueError as error:
            assert "has not ended" in str(error), error


threads = [threading.Thread(target=start) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()


class Late:
    def __del__(self):
        try:
            comm.allreduce([1.0])
        except BaseException as error:
            print(type(error).__name__)


sys.modules["late"] = Late()
