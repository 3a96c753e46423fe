"""Cables with a delay: both devices lead to a relay, a process that passes on what they send after some time."""

import os
import sys
from pathlib import Path

from ringroad._support.processes import Processes
from ringroad.testbed import leftovers
from ringroad.testbed.namespaces import Host, TestbedError

_PROGRAM = Path(__file__).with_name("relay.py")


class Relay:
    """The process that passes frames on, and the namespace in which it runs. It ends with `close`, or when this process
    ends in whatever way."""

    def __init__(self, hosts_file: str) -> None:
        self.host = Host("relay", hosts_file)
        self._cables: list[float] = []
        self._processes = Processes()
        self._pipe: int | None = None

    def splice(self, ends: list[tuple[Host, str]], mtu: int, seconds: float) -> None:
        """Makes a cable with a delay, whose ends are devices of two hosts: `ends` has their names and options."""
        number = len(self._cables)
        self._cables.append(seconds)
        for end, (host, device) in enumerate(ends):
            self.host.ip(
                [
                    f"link add {number}-{end} mtu {mtu} type veth peer name {device} netns {host.path()}",
                    f"link set {number}-{end} up",
                ]
            )

    def start(self) -> None:
        """Passes frames on from now on."""
        ours, theirs = os.pipe()
        self._pipe = theirs
        cables = [f"{number}:{seconds:.9f}" for number, seconds in enumerate(self._cables)]
        command = [*self.host.enter(), sys.executable, "-I", str(_PROGRAM), str(ours), *cables]
        environ = {**os.environ, **leftovers.mark()}
        with os.fdopen(ours, "rb"):
            process = self._processes.start(command, environ, pass_fds=[ours], stdout=-1)
        if not process.stdout or not process.stdout.readline():
            raise TestbedError("the relay of cables with a delay has not started")

    def close(self) -> None:
        """Ends the process."""
        if self._pipe is not None:
            os.close(self._pipe)
        self._processes.stop()
        self.host.close()
