"""The vectors of one rank: its input, and the verification of its result.

Every block of a vector repeats `_PERIOD` elements, so the correct result is the oracle's for blocks of one period,
however often a vector was reduced in place: k calls on the same memory are simulated on these, and one check of the
last result verifies all of them.
"""

from dataclasses import dataclass

import numpy as np

from ringroad import _oracle as oracle
from ringroad._oracle import Vector
from ringroad.measure.bench.collectives import IN, OUT, BenchCollective

_PERIOD = 61
LONGEST = 500
"""The most calls in a burst."""
_COARSEST = 0.1
"""The largest relative error that a verified result may have: calls in place stop before that."""
_POISON = 101
"""A value that few correct results contain."""
_TILE = _PERIOD * 1024


@dataclass(frozen=True)
class BenchCase:
    """A collective call; the same on all ranks."""

    collective: BenchCollective
    ranks: int
    count: int
    """Elements of the vector, or of a block if the collective has blocks."""
    dtype: str
    op: str
    root: int

    @property
    def blocks(self) -> int:
        """How many blocks a vector has."""
        return self.ranks if self.collective.blocks else 1

    @property
    def elements(self) -> int:
        """Elements of a whole vector."""
        return self.count * self.blocks

    @property
    def size(self) -> int:
        """Bytes of a whole vector."""
        return self.elements * oracle.dtype_of(self.dtype).itemsize

    def call(self, count: int | None = None) -> oracle.Case:
        """The same call for the oracle, or with blocks of another length."""
        name = self.collective.name
        return oracle.Case(name, self.count if count is None else count, self.dtype, self.op, self.root)

    def given(self) -> list[Vector]:
        """The inputs of all ranks, with blocks of one period."""
        return oracle.inputs(self.call(_PERIOD), self.ranks)

    def longest(self, place: str) -> int:
        """The most calls on the same memory before numbers get too large to verify."""
        dtype = oracle.dtype_of(self.dtype)
        if place == OUT or not self.collective.reduces:
            return LONGEST
        if self.collective.name == "reduce":
            return 1  # libraries may use the other ranks' vectors as scratch memory
        if not oracle.is_inexact(dtype):
            return LONGEST
        limit = float(oracle.finfo(dtype).max)
        state, calls = self._wide(), 0
        while (
            calls < LONGEST
            and max(float(np.abs(one).max()) for one in state) * self.ranks <= limit
            and self.tolerance(place, calls + 1) < _COARSEST
        ):
            state, calls = self._after_one_call(state), calls + 1
        return max(1, calls)

    def result(self, rank: int, calls: int) -> Vector | None:
        """A rank's result, with blocks of one period, after `calls` calls in place. None: it gets nothing."""
        state = self._wide()
        for _ in range(calls - 1):
            state = self._after_one_call(state)
        return oracle.result(self.call(_PERIOD), state, rank)[0]

    def _wide(self) -> list[Vector]:
        return [oracle.wide(one) for one in self.given()]

    def _after_one_call(self, state: list[Vector]) -> list[Vector]:
        """What the ranks have after they have reduced in place."""
        call, after = self.call(_PERIOD), []
        for rank, one in enumerate(state):
            found, _ = oracle.result(call, state, rank)
            one = one.copy()
            if found is not None:
                oracle.in_place(call.collective, one, call.own(self.ranks, rank))[1][:] = found
            after.append(one)
        return after

    def tolerance(self, place: str, calls: int) -> float:
        """The relative error that rounding may cause. Powers of two times small integers are exact."""
        dtype = oracle.dtype_of(self.dtype)
        if not self.collective.reduces or not oracle.is_inexact(dtype):
            return 0.0
        epsilon = float(oracle.finfo(dtype).eps)
        if self.collective.prefix or self.op == "premul_sum":
            return epsilon * self.ranks * (1 if place == OUT else calls + 1)
        exact = self.ranks & (self.ranks - 1) == 0 and (place == OUT or self.collective.name != "reduce_scatter")
        return 0.0 if exact else epsilon * (calls + 1)


class Buffers:
    """A rank's send and receive buffers, each long enough for a whole vector."""

    def __init__(self, case: BenchCase, rank: int, send: Vector, recv: Vector) -> None:
        self.case, self.rank, self.send, self.recv = case, rank, send, recv
        self.own = slice(rank * case.count, (rank + 1) * case.count)
        given = case.given()[rank].reshape(-1, _PERIOD)
        for number, block in enumerate(given):
            _lay(send[number * case.count : (number + 1) * case.count], block)

    def views(self, place: str) -> tuple[Vector, Vector]:
        """The views to send from and to receive into; in place they overlap."""
        what, count = self.case.collective, self.case.count
        if place == IN:
            return oracle.in_place(what, self.recv, self.own)
        return (
            self.send[:count] if what.gives == "block" else self.send,
            self.recv[:count] if what.gets == "block" else self.recv,
        )

    def fill(self, place: str) -> None:
        """Prepares the buffers for the first call of a burst."""
        self.recv.fill(_POISON)
        if place == IN and (self.case.collective.root != "gives" or self.rank == self.case.root):
            given = self.views(IN)[0]
            np.copyto(given, self.send[: given.size])

    def wrong(self, place: str, calls: int) -> int:
        """The number of wrong elements in the result after `calls` calls."""
        case = self.case
        repeated = place == IN and case.collective.reduces
        found = case.result(self.rank, calls if repeated else 1)
        if found is None:
            return 0
        blocks = found.reshape(-1, _PERIOD)
        result = self.views(place)[1].reshape(len(blocks), -1)
        tolerance = case.tolerance(place, calls)
        return sum(_wrong(one, block, tolerance) for one, block in zip(result, blocks, strict=True))


def _lay(target: Vector, pattern: Vector) -> None:
    """Fills the target with the pattern."""
    tile = np.resize(pattern, min(_TILE, target.size)).astype(target.dtype)
    for begin in range(0, target.size, _TILE):
        piece = target[begin : begin + _TILE]
        piece[:] = tile[: piece.size]


def _wrong(result: Vector, pattern: Vector, tolerance: float) -> int:
    exact = np.resize(pattern, min(_TILE, result.size))
    tile, wrong = exact.astype(result.dtype), 0
    for begin in range(0, result.size, _TILE):
        piece = result[begin : begin + _TILE]
        bad = piece != tile[: piece.size]
        if tolerance and bad.any():
            right = exact[: piece.size]
            bad = ~(np.abs(oracle.wide(piece) - right) <= tolerance * np.abs(right))
        wrong += int(np.count_nonzero(bad))
    return wrong
