"""What calls really take: traces of all ranks, `ringroad bench` and `ringroad tune`.

    from ringroad import measure

    with measure.trace(comm) as trace:                  # on all ranks
        comm.allreduce(array)
    trace.calls                                         # what was called, how often, and how long it took

Benchmarks and tuning are commands; `Profile` reads what tuning has stored.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringroad.measure.traces import CallTimes, Trace, TraceEvent, trace

__all__ = ["CallTimes", "Trace", "TraceEvent", "trace"]


def __getattr__(name: str) -> Any:
    """Imports everything on first use: commands import other rooms of this one, and no traces."""
    if name not in __all__:
        raise AttributeError(f"module 'ringroad.measure' has no attribute {name!r}")
    from ringroad.measure import traces

    return getattr(traces, name)


def __dir__() -> list[str]:
    return __all__
