"""Calls of every kind, with results that NumPy computes in advance."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
from ringroad import Communicator
from ringroad._native import reductions
from ringroad.measure.bench.collectives import COLLECTIVES as PROPERTIES

EVEN = [name for name in PROPERTIES if name != "barrier"]
UNEVEN = [f"{name}_v" for name in EVEN if hasattr(Communicator, f"{name}_v")]
COLLECTIVES = [*EVEN, *UNEVEN]
OPS_OF: dict[str, list[str]] = {}
for op, dtypes in reductions().items():
    for dtype in dtypes:
        OPS_OF.setdefault(dtype, []).append(op)
DTYPES = list(OPS_OF)
FOLDS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "avg": np.add,
    "premul_sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}


def base(name: str) -> str:
    """The collective that is made with blocks of different lengths."""
    return name.removesuffix("_v")


REDUCTIONS = {name for name in COLLECTIVES if PROPERTIES[base(name)].reduces}
ROOTED = {name for name in COLLECTIVES if PROPERTIES[base(name)].rooted}
SCANS = {name for name in COLLECTIVES if PROPERTIES[base(name)].prefix}


@dataclass(frozen=True)
class Call:
    """A collective, or `exchange`: a message to the next rank, and one from the rank before."""

    name: str
    dtype: str = "float32"
    count: int = 1  # of the vector, or of a block; of the longest one, if they differ
    op: str = "sum"
    root: int = 0
    in_place: bool = False


@dataclass(frozen=True)
class Known:
    """A call with one rank's input and expected result (None: the rank gets no result)."""

    call: Call
    send: np.ndarray
    result: np.ndarray | None
    bytes: bytes


