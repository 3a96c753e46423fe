"""A program that sends packets at a steady rate: `python sender.py SOCKET PIPE BYTES SECONDS`.

It sends BYTES at a time, once in SECONDS, on a connected socket. It ends when the pipe's other end is
closed. What the socket does not take at once is not sent.
"""

import contextlib
import select
import socket
import sys
import time

_BEHIND_SECONDS = 0.05  # after a longer pause the packets that were due are left out


def main() -> None:
    file, pipe, interval = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[4])
    packet, source = bytes(int(sys.argv[3])), socket.socket(fileno=file)
    due = time.monotonic()
    while not select.select([pipe], [], [], max(0.0, due - time.monotonic()))[0]:
        with contextlib.suppress(OSError):  # no room, or no route while a cable is cut
            source.send(packet)
        due = max(due + interval, time.monotonic() - _BEHIND_SECONDS)


if __name__ == "__main__":
    main()
