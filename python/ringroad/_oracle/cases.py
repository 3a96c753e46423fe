"""Calls, the same on all ranks: collectives, element types, operations, and the lengths of blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ringroad._native import collectives, reductions

Vector = NDArray[Any]
Table = tuple[tuple[int, ...], ...]
Output = Literal["new", "out", "in place"]
OUTPUTS: tuple[Output, ...] = ("new", "out", "in place")

SUPPORTED = reductions()
"""The element types that each operation supports, as the extension says."""
DTYPES = tuple(SUPPORTED["sum"])
OPS = tuple(SUPPORTED)


@dataclass(frozen=True)
class Collective:
    """A collective. A vector is one block, or has a block for each rank."""

    name: str
    gives: Literal["vector", "block"] = "vector"
    gets: Literal["vector", "block"] = "vector"
    reduces: bool = False
    root: Literal["gives", "gets"] | None = None
    """Whether only the root gives, or only the root gets."""
    prefix: bool = False
    """Whether each rank gets the reduction of the ranks before it."""

    @property
    def rooted(self) -> bool:
        return self.root is not None

    @property
    def blocks(self) -> bool:
        """Whether a vector has a block for each rank."""
        return "block" in (self.gives, self.gets) or self.name == "alltoall"


CALLS = {
    one.name: one
    for one in (
        Collective("allreduce", reduces=True),
        Collective("reduce_scatter", gets="block", reduces=True),
        Collective("allgather", gives="block"),
        Collective("broadcast", root="gives"),
        Collective("reduce", reduces=True, root="gets"),
        Collective("gather", gives="block", root="gets"),
        Collective("scatter", gets="block", root="gives"),
        Collective("alltoall"),
        Collective("scan", reduces=True, prefix=True),
        Collective("exscan", reduces=True, prefix=True),
        Collective("barrier"),
        Collective("exchange"),
    )
}
"""The collectives, a barrier, and an exchange: a message to the next rank, and one from the rank before."""

COLLECTIVES = {name: CALLS[name] for name in collectives()}
"""The extension's collectives."""
UNEVEN = tuple(name for name, what in COLLECTIVES.items() if what.blocks)
"""The collectives whose blocks may have different lengths."""

Blocks = Literal["even", "uneven"] | Table
FORMS: tuple[tuple[str, Blocks], ...] = (
    *((name, "even") for name in CALLS),
    *((name, "uneven") for name in UNEVEN),
)
"""All that a call may be, with equal and with different blocks."""


def ops(name: str, dtype: str) -> list[str]:
    """The operations of a call on a type: "sum" if it does not reduce. There is no mean of the ranks before."""
    what = CALLS[name]
    if not what.reduces:
        return ["sum"]
    return [op for op, dtypes in SUPPORTED.items() if dtype in dtypes and not (op == "avg" and what.prefix)]


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's type of this name; bfloat16 is that of ml_dtypes."""
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    return found


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Whether arithmetic rounds: of floats, complex numbers and bfloat16."""
    return dtype.kind in "fc" or dtype.name == "bfloat16"


def finfo(dtype: np.dtype[Any]) -> Any:
    """The limits of a type that rounds."""
    limits: Any = ml_dtypes.finfo
    return limits(dtype)


@dataclass(frozen=True)
class Case:
    """A call, the same on all ranks. All fields but the name have defaults."""

    name: str
    """One of `CALLS`."""
    count: int = 1
    """Elements of the vector, or of a block of it."""
    dtype: str = "float32"
    op: str = "sum"
    root: int = 0
    output: Output = "new"
    """Where the result goes: a new array, an argument `out`, or the memory of what is given."""
    algorithm: str | None = None
    seed: int | None = None
    """Of random inputs. None: small whole numbers, so that results of up to 6 ranks are exact in all types."""
    blocks: Blocks = "even"
    """All of `count` elements; of different lengths around it; or their lengths: a row for each sender with a block
    for each receiver. All rows are equal, but for an alltoall."""

    @property
    def collective(self) -> Collective:
        return CALLS[self.name]

    def lengths(self, ranks: int) -> Sequence[Sequence[int]]:
        """The lengths of all blocks, as `blocks` has them."""
        if not isinstance(self.blocks, str):
            return self.blocks
        if self.blocks == "even":
            return [[self.count] * ranks] * ranks
        turn = 2 if self.name == "alltoall" else 0
        some = [[(turn * sender + receiver + self.root) % 3 for receiver in range(ranks)] for sender in range(ranks)]
        return [[(self.count * length + 1) // 2 for length in row] for row in some]

    def given(self, ranks: int, rank: int) -> int:
        """How many elements a rank has before the call."""
        row = self.lengths(ranks)[rank]
        return row[rank] if self.collective.gives == "block" else sum(row) if self.collective.blocks else self.count

    def own(self, ranks: int, rank: int, sender: int | None = None) -> slice:
        """The block for a rank in a sender's vector: its own, if no other is named."""
        row = self.lengths(ranks)[rank if sender is None else sender]
        return slice(sum(row[:rank]), sum(row[: rank + 1]))


def draw(random: Random, ranks: int, largest: int) -> Case:
    """Any call with at most `largest` bytes in a vector; short ones are as likely as long ones."""
    name, blocks = random.choice(FORMS)
    dtype = random.choice(DTYPES)
    pieces = ranks if CALLS[name].blocks else 1
    count = int(largest ** random.random()) // (pieces * dtype_of(dtype).itemsize) or 1
    op = random.choice(ops(name, dtype))
    output: Output = random.choice(OUTPUTS)
    return Case(name, count, dtype, op, random.randrange(ranks), output, blocks=blocks)
