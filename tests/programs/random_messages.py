"""Random programs of sends and receives that ringroad and mpi4py both run. What each rank receives is known beforehand.

    mpirun -n 3 python -m programs.random_messages 7 8 9    # prints what each rank receives in each, as JSON

A program has phases with a barrier between them. In a phase every rank starts its sends and its receives, in random
order, and receives in one way, so that its messages are the same in every run: source and tag are given, or one of
them, or none, or it probes first.
"""

import json
import sys
from random import Random
from typing import Any, NamedTuple

import numpy as np

NOBODY, ANY = "nobody", "any"
DTYPES = ["int32", "float64", "uint8", "complex64"]
WAYS = ["named", "any tag", "any source", "any", "probe", "iprobe"]


class Send(NamedTuple):
    """A message of the program."""

    to: int | str
    tag: int
    count: int
    dtype: str
    seed: int


class Receive(NamedTuple):
    """A receive into an array that is longer than the message by `slack` elements."""

    source: int | str
    tag: int | str
    dtype: str
    length: int
    way: str


Phase = list[list[Send | Receive]]
"""By rank, what it starts, in order."""


def content(count: int, dtype: str, seed: int) -> np.ndarray:
    return (np.arange(count) * 7 + seed).astype(dtype)


def phase(random: Random, ranks: int) -> Phase:
    """One dtype for all, since a receive that accepts any message accepts one type only."""
    dtype = random.choice(DTYPES)
    sizes = [0, 1, 5, 300, 20_000] + [300_000] * (random.random() < 0.1)
    sends: list[list[Send]] = [[] for _ in range(ranks)]
    for _ in range(random.randrange(1, 5 * ranks)):
        to = NOBODY if random.random() < 0.05 else random.randrange(ranks)
        message = Send(to, random.choice([0, 1, 70_000]), random.choice(sizes), dtype, random.randrange(100))
        sends[random.randrange(ranks)].append(message)
    program: Phase = []
    for rank in range(ranks):
        way = random.choice(WAYS)
        coming = [(source, sent) for source in range(ranks) for sent in sends[source] if sent.to == rank]
        longest = max((sent.count for _, sent in coming), default=0)
        receives = []
        for source, sent in coming:
            length = longest + random.choice([0, 0, 3])
            from_any, with_any = (
                way in ("any source", "any", "probe", "iprobe"),
                way in ("any tag", "any", "probe", "iprobe"),
            )
            receives.append(Receive(ANY if from_any else source, ANY if with_any else sent.tag, dtype, length, way))
        receives += [Receive(NOBODY, ANY, dtype, 4, "named")] * (random.random() < 0.1)
        random.shuffle(receives)
        # Probes block, so all sends are under way before.
        todo: list[Send | Receive] = [*sends[rank]]
        if "probe" in way:
            todo += receives
        else:
            for receive in receives:
                todo.insert(random.randrange(len(todo) + 1), receive)
        program.append(todo)
    return program


def program(seed: int, ranks: int) -> list[Phase]:
    random = Random(seed)
    return [phase(random, ranks) for _ in range(random.randrange(1, 5))]


def digest(source: Any, tag: Any, got: np.ndarray) -> list[Any]:
    return [source, tag, int(got.size), str(got.dtype), int(np.abs(got).astype(np.float64).sum())]


def expected(seed: int, ranks: int) -> list[list[Any]]:
    """By rank, what it receives in each phase: messages of one source in the order in which they were sent."""
    logs: list[list[Any]] = [[] for _ in range(ranks)]
    for each in program(seed, ranks):
        for rank in range(ranks):
            came = []
            for source in range(ranks):
                for one in each[source]:
                    if isinstance(one, Send) and one.to == rank:
                        came.append(digest(source, one.tag, content(one.count, one.dtype, one.seed)))
            logs[rank].append(came)
    return logs


def in_order(received: list[list[Any]], way: str) -> list[list[Any]]:
    """The digests of a phase by source, and by tag where receives named it: only then is their order given."""
    by_tag = way in ("named", "any source")
    return sorted(received, key=lambda one: (one[0], one[1] if by_tag else 0))


def run(seed: int, ranks: int, rank: int, library: Any) -> list[list[list[Any]]]:
    """Runs a program by a library, whose methods are below. Returns what this rank has received in each phase."""
    log = []
    for each in program(seed, ranks):
        random = Random(seed * 1000 + rank)
        started, received, pending, way = [], [], [], "named"
        for one in each[rank]:
            if isinstance(one, Send):
                started.append(library.send(content(one.count, one.dtype, one.seed), one.to, one.tag))
            elif one.source == NOBODY:
                out = np.full(one.length, 7, one.dtype)
                library.finish(library.receive(out, one.source, one.tag))
                assert (out == 7).all(), "a receive from nobody has changed its array"
            elif "probe" in one.way:
                way = one.way
                source, tag, count = library.probe(one.dtype, one.way)
                out = np.empty(count, one.dtype)
                pending.append((out, library.receive(out, source, tag)))
            else:
                way = one.way
                out = np.empty(one.length, one.dtype)
                pending.append((out, library.receive(out, one.source, one.tag)))
        for index in random.sample(range(len(pending)), len(pending)):
            library.finish(pending[index][1])
        for out, receive in pending:
            source, tag, count = library.finish(receive)
            received.append(digest(source, tag, out[:count]))
        library.finish_all(started, random)
        library.barrier()
        log.append(in_order(received, way))
    return log


