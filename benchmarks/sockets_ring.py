"""An allreduce over plain sockets: a ring in both directions at once, in which pieces are forwarded as they come.

It knows nothing of other algorithms, failures or security, and shows what the network allows:

    ringroad testbed ring:9 --rate 200Mbit -- python benchmarks/sockets_ring.py 1MiB 4MiB 16MiB
"""

import os
import queue
import socket
import statistics
import struct
import sys
import threading
import time

import numpy as np
from ringroad._support.text import parse_bytes

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PIECE, UNSENT = 32 << 10, 128 << 10  # bytes
ROUNDS = 7


def receive(connection: socket.socket, view: memoryview) -> None:
    while view.nbytes:
        count = connection.recv_into(view)
        if not count:
            sys.exit("a neighbour has left")
        view = view[count:]


def meet() -> tuple[socket.socket, socket.socket]:
    """Connections to the next and to the previous rank. Rank 0 tells all where the others listen."""
    door = socket.create_server(("", 0))
    master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK == 0:
        counter = socket.create_server(("", master[1]), reuse_port=True)
        guests, places = [], {0: (master[0], door.getsockname()[1])}
        while len(places) < SIZE:
            guest, (host, _) = counter.accept()
            rank, port = struct.unpack("<II", guest.recv(8, socket.MSG_WAITALL))
            guests.append(guest)
            places[rank] = (host, port)
        for guest in guests:
            guest.sendall(repr(places).encode().ljust(4096))
    else:
        while True:
            try:
                guest = socket.create_connection(master)
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        guest.sendall(struct.pack("<II", RANK, door.getsockname()[1]))
        places = eval(guest.recv(4096, socket.MSG_WAITALL))
    following = socket.create_connection(places[(RANK + 1) % SIZE])
    previous = door.accept()[0]
    for connection in (following, previous):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, 25, UNSENT)  # TCP_NOTSENT_LOWAT
    return following, previous


def one_way(out: socket.socket, into: socket.socket, vector: np.ndarray, step: int) -> None:
    """Adds up `vector` of all ranks; its blocks go to the rank `step` further."""
    blocks = np.array_split(vector, SIZE)
    pieces: queue.SimpleQueue = queue.SimpleQueue()

    def send() -> None:
        while (piece := pieces.get()) is not None:
            out.sendall(piece)

    sender = threading.Thread(target=send)
    sender.start()
    pieces.put(blocks[RANK].view(np.uint8))
    came = np.empty(PIECE // 4, np.float32)
    for turn in range(2 * (SIZE - 1)):
        block = blocks[(RANK - step * (turn + 1)) % SIZE]
        for start in range(0, len(block), len(came)):
            part = block[start : start + len(came)]
            if turn < SIZE - 1:
                receive(into, memoryview(came[: len(part)]).cast("B"))
                part += came[: len(part)]
            else:
                receive(into, memoryview(part).cast("B"))
            if turn < 2 * (SIZE - 1) - 1:
                pieces.put(part.view(np.uint8))
    pieces.put(None)
    sender.join()


def main() -> None:
    following, previous = meet()
    for text in sys.argv[1:]:
        times = []
        for _ in range(ROUNDS):
            vector = np.full(parse_bytes(text) // 4, RANK + 1, np.float32)
            half = len(vector) // 2
            one_way(following, previous, vector[:1], 1)  # all are ready
            start = time.perf_counter()
            back = threading.Thread(target=one_way, args=(previous, following, vector[half:], -1))
            back.start()
            one_way(following, previous, vector[1:half], 1)
            back.join()
            times.append(time.perf_counter() - start)
            assert (vector[1:] == SIZE * (SIZE + 1) / 2).all(), "a wrong sum"
        if RANK == 0:
            print(f"{text}: {statistics.median(times) * 1e3:.1f} ms (least {min(times) * 1e3:.1f})", flush=True)


if __name__ == "__main__":
    main()
