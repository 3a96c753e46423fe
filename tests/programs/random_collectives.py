"""Random programs of collectives that ringroad and mpi4py both run. The oracle knows what each rank must get.

All ranks draw the same program: calls in flight side by side with random messages between them, calls made again on the
same arrays, objects, neighbours on grids and graphs, and the same within groups of the ranks. Each rank draws by itself
what others need not know: in which memory, whether in place, prepared or at once, and in which order it waits.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
import ringroad
from ringroad._operations import LOCATING
from ringroad._oracle import CALLS, COLLECTIVES, DTYPES, FOLDS, FORMS, OUTPUTS, Case, Part, bind, ops

from programs import random_messages

MOVED = [*DTYPES, "i2,f8", "S5", "M8[s]", ">f4", "longdouble"]
"""What calls that do not reduce take, too."""


def after(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Maps x -> f0 * x + f1, one after the other: associative, but not commutative."""
    found = np.empty_like(a)
    found["f0"], found["f1"] = a["f0"] * b["f0"], a["f1"] * b["f0"] + b["f1"]
    return found


OWN: dict[str, tuple[Any, str]] = {
    "after": (after, "u8,u8"),
    "gcd": (np.gcd, "int64"),
    "any bit": (ringroad.Op(np.bitwise_or, commutative=True, name="any bit"), "uint16"),
} | {name: (op, "f8,i4") for name, op in LOCATING.items()}
"""The reductions that are no kernels, each with a type of its elements."""
FOLDS |= {name: op for name, (op, _) in OWN.items()}


class Call(NamedTuple):
    """A call. Its case counts rows, each of `width` elements; `by` chooses among the algorithms, from 0 to 1."""

    case: Case
    width: int
    by: float

    def part(self, ranks: int, rank: int) -> Part:
        """The rank's part in the same call on vectors."""
        case, width = self.case, self.width
        blocks = case.blocks if isinstance(case.blocks, str) else [[n * width for n in row] for row in case.blocks]
        return Part(replace(case, count=case.count * width, blocks=blocks), ranks, rank)


def drawn(random: Random, ranks: int) -> Call:
    """Any call on any type, of 0 to 100,000 rows."""
    name, blocks = random.choice(FORMS)
    what = CALLS[name]
    dtype = random.choice(DTYPES if what.reduces else MOVED)
    op = random.choice(ops(name, dtype) if dtype in DTYPES else ["sum"])
    if what.reduces and random.random() < 0.25:
        op = random.choice([*OWN])
        dtype = OWN[op][1]
    count = random.choice([0, 1, 2, 5, 100, 3_000] * 3 + [100_000])
    if what.blocks:
        count = count // ranks + random.randrange(2)
    if blocks == "uneven":
        rows = [[random.choice([0, 1, count, 2 * count]) for _ in range(ranks)] for _ in range(ranks)]
        blocks = tuple(map(tuple, rows if name == "alltoall" else rows[:1] * ranks))
    seed = random.choice([None, random.randrange(1000)]) if dtype in DTYPES else None
    case = Case(name, count, dtype, op, random.randrange(ranks), seed=seed, blocks=blocks)
    return Call(case, random.choice([1, 1, 3]), random.choice([0.0, random.random()]))


class Started:
    """A call of this rank, which can be started again when it has ended."""

    def __init__(self, library: Any, call: Call, local: Random) -> None:
        self.library, self.call = library, call._replace(case=replace(call.case, output=local.choice(OUTPUTS)))
        self.part = self.call.part(library.size, library.rank)
        self.begin = library.prepared(self.call, self.part, local)
        self.end: Callable[[], Any] | None = self.begin(self.part)

    def finish(self) -> str | None:
        """Waits for the end, if nobody has. Says what is wrong with the result."""
        if self.end is None:
            return None
        end, self.end = self.end, None
        wrong = self.part.wrong(end())
        return wrong and f"{self.call} on rank {self.library.rank} of {self.library.size}: {wrong}"

    def again(self, seed: int) -> str | None:
        """Starts it on other values."""
        wrong = self.finish()
        if self.call.case.seed is not None:
            self.call = self.call._replace(case=replace(self.call.case, seed=seed))
            self.part = self.call.part(self.library.size, self.library.rank)
        self.end = self.begin(self.part)
        return wrong