def wrong(seed: int, ranks: int, rank: int, log: list[list[list[Any]]]) -> str | None:
    """Says how a rank's log differs from what it must be."""
    for number, (got, right) in enumerate(zip(log, expected(seed, ranks)[rank], strict=True)):
        ways = {
            one.way for one in program(seed, ranks)[number][rank] if isinstance(one, Receive) and one.source != NOBODY
        }
        right = in_order(right, *ways) if ways else right
        if got != right:
            return f"program {seed}, rank {rank}, phase {number} ({ways}): {got}, not {right}"
    return None


class OfMpi:
    """mpi4py."""

    def __init__(self, comm: Any = None) -> None:
        from mpi4py import MPI

        self.mpi, self.comm, self.done = MPI, comm or MPI.COMM_WORLD, {}

    def name(self, what: Any, any_: int) -> int:
        return {NOBODY: self.mpi.PROC_NULL, ANY: any_}.get(what, what)

    def send(self, array: np.ndarray, to: Any, tag: int) -> Any:
        return array, self.comm.Isend(array, self.name(to, 0), tag)

    def receive(self, out: np.ndarray, source: Any, tag: Any) -> Any:
        request = self.comm.Irecv(out, self.name(source, self.mpi.ANY_SOURCE), self.name(tag, self.mpi.ANY_TAG))
        return out, request

    def finish(self, receive: Any) -> tuple[int, int, int]:
        out, request = receive
        if id(request) not in self.done:
            status = self.mpi.Status()
            request.Wait(status)
            count = status.Get_count(self.mpi.BYTE) // out.itemsize
            self.done[id(request)] = receive, (status.Get_source(), status.Get_tag(), count)
        return self.done[id(request)][1]

    def probe(self, dtype: str, way: str) -> tuple[int, int, int]:
        status = self.mpi.Status()
        if way == "probe":
            self.comm.Probe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG, status)
        else:
            while not self.comm.Iprobe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG, status):
                pass
        count = status.Get_count(self.mpi.BYTE) // np.dtype(dtype).itemsize
        return status.Get_source(), status.Get_tag(), count

    def finish_all(self, started: list[Any], random: Random) -> None:
        self.mpi.Request.Waitall([request for _, request in started])

    def barrier(self) -> None:
        self.comm.Barrier()


class OfRingroad:
    """ringroad."""

    def __init__(self, comm: Any) -> None:
        import ringroad

        self.ringroad, self.comm = ringroad, comm

    def name(self, what: Any) -> int:
        return {NOBODY: self.ringroad.PROC_NULL, ANY: self.ringroad.ANY}.get(what, what)

    def send(self, array: np.ndarray, to: Any, tag: int) -> Any:
        return self.comm.send(array, self.name(to), tag, async_op=True)

    def receive(self, out: np.ndarray, source: Any, tag: Any) -> Any:
        return self.comm.recv(out, self.name(source), self.name(tag), async_op=True)

    def finish(self, receive: Any) -> tuple[int, int, int]:
        got, message = receive.result(), receive.message
        assert message.source == self.ringroad.PROC_NULL or got.size == message.count
        return message.source, message.tag, message.count

    def probe(self, dtype: str, way: str) -> tuple[int, int, int]:
        message = self.comm.probe(tag=self.ringroad.ANY) if way == "probe" else None
        while message is None:
            message = self.comm.iprobe(tag=self.ringroad.ANY)
        assert message.dtype == dtype
        return message.source, message.tag, message.count

    def finish_all(self, started: list[Any], random: Random) -> None:
        match random.randrange(3):
            case 0:
                self.ringroad.waitall(started)
            case 1:
                while started:
                    started.pop(self.ringroad.waitany(started)).result()
            case 2:
                while started:
                    ended = self.ringroad.testsome(started)
                    started = [work for index, work in enumerate(started) if index not in ended]

    def barrier(self) -> None:
        self.comm.barrier()


def main() -> None:
    library = OfMpi()
    ranks, rank = library.comm.Get_size(), library.comm.Get_rank()
    logs = [run(int(seed), ranks, rank, library) for seed in sys.argv[1:]]
    gathered = library.comm.gather(logs)
    if rank == 0:
        print(json.dumps([list(of_seed) for of_seed in zip(*gathered, strict=True)]))


if __name__ == "__main__":
    main()
