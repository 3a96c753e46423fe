"""What calls really take: traces of all ranks, `ringroad bench` and `ringroad tune`.

    from ringroad import measure

    with measure.trace(comm) as trace:                  # on all ranks
        comm.allreduce(array)
    trace.calls                                         # what was called, how often, and how long it took

Benchmarks and tuning are commands; `Profile` reads what tuning has stored.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringroad._native import Profile
    from ringroad.measure.calibration import calibrate, candidates
    from ringroad.measure.traces import CallTimes, Trace, TraceEvent, trace

__all__ = [
    "CallTimes",
    "Profile",
    "Trace",
    "TraceEvent",
    "calibrate",
    "candidates",
    "trace",
]
__dir__ = __all__.copy

_WHERE = {
    "_native": ("Profile",),
    "measure.calibration": ("calibrate", "candidates"),
    "measure.traces": ("CallTimes", "Trace", "TraceEvent", "trace"),
}
"""The names of each module."""
_EARLIER = {"contestants": "candidates"}
"""Earlier names, which still work."""


def __getattr__(name: str) -> Any:
    """Imports everything on first use: commands import other rooms of this one, and no traces."""
    name = _EARLIER.get(name, name)
    if name not in __all__:
        raise AttributeError(f"module 'ringroad.measure' has no attribute {name!r}")
    where = next(where for where, names in _WHERE.items() if name in names)
    value = getattr(import_module(f"ringroad.{where}"), name)
    globals()[name] = value
    return value
