"""ringroad through its own interface, on NumPy arrays or on the memory of torch tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ringroad import _oracle as oracle
from ringroad._native import Communicator, FileStore
from ringroad.measure.bench.data import Buffers, Case
from ringroad.measure.bench.peers import OURS, Call


class Own:
    """ringroad. `tensors`: calls get torch tensors if the communicator takes them, else arrays that share their
    memory."""

    name = OURS

    def __init__(
        self, store: str, rank: int, ranks: int, timeout: float, tensors: bool, settings: dict[str, str] | None
    ) -> None:
        self.communicator = Communicator(FileStore(store), rank, ranks, timeout=timeout, settings=settings)
        self.tensors = tensors and self._takes_tensors()

    def fixed(self, collective: str, algorithms: list[str]) -> list[Fixed]:
        """Peers that use these fixed algorithms over the same communicator; `all` means all candidates of the
        choice."""
        names = [name for name in algorithms if name not in ("all", "different")]
        if collective != "barrier" and "different" in algorithms:
            names += self.communicator._contestants(collective)
        if collective != "barrier" and "all" in algorithms:
            candidates = self.communicator.explain(collective, 1).candidates
            names += [candidate.algorithm for candidate in candidates if candidate.bit_identical]
        return [Fixed(self, name) for name in dict.fromkeys(names)]

    def _takes_tensors(self) -> bool:
        import torch

        one: Any = torch.ones(1)
        try:
            self.communicator.allreduce(one, one)
        except TypeError:
            return False
        return True

    def formats(self, case: Case, wires: list[str]) -> list[Fixed]:
        """Peers that send elements in these wire formats, which are checked."""
        return [Fixed(self, None, wire) for wire in wires]

    def call(self, buffers: Buffers, place: str, algorithm: str | None = None, **options: Any) -> Call | None:
        send: Any
        recv: Any
        send, recv = buffers.views(place)
        if self.tensors and buffers.in_torch:
            from ringroad.measure.bench.peers.tensors import tensor_of

            send, recv = tensor_of(send), tensor_of(recv)
        call = replace(buffers.case.call(), algorithm=algorithm)
        return oracle.bind(self.communicator, call, send, recv, **options)

    def barrier(self) -> Any:
        return self.communicator.barrier()

    def algorithm(self, buffers: Buffers) -> str | None:
        case = buffers.case
        name: Any = case.collective.name
        op: Any = case.op
        if name == "barrier":
            return None
        return self.communicator.algorithm_for(name, case.size, dtype=case.dtype, op=op)

    def close(self) -> None:
        self.communicator.close()


class Fixed:
    """ringroad with one fixed algorithm or wire format, over the same communicator."""

    def __init__(self, own: Own, algorithm: str | None, wire: str | None = None) -> None:
        self.own, self.fixed, self.wire = own, algorithm, wire
        self.name = f"{OURS}-{wire}" if wire else f"{OURS}:{algorithm}"

    def call(self, buffers: Buffers, place: str) -> Call | None:
        options = {"wire": self.wire} if self.wire else {}
        return self.own.call(buffers, place, self.fixed, **options)

    def barrier(self) -> Any:
        return self.own.barrier()

    def algorithm(self, buffers: Buffers) -> str | None:
        return self.fixed or self.wire

    def close(self) -> None:
        """Does nothing: the communicator belongs to `own`."""
