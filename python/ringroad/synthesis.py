"""What can be done on a given graph, without making schedules: breadth-first costs, and how much an all-to-all carries.

The schedules themselves are those of the algorithms `bfb`, `trees`, `weighted-trees` and
`spanning-trees`: `Schedule.build("bfb", topology, "allgather")`. `ringroad.find` looks for the graph itself.
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


class LinkLoad(NamedTuple):
    """What the links from one rank to another carry together."""

    source: int
    target: int
    bandwidth: float
    """Bytes per second."""
    seconds: float
    """How long they are busy with all demands."""


class Way(NamedTuple):
    """One of the ways that a pair's demand takes."""

    ranks: tuple[int, ...]
    """From the source to the target."""
    share: float
    """Of the pair's demand; those of all its ways add up to 1."""


class RelayedAlltoall(NamedTuple):
    """A schedule made of a flow, and what relays need for it."""

    schedule: Schedule
    pieces: int
    """Into how many chunks each block is cut."""
    held: int
    """The most chunks that a rank holds at once on their way from one other rank to another."""


@dataclass(frozen=True)
class AlltoallFlow:
    """A flow over the links between ranks that meets all demands of an all-to-all, with proof of how good it is."""

    topology: Topology
    seconds: float
    """How long the busiest link is busy: for a demand in bytes, or with no demands given, a byte for each pair."""
    least_seconds: float
    """How long it must be, in any flow: proven, by the lengths of the linear program's dual."""
    gap: float
    """By how much of `least_seconds` `seconds` exceeds it. Where all ranks look alike nothing but rounding is left."""
    sweeps: int
    """How often all pairs were looked at; 0 where all ranks look alike, and the flow is found exactly."""
    bounds: dict[str, float]
    """Bounds on `rate` that need no flow, in 1/s. `distance`: all links carry every demand as far as its ranks are
    apart. `rank`: what enters or leaves one rank. `bisection`: what crosses from one half of the ranks to the other,
    with the narrowest halves that were found (without switches). `degree` (without demands): no network with as many
    links for each rank has ranks nearer (Theorem 2 of Basu et al.)."""
    demands: NDArray[np.float64] | None = field(repr=False, compare=False)
    """What was given; None where every pair has the same."""
    _found: _native.AlltoallFlow = field(repr=False)

    @property
    def rate(self) -> float:
        """How often a second all demands can be met: bytes per second of each pair where no demands were given."""
        return 1 / self.seconds if self.seconds > 0 else float("inf")

    @property
    def uniform(self) -> bool:
        """Whether every pair has the same demand."""
        return self.demands is None

    @property
    def links(self) -> list[LinkLoad]:
        """All links, those side by side together."""
        return [LinkLoad(source, target, speed, full) for source, target, speed, full in self._found.links()]

    def ways(self, source: int, target: int | None = None) -> dict[int, list[Way]]:
        """The ways of what `source` sends, by target; of one target or of all. IndexError for a source that is none."""
        ways: dict[int, list[Way]] = {}
        for reached, share, ranks in self._found.ways(source):
            if target is None or reached == target:
                ways.setdefault(reached, []).append(Way(tuple(ranks), share))
        return ways

    def schedule(self, steps: int | None = None, *, pieces: int = 8) -> RelayedAlltoall:
        """An all-to-all along these ways: ranks pass blocks on, from neighbour to neighbour.

        Blocks are cut into as few chunks as bring the busiest link within 3 % of the bound, and all steps together
        within 5 %: `pieces` at most, and 2^20 in all. Each chunk takes one way. There are up to `steps` steps (None:
        three times the diameter), fewer where they do as well, and as many as the longest way has in any case: few suit
        short blocks, many long ones. ValueError for flows of given demands, which have no schedule, and for more than
        1,024 ranks.
        """
        if not self.uniform:
            raise ValueError("a schedule has equal blocks; find the flow without demands")
        if steps is None:
            steps = 3 * self.topology.diameter
        if steps < 1:
            raise ValueError(f"there are at least 1 steps, not {steps}")
        return RelayedAlltoall(*self._found.schedule(steps, pieces))


def alltoall_flow(
    topology: Topology | str,
    demands: ArrayLike | None = None,
    *,
    gap: float = 0.005,
    budget: float | None = None,
    progress: Callable[[int, float, float], object] | None = None,
) -> AlltoallFlow:
    """How much every pair of ranks can send each other at once (maximum concurrent flow), and along which ways.

    `demands[s, t]`: what rank `s` has for rank `t`, in bytes; without it every pair has the same. The search ends when
    the busiest link is at most `1 + gap` times as busy as it must be, or after `budget` seconds: look at the result's
    `gap`. `progress` is called after each look at all pairs with how many there were, and with the load and the bound
    in units of a link of the smallest bandwidth. The same arguments give the same flow, unless a budget runs out.

    Switches and memories pass on what they are given. Ranks must reach each other (ScheduleError).
    ValueError for demands that are negative, not finite or of another shape.
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
