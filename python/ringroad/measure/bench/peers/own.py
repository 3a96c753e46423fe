"""ringroad through its own interface, on NumPy arrays or on the memory of torch tensors."""

from dataclasses import replace
from typing import Any

from ringroad import _oracle as oracle
from ringroad._native import Communicator
from ringroad.measure.bench.data import Buffers
from ringroad.measure.bench.peers import OURS, Call


class Own:
    """ringroad over a communicator, which may be shared: by its choice, by a fixed algorithm, or in a wire format."""

    def __init__(self, communicator: Communicator, algorithm: str | None = None, wire: str | None = None) -> None:
        self.communicator, self.fixed, self.wire = communicator, algorithm, wire
        self.name = f"{OURS}-{wire}" if wire else f"{OURS}:{algorithm}" if algorithm else OURS

    def call(self, buffers: Buffers, place: str) -> Call | None:
        call = replace(buffers.case.call(), algorithm=self.fixed)
        options: dict[str, Any] = {"wire": self.wire} if self.wire else {}
        return oracle.bind(self.communicator, call, *buffers.views(place), **options)

    def barrier(self) -> Any:
        return self.communicator.barrier()

    def algorithm(self, buffers: Buffers) -> str | None:
        case = buffers.case
        name: Any = case.collective.name
        op: Any = case.op
        if self.fixed or self.wire or name == "barrier":
            return self.fixed or self.wire
        return self.communicator.algorithm_for(name, case.size, dtype=case.dtype, op=op)

    def close(self) -> None:
        self.communicator.close()


def variants(communicator: Communicator, collective: str, algorithms: list[str], wires: list[str]) -> list[Own]:
    """ringroad with each of these algorithms (`all` means all candidates of the choice), and in these wire formats."""
    names = [name for name in algorithms if name not in ("all", "different")]
    if collective != "barrier" and "different" in algorithms:
        names += communicator._candidates(collective)
    if collective != "barrier" and "all" in algorithms:
        candidates = communicator.explain(collective, 1).candidates
        names += [candidate.algorithm for candidate in candidates if candidate.bit_identical]
    fixed = [Own(communicator, name) for name in dict.fromkeys(names)]
    return fixed + [Own(communicator, wire=wire) for wire in wires]
