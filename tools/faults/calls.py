"""Calls of every kind, with results that NumPy computes in advance."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
from ringroad import Communicator

COLLECTIVES = ["allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather", "scatter", "alltoall"]
REDUCTIONS = {"allreduce", "reduce_scatter", "reduce"}
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
INTEGERS = ["int8", "uint8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
DTYPES = [*INTEGERS, "bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
FOLDS: dict[str, Callable[..., Any]] = {"sum": np.add, "min": np.minimum, "max": np.maximum, "bxor": np.bitwise_xor}


@dataclass(frozen=True)
class Call:
    """A collective, or `exchange`: a message to the next rank, and one from the rank before."""

    name: str
    dtype: str = "float32"
    count: int = 1  # of the vector, or of a block
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


def draw(random: Random, ranks: int, largest: int) -> Call:
    """Any call with at most `largest` bytes in a vector; short ones are as likely as long ones."""
    name = random.choice([*COLLECTIVES, "barrier", "exchange"])
    dtype = random.choice(DTYPES)
    ops = ["sum"]
    if not dtype.startswith("complex"):
        ops += ["min", "max"] + (["bxor"] if dtype in INTEGERS else [])
    blocks = 1 if name in ("allreduce", "broadcast", "reduce", "exchange") else ranks
    count = int(largest ** random.random()) // (blocks * dtype_of(dtype).itemsize) or 1
    return Call(name, dtype, count, random.choice(ops), random.randrange(ranks), random.random() < 0.3)


def draws(random: Random, ranks: int, largest: int) -> Iterator[Call]:
    while True:
        yield draw(random, ranks, largest)


def vector(rank: int, count: int, dtype: str) -> np.ndarray:
    """The input of `rank`: small whole numbers, so that no type rounds their sums."""
    values = np.arange(5) + rank
    return np.resize((values % 2 == 0) if dtype == "bool" else values.astype(dtype_of(dtype)), count)


@functools.lru_cache(maxsize=256)
def known(call: Call, ranks: int, rank: int) -> Known:
    """The input and the expected result of one rank, computed by NumPy."""
    blocks = ranks if call.name in ("reduce_scatter", "scatter", "alltoall") else 1
    inputs = [vector(r, call.count * blocks, call.dtype) for r in range(ranks)]
    own = slice(rank * call.count, (rank + 1) * call.count)
    result: np.ndarray | None
    match call.name:
        case "allreduce" | "reduce" | "reduce_scatter":
            result = functools.reduce(FOLDS[call.op], inputs)
            if call.name == "reduce_scatter":
                result = result[own]
        case "allgather" | "gather":
            result = np.concatenate(inputs)
        case "broadcast":
            result = inputs[call.root]
        case "scatter":
            result = inputs[call.root][own]
        case "alltoall":
            result = np.concatenate([other[own] for other in inputs])
        case "exchange":
            result = inputs[rank - 1]
        case _:
            result = None
    if call.name in ("reduce", "gather") and rank != call.root:
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
            case "scatter":
                out = np.empty(call.count, send.dtype)
                self.got = comm.scatter(send if comm.rank == call.root else None, out, call.root, **options)
            case "gather":
                self.got = comm.gather(send, root=call.root, **options)
            case "reduce":
                self.got = comm.reduce(send, root=call.root, op=call.op, **options)
            case name:
                if name in REDUCTIONS:
                    options["op"] = call.op
                place = send.copy() if call.in_place and name in ("allreduce", "alltoall") else None
                self.got = getattr(comm, name)(send if place is None else place, place, **options)

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