def run(seed: str, library: Any, depth: int = 0) -> list[str]:
    """Runs a program by a library, which is one of the classes below. Returns what is wrong."""
    ranks, rank = library.size, library.rank
    random, local = Random(seed), Random(f"{seed} {rank}")
    started: list[Started] = []
    wrong: list[str | None] = []
    for step in range(random.randrange(3, 12)):
        match random.choice(["call"] * 8 + ["again"] * 2 + ["objects", "neighbours", "messages", "split"]):
            case "call":
                started.append(Started(library, drawn(random, ranks), local))
            case "again" if started:
                wrong.append(random.choice(started).again(random.randrange(1000)))
            case "objects":
                wrong += objects(library, random)
            case "neighbours":
                wrong += neighbours(library, random)
            case "messages":
                number = random.randrange(1000)
                wrong.append(
                    random_messages.wrong(number, ranks, rank, random_messages.run(number, ranks, rank, library))
                )
            case "split" if depth < 2:
                colors = [random.choice([None, 0, 0, 1]) for _ in range(ranks)]
                keys = [random.randrange(3) for _ in range(ranks)]
                group = library.split(colors[rank], keys[rank])
                if group:
                    members = sorted((key, at) for at, key in enumerate(keys) if colors[at] == colors[rank])
                    place = members.index((keys[rank], rank)), len(members)
                    wrong.append(differ("split", (group.rank, group.size), place))
                    wrong += run(f"{seed} {step} {colors[rank]}", group, depth + 1)
                    group.close()
        if random.random() < 0.3:
            wrong += [one.finish() for one in local.sample(started, len(started))]
    wrong += [one.finish() for one in local.sample(started, len(started))]
    return [f"program {seed!r}: {text}" for text in wrong if text]


def differ(what: str, got: Any, right: Any) -> str | None:
    return None if np.array_equal(got, right) else f"{what}: got {got!r}, not {right!r}"


def objects(library: Any, random: Random) -> list[str | None]:
    """Every call on objects, which say from whom and for whom they are, and are of different lengths."""
    ranks, rank, root, number = library.size, library.rank, random.randrange(library.size), random.randrange(5000)
    things = [[f"{of} to {to} {'x' * (number * (of + 1) % 5000)}" for to in range(ranks)] for of in range(ranks)]
    mine, everybody, after, before = things[rank][0], [row[0] for row in things], (rank + 1) % ranks, (rank - 1) % ranks
    return [
        differ("broadcast", library.broadcast_object(mine, root), everybody[root]),
        differ("gather", library.gather_object(mine, root), everybody if rank == root else None),
        differ("allgather", library.allgather_object(mine), everybody),
        differ("scatter", library.scatter_object(things[rank] if rank == root else None, root), things[root][rank]),
        differ("alltoall", library.alltoall_object(things[rank]), [row[rank] for row in things]),
        differ("sendrecv", library.sendrecv_object(mine, after, before), everybody[before]),
    ]


