"""Routing tables: one path for each pair of ranks, the virtual channel of each hop, and the load of the links.

    from ringroad.routes import balanced

    routes = balanced("generalized-kautz:4:500")
    routes.ratio                                # the load of the busiest link, over a lower bound of all routes
    ringroad.simulate("direct", routes.topology, "1MiB", collective="alltoall")
    routes.save("routes.csv")

Loads are those of an all-to-all in which all pairs have the same demand: the seconds that a link takes for a byte of
each pair. `Routes.topology` is the network with these routes; costs and simulations of all collectives on it use them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

from ringroad import _native
from ringroad._native import Topology, TopologyError

ChannelsBy = Literal["turns", "lash"]
Method = Literal["balanced", "shortest", "up-down", "own"]
Progress = Callable[[int, float, float], object]

COLUMNS = ("source", "target", "hop", "from", "to", "link", "channel")
"""The columns of CSV: the pair of ranks, the number of the hop from 0, its ends, its index in `Topology.links`, its
channel."""


class Hop(NamedTuple):
    """One link of a path."""

    link: int
    """The index of the link in `Topology.links`."""
    source: int
    target: int
    channel: int
    """The virtual channel on which the message crosses it, from 0."""


@dataclass(frozen=True)
class Routes:
    """One path for each pair of ranks of a network."""

    topology: Topology
    """The network with these routes."""
    method: Method
    """How the routes were made."""
    bound: float | None
    """A proven lower bound of the load of any routes, even if pairs use several paths: seconds for a byte of each pair.
    None if no bound was computed."""
    _table: _native.RoutingTable = field(repr=False, compare=False)

    @property
    def load(self) -> float:
        """The seconds that the busiest link takes for a byte of each pair."""
        return self._table.load

    @property
    def ratio(self) -> float | None:
        """The load divided by the bound, 1 at best; None without a bound."""
        if self.bound is None:
            return None
        return self.load / self.bound if self.bound > 0 else 1.0

    @property
    def channels(self) -> int:
        """The number of virtual channels that the hops use."""
        return self._table.channels

    @property
    def is_deadlock_free(self) -> bool:
        """Whether no messages can wait for each other in a cycle. Every call checks this anew, from links and channels
        alone."""
        return self._table.circle() is None

    @property
    def counts(self) -> list[int]:
        """The number of paths over each link, in the order of `Topology.links`."""
        return self._table.counts()

    @property
    def longest(self) -> int:
        """The number of hops of the longest path."""
        return self._table.longest()

    def path(self, source: int, target: int) -> list[Hop]:
        """The hops from one rank to another; none from a rank to itself. Raises IndexError if one is not a rank."""
        return [Hop(*hop) for hop in self._table.path(source, target)]

    def with_channels(self, by: ChannelsBy) -> "Routes":
        """The same paths on virtual channels that are free of deadlock, as a search checks. One channel if that
        suffices.

        `turns`: nodes are numbered in the order of a search from a root, and a path moves to the next channel where it
        turns from larger numbers to smaller ones. `lash`: each path uses the first channel in which it closes no cycle
        (Skeie et al. 2002); this needs more channels and more time.
        """
        return _routes(self._table.with_channels(by), self.method, self.bound)

    def with_bound(self, *, gap: float = 0.004, budget: float | None = None) -> "Routes":
        """The same routes with the bound that `balanced` would prove. Arguments and errors are those of `balanced`."""
        return replace(self, bound=_native.least_load(self.topology, gap, budget, None))

    def to_json(self) -> str:
        """The routes with their network as JSON, for `from_json`. "routes" has the number of hops of each pair's path,
        by source, then by target, and then the links and channels of all paths in a row."""
        head = json.dumps({"method": self.method, "bound": self.bound})
        return f'{head[:-1]}, "topology": {self.topology.to_json()}}}'

    @staticmethod
    def from_json(text: str) -> "Routes":
        """Reads the JSON of `to_json`. Raises TopologyError if the text is not such JSON, or if a path's links do not
        join its ranks. The bound is not checked."""
        value = json.loads(text)
        if not isinstance(value, dict) or set(value) != {"method", "bound", "topology"}:
            raise TopologyError('JSON of routes has "method", "bound" and "topology", as Routes.to_json writes them')
        topology = Topology.from_json(json.dumps(value["topology"]))
        return _routes(_native.plain_routes(topology, "own"), value["method"], value["bound"])

    def to_csv(self) -> str:
        """CSV with a line for each hop; its columns are `COLUMNS`."""
        return "".join(self._csv())

    def _csv(self) -> Iterator[str]:
        yield ",".join(COLUMNS) + "\n"
        yield from map(self._table.csv, range(self.topology.ranks))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes .json or .csv, by the ending of the name. Raises ValueError for other endings."""
        path = Path(path)
        if path.suffix.lower() not in (".json", ".csv"):
            raise ValueError(f"routes are saved as .json or .csv, not {str(path)!r}")
        with path.open("w") as file:
            file.writelines(self._csv() if path.suffix.lower() == ".csv" else [self.to_json(), "\n"])


def balanced(
    topology: Topology | str,
    *,
    gap: float = 0.004,
    budget: float | None = None,
    channels: ChannelsBy | None = "turns",
    progress: Progress | None = None,
) -> Routes:
    """Routes that load the links almost as evenly as possible.

    The function finds a flow whose busiest link has at most `1 + gap` times the least load, or the best flow after
    `budget` seconds, and rounds it to one path for each pair. From 500 ranks on the result is less than 1 % above the
    bound; on small networks it is further above. Paths need not be shortest. `progress`: as for
    `ringroad.synthesis.alltoall_flow`. `channels`: as for `Routes.with_channels`; None assigns no channels.

    Switches only forward. Raises ValueError for an invalid gap or budget.
    """
    table, bound = _native.balanced_routes(topology, gap, budget, progress)
    return _on_channels(table, "balanced", bound, channels)


def shortest(topology: Topology | str, *, channels: ChannelsBy | None = "turns") -> Routes:
    """Single shortest paths, source after source: of the paths with the fewest links, those with the least load so far.

    OpenSM's SSSP does this (Hoefler et al. 2009); it is here for comparison. `channels`: as for `balanced`.
    """
    return _on_channels(_native.plain_routes(topology, "shortest"), "shortest", None, channels)


def up_down(topology: Topology | str) -> Routes:
    """The shortest paths that lead first towards a root and then away from it (up*/down*). They need one channel only,
    but load the links near the root most.

    Tries eight roots and keeps the best. Raises TopologyError if there are no such paths, as on networks with links of
    one direction.
    """
    return _routes(_native.plain_routes(topology, "up-down"), "up-down", None)


def own(topology: Topology | str, *, channels: ChannelsBy | None = None) -> Routes:
    """The network's own routes, if each pair has one path: `own("torus:4x4,routing=single-path")`.

    Raises TopologyError if a pair uses several paths. `channels`: as for `balanced`; None keeps the present channels.
    """
    return _on_channels(_native.plain_routes(topology, "own"), "own", None, channels)


def _on_channels(
    table: _native.RoutingTable, method: Method, bound: float | None, channels: ChannelsBy | None
) -> Routes:
    return _routes(table if channels is None else table.with_channels(channels), method, bound)


def _routes(table: _native.RoutingTable, method: Method, bound: float | None) -> Routes:
    return Routes(table.topology, method, bound, table)
