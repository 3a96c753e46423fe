"""Analysis of a given graph: the costs of breadth-first broadcast, and the rate of an all-to-all with its schedule.

Other schedules for a graph are those of the algorithms `bfb`, `expanded`, `trees`, `weighted-trees` and
`spanning-trees`: `Schedule.build("bfb", topology, "allgather")`. `ringroad.lab.find` searches for the graph itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringroad import _native
from ringroad._arrays import as_numbers
from ringroad._native import Schedule, Topology
from ringroad._support.text import whole

__all__ = ["AlltoallFlow", "BreadthFirst", "LinkLoad", "Path", "RelayedAlltoall", "alltoall_flow", "bfb_cost"]
__dir__ = __all__.copy


class BreadthFirst(NamedTuple):
    """The cost of a breadth-first schedule on its graph.

    Attributes:
        steps: The number of steps.
        bandwidth: What all links of a rank carry together, as a fraction of the message: T_B in units of M/B in Zhao
            et al. (arXiv 2202.03356), where B is the bandwidth of all links of a rank. At best (n-1)/n for each phase;
            an allreduce has two.
    """

    steps: int
    bandwidth: Fraction

    def seconds(self, size: float, *, alpha: float, bandwidth: float) -> float:
        """Returns the time for a vector.

        Args:
            size: The length of the vector in bytes.
            alpha: Seconds to start a step.
            bandwidth: Bytes per second of all links of a rank together.
        """
        return self.steps * alpha + float(self.bandwidth) * size / bandwidth


def bfb_cost(topology: Topology | str | int, collective: str = "allgather") -> BreadthFirst:
    """Returns the cost of breadth-first broadcast (algorithm `bfb`) on a graph, without building its schedule.

    The algorithm is that of Zhao et al. (arXiv 2202.03356), section 5.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        collective: "allgather", "reduce_scatter" or "allreduce".

    Returns:
        The cost.

    Raises:
        ScheduleError: The algorithm does not suit the graph or the collective.
        TopologyError: The topology is malformed.

    Example:
        >>> from ringroad.lab.synthesis import bfb_cost
        >>> bfb_cost("petersen")
        BreadthFirst(steps=2, bandwidth=Fraction(9, 10))
    """
    cost: BreadthFirst = _native.bfb_cost(topology, collective)
    return cost


@dataclass(frozen=True)
class LinkLoad:
    """The load of all links from one rank to another together.

    Attributes:
        source: The node where the links start.
        target: The node where they end.
        bandwidth: Their bytes per second.
        seconds: How long they are busy with all demands.
    """

    source: int
    target: int
    bandwidth: float
    seconds: float


@dataclass(frozen=True)
class Path:
    """One of the paths that a pair's demand takes.

    Attributes:
        ranks: The ranks from the source to the target.
        share: The share of the pair's demand; the shares of all its paths add up to 1.
    """

    ranks: list[int]
    share: float


class RelayedAlltoall(NamedTuple):
    """A schedule made of a flow, and the memory that relays need for it.

    Attributes:
        schedule: The schedule.
        pieces: The number of chunks into which each block is cut.
        held: The most chunks that a rank holds at once on their way from one other rank to another.
        busiest_excess: By which fraction the busiest link carries more than the flow's bound proves necessary.
        excess: By which fraction all steps together take longer than that bound. Each step lasts until its busiest link
            is done; latencies are not counted.
    """

    schedule: Schedule
    pieces: int
    held: int
    busiest_excess: float
    excess: float


@dataclass(frozen=True)
class AlltoallFlow:
    """A flow over the links between ranks that meets all demands of an all-to-all, with a proven bound.

    Attributes:
        topology: The network.
        seconds: How long the busiest link is busy with the demands.
        least_seconds: A lower bound of `seconds` for any flow: the best of what the lengths of the linear program's
            dual prove, and of `bounds`. It is a proof: it counts the links' true bandwidths, those of parallel links
            together, and floating-point errors are rounded down.
        gap: By which fraction `seconds` exceeds `least_seconds`.
        ended: Why the search ended. "exact": only rounding is left. "gap": the flow is as close to the bound as was
            asked for. "budget": the time was over. "stuck": it made no more progress, and there are too many pairs and
            links for an exact search.
        iterations: How often the search looked at all pairs; 0 if all ranks look alike, so that there was no search.
        bounds: Upper bounds of `rate` that need no flow, in 1/s. `distance`: all links carry every demand as far as
            its ranks are apart. `rank`: what enters or leaves one rank. `bisection`: what crosses from one half of
            the ranks to the other, for the narrowest cut that was found (without switches). `degree` (if every
            pair has the same): no network with as many links for each rank has ranks nearer (Theorem 2 of Basu et al.).
        links: The loads of all links; parallel links are together.
        demands: The demands of pairs; a number if every pair has the same.
    """

    topology: Topology
    seconds: float
    least_seconds: float
    gap: float
    ended: Literal["exact", "gap", "budget", "stuck"]
    iterations: int
    bounds: dict[Literal["distance", "rank", "bisection", "degree"], float]
    links: list[LinkLoad]
    demands: NDArray[np.float64] | float = field(repr=False, compare=False)
    _found: _native.AlltoallFlow = field(repr=False)

    @property
    def rate(self) -> float:
        """How often a second all demands can be met; for a byte of each pair, that pair's bytes per second."""
        return 1 / self.seconds if self.seconds > 0 else float("inf")

    @property
    def uniform(self) -> bool:
        """Whether every pair has the same demand."""
        return isinstance(self.demands, float)

    def paths(self, source: int, target: int | None = None) -> dict[int, list[Path]]:
        """Returns the paths of what one rank sends.

        Args:
            source: The rank that sends.
            target: The rank that receives. None: all of them.

        Returns:
            The paths by target.

        Raises:
            IndexError: `source` is not a rank.
        """
        paths = self._found.paths(source)
        return paths if target is None else {reached: some for reached, some in paths.items() if reached == target}

    def schedule(self, steps: int | None = None, *, pieces: int | None = None) -> RelayedAlltoall:
        """Makes a schedule of the all-to-all along these paths: ranks pass blocks on from neighbour to neighbour.

        Each block is cut into chunks, each of which takes one path. Without limits there are as few chunks and steps as
        bring the busiest link within 3 % of the bound, and all steps together within 5 %. The result says how close it
        comes. It can be less close if the flow itself is more than 2 % from its bound, or if there are many ranks: from
        182 ranks on, a block has at most 8 chunks, and fewer from 363 on.

        Args:
            steps: The most steps; as many as the longest path has hops are made in any case. Few steps suit short
                blocks, many suit long ones. None: three times the diameter, and more where that is not enough.
            pieces: The most chunks of a block; there are at most 2^20 chunks in all. None: as many as it takes, but not
                more than 512, and not more than 2^18 in all if 8 are enough.

        Returns:
            The schedule, with the memory that relays need and how close to the bound it comes.

        Raises:
            ValueError: The flow has demands, the network has switches or more than 1,024 ranks, or an argument is
                invalid.
        """
        if not self.uniform:
            raise ValueError("a schedule has equal blocks; call alltoall_flow without demands")
        if steps is not None and whole("steps", steps) < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        return RelayedAlltoall(*self._found.schedule(steps, pieces))


