"""The laboratory: analysis tools for networks and schedules, which need no network themselves.

    from ringroad import lab

    lab.simulate("swing", "torus:4x4", "1MiB").plot()       # run a schedule on a model of the network
    lab.compare(["swing", "bfb"], "torus:8x8")              # algorithms side by side
    lab.find(ranks=64, degree=4)                            # the best networks to build

Its other rooms are `synthesis` (flows and costs on a given graph), `routes` (routing tables), `programs` (the same
problems as linear programs), `training` (how long an iteration takes), `formats` (schedules in other programs' files),
`reproduce` (the figures of papers) and `viz` (pictures).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringroad.lab import formats as formats
    from ringroad.lab import programs as programs
    from ringroad.lab import reproduce as reproduce
    from ringroad.lab import routes as routes
    from ringroad.lab import synthesis as synthesis
    from ringroad.lab import training as training
    from ringroad.lab import viz as viz
    from ringroad.lab._comparison import Comparison, compare
    from ringroad.lab._finding import Findings, FrontierNetwork, find
    from ringroad.lab._simulation import Simulation, simulate

__all__ = [
    "Comparison",
    "Findings",
    "FrontierNetwork",
    "Simulation",
    "compare",
    "find",
    "simulate",
]

_WHERE = {
    "_comparison": ("Comparison", "compare"),
    "_finding": ("Findings", "FrontierNetwork", "find"),
    "_simulation": ("Simulation", "simulate"),
}
"""The names of each module."""
_EARLIER = (
    *("Algorithm", "Candidate", "Cost", "CostModel", "Explanation", "FormatCost", "Overview"),
    *("ScheduleBuilder", "ScheduleStep", "algorithms"),
)
"""Names that `ringroad` itself has now."""
_ROOMS = ("formats", "programs", "reproduce", "routes", "synthesis", "training", "viz")


def __getattr__(name: str) -> Any:
    """Imports everything on first use."""
    if name in _ROOMS:
        return import_module(f"ringroad.lab.{name}")
    if name in _EARLIER:
        return getattr(import_module("ringroad"), name)
    if name not in __all__:
        raise AttributeError(f"module 'ringroad.lab' has no attribute {name!r}")
    where = next(where for where, names in _WHERE.items() if name in names)
    value = getattr(import_module(f"ringroad.lab.{where}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