def dtype_of(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def ops(name: str, dtype: str) -> list[str]:
    """The reductions of a call; a scan takes no mean."""
    if name not in REDUCTIONS:
        return ["sum"]
    return [op for op in OPS_OF[dtype] if op != "avg" or name not in SCANS]


def draw(random: Random, ranks: int, largest: int) -> Call:
    """Any call with at most `largest` bytes in a vector; short ones are as likely as long ones."""
    name = random.choice([*COLLECTIVES, "barrier", "exchange"])
    dtype = random.choice(DTYPES)
    blocks = ranks if (name in PROPERTIES and PROPERTIES[name].blocks) or name in UNEVEN else 1
    count = int(largest ** random.random()) // (blocks * dtype_of(dtype).itemsize) or 1
    op = random.choice(ops(name, dtype))
    return Call(name, dtype, count, op, random.randrange(ranks), random.random() < 0.3)


def draws(random: Random, ranks: int, largest: int) -> Iterator[Call]:
    while True:
        yield draw(random, ranks, largest)


def vector(rank: int, count: int, dtype: str, op: str = "sum") -> np.ndarray:
    """The input of `rank`: small whole numbers, so that no type rounds their sums, products and means."""
    values = np.arange(5) + rank
    if op == "product":
        values = 1 + values % 2
    elif op == "avg":
        values = 60 * (values % 2)  # 60 can be divided by any number of ranks up to 6
    return np.resize((values % 2 == 0) if dtype == "bool" else values.astype(dtype_of(dtype)), count)


def factor(call: Call, rank: int) -> int:
    """What `rank` multiplies its input by."""
    return rank + 1 if call.op == "premul_sum" else 1


def counts(call: Call, ranks: int) -> list[list[int]]:
    """The lengths of the blocks of an uneven call: a row for each sender, with a block for each receiver. All rows are
    equal, but for an alltoall. Some blocks are empty.
    """
    turn = 2 if base(call.name) == "alltoall" else 0
    return [[(call.count * ((turn * s + t + call.root) % 3) + 1) // 2 for t in range(ranks)] for s in range(ranks)]


def reduced(call: Call, inputs: list[np.ndarray]) -> np.ndarray:
    scaled = [
        one * one.dtype.type(factor(call, rank)) if factor(call, rank) > 1 else one for rank, one in enumerate(inputs)
    ]
    result = functools.reduce(FOLDS[call.op], scaled)
    return (result / result.dtype.type(len(inputs))).astype(result.dtype) if call.op == "avg" else result


@functools.lru_cache(maxsize=256)
def known(call: Call, ranks: int, rank: int) -> Known:
    """The input and the expected result of one rank, computed by NumPy."""
    name = base(call.name)
    table = counts(call, ranks) if call.name in UNEVEN else [[call.count] * ranks] * ranks
    ends = [np.cumsum([0, *row]) for row in table]
    of_blocks = name in ("reduce_scatter", "scatter", "alltoall")
    own_block = name in ("allgather", "gather")
    lengths = [int(ends[r][-1]) if of_blocks else table[r][r] if own_block else call.count for r in range(ranks)]
    inputs = [vector(r, lengths[r], call.dtype, call.op) for r in range(ranks)]
    own = [slice(ends[r][rank], ends[r][rank + 1]) for r in range(ranks)]
    result: np.ndarray | None
    match name:
        case "allreduce" | "reduce":
            result = reduced(call, inputs)
        case "reduce_scatter":
            result = reduced(call, inputs)[own[rank]]
        case "scan":
            result = reduced(call, inputs[: rank + 1])
        case "exscan":
            result = reduced(call, inputs[:rank]) if rank > 0 else None
        case "allgather" | "gather":
            result = np.concatenate(inputs)
        case "broadcast":
            result = inputs[call.root]
        case "scatter":
            result = inputs[call.root][own[call.root]]
        case "alltoall":
            result = np.concatenate([other[own[r]] for r, other in enumerate(inputs)])
        case "exchange":
            result = inputs[rank - 1]
        case "barrier":
            result = None
        case _:
            raise AssertionError(f"the result of {call.name} is not known here")
    if name in ("reduce", "gather") and rank != call.root:
        result = None
    return Known(call, inputs[rank], result, b"" if result is None else result.tobytes())


class Running:
    """A started call. `finish` waits for it and returns a description of a wrong result, or None."""

    def __init__(self, comm: Communicator, expected: Known, *, asynchronous: bool = False, **options: Any) -> None:
        self.expected = expected
        self.asynchronous = asynchronous
        self.sent = None
        call, send = expected.call, expected.send
        options["async_op"] = asynchronous
        match call.name:
            case "barrier":
                self.got = comm.barrier(**options)
            case "exchange":
                self.sent = comm.send(send, (comm.rank + 1) % comm.size, **(options | {"async_op": True}))
                self.got = comm.recv(np.empty_like(send), (comm.rank - 1) % comm.size, **options)
            case "broadcast":
                # A copy, because others read the array: a defect must not spoil later calls.
                self.got = comm.broadcast(send.copy(), call.root, **options)
            case name:
                self.got = self.collective(comm, name, options)

    def collective(self, comm: Communicator, name: str, options: dict[str, Any]) -> Any:
        call, send = self.expected.call, self.expected.send
        given: np.ndarray | None = send
        out = None
        if name in ROOTED:
            options["root"] = call.root
        if name in REDUCTIONS:
            options["op"] = call.op
            if call.op == "premul_sum":
                options["factor"] = factor(call, comm.rank)
        if name in UNEVEN:
            table = counts(call, comm.size)
            options["counts"] = table if base(name) == "alltoall" else table[0]
        if base(name) == "scatter":
            out = np.empty_like(self.expected.result)
            given = send if comm.rank == call.root else None
        elif call.in_place and name in ("allreduce", "alltoall", "scan", "exscan"):
            given = out = send.copy()
        return getattr(comm, name)(given, out=out, **options)

    def finish(self) -> str | None:
        if self.sent is not None:
            self.sent.wait()
        got = self.got.result() if self.asynchronous else self.got
        expected = self.expected
        if expected.result is None:
            return None
        if isinstance(got, np.ndarray) and got.tobytes() == expected.bytes:
            return None
        if not isinstance(got, np.ndarray) or got.shape != expected.result.shape:
            return f"{expected.call}: got {got!r:.200}"
        wrong = np.flatnonzero(got != expected.result)
        first = int(wrong[0]) if len(wrong) else 0
        return f"{expected.call}: {len(wrong)} differ; at {first}: {got.flat[first]}, not {expected.result.flat[first]}"
