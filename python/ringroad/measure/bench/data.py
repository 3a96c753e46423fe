"""The vectors of one rank: its input, and the verification of its result.

A rank's input repeats every `_PERIOD` elements, so the correct result is a short pattern, however often it was reduced
in place: k calls on the same memory are simulated on the pattern, and one check of the last result verifies all of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ringroad.measure.bench.collectives import IN, OUT, Collective, Vector, dtype_of, reduce_once, reduce_prefixes

_PERIOD = 61
LONGEST = 500
"""The most calls in a burst."""
_COARSEST = 0.1
"""The largest relative error that a verified result may have: calls in place stop before that."""
_POISON = 101
"""A value that no correct result contains."""
_TILE = _PERIOD * 1024


@dataclass(frozen=True)
class Case:
    """A collective call; the same on all ranks."""

    collective: Collective
    ranks: int
    count: int
    """Elements of the vector, or of a block if the collective has blocks."""
    dtype: str
    op: str
    root: int

    @property
    def elements(self) -> int:
        """Elements of a whole vector."""
        return self.count * self.ranks if self.collective.blocks else self.count

    @property
    def size(self) -> int:
        """Bytes of a whole vector."""
        return self.elements * dtype_of(self.dtype).itemsize

    def contributions(self) -> Vector:
        """The inputs of all ranks, one row each, as float64 or int64. Element i of an input is column i % _PERIOD."""
        column, rank = np.arange(_PERIOD), np.arange(self.ranks)[:, None]
        dtype = dtype_of(self.dtype)
        if not self.collective.reduces:
            values = (column + 7 * rank) % 97
        elif self.op == "product":
            values = np.where((column + rank) % 3 == 0, -1, 1)
        elif dtype.itemsize <= 2:  # their sums are exact for about 30 ranks
            values = column % 5 + rank % 3 + 1
        else:
            values = column + rank + 1
        return values.astype(np.int64 if dtype.kind in "iu" else np.float64)

    def longest(self, place: str) -> int:
        """The most calls on the same memory before numbers get too large to verify."""
        if place == OUT or not self.collective.reduces:
            return LONGEST
        if self.collective.name == "reduce":
            return 1  # libraries may use the other ranks' vectors as scratch memory
        dtype = dtype_of(self.dtype)
        limit = 2.0**62 if dtype.kind in "iu" and dtype.itemsize == 8 else float(_largest(dtype))
        state, calls = self.contributions(), 0
        while (
            calls < LONGEST
            and float(np.abs(state).max()) * self.ranks <= limit
            and self.tolerance(place, calls + 1) < _COARSEST
        ):
            state, calls = self._after_one_call(state, 0), calls + 1
        return max(1, calls)

    def result(self, rank: int, calls: int) -> Vector:
        """The pattern of a reduction's result after `calls` calls in place."""
        state = self.contributions()
        for _ in range(calls):
            state = self._after_one_call(state, rank)
        return np.asarray(state[rank if self.collective.name != "reduce" else self.root])

    def _after_one_call(self, state: Vector, rank: int) -> Vector:
        if self.collective.prefix:
            scanned = reduce_prefixes(self.op, state)
            # In an exclusive scan rank 0's vector stays as it is.
            return scanned if self.collective.name == "scan" else np.concatenate([state[:1], scanned[:-1]])
        reduced = reduce_once(self.op, state)
        if self.collective.name == "reduce_scatter":  # only the rank's own block has changed
            state = state.copy()
            state[rank] = reduced
            return state
        return np.repeat(reduced[None, :], self.ranks, axis=0)

    def tolerance(self, place: str, calls: int) -> float:
        """The relative error that rounding may cause. Powers of two times small integers are exact."""
        dtype = dtype_of(self.dtype)
        if not self.collective.reduces or dtype.kind in "iu":
            return 0.0
        if self.collective.prefix:
            return _epsilon(dtype) * self.ranks * (1 if place == OUT else calls + 1)
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
    """A rank's send and receive buffers, each long enough for a whole vector; `in_torch`: torch allocated them."""

    def __init__(self, case: Case, rank: int, send: Vector, recv: Vector, in_torch: bool = False) -> None:
        self.case, self.rank, self.send, self.recv, self.in_torch = case, rank, send, recv, in_torch
        start = rank * case.count if case.collective.name in ("allgather", "gather") else 0
        _lay(send, case.contributions()[rank], start)

    def views(self, place: str) -> tuple[Vector, Vector]:
        """The views to send from and to receive into; in place they overlap."""
        name, count, rank = self.case.collective.name, self.case.count, self.rank
        source = self.send if place == OUT else self.recv
        block = slice(rank * count, (rank + 1) * count)
        if name in ("reduce_scatter", "scatter"):
            return source, self.recv[:count] if place == OUT else self.recv[block]
        if name in ("allgather", "gather"):
            return self.send[:count] if place == OUT else self.recv[block], self.recv
        return source, self.recv

    def fill(self, place: str) -> None:
        """Prepares the buffers for the first call of a burst."""
        case = self.case
        name = case.collective.name
        has_all = name in ("broadcast", "scatter") and self.rank == case.root
        if place == IN and (case.collective.reduces or has_all):
            np.copyto(self.recv, self.send)
            return
        self.recv.fill(_POISON)
        if place == IN and name in ("allgather", "gather"):
            np.copyto(self.views(IN)[0], self.send[: case.count])

    def wrong(self, place: str, calls: int) -> int:
        """The number of wrong elements in the result after `calls` calls."""
        case, count = self.case, self.case.count
        name, contributions = case.collective.name, case.contributions()
        if name in ("reduce", "gather") and self.rank != case.root:
            return 0
        if name == "exscan" and self.rank == 0:
            return 0
        if case.collective.reduces:
            _, result = self.views(place)
            start = self.rank * count if name == "reduce_scatter" else 0
            pattern = case.result(self.rank, calls if place == IN else 1)
            return _wrong(result, pattern, start, case.tolerance(place, calls))
        if name == "broadcast":
            return _wrong(self.recv, contributions[case.root], 0, 0.0)
        if name == "scatter":
            return _wrong(self.views(place)[1], contributions[case.root], self.rank * count, 0.0)
        wrong = 0
        for source in range(case.ranks):
            start = (self.rank if name == "alltoall" else source) * count
            block = self.recv[source * count : (source + 1) * count]
            wrong += _wrong(block, contributions[source], start, 0.0)
        return wrong


def _lay(target: Vector, pattern: Vector, start: int) -> None:
    """Fills the target with the pattern; its first element has number `start`."""
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
