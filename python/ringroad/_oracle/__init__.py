"""What collectives mean: what each rank gives, what NumPy makes of it, and whether a call has made the same.

Whatever makes calls and knows their results does so by this module: tests, fault tests, benchmarks, tuning, and the
training run of the build. A `Case` is a call, the same on all ranks; a `Part` is one rank's part in it.
"""

from ringroad._oracle.calls import Part, Running, bind, in_place, part
from ringroad._oracle.cases import (
    CALLS,
    COLLECTIVES,
    DTYPES,
    FORMS,
    OPS,
    OUTPUTS,
    SUPPORTED,
    UNEVEN,
    Case,
    Collective,
    Table,
    Vector,
    draw,
    dtype_of,
    finfo,
    is_inexact,
    ops,
)
from ringroad._oracle.results import FOLDS, differences, factor_of, inputs, reduced, result, values, wide

__all__ = [
    "CALLS",
    "COLLECTIVES",
    "DTYPES",
    "FOLDS",
    "FORMS",
    "OPS",
    "OUTPUTS",
    "SUPPORTED",
    "UNEVEN",
    "Case",
    "Collective",
    "Part",
    "Running",
    "Table",
    "Vector",
    "bind",
    "differences",
    "draw",
    "dtype_of",
    "factor_of",
    "finfo",
    "in_place",
    "inputs",
    "is_inexact",
    "ops",
    "part",
    "reduced",
    "result",
    "values",
    "wide",
]
