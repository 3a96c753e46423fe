"""Makes groups by every door, and says what of the process has changed that belongs to the program."""

import faulthandler
import locale
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np


def state():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    torch = sys.modules.get("torch")
    is_torchs = getattr(sys.excepthook, "__module__", "").startswith("torch")
    return {
        "handlers in C": [status[name] for name in ("SigIgn", "SigCgt", "SigBlk")],
        "handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "hooks": [
            sys.__excepthook__ if is_torchs else sys.excepthook,
            sys.unraisablehook,
            sys.displayhook,
            threading.excepthook,
            sys.gettrace(),
        ],
        "logging": [*logging.root.handlers, logging.root.level, logging.getLoggerClass(), logging.lastResort],
        "warnings": [*warnings.filters, warnings.showwarning],
        "environ": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL),
        "names": [threading.main_thread().name, Path("/proc/self/comm").read_text()],
        "NumPy": [np.geterr(), np.get_printoptions()],
        "place": [os.getcwd(), status["Umask"], os.sched_getaffinity(0), sys.path],
        "torch": torch and [torch.get_default_device(), torch.get_default_dtype(), torch.get_num_threads()],
    }


def free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


if "torch" in sys.argv:
    import torch.distributed as dist
log = (Path(tempfile.mkdtemp()) / "log").open("w+")
faulthandler.register(signal.SIGUSR1, file=log)
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free()))
before = state()

import ringroad  # noqa: E402
import ringroad.lab  # noqa: E402

if "torch" in sys.argv:
    dist.init_process_group("ringroad")
    dist.destroy_process_group()
else:
    with ringroad.init() as comm, ringroad.elastic(f"tcp://127.0.0.1:{free()}", {"a": np.ones(1)}, minimum=1) as group:
        comm.barrier()
        group.update()
after = state()
print("changed:", *(f"{name}: {before[name]} -> {after[name]};" for name in before if before[name] != after[name]))
os.kill(os.getpid(), signal.SIGUSR1)
log.seek(0)
print("dumped" if "most recent call first" in log.read() else "SIGUSR1 is lost")
