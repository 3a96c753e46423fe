"""A process whose memory another one tries to read, as ranks of a host do. It is run as a script.

`probe.py hold` prints where it keeps a text, as JSON, and waits for the end of its input. `probe.py read JSON` prints,
as JSON, why each way to that process is closed (None: it is open). It imports nothing of ringroad, to start quickly.
"""

import ctypes
import json
import os
import sys
import time
from typing import Any

SECRET = b"ringroad doctor"


class _Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def hold() -> None:
    kept = ctypes.create_string_buffer(SECRET)
    place: dict[str, Any] = {"pid": os.getpid(), "address": ctypes.addressof(kept), "monotonic": time.monotonic_ns()}
    try:
        place["memfd"] = os.memfd_create("ringroad-doctor")
        os.write(place["memfd"], SECRET)
    except OSError as error:
        place["memfd_error"] = str(error)
    print(json.dumps(place), flush=True)
    sys.stdin.read()


def read(place: dict[str, Any]) -> dict[str, str | None]:
    """Why each way to the process at `place` is closed; None for those that are open."""
    ways = {"memory": _read_memory, "memfd": _read_memfd, "pidfd": _open_pidfd}
    closed: dict[str, str | None] = {}
    for name, way in ways.items():
        try:
            way(place)
            closed[name] = None
        except OSError as error:
            closed[name] = str(error)
    return closed


def _read_memory(place: dict[str, Any]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    target = ctypes.create_string_buffer(len(SECRET))
    to = _Part(ctypes.addressof(target), len(SECRET))
    source = _Part(place["address"], len(SECRET))
    one, flags = ctypes.c_ulong(1), ctypes.c_ulong(0)
    count = libc.process_vm_readv(place["pid"], ctypes.byref(to), one, ctypes.byref(source), one, flags)
    if count < 0:
        raise OSError(ctypes.get_errno(), f"process_vm_readv: {os.strerror(ctypes.get_errno())}")
    _compare(target.raw)


def _read_memfd(place: dict[str, Any]) -> None:
    if "memfd" not in place:
        raise OSError(f"memfd_create: {place['memfd_error']}")
    with open(f"/proc/{place['pid']}/fd/{place['memfd']}", "rb") as file:
        _compare(file.read())


def _open_pidfd(place: dict[str, Any]) -> None:
    os.close(os.pidfd_open(place["pid"]))


def _compare(found: bytes) -> None:
    if found != SECRET:
        raise OSError(f"read {found!r} instead of {SECRET!r}")


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold()
    else:
        print(json.dumps(read(json.loads(sys.argv[2]))))
