"""How ranks that lack a state, or hold other bits of it, get it from those that hold it: only what differs is sent, in
pieces, by all holders at once."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ringroad._native import Communicator, Work
from ringroad._objects import countdown
from ringroad._replicas import DIGEST, ReplicaError, ReplicaPart, gathered
from ringroad._support.text import ranks_text

_PIECE = 1 << 16
"""Bytes below which a piece is not worth a message of its own."""


def catch_up(
    comm: Communicator, parts: Sequence[ReplicaPart], holders: Sequence[int], before_writing: Callable[[], None]
) -> None:
    """Gives all ranks the bits that most of the `holders` have, for each part. Collective; if the holders disagree
    without a majority, all ranks raise ReplicaError. `before_writing` is called on ranks that receive something."""
    left = countdown(comm, None)
    own = b"".join(part.digest() for part in parts)
    rows = [np.frombuffer(row, np.uint8).reshape(-1, DIGEST) for row in gathered(comm, own, left())]
    works: list[Work[Any]] = []
    wanted = []
    for index, part in enumerate(parts):
        digests = [row[index].tobytes() for row in rows]
        bits, count = Counter(digests[rank] for rank in holders).most_common(1)[0]
        if 2 * count <= len(holders):
            raise ReplicaError(f"{part.name}: no majority of {ranks_text(list(holders))} holds the same bits")
        sources = [rank for rank in range(comm.size) if digests[rank] == bits]
        targets = [rank for rank in range(comm.size) if digests[rank] != bits]
        if not targets:
            continue
        if comm.rank in targets:
            before_writing()
        memory = part.bits()
        for piece, source in _pieces(memory.size, sources, index):
            if comm.rank == source:
                works += [comm.send(memory[piece], rank, index, timeout=left(), async_op=True) for rank in targets]
            elif comm.rank in targets:
                works.append(comm.recv(memory[piece], source, index, timeout=left(), async_op=True))
        if comm.rank in targets:
            wanted.append((part, memory, bits))
    for work in works:
        work.wait()
    for part, memory, bits in wanted:
        part.store(memory)
        if part.digest() != bits:
            raise ReplicaError(f"{part.name}: other bits arrived than were sent; another thread writes to it")


def _pieces(size: int, sources: list[int], first: int) -> Iterator[tuple[slice, int]]:
    """Which bytes come from whom. Parts that are too short to be cut come from one source after the other."""
    count = max(1, min(len(sources), size // _PIECE))
    for number in range(count):
        yield slice(size * number // count, size * (number + 1) // count), sources[(first + number) % len(sources)]
