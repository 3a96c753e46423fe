"""Pictures, by matplotlib: what a simulation or an iteration of training did, what the cost model predicts, and what
links carry in an all-to-all."""

from ringroad.viz.alltoall import alltoall_loads
from ringroad.viz.comparison import Best, best_algorithms, curves, heatmap
from ringroad.viz.links import animate, link_loads
from ringroad.viz.timeline import timeline
from ringroad.viz.training import iterations

__all__ = [
    "Best",
    "alltoall_loads",
    "animate",
    "best_algorithms",
    "curves",
    "heatmap",
    "iterations",
    "link_loads",
    "timeline",
]
