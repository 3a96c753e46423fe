"""Meets over a store in Python, whose address is that of SERVED_BY. Prints the transport."""

import os
from pathlib import Path

import ringroad


class Store:
    host = os.environ["SERVED_BY"]

    def set(self, key, value):
        place = Path(os.environ["FOLDER"], key.replace("/", "+"))
        place.with_suffix(f".{os.getpid()}").write_bytes(value)
        place.with_suffix(f".{os.getpid()}").rename(place)

    def get(self, key):
        place = Path(os.environ["FOLDER"], key.replace("/", "+"))
        return place.read_bytes() if place.exists() else None


class Prefix(Store):
    host = property()
    underlying_store = Store()


with ringroad.init(Prefix(), timeout=20) as comm:
    comm.barrier()
    print(f'"{comm.transport}"')
