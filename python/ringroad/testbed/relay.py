"""A program that passes frames on after a time: `python relay.py PIPE CABLE:SECONDS ...`.

The ends of a cable are network devices here, such as `3-0` and `3-1`: what comes in by one goes out by the other so
many seconds later. It prints a line once it is ready, and ends when the pipe's other end is closed. Linux has netem for
this, but not on all machines.
"""

import contextlib
import heapq
import select
import socket
import sys
import time
from itertools import count

_ALL = 3  # ETH_P_ALL: frames of all protocols
_PACKET, _HEADERS, _NOT_OURS = 263, 15, 23  # SOL_PACKET, PACKET_VNET_HDR and PACKET_IGNORE_OUTGOING
_ANY_ROOM = 33  # SO_RCVBUFFORCE
_ROOM = 8 << 20  # bytes that may wait for this process
_AT_ONCE = 64  # frames that are taken from a device before others are sent
_LONGEST = 1 << 17  # bytes of the longest frame: Linux joins those of a connection, and the header says so


def _open(device: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(_PACKET, _HEADERS, 1)
    end.setsockopt(_PACKET, _NOT_OURS, 1)
    try:
        end.setsockopt(socket.SOL_SOCKET, _ANY_ROOM, _ROOM)
    except PermissionError:  # who is root in a user namespace only may have less
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
    end.bind((device, _ALL))
    end.setblocking(False)
    return end


def main() -> None:
    pipe = int(sys.argv[1])
    ways: dict[int, tuple[socket.socket, socket.socket, float]] = {}
    watched = select.epoll()
    watched.register(pipe, select.EPOLLIN)
    for argument in sys.argv[2:]:
        cable, _, delay = argument.partition(":")
        ends = [_open(f"{cable}-{end}") for end in (0, 1)]
        for here, there in (ends, ends[::-1]):
            ways[here.fileno()] = (here, there, float(delay))
            watched.register(here, select.EPOLLIN)
    print("ready", flush=True)
    waiting: list[tuple[float, int, socket.socket, bytes]] = []
    numbers = count()  # frames that are due at the same time keep their order
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        # epoll's own timeouts are whole milliseconds.
        ready = watched.poll(0) if select.select([watched], [], [], left)[0] else []
        now = time.monotonic()
        for file, _ in ready:
            if file == pipe:
                return
            here, there, seconds = ways[file]
            with contextlib.suppress(OSError):  # none are left
                for _ in range(_AT_ONCE):
                    heapq.heappush(waiting, (now + seconds, next(numbers), there, here.recv(_LONGEST)))
        while waiting and waiting[0][0] <= now:
            with contextlib.suppress(OSError):  # lost, like a frame on a full cable
                _, _, there, frame = heapq.heappop(waiting)
                there.send(frame)


if __name__ == "__main__":
    main()
