"""Traffic of others on an emulated network: a stream of packets from one host to another, at a given rate."""

import os
import sys
from pathlib import Path

from ringroad._support.processes import Processes
from ringroad.testbed import leftovers
from ringroad.testbed.fabric import FRAME
from ringroad.testbed.namespaces import Host

_PROGRAM = Path(__file__).with_name("sender.py")
_HEADERS = 28  # bytes of a packet's headers of IP and UDP


class Load:
    """A process that sends packets until `close`, or until this process ends in whatever way."""

    def __init__(self, near: Host, far: Host, address: str, rate: float, mtu: int) -> None:
        """`address`: that of the host `far`. `rate`: bytes per second, headers included."""
        self._processes = Processes()
        ours, theirs = os.pipe()
        # The receiving socket drops what is sent once it is full.
        with near.datagrams() as source, far.datagrams() as sink, os.fdopen(ours, "rb") as end:
            sink.bind((address, 0))
            source.connect(sink.getsockname())
            source.setblocking(False)
            files = [source.fileno(), sink.fileno(), end.fileno()]
            numbers = [source.fileno(), end.fileno(), mtu - _HEADERS, (mtu + FRAME) / rate]
            command = [sys.executable, "-I", str(_PROGRAM), *map(str, numbers)]
            self._processes.start(command, {**os.environ, **leftovers.mark()}, pass_fds=files)
        self._pipe = theirs

    def close(self) -> None:
        """Ends the stream."""
        os.close(self._pipe)
        self._processes.stop()
