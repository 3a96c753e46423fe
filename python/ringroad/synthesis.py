"""Analysis of a given graph: the costs of breadth-first broadcast, and the rate of an all-to-all with its schedule.

Other schedules for a graph are those of the algorithms `bfb`, `trees`, `weighted-trees` and `spanning-trees`:
`Schedule.build("bfb", topology, "allgather")`. `ringroad.find` searches for the graph itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringroad import _native
from ringroad._native import Schedule, Topology


class BreadthFirst(NamedTuple):
    """The cost of a breadth-first schedule on its graph."""

    steps: int
    bandwidth: Fraction
    """The bandwidth term, in the time that all links of a rank together take for one vector: T_B in units of M/B in
    Zhao et al. (arXiv 2202.03356). At best (n-1)/n for each phase; an allreduce has two phases."""

    def seconds(self, size: float, *, alpha: float, bandwidth: float) -> float:
        """The time for `size` bytes, with `alpha` seconds per step and `bandwidth` bytes/s of all links of a rank
        together."""
        return self.steps * alpha + float(self.bandwidth) * size / bandwidth


def bfb_cost(topology: Topology | str, collective: str = "allgather") -> BreadthFirst:
    """The cost of `bfb` for an allgather, reduce_scatter or allreduce; raises ScheduleError if bfb cannot run on the
    graph."""
    steps, numerator, denominator = _native.bfb_cost(topology, collective)
    return BreadthFirst(steps, Fraction(numerator, denominator))


class LinkLoad(NamedTuple):
    """The load of all links from one rank to another together."""

    source: int
    target: int
    bandwidth: float
    """Bytes per second."""
    seconds: float
    """The time that they are busy with all demands."""


class Way(NamedTuple):
    """One of the paths that a pair's demand takes."""

    ranks: tuple[int, ...]
    """The ranks from the source to the target."""
    share: float
    """The share of the pair's demand; the shares of all its paths add up to 1."""


class RelayedAlltoall(NamedTuple):
    """A schedule made from a flow, and the memory that relays need for it."""

    schedule: Schedule
    pieces: int
    """The number of chunks that each block is cut into."""
    held: int
    """The most chunks that a rank holds at once to forward them from one rank to another."""


@dataclass(frozen=True)
class AlltoallFlow:
    """A flow over the links between ranks that meets all demands of an all-to-all, with a proven bound."""

    topology: Topology
    seconds: float
    """The time that the busiest link is busy: for the demands in bytes, or without demands for a byte of each pair."""
    least_seconds: float
    """A lower bound of `seconds` for any flow, proven by the lengths of the linear program's dual."""
    gap: float
    """`seconds / least_seconds - 1`. If all ranks look alike, it is 0 up to rounding."""
    sweeps: int
    """The number of passes over all pairs; 0 if all ranks look alike, so that the flow is found exactly."""
    bounds: dict[str, float]
    """Upper bounds of `rate` that need no flow, in 1/s. `distance`: every demand uses at least as many links as its
    ranks are apart. `rank`: all demands that enter or leave one rank. `bisection`: all demands that cross from one half
    of the ranks to the other, for the narrowest cut that was found (without switches). `degree` (without demands): no
    network with as many links for each rank has shorter distances (Theorem 2 of Basu et al.)."""
    demands: NDArray[np.float64] | None = field(repr=False, compare=False)
    """The demands; None if every pair has the same."""
    _found: _native.AlltoallFlow = field(repr=False)

    @property
    def rate(self) -> float:
        """How often per second all demands can be met; without demands, the bytes per second of each pair."""
        return 1 / self.seconds if self.seconds > 0 else float("inf")

    @property
    def uniform(self) -> bool:
        """Whether every pair has the same demand."""
        return self.demands is None

    @property
    def links(self) -> list[LinkLoad]:
        """The loads of all links; parallel links are one."""
        return [LinkLoad(source, target, speed, full) for source, target, speed, full in self._found.links()]

    def ways(self, source: int, target: int | None = None) -> dict[int, list[Way]]:
        """The paths from `source` by target, for one target or for all. Raises IndexError if `source` is not a rank."""
        ways: dict[int, list[Way]] = {}
        for reached, share, ranks in self._found.ways(source):
            if target is None or reached == target:
                ways.setdefault(reached, []).append(Way(tuple(ranks), share))
        return ways

    def schedule(self, steps: int | None = None, *, pieces: int = 8) -> RelayedAlltoall:
        """A schedule of the all-to-all along these paths: ranks forward blocks from neighbour to neighbour.

        Blocks are cut into as few chunks as bring the busiest link within 3 % of the bound, and all steps together
        within 5 %: at most `pieces`, and 2^20 in all. Each chunk takes one path. There are at most `steps` steps (None:
        three times the diameter), fewer if they do as well, but at least as many as the longest path has hops. Few
        steps suit short blocks, many steps long ones. Raises ValueError for flows of given demands, which have no
        schedule, and for more than 1,024 ranks.
        """
        if not self.uniform:
            raise ValueError("a schedule has equal blocks; call alltoall_flow without demands")
        if steps is None:
            steps = 3 * self.topology.diameter
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        return RelayedAlltoall(*self._found.schedule(steps, pieces))


def alltoall_flow(
    topology: Topology | str,
    demands: ArrayLike | None = None,
    *,
    gap: float = 0.005,
    budget: float | None = None,
    progress: Callable[[int, float, float], object] | None = None,
) -> AlltoallFlow:
    """The fastest flow in which all pairs of ranks send at once (maximum concurrent flow), and its paths.

    `demands[s, t]` is what rank `s` has for rank `t`, in bytes; without it all pairs have the same demand. The search
    ends when the busiest link has at most `1 + gap` times the least load, or after `budget` seconds; the result's `gap`
    says how far it got. `progress` is called after each pass over all pairs, with the number of passes, the load and
    the bound, both in units of a link of the smallest bandwidth. The same arguments give the same flow, unless the
    budget runs out.

    Switches and memories only forward. Raises ScheduleError if ranks cannot reach each other, and ValueError for
    demands that are negative, not finite or of another shape.
    """
    resolved = topology if isinstance(topology, Topology) else Topology(topology)
    matrix = None
    if demands is not None:
        matrix = np.array(demands, dtype=np.float64)
        if matrix.shape != (resolved.ranks, resolved.ranks):
            shape = (resolved.ranks, resolved.ranks)
            raise ValueError(f"demands for {resolved.ranks} ranks have shape {shape}, not {matrix.shape}")
    flat = None if matrix is None else matrix.ravel().tolist()
    found = _native.alltoall_flow(resolved, flat, gap, budget, progress)
    names = ("distance", "rank", "bisection", "degree")
    bounds = {name: bound for name, bound in zip(names, found.bounds, strict=True) if bound is not None}
    return AlltoallFlow(resolved, found.load, found.bound, found.gap, found.sweeps, bounds, matrix, found)
