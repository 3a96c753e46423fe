"""One rank's part in a call: its arrays, the call itself, and whether it has made what it should."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ringroad._native import Communicator
from ringroad._oracle.cases import Case, Collective, Vector, dtype_of
from ringroad._oracle.results import differences, factor_of, inputs, result, values


def in_place(what: Collective, whole: Vector, own: slice) -> tuple[Vector, Vector]:
    """What to give and where to get, in place: `own` is the rank's block of the whole vector."""
    return whole[own] if what.gives == "block" else whole, whole[own] if what.gets == "block" else whole


def bind(
    comm: Communicator, case: Case, send: Any, out: Any, rank: int | None = None, **options: Any
) -> Callable[..., Any]:
    """The call of this rank, from one array to another; a broadcast only has `out`. Without `rank`, the communicator's
    own is taken. What has a default value is left out, as programs do.
    """
    what, root = case.collective, case.root
    rank = comm.rank if rank is None else rank
    if case.name == "barrier":
        return functools.partial(comm.barrier, **options) if options else comm.barrier
    if case.name == "exchange":
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        return functools.partial(comm.sendrecv, send, after, out, before, **options)
    if case.algorithm is not None:
        options["algorithm"] = case.algorithm
    if what.reduces and case.op != "sum":
        options.setdefault("op", case.op)
    if case.op == "premul_sum":
        options["factor"] = factor_of(rank)
    if case.name == "broadcast":
        return functools.partial(comm.broadcast, out, root, **options)
    if what.rooted and rank != root:
        send, out = (None, out) if what.root == "gives" else (send, None)
    roots = [root] if what.rooted else []
    if case.blocks != "even":
        table = case.lengths(comm.size)
        options["counts"] = table if case.name == "alltoall" else table[0]
    return functools.partial(getattr(comm, case.name), send, out, *roots, **options)


class Part:
    """One rank's part in a call: what it gives, what it must get, and the call itself."""

    def __init__(self, case: Case, ranks: int, rank: int) -> None:
        self.case, self.ranks, self.rank = case, ranks, rank
        self.dtype = dtype_of(case.dtype)
        self.send = values(rank, case.given(ranks, rank), self.dtype, case.op, case.seed)

    @functools.cached_property
    def expected(self) -> tuple[Vector | None, Vector | float]:
        """The result and the tolerance of each element. Of whole numbers it is exact, in the type of the call."""
        found, tolerance = result(self.case, inputs(self.case, self.ranks), self.rank)
        if found is None or self.case.seed is not None:
            return found, tolerance
        return found.astype(self.dtype), 0.0

    @functools.cached_property
    def _bytes(self) -> bytes:
        return b"" if self.expected[0] is None else self.expected[0].tobytes()

    def arrays(self) -> tuple[Vector | None, Vector | None]:
        """What to give and where to get, for `bind`. `send` itself is never written to."""
        case, what, found = self.case, self.case.collective, self.expected[0]
        if case.name == "broadcast":
            return None, self.send.copy()
        if found is None:
            return self.send, None
        fresh = np.empty(found.shape, self.dtype)
        if case.name == "exchange" or (what.root == "gives" and self.rank != case.root):
            return self.send, fresh
        if case.output == "new":
            return self.send, None
        if case.output == "out" or (case.name == "alltoall" and case.blocks != "even"):
            return self.send, fresh
        own = case.own(self.ranks, self.rank)
        if what.gives == "block":
            whole = np.empty(found.shape, self.dtype)
            whole[own] = self.send
        else:
            whole = self.send.copy()
        return in_place(what, whole, own)

    def function(self, comm: Communicator, **options: Any) -> Callable[[], Any]:
        """The call, which can be made any number of times on the same arrays."""
        return bind(comm, self.case, *self.arrays(), **options)

    def start(self, comm: Communicator, **options: Any) -> "Running":
        """Makes the call, or starts it with `async_op`."""
        return Running(self, comm, options)

    def wrong(self, got: Any) -> str | None:
        """What is wrong with a result; None if nothing is."""
        found, tolerance = self.expected
        if found is None:
            return None if got is None else f"got {got!r:.200}, not None"
        if self.case.seed is None and isinstance(got, np.ndarray) and got.tobytes() == self._bytes:
            return None
        return differences(got, found, self.dtype, tolerance)


part = functools.lru_cache(maxsize=256)(Part)
"""A rank's part in a call, which is kept for a while."""


class Running:
    """A started call. `finish` waits for it and returns what is wrong with its result, or None."""

    def __init__(self, part: Part, comm: Communicator, options: dict[str, Any]) -> None:
        self.part, self.asynchronous = part, options.get("async_op", False)
        send, self.out = part.arrays()
        self.got = bind(comm, part.case, send, self.out, **options)()

    def finish(self) -> str | None:
        """What is wrong with the result; None if nothing is."""
        got = self.got = self.got.result() if self.asynchronous else self.got
        wrong = self.part.wrong(got)
        if wrong is None and self.out is not None and got is not None and got is not self.out:
            wrong = "the result is not `out`"
        return None if wrong is None else f"{self.part.case} on rank {self.part.rank} of {self.part.ranks}: {wrong}"
