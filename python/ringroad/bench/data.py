"""The vectors of one rank: what it brings, and whether what it gets is right.

What a rank brings repeats every `_PERIOD` elements, so that the right result is a short pattern, however often it was
reduced in place: k calls on the same memory are simulated on the pattern, and one look at the last result checks all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ringroad.bench.collectives import IN, OUT, Collective, Vector, dtype_of, reduce_once

_PERIOD = 61
LONGEST = 500
"""Calls in a burst, at most."""
_POISON = 101
"""What no right result holds."""
_TILE = _PERIOD * 1024


@dataclass(frozen=True)
class Case:
    """What is called: the same on all ranks."""

    collective: Collective
    ranks: int
    count: int
    """Elements of the vector, or of a block where the collective has blocks."""
    dtype: str
    op: str
    root: int

    @property
    def elements(self) -> int:
        """Of a whole vector."""
        return self.count * self.ranks if self.collective.blocks else self.count

    @property
    def size(self) -> int:
        """Bytes of a whole vector."""
        return self.elements * dtype_of(self.dtype).itemsize

    def contributions(self) -> Vector:
        """What every rank brings, one row each, as float64 or int64; element i is that of column i % _PERIOD."""
        column, rank = np.arange(_PERIOD), np.arange(self.ranks)[:, None]
        dtype = dtype_of(self.dtype)
        if not self.collective.reduces:
            values = (column + 7 * rank) % 97
        elif self.op == "product":
            values = np.where((column + rank) % 3 == 0, -1, 1)
        elif dtype.itemsize <= 2:  # sums of which are exact for some 30 ranks
            values = column % 5 + rank % 3 + 1
        else:
            values = column + rank + 1
        return values.astype(np.int64 if dtype.kind in "iu" else np.float64)

    def longest(self, place: str) -> int:
        """How many calls on the same memory can be checked before numbers get too large."""
        if place == OUT or not self.collective.reduces:
            return LONGEST
        if self.collective.name == "reduce":
            return 1  # libraries may use the other ranks' vectors as scratch memory
        dtype = dtype_of(self.dtype)
        limit = 2.0**62 if dtype.kind in "iu" and dtype.itemsize == 8 else float(_largest(dtype))
        state, calls = self.contributions(), 0
        while calls < LONGEST and float(np.abs(state).max()) * self.ranks <= limit:
            state, calls = self._after_one_call(state, 0), calls + 1
        return max(1, calls)

    def result(self, rank: int, calls: int) -> Vector:
        """The pattern of a reduction after so many calls in place."""
        state = self.contributions()
        for _ in range(calls):
            state = self._after_one_call(state, rank)
        return np.asarray(state[rank if self.collective.name != "reduce" else self.root])

    def _after_one_call(self, state: Vector, rank: int) -> Vector:
        reduced = reduce_once(self.op, state)
        if self.collective.name == "reduce_scatter":  # only the rank's own block has changed
            state = state.copy()
            state[rank] = reduced
            return state
        return np.repeat(reduced[None, :], self.ranks, axis=0)

    def tolerance(self, place: str, calls: int) -> float:
        """Relative error that rounding explains. Powers of two times small integers are exact."""
        dtype = dtype_of(self.dtype)
        if not self.collective.reduces or dtype.kind in "iu":
            return 0.0
        exact = self.ranks & (self.ranks - 1) == 0 and (place == OUT or self.collective.name != "reduce_scatter")
        return 0.0 if exact else _epsilon(dtype) * (calls + 1)


def _largest(dtype: np.dtype[Any]) -> float:
    if dtype.kind in "iu":
        return float(np.iinfo(dtype).max)
    return float(_finfo(dtype).max)


def _epsilon(dtype: np.dtype[Any]) -> float:
    return float(_finfo(dtype).eps)


def _finfo(dtype: np.dtype[Any]) -> Any:
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    return finfo(dtype)


class Buffers:
    """A rank's two vectors, each long enough for a whole one; `in_torch`: their memory is torch's."""

    def __init__(self, case: Case, rank: int, send: Vector, recv: Vector, in_torch: bool = False) -> None:
        self.case, self.rank, self.send, self.recv, self.in_torch = case, rank, send, recv, in_torch
        start = rank * case.count if case.collective.name == "allgather" else 0
        _lay(send, case.contributions()[rank], start)

    def views(self, place: str) -> tuple[Vector, Vector]:
        """What the rank sends and what it receives into; in place they overlap."""
        name, count, rank = self.case.collective.name, self.case.count, self.rank
        source = self.send if place == OUT else self.recv
        block = slice(rank * count, (rank + 1) * count)
        if name == "reduce_scatter":
            return source, self.recv[:count] if place == OUT else self.recv[block]
        if name == "allgather":
            return self.send[:count] if place == OUT else self.recv[block], self.recv
        return source, self.recv

    def fill(self, place: str) -> None:
        """As they are before the first call of a burst."""
        case = self.case
        name = case.collective.name
        if place == IN and (case.collective.reduces or (name == "broadcast" and self.rank == case.root)):
            np.copyto(self.recv, self.send)
            return
        self.recv.fill(_POISON)
        if place == IN and name == "allgather":
            np.copyto(self.views(IN)[0], self.send[: case.count])

    def wrong(self, place: str, calls: int) -> int:
        """How many elements of the result are wrong after so many calls."""
        case, count = self.case, self.case.count
        name, contributions = case.collective.name, case.contributions()
        if name == "reduce" and self.rank != case.root:
            return 0
        if case.collective.reduces:
            _, result = self.views(place)
            start = self.rank * count if name == "reduce_scatter" else 0
            pattern = case.result(self.rank, calls if place == IN else 1)
            return _wrong(result, pattern, start, case.tolerance(place, calls))
        if name == "broadcast":
            return _wrong(self.recv, contributions[case.root], 0, 0.0)
        wrong = 0
        for source in range(case.ranks):
            start = (source if name == "allgather" else self.rank) * count
            block = self.recv[source * count : (source + 1) * count]
            wrong += _wrong(block, contributions[source], start, 0.0)
        return wrong


def _lay(target: Vector, pattern: Vector, start: int) -> None:
    """Repeats the pattern over the target, whose first element is number `start`."""
    tile = np.resize(np.roll(pattern, -(start % _PERIOD)), min(_TILE, target.size)).astype(target.dtype)
    for begin in range(0, target.size, _TILE):
        piece = target[begin : begin + _TILE]
        piece[:] = tile[: piece.size]


def _wrong(result: Vector, pattern: Vector, start: int, tolerance: float) -> int:
    exact = np.resize(np.roll(pattern, -(start % _PERIOD)), min(_TILE, result.size))
    tile, wrong = exact.astype(result.dtype), 0
    for begin in range(0, result.size, _TILE):
        piece = result[begin : begin + _TILE]
        bad = piece != tile[: piece.size]
        if tolerance and bad.any():
            right = exact[: piece.size]
            error = np.abs(piece.astype(np.float64) - right)
            bad = ~(error <= tolerance * np.abs(right))
        wrong += int(np.count_nonzero(bad))
    return wrong
