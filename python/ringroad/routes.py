"""Routing tables: one path for each pair of ranks, the virtual channel of each hop, and how evenly links are loaded.

    from ringroad.routes import balanced

    routes = balanced("generalized-kautz:4:500")
    routes.ratio                                # the busiest link, over what no routes can go below
    ringroad.simulate("direct", routes.topology, "1MiB", collective="alltoall")
    routes.save("routes.csv")

Loads are those of an all-to-all in which every pair has the same: the seconds that a link takes for a byte of each
pair. `Routes.topology` is the network with these routes: costs and simulations of all collectives there use them.
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
"""Of CSV: the pair of ranks, the number of the hop from 0, its ends, its index in `Topology.links`, its channel."""


class Hop(NamedTuple):
    """One link of a path."""

    link: int
    """Its index in `Topology.links`."""
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
    """How they were made."""
    bound: float | None
    """In seconds for a byte of each pair: proven, whatever the routes, even if pairs are spread over several paths.
    None where nothing was looked for."""
    _table: _native.RoutingTable = field(repr=False, compare=False)

    @property
    def load(self) -> float:
        """How many seconds the busiest link takes for a byte of each pair."""
        return self._table.load

    @property
    def ratio(self) -> float | None:
        """The load over the bound: 1 at best."""
        if self.bound is None:
            return None
        return self.load / self.bound if self.bound > 0 else 1.0

    @property
    def channels(self) -> int:
        """How many virtual channels the hops use."""
        return self._table.channels

    @property
    def is_deadlock_free(self) -> bool:
        """Whether no messages can wait for each other in a circle: looked at anew, by links and channels alone."""
        return self._table.circle() is None

    @property
    def counts(self) -> list[int]:
        """How many paths lead over each link, in the order of `Topology.links`."""
        return self._table.counts()

    @property
    def longest(self) -> int:
        """How many hops the longest path has."""
        return self._table.longest()

    def path(self, source: int, target: int) -> list[Hop]:
        """The hops from one rank to another; none from a rank to itself. IndexError for what is no rank."""
        return [Hop(*hop) for hop in self._table.path(source, target)]

    def with_channels(self, by: ChannelsBy) -> "Routes":
        """The same paths on virtual channels without deadlock, as is checked; on one where that is enough.

        `turns`: nodes are numbered in the order of a search from a root, and a path goes to the next channel where it
        turns from larger numbers to smaller ones. `lash`: each whole path is in the first channel where it closes no
        circle (Skeie et al. 2002), which takes more of them and longer.
        """
        return _routes(self._table.with_channels(by), self.method, self.bound)

    def with_bound(self, *, gap: float = 0.004, budget: float | None = None) -> "Routes":
        """The same with the bound that `balanced` would prove; its arguments and errors."""
        return replace(self, bound=_native.least_load(self.topology, gap, budget, None))

    def to_json(self) -> str:
        """All of it, with the network: `from_json` reads it. In "routes" are, for each pair by source, then by target,
        how many hops its path has, and then the links and channels of all paths in a row."""
        head = json.dumps({"method": self.method, "bound": self.bound})
        return f'{head[:-1]}, "topology": {self.topology.to_json()}}}'

    @staticmethod
    def from_json(text: str) -> "Routes":
        """TopologyError if it is none, or a path leads over links that do not join its ranks. The bound is taken over
        as it stands."""
        value = json.loads(text)
        if not isinstance(value, dict) or set(value) != {"method", "bound", "topology"}:
            raise TopologyError('JSON of routes has "method", "bound" and "topology", as Routes.to_json writes them')
        topology = Topology.from_json(json.dumps(value["topology"]))
        return _routes(_native.plain_routes(topology, "own"), value["method"], value["bound"])

    def to_csv(self) -> str:
        """A line for each hop, with the columns `COLUMNS`."""
        return "".join(self._csv())

    def _csv(self) -> Iterator[str]:
        yield ",".join(COLUMNS) + "\n"
        yield from map(self._table.csv, range(self.topology.ranks))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes .json or .csv, as the name ends; ValueError for others."""
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
    """Paths that load links as evenly as any routes do, or nearly so.

    A flow is found whose busiest link is at most `1 + gap` times as busy as it must be, or the best after `budget`
    seconds, and rounded to a path for each pair: from 500 ranks on less than 1 % above the bound, on small networks
    more. Paths need not be shortest. `progress`: as for `ringroad.synthesis.alltoall_flow`.
    `channels`: as for `Routes.with_channels`; None: none.

    Switches pass on what they are given. ValueError for a gap or budget that makes no sense.
    """
    table, bound = _native.balanced_routes(topology, gap, budget, progress)
    return _on_channels(table, "balanced", bound, channels)


def shortest(topology: Topology | str, *, channels: ChannelsBy | None = "turns") -> Routes:
    """Single shortest paths, source after source: of those with the fewest links the ones that carry the least so far.

    What OpenSM's SSSP does (Hoefler et al. 2009), to compare with. `channels`: as for `balanced`.
    """
    return _on_channels(_native.plain_routes(topology, "shortest"), "shortest", None, channels)


def up_down(topology: Topology | str) -> Routes:
    """The shortest paths that lead towards a root first and away from it then (up*/down*): one channel, and busy roots.

    Of eight roots the best. TopologyError where there are no such paths, as on networks with links of one direction.
    """
    return _routes(_native.plain_routes(topology, "up-down"), "up-down", None)


def own(topology: Topology | str, *, channels: ChannelsBy | None = None) -> Routes:
    """The routes that the network has, if each pair has one path: `own("torus:4x4,routing=single-path")`.

    TopologyError where a pair is spread over several. `channels`: as for `balanced`; None: as they are.
    """
    return _on_channels(_native.plain_routes(topology, "own"), "own", None, channels)


def _on_channels(
    table: _native.RoutingTable, method: Method, bound: float | None, channels: ChannelsBy | None
) -> Routes:
    return _routes(table if channels is None else table.with_channels(channels), method, bound)


def _routes(table: _native.RoutingTable, method: Method, bound: float | None) -> Routes:
    return Routes(table.topology, method, bound, table)
