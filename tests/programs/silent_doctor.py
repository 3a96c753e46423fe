"""The doctor in a job whose rank 1 ends, or hangs until rank 0 has ended, instead of communicating."""

import os
import time
from pathlib import Path
from unittest import mock

from ringroad.cli import main
from ringroad.doctor import job


def communicate(roster, *_):
    while os.environ["HANGS"] == "True" and Path(f"/proc/{roster.infos[0].pid}").exists():
        time.sleep(0.1)
    os._exit(0)


if os.environ["RANK"] == "1":
    mock.patch.object(job, "communicate", communicate).start()
main(["doctor", "--json", "--timeout", "6"])