def neighbours(library: Any, random: Random) -> list[str | None]:
    """Exchanges along the edges of a grid, or of any graph, blocks that say from whom they are, and which of his."""
    ranks, rank, dtype, count = (
        library.size,
        library.rank,
        random.choice(["i8", "f4", "u1"]),
        random.choice([0, 1, 3000]),
    )
    if random.random() < 0.5:
        lengths = random.choice([s for s in itertools.product(range(1, ranks + 1), repeat=2) if math.prod(s) == ranks])
        around = [random.random() < 0.5 for _ in lengths]
        near: list[int | None] = []
        for at, step in itertools.product(range(2), (-1, 1)):
            place = [int(n) + step * (index == at) for index, n in enumerate(np.unravel_index(rank, lengths))]
            inside = around[at] or 0 <= place[at] < lengths[at]
            near.append(int(np.ravel_multi_index(place, lengths, mode="wrap")) if inside else None)
        # What comes from below was sent up.
        slots, coming = 4, [None if peer is None else (peer, slot ^ 1) for slot, peer in enumerate(near)]
        calls = library.grid(lengths, around)
    else:
        edges = [[random.randrange(ranks) for _ in range(random.randrange(4))] for _ in range(ranks)]
        coming = [(of, slot) for of, to in enumerate(edges) for slot, peer in enumerate(to) if peer == rank]
        slots, calls = len(edges[rank]), library.graph(edges[rank], [one[0] for one in coming if one])

    def blocks(of: list[tuple[int, int] | None]) -> np.ndarray:
        columns = [np.arange(count) % 7 + 20 * one[0] + one[1] if one else np.zeros(count) for one in of]
        return np.array(columns, dtype).reshape(len(of), count)

    sent, first = blocks([(rank, slot) for slot in range(slots)]), blocks([one and (one[0], 0) for one in coming])
    wrong = []
    for call, send, right in zip(calls, (sent, blocks([(rank, 0)])[0]), (blocks(coming), first), strict=True):
        out = np.zeros_like(right)
        call(send, out)
        wrong.append(differ("neighbours", out, right))
    return wrong


class OfRingroad(random_messages.OfRingroad):
    """ringroad."""

    def __init__(self, comm: Any) -> None:
        super().__init__(comm)
        self.rank, self.size, network = comm.rank, comm.size, comm.network.topology
        every = ringroad.algorithms(network)
        self.names = {name: [one.name for one in every if one.supports(network, name)] for name in COLLECTIVES}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.comm, name)

    def prepared(self, call: Call, part: Part, local: Random) -> Callable[[Part], Callable[[], Any]]:
        """Draws how the call is made. Returns what starts it on a part's values, and returns what waits for it."""
        case = call.case
        send, out = (None if one is None else one.reshape((-1, 3)[: 1 + call.width // 3]) for one in part.arrays())
        apart = send is not None and (out is None or not np.shares_memory(send, out))
        if apart and local.random() < 0.5:
            send, out = (one if one is None else self.comm.empty(one.shape, one.dtype) for one in (send, out))
        how = local.choice(["at once", "later"] + ["prepared"] * (case.name in COLLECTIVES))
        if apart and how != "prepared" and local.random() < 0.3:
            send = np.repeat(send, 2, axis=0)[::2]
        options: dict[str, Any] = {"op": OWN[case.op][0]} if case.op in OWN and case.op not in LOCATING else {}
        options |= {"tag": case.root} if case.name == "exchange" else {}
        options |= {"async_op": True} if how == "later" else {}
        names = [None, *self.names.get(case.name, [])] if case.op != "after" else [None]
        make: Any = bind(self.comm, replace(case, algorithm=names[int(call.by * len(names))]), send, out, **options)
        if how == "prepared":
            arrays = make.args[: 1 if case.name == "broadcast" else 2]
            make = self.comm.prepare(case.name, *arrays, root=case.root, **make.keywords).start

        def begin(part: Part) -> Callable[[], Any]:
            for array, values in zip((send, out), part.arrays(), strict=True):
                if array is not None:
                    array[...] = values.reshape(array.shape)
            work = make()

            def end() -> Any:
                got = work if how == "at once" else work.result()
                if apart and send.tobytes() != part.send.tobytes():
                    return "a changed input"
                if got is None or not (out is None or got is out):
                    return None if got is None else "another array than out"
                return got.reshape(-1) if got.shape[1:] == (3,)[: call.width // 3] else got

            return end

        return begin

    def split(self, color: int | None, key: int) -> Any:
        group = self.comm.split(color, key)
        return group and OfRingroad(group)

    def grid(self, lengths: tuple[int, ...], around: list[bool]) -> list[Any]:
        cart = self.comm.cart(lengths, periodic=around)
        return [cart.neighbour_alltoall, cart.neighbour_allgather]

    def graph(self, destinations: list[int], sources: list[int]) -> list[Any]:
        graph = self.comm.graph(destinations, sources)
        return [graph.neighbour_alltoall, graph.neighbour_allgather]
