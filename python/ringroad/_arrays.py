"""What calls in Python accept as arrays, and what they say of others."""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def as_array(given: ArrayLike, name: str) -> NDArray[Any]:
    """The array of an argument of this name. Raises TypeError."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask would be lost; pass {name}.filled(value)")
    try:
        return np.asarray(given)
    except Exception as error:
        raise TypeError(f"{name} cannot be made a NumPy array: {type(error).__name__}: {error}") from error


def as_numbers(given: ArrayLike, name: str) -> NDArray[np.float64]:
    """A new array of the numbers that were passed as an argument of this name. Raises TypeError."""
    try:
        return np.array(given, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers, not {given!r:.60}") from None


def named(array: NDArray[Any], name: str) -> NDArray[Any]:
    """The same memory as elements of a type of this name: calls on arrays of other names are different calls."""
    return array.view(_type(name, array.dtype))


@lru_cache(256)
def _type(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    # The extension asks for this name, since NumPy takes microseconds to print a type.
    return np.dtype(f"V{dtype.itemsize}", metadata={"ringroad": f"{dtype} ({name})"})


def parts_of(flat: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[Any]]:
    """Views of an array's elements, one after the other, in these shapes."""
    ends = [0, *itertools.accumulate(map(math.prod, shapes))]
    return [flat[start:end].reshape(shape) for start, end, shape in zip(ends, ends[1:], shapes, strict=False)]


def check_output(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str = "out") -> None:
    """Raises TypeError or ValueError unless results of this shape and type can be written to `out`."""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a NumPy array, not {type(out).__name__}")
    if (out.shape, out.dtype) != (shape, dtype):
        raise ValueError(f"{name} must be {dtype} of shape {shape}, not {out.dtype} of shape {out.shape}")
    if not out.flags.writeable:
        raise ValueError(f"{name} is read-only; pass an array that can be written")
    require_distinct(out, name)


def require_distinct(array: NDArray[Any], name: str) -> None:
    """Raises ValueError if elements of the array share memory: results would overwrite each other there."""
    if not array.flags.c_contiguous and share_memory(array.shape, array.strides, array.itemsize):
        raise ValueError(f"{name} has elements that share memory, as broadcasting makes them; pass a copy of the array")


def share_memory(shape: Sequence[int], strides: Sequence[int], size: int) -> bool:
    """Whether elements of `size` bytes share memory in an array of this shape, and of these strides in bytes."""
    extent, nested = size, True
    axes = sorted((abs(stride), length) for stride, length in zip(strides, shape, strict=True))
    for stride, length in axes:
        nested &= length == 1 or stride >= extent
        extent += stride * (length - 1)
    if nested or 0 in shape:
        return False
    if size * math.prod(shape) > extent:
        return True
    starts = np.zeros(1, np.int64)  # the axes interleave
    for stride, length in axes:
        starts = np.add.outer(starts, stride * np.arange(length)).ravel()
    return bool((np.diff(np.sort(starts)) < size).any())
