"""Reductions of the user's own: what `op=` takes beside the operations that the extension performs itself."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringroad._arrays import as_array

Array = NDArray[Any]


@dataclass(frozen=True)
class Op:
    """A reduction of your own, for `op=` of all calls that reduce.

    The values of an element are combined in the order of the ranks: `f(f(f(x0, x1), x2), x3)`, whatever the length and
    the network. With `commutative=True` any algorithm may do it that leaves all ranks with the same bits; the order is
    then the algorithm's.

    A function or a NumPy ufunc can also be passed without an `Op`. It then counts as commutative if it is a ufunc whose
    inputs may change places without changing a bit, such as `np.hypot` or `np.logaddexp`.

    Attributes:
        function: A NumPy ufunc of two inputs, or a function of two vectors that returns their combination: a vector of
            the same length, whose elements depend on the two elements at the same place only. The vectors are parts of
            the ranks' arrays, of any length, and are read-only. What it raises fails the call on all ranks.
        commutative: Whether `f(a, b)` and `f(b, a)` have the same bits.
        name: The name by which ranks compare their calls. None: the function's.

    Example:
        >>> later = ringroad.Op(lambda a, b: np.where(b > 0, b, a), name="later")
        >>> with ringroad.local(3) as cluster:
        ...     cluster.run(lambda comm: comm.allreduce([comm.rank, 2 - comm.rank], op=later))[0]
        array([2, 1])
    """

    function: Callable[[Any, Any], Any]
    commutative: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        shape = (self.function.nin, self.function.nout) if isinstance(self.function, np.ufunc) else (2, 1)
        if not callable(self.function) or shape != (2, 1):
            raise TypeError(f"function must take two arrays and return one, which {self.function!r:.60} does not")
        name = next((name for name, functions in _OF_ONE.items() if self.function in functions), None)
        if name is not None:
            raise TypeError(f'function {name} combines the elements of one array; pass op="{name}"')
        if not isinstance(self.commutative, bool) or not isinstance(self.name, str | None):
            raise TypeError("commutative must be True or False, and name a text (str) or None")
        if self.name is None:
            named = getattr(self.function, "__qualname__", None) or getattr(self.function, "__name__", None)
            object.__setattr__(self, "name", (named or type(self.function).__name__).rpartition("<locals>.")[2])

    def __call__(self, left: Array, right: Array) -> Any:
        """Combines two arrays."""
        return self.function(left, right)


_OF_ONE = {
    "sum": (sum, np.sum),
    "product": (np.prod, math.prod),
    "min": (min, np.min),
    "max": (max, np.max),
}
"""Functions that combine the elements of one array, by the names of those that combine two arrays likewise."""

_COMMUTATIVE = frozenset(
    (np.hypot, np.logaddexp, np.logaddexp2, np.gcd, np.lcm, np.logical_and, np.logical_or, np.logical_xor)
) | frozenset((np.bitwise_and, np.bitwise_or, np.bitwise_xor))


def _locating(better: np.ufunc) -> Callable[[Array, Array], Array]:
    """The better of two values with its index. Of equal values the lower index wins; NaN is better than any number."""

    def locate(a: Array, b: Array) -> Array:
        value, index = a.dtype.names or ()
        one, other = a[value], b[value]
        nan, other_nan = one != one, other != other
        wins = better(other, one) | (other_nan & ~nan)
        same = (one == other) | (nan & other_nan)
        return np.where(wins | (same & (b[index] < a[index])), b, a)

    return locate


LOCATING = {"minloc": Op(_locating(np.less), True, "minloc"), "maxloc": Op(_locating(np.greater), True, "maxloc")}


def chosen(op: Any, dtype: np.dtype[Any]) -> Op:
    """The operation that `op=` means for arrays of this type."""
    if isinstance(op, str):
        kinds = [dtype[name].kind for name in dtype.names or ()]
        if len(kinds) != 2 or kinds[0] not in "iufb" or kinds[1] not in "iu":
            example = "[('value', 'f8'), ('index', 'i8')]"
            raise TypeError(f"{op} is for structured arrays of a value and an index, such as {example}, not {dtype}")
        return LOCATING[op]
    own = op if isinstance(op, Op) else Op(op, commutative=isinstance(op, np.ufunc) and op in _COMMUTATIVE)
    if isinstance(own.function, np.ufunc):
        _check(own, own.function.resolve_dtypes((dtype, dtype, None))[2], dtype)
    return own


def combine(op: Op, left: Any, right: Any, dtype: np.dtype[Any]) -> Array:
    """Combines two vectors of bytes as vectors of this type."""
    vectors = [np.asarray(memory).view(dtype) for memory in (left, right)]
    found: ArrayLike = op(*vectors)
    array = as_array(found, f"what {op.name} returned")
    if array.shape != vectors[0].shape:
        raise TypeError(f"{op.name} returned shape {array.shape} for two vectors of shape {vectors[0].shape}")
    _check(op, array.dtype, dtype)
    return np.ascontiguousarray(array, dtype)


def _check(op: Op, found: np.dtype[Any], dtype: np.dtype[Any]) -> None:
    is_cut = found.kind in "SU" and found.itemsize > dtype.itemsize
    if is_cut or not np.can_cast(found, dtype, "same_kind"):
        raise TypeError(f"{op.name} makes {found} of two arrays of {dtype}, which cannot hold it")
