"""Pictures, by matplotlib: what a simulation did, and what the cost model predicts."""

from ringroad.viz.comparison import Best, best_algorithms, curves, heatmap
from ringroad.viz.links import animate, link_loads
from ringroad.viz.timeline import timeline

__all__ = ["Best", "animate", "best_algorithms", "curves", "heatmap", "link_loads", "timeline"]
