"""Pictures by matplotlib: timelines of simulations, traces and training, predictions of the cost model, and loads of
links."""

from ringroad.lab.viz.alltoall import alltoall_loads
from ringroad.lab.viz.comparison import Best, best_algorithms, curves, heatmap
from ringroad.lab.viz.links import animate, link_loads
from ringroad.lab.viz.rates import link_rates
from ringroad.lab.viz.timeline import timeline
from ringroad.lab.viz.training import iterations

__all__ = [
    "Best",
    "alltoall_loads",
    "animate",
    "best_algorithms",
    "curves",
    "heatmap",
    "iterations",
    "link_loads",
    "link_rates",
    "timeline",
]
__dir__ = __all__.copy
