"""Routing tables: one path for each pair of ranks, the virtual channel of each hop, and the load of the links.

    from ringroad.lab.routes import balanced

    routes = balanced("generalized-kautz:4:500")
    routes.ratio                                # the load of the busiest link, over a lower bound of all routes
    ringroad.lab.simulate("direct", routes.topology, "1MiB", collective="alltoall")
    routes.save("routes.csv")

Loads are those of an all-to-all in which all pairs have the same demand: the seconds that a link takes for a byte of
each pair. `Routes.topology` is the network with these routes; costs and simulations of all collectives on it use them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

from ringroad import _native
from ringroad._native import Topology, TopologyError
from ringroad._support.files import parse_json

__all__ = ["Hop", "Routes", "balanced", "own", "shortest", "up_down"]
__dir__ = __all__.copy

ChannelsBy = Literal["turns", "lash"]
Method = Literal["balanced", "shortest", "up-down", "own"]
Progress = Callable[[int, float, float], object]

COLUMNS = ("source", "target", "hop", "from", "to", "link", "channel")
"""The columns of CSV: the pair of ranks, the number of the hop from 0, its ends, its index in `Topology.links`, its
channel."""


class Hop(NamedTuple):
    """One link of a path.

    Attributes:
        link: The link's index in `Topology.links`.
        source: The node where it starts.
        target: The node where it ends.
        channel: The virtual channel on which the message crosses it, from 0.
    """

    link: int
    source: int
    target: int
    channel: int


@dataclass(frozen=True)
class Routes:
    """One path for each pair of ranks of a network.

    Attributes:
        topology: The network with these routes.
        method: How they were made: "balanced", "shortest", "up-down" or "own".
        bound: A proven lower bound of the load of any routes, even if pairs use several paths: seconds for a byte
            of each pair. None if no bound was computed.
        load: The seconds that the busiest link takes for a byte of each pair.
        ratio: The load divided by the bound, 1 at best; None without a bound.
        channels: The number of virtual channels that the hops use.
        is_deadlock_free: Whether no messages can wait for each other in a cycle. Checked anew, by links and channels
            alone.
        counts: The number of paths over each link, in the order of `Topology.links`.
        longest: The number of hops of the longest path.
        mean_hops: The number of hops of a path, on average.
    """

    topology: Topology
    method: Method
    bound: float | None
    load: float
    ratio: float | None
    channels: int
    is_deadlock_free: bool
    counts: list[int]
    longest: int
    mean_hops: float
    _table: _native.RoutingTable = field(repr=False, compare=False)

    def path(self, source: int, target: int) -> list[Hop]:
        """Returns the hops from one rank to another.

        Args:
            source: The rank that sends.
            target: The rank that receives.

        Returns:
            The hops in order; none from a rank to itself.

        Raises:
            IndexError: There is no such rank.
        """
        hops: list[Hop] = self._table.path(source, target)
        return hops

    def with_channels(self, by: ChannelsBy) -> "Routes":
        """Returns the same paths on virtual channels that are free of deadlock, as a search checks.

        Args:
            by: "turns": nodes are numbered in the order of a search from a root, and a path moves to the next channel
                where it turns from larger numbers to smaller ones. "lash": each path uses the first channel in which
                it closes no cycle (Skeie et al. 2002), which needs more channels and more time.

        Returns:
            The routes, on one channel if that suffices.

        Raises:
            TopologyError: The paths need more than 256 channels.
        """
        return _routes(self._table.with_channels(by), self.method, self.bound)

    def with_bound(self, *, gap: float = 0.004, budget: float | None = None) -> "Routes":
        """Returns the same routes with the bound that `balanced` would prove.

        Args:
            gap: As for `balanced`.
            budget: As for `balanced`.

        Raises:
            ValueError: `gap` or `budget` is invalid.
        """
        return _routes(self._table, self.method, _native.least_load(self.topology, gap, budget, None))

    def to_json(self) -> str:
        """Returns the routes with their network as JSON, for `from_json`.

        "routes" has the number of hops of each pair's path, by source, then by target, and then the links and
        channels of all paths in a row.
        """
        head = json.dumps({"method": self.method, "bound": self.bound})
        return f'{head[:-1]}, "topology": {self.topology.to_json()}}}'

    @staticmethod
    def from_json(text: str) -> "Routes":
        """Reads what `to_json` wrote.

        Args:
            text: The JSON.

        Returns:
            The routes. The bound is taken over unchecked.

        Raises:
            TopologyError: The text is not such JSON, or the links of a path do not join its ranks.
        """
        try:
            value = parse_json(text, "the text")
        except ValueError as error:
            raise TopologyError(str(error)) from None
        if not isinstance(value, dict) or set(value) != {"method", "bound", "topology"}:
            raise TopologyError('JSON of routes has "method", "bound" and "topology", as Routes.to_json writes them')
        topology = Topology.from_json(json.dumps(value["topology"]))
        return _routes(_native.plain_routes(topology, "own"), value["method"], value["bound"])

    def to_csv(self) -> str:
        """Returns CSV with a line for each hop, and the columns `COLUMNS`."""
        return "".join(self._csv())

    def _csv(self) -> Iterator[str]:
        yield ",".join(COLUMNS) + "\n"
        yield from map(self._table.csv, range(self.topology.ranks))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the routes to a file.

        Args:
            path: Ends in .json or .csv.

        Raises:
            ValueError: The name ends in something else.
        """
        path = Path(path)
        if path.suffix.lower() not in (".json", ".csv"):
            raise ValueError(f"routes are saved as .json or .csv, not {str(path)!r}")
        with path.open("w") as file:
            file.writelines(self._csv() if path.suffix.lower() == ".csv" else [self.to_json(), "\n"])


