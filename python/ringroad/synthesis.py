"""Schedules made for a given graph: what they cost, exactly and without making them.

The schedules themselves are those of the algorithms `bfb`, `trees`, `weighted-trees` and
`spanning-trees`: `Schedule.build("bfb", topology, "allgather")`. `ringroad.find` looks for the graph itself.
"""

from fractions import Fraction
from typing import NamedTuple

from ringroad import _native
from ringroad._native import Topology


class BreadthFirst(NamedTuple):
    """What a breadth-first schedule costs on its graph."""

    steps: int
    bandwidth: Fraction
    """What all links of a rank carry together, in vectors: T_B in units of M/B in Zhao et al. (arXiv 2202.03356), where
    B is the bandwidth of all links of a rank. At best (n-1)/n in a phase, of which an allreduce has two."""

    def seconds(self, size: float, *, alpha: float, bandwidth: float) -> float:
        """For `size` bytes, `alpha` seconds for each step, and `bandwidth` bytes/s of all links of a rank together."""
        return self.steps * alpha + float(self.bandwidth) * size / bandwidth


def bfb_cost(topology: Topology | str, collective: str = "allgather") -> BreadthFirst:
    """The cost of `bfb` for an allgather, reduce_scatter or allreduce; ScheduleError on graphs that do not suit it."""
    steps, numerator, denominator = _native.bfb_cost(topology, collective)
    return BreadthFirst(steps, Fraction(numerator, denominator))
