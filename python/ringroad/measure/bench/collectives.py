"""The collectives that are measured: where their results may go, and the bus bandwidth of nccl-tests."""

from dataclasses import dataclass

from ringroad import _oracle as oracle
from ringroad._native import collective_name

OUT, IN = "out_of_place", "in_place"


@dataclass(frozen=True)
class BenchCollective(oracle.Collective):
    """A collective. `size` means the bytes of a whole vector; in collectives of blocks each rank has one n-th of it."""

    places: tuple[str, ...] = (OUT, IN)
    bus_shares: float = 0.0
    bus_vectors: float = 0.0

    def bus_factor(self, ranks: int) -> float:
        """busbw / algbw: the load of links as a fraction of the message (PERFORMANCE.md of nccl-tests)."""
        return self.bus_vectors + self.bus_shares * (ranks - 1) / ranks


_BUS_SHARES = {"allreduce": 2, "reduce_scatter": 1, "allgather": 1, "gather": 1, "scatter": 1, "alltoall": 1}
_BUS_VECTORS = {"broadcast": 1, "reduce": 1, "scan": 1, "exscan": 1}
_PLACES = {"broadcast": (IN,), "alltoall": (OUT,), "barrier": (OUT,)}

COLLECTIVES = {
    name: BenchCollective(
        **vars(oracle.CALLS[name]),
        places=_PLACES.get(name, (OUT, IN)),
        bus_shares=_BUS_SHARES.get(name, 0),
        bus_vectors=_BUS_VECTORS.get(name, 0),
    )
    for name in (*oracle.COLLECTIVES, "barrier")
}


def collective(name: str) -> BenchCollective:
    """The collective by its name, in any spelling. Raises ValueError if it is unknown."""
    try:
        return COLLECTIVES[name if name in COLLECTIVES else collective_name(name)]
    except ValueError as error:
        raise ValueError(f"{error}, barrier") from None