def balanced(
    topology: Topology | str | int,
    *,
    gap: float = 0.004,
    budget: float | None = None,
    channels: ChannelsBy | None = "turns",
    progress: Progress | None = None,
) -> Routes:
    """Makes routes that load links almost as evenly as any routes can.

    It finds a flow, and rounds it to one path for each pair. From 500 ranks on the result is less than 1 % above
    the bound; on small networks it is further above. Paths need not be shortest. Switches only forward.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        gap: The search ends when the busiest link has at most `1 + gap` times the least load.
        budget: The search ends after this many seconds, with the best flow so far. None: no limit.
        channels: As for `Routes.with_channels`. None: one channel, which may deadlock.
        progress: As for `ringroad.lab.synthesis.alltoall_flow`.

    Returns:
        The routes, with a proven bound.

    Raises:
        ValueError: `gap` or `budget` is invalid.
        ScheduleError: Ranks cannot reach each other.
        TopologyError: The topology is malformed.

    Example:
        >>> from ringroad.lab.routes import balanced
        >>> routes = balanced("torus:4x4")
        >>> routes.is_deadlock_free, routes.ratio < 1.3
        (True, True)
    """
    table, bound = _native.balanced_routes(topology, gap, budget, progress)
    return _on_channels(table, "balanced", bound, channels)


def shortest(topology: Topology | str | int, *, channels: ChannelsBy | None = "turns") -> Routes:
    """Makes single shortest paths, source after source: of the shortest paths, those with the least load so far.

    OpenSM's SSSP does this (Hoefler et al. 2009); it is here for comparison.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        channels: As for `balanced`.

    Returns:
        The routes.

    Raises:
        TopologyError: The topology is malformed.
    """
    return _on_channels(_native.plain_routes(topology, "shortest"), "shortest", None, channels)


def up_down(topology: Topology | str | int) -> Routes:
    """Makes the shortest paths that first lead towards a root and then away from it (up*/down*).

    They need one channel only, but load the links near the root the most. The best of eight roots is taken.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.

    Returns:
        The routes.

    Raises:
        TopologyError: There are no such paths, as on networks with links of one direction.
    """
    return _routes(_native.plain_routes(topology, "up-down"), "up-down", None)


def own(topology: Topology | str | int, *, channels: ChannelsBy | None = None) -> Routes:
    """Returns the network's own routes, if each pair has one path.

    Args:
        topology: A `Topology`, or a spec such as "torus:4x4,routing=single-path".
        channels: As for `balanced`. None: the channels that the routes have.

    Returns:
        The routes.

    Raises:
        TopologyError: A pair's messages are spread over several paths.
    """
    return _on_channels(_native.plain_routes(topology, "own"), "own", None, channels)


def _on_channels(
    table: _native.RoutingTable, method: Method, bound: float | None, channels: ChannelsBy | None
) -> Routes:
    return _routes(table if channels is None else table.with_channels(channels), method, bound)


def _routes(table: _native.RoutingTable, method: Method, bound: float | None) -> Routes:
    return Routes(table.topology, method, _table=table, **table.facts(bound))
