"""Rank 2 is killed when it has published what KIND says. ABSENT does not come."""

import json
import os
import signal
import sys
import time

import ringroad

rank, size, kind, absent = int(os.environ["RANK"]), 3, os.environ["KIND"], int(os.environ["ABSENT"])


class Plain:
    "A store in a directory, which ends the process after a certain message."

    def __init__(self, place):
        self.place = place

    def path(self, key):
        return os.path.join(self.place, key.replace("/", "%"))

    def set(self, key, value):
        with open(self.path(key) + f".{rank}", "wb") as file:
            file.write(value)
        os.rename(self.path(key) + f".{rank}", self.path(key))
        if rank == 2 and f"/{kind}/" in key:
            while sum("%endpoint%" in name for name in os.listdir(self.place)) < size - (absent < size):
                time.sleep(0.01)  # whoever comes later waits for rank 0 to begin anew
            os.kill(os.getpid(), signal.SIGKILL)

    def get(self, key):
        if rank == 2 and kind == "barrier" and "/choices/" in key:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            with open(self.path(key), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None


if rank == absent:
    sys.exit()
start = time.monotonic()
try:
    ringroad.init(Plain(os.environ["PLACE"]), timeout=60)
except ringroad.RingroadError as error:
    print(json.dumps([type(error).__name__, str(error), time.monotonic() - start]))
