"""What each rank gives, and what NumPy makes of it."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ringroad._oracle.cases import Case, Vector, dtype_of, finfo, is_inexact

FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "avg": np.add,
    "premul_sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
"""What makes one vector of two, by operation."""


def factor_of(rank: int) -> float:
    """What a rank multiplies its input by in premul_sum; exact in every type."""
    return 1 + rank / 2


def values(rank: int, count: int, dtype: np.dtype[Any], op: str = "sum", seed: int | None = None) -> Vector:
    """The vector that a rank gives. Any rank can compute it."""
    if seed is None:
        return _whole_numbers(rank, count, dtype, op)
    random = np.random.default_rng([seed, rank, count])
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    if not is_inexact(dtype):
        limits: Any = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    found: Vector = random.standard_normal(count)
    if dtype.kind == "c":
        found = found + 1j * random.standard_normal(count)
    elif op in ("min", "max"):
        found[random.random(count) < 0.02] = np.nan
    return found.astype(dtype)


def _whole_numbers(rank: int, count: int, dtype: np.dtype[Any], op: str) -> Vector:
    """No two of the first 97 blocks of 61 elements are alike."""
    at = np.arange(count)
    mixed = (31 * at + 17 * (at // 61) + 7 * rank) % 97
    if dtype.kind == "b":
        return np.asarray(mixed % 2 == 0)
    if op == "product":
        return np.where(mixed % 3 == 0, -1, 1).astype(dtype)
    if op == "avg":
        return (60 * (mixed % 2)).astype(dtype)  # 60 can be divided by any number of ranks up to 6
    # 16 bits hold the sums of small numbers only.
    return (mixed % (7 if is_inexact(dtype) and dtype.itemsize == 2 else 97) + 1).astype(dtype)


def inputs(case: Case, ranks: int) -> list[Vector]:
    """What every rank has before the call, also where the call does not use it."""
    dtype = dtype_of(case.dtype)
    return [values(rank, case.given(ranks, rank), dtype, case.op, case.seed) for rank in range(ranks)]


def wide(array: Vector) -> Vector:
    """The same numbers in a type that rounds less; whole numbers as they are."""
    if not is_inexact(array.dtype):
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def reduced(op: str, vectors: Sequence[Vector]) -> tuple[Vector, Vector | float]:
    """The reduction of the vectors of the ranks from 0 on, and how far each element may be from it by rounding."""
    dtype, fold = vectors[0].dtype, FOLDS[op]
    if not is_inexact(dtype) or op in ("min", "max"):
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(functools.reduce(fold, vectors)), 0.0
    terms = [wide(one) * (factor_of(rank) if op == "premul_sum" else 1) for rank, one in enumerate(vectors)]
    result = functools.reduce(fold, terms)
    scale: Any = np.abs(result) if op == "product" else sum(np.abs(one) for one in terms)
    if op == "avg":
        result, scale = result / len(terms), scale / len(terms)
    subnormal = 1e-5 if op == "product" and dtype == np.float16 else 0.0
    return result, 2 * (len(terms) + 1) * float(finfo(dtype).eps) * scale + subnormal


def result(case: Case, given: Sequence[Vector], rank: int) -> tuple[Vector | None, Vector | float]:
    """What a rank must get if the ranks give these vectors, and how far each element may be from it by rounding. None:
    it gets nothing.
    """
    ranks = len(given)
    if case.collective.root == "gets" and rank != case.root:
        return None, 0.0
    match case.name:
        case "allreduce" | "reduce":
            return reduced(case.op, given)
        case "reduce_scatter":
            own = case.own(ranks, rank)
            return reduced(case.op, [one[own] for one in given])
        case "scan":
            return reduced(case.op, given[: rank + 1])
        case "exscan":
            return reduced(case.op, given[:rank]) if rank > 0 else (None, 0.0)
        case "allgather" | "gather":
            return np.concatenate(given), 0.0
        case "broadcast":
            return given[case.root], 0.0
        case "scatter":
            return given[case.root][case.own(ranks, rank, case.root)], 0.0
        case "alltoall":
            return np.concatenate([one[case.own(ranks, rank, sender)] for sender, one in enumerate(given)]), 0.0
        case "exchange":
            return given[rank - 1], 0.0
        case "barrier":
            return None, 0.0
    raise AssertionError(case)


def differences(actual: Any, expected: Vector, dtype: np.dtype[Any], tolerance: Vector | float = 0.0) -> str | None:
    """What is wrong with a result; None if nothing is."""
    if not isinstance(actual, np.ndarray) or actual.dtype != dtype or actual.shape != expected.shape:
        found = f"{actual.dtype} {actual.shape}" if isinstance(actual, np.ndarray) else f"{actual!r:.200}"
        return f"got {found}, not {dtype} {expected.shape}"
    left, right = wide(actual), wide(expected)
    same = left == right
    if is_inexact(dtype):
        same |= (np.abs(left - right) <= tolerance) | (np.isnan(left) & np.isnan(right))
    if same.all():
        return None
    first = int(np.flatnonzero(~same)[0])
    return f"{int((~same).sum())} of {same.size} differ; at {first}: {actual.flat[first]}, not {right.flat[first]}"
