"""The doctor in a job whose rank 1 ends, or hangs until rank 0 has ended: instead of communicating, or instead of
checking its machine, as if that were another host."""

import os
import socket
import time
from pathlib import Path
from unittest import mock

from ringroad.cli import main
from ringroad.doctor import job, pairs

HANGS = os.environ["HANGS"]


def communicate(roster, *rest):
    if HANGS == "checks":
        mock.patch.object(job, "perform_all", lambda checks: hang(roster)).start()
        return original(roster, *rest)
    return hang(roster)


def hang(roster):
    while HANGS != "never" and Path(f"/proc/{roster.infos[0].pid}").exists():
        time.sleep(0.1)
    os._exit(0)


original = pairs.communicate
if os.environ["RANK"] == "1":
    mock.patch.object(job, "communicate", communicate).start()
    if HANGS == "checks":
        mock.patch.object(socket, "gethostname", lambda: "elsewhere").start()
main(["doctor", "--json", "--timeout", "6"])
