"""The properties of collectives, and the bus bandwidth of nccl-tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringroad._native import collective_name

Vector = NDArray[Any]

OUT, IN = "out_of_place", "in_place"


@dataclass(frozen=True)
class Collective:
    """A collective. `size` means the bytes of a whole vector; in collectives of blocks each rank has one n-th of it."""

    name: str
    places: tuple[str, ...]
    bus_shares: float = 0.0
    bus_vectors: float = 0.0
    blocks: bool = False
    reduces: bool = False
    rooted: bool = False
    prefix: bool = False

    def bus_factor(self, ranks: int) -> float:
        """busbw / algbw: the load of links in vectors (PERFORMANCE.md of nccl-tests)."""
        return self.bus_vectors + self.bus_shares * (ranks - 1) / ranks


COLLECTIVES = {
    collective.name: collective
    for collective in (
        Collective("allreduce", (OUT, IN), bus_shares=2, reduces=True),
        Collective("reduce_scatter", (OUT, IN), bus_shares=1, blocks=True, reduces=True),
        Collective("allgather", (OUT, IN), bus_shares=1, blocks=True),
        Collective("broadcast", (IN,), bus_vectors=1, rooted=True),
        Collective("reduce", (OUT, IN), bus_vectors=1, reduces=True, rooted=True),
        Collective("gather", (OUT, IN), bus_shares=1, blocks=True, rooted=True),
        Collective("scatter", (OUT, IN), bus_shares=1, blocks=True, rooted=True),
        Collective("alltoall", (OUT,), bus_shares=1, blocks=True),
        Collective("scan", (OUT, IN), bus_vectors=1, reduces=True, prefix=True),
        Collective("exscan", (OUT, IN), bus_vectors=1, reduces=True, prefix=True),
        Collective("barrier", (OUT,)),
    )
}
OPS = ("sum", "product", "min", "max", "avg")
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
)


def collective(name: str) -> Collective:
    """The collective by its name, in any spelling. Raises ValueError if it is unknown."""
    try:
        return COLLECTIVES[name if name in COLLECTIVES else collective_name(name)]
    except ValueError as error:
        raise ValueError(f"{error}, barrier") from None


def dtype_of(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        name = ml_dtypes.bfloat16
    found: np.dtype[Any] = np.dtype(name)
    return found


_UFUNCS = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}


def reduce_once(op: str, vectors: Vector) -> Vector:
    """Reduces rows of float64 or int64."""
    return np.asarray(vectors.mean(axis=0) if op == "avg" else _UFUNCS[op].reduce(vectors))


def reduce_prefixes(op: str, vectors: Vector) -> Vector:
    """Row r is the reduction of the rows up to r. There is no average."""
    return np.asarray(_UFUNCS[op].accumulate(vectors))