def alltoall_flow(
    topology: Topology | str | int,
    demands: ArrayLike | None = None,
    *,
    gap: float = 0.005,
    budget: float | None = None,
    progress: Callable[[int, float, float], object] | None = None,
) -> AlltoallFlow:
    """Finds how much all pairs of ranks can send each other at once, and along which paths (maximum concurrent flow).

    The problem is that of Basu et al., Efficient all-to-all collective communication schedules for direct-connect
    topologies, HPDC 2024; it is solved without a linear program. Switches and memories only forward. The same
    arguments give the same flow, unless the budget runs out.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        demands: `demands[s, t]` is what rank `s` has for rank `t`, in bytes; shape `(ranks, ranks)`. A number: what
            every pair has. None: one byte.
        gap: The search ends when the busiest link has at most `1 + gap` times the least load.
        budget: The search ends after this many seconds; the result's `gap` says how far it got. None: no limit. It goes
            on while it helps, and up to 640 links and pairs together it finds the exact flow in the end.
        progress: Called after each look at all pairs, with the number of looks, and the load and the bound in units
            of a link of the smallest bandwidth. What it raises ends the search.

    Returns:
        The flow, with a proven bound.

    Raises:
        ScheduleError: Ranks cannot reach each other.
        ValueError: Demands are negative, not finite or of another shape, or `gap` or `budget` is invalid.
        TopologyError: The topology is malformed.

    Example:
        >>> from ringroad.lab.synthesis import alltoall_flow
        >>> flow = alltoall_flow("torus:4x4")
        >>> flow.iterations, flow.gap < 1e-9
        (0, True)
    """
    network = Topology(topology)
    wanted = as_numbers(1 if demands is None else demands, "demands")
    if wanted.ndim == 0:
        each, matrix = wanted.item(), None
        if not 0 < each < np.inf:
            raise ValueError(f"each pair has more than 0 bytes, not {each}")
    else:
        each, matrix = 1.0, wanted
        if wanted.shape != (shape := (network.ranks, network.ranks)):
            raise ValueError(f"demands for {network.ranks} ranks have shape {shape}, not {wanted.shape}")
    found = _native.alltoall_flow(network, None if matrix is None else matrix.ravel().tolist(), gap, budget, progress)
    return AlltoallFlow(network, **found.report(each), demands=each if matrix is None else matrix, _found=found)
