"""Rank 0 is interrupted in its first barrier. Prints what the other rank, a thread, is told."""

import os
import signal
import threading

import ringroad


class Slow(dict):
    set = dict.__setitem__

    def get(self, key):  # type: ignore[override]
        value = super().get(key)
        if value is not None and "/choices/" in key and threading.current_thread() is not threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)
            interrupted.wait(60)
        return value


def other():
    try:
        ringroad.Communicator(store, 1, 2, timeout=60)
    except ringroad.RingroadError as error:
        print(error)


store, interrupted = Slow(), threading.Event()
thread = threading.Thread(target=other)
thread.start()
try:
    ringroad.Communicator(store, 0, 2, timeout=60)
except KeyboardInterrupt:
    interrupted.set()
thread.join()
