"""From a topology to an emulated network: its hosts and switches, its cables, and its routes."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Literal

from ringroad._native import Topology, TopologyError

MOST_RANKS = 256
LEAST_DELAY, MOST_DELAY = 100e-6, 10.0
"""Seconds. A shorter delay is no longer than what the process that delays packets needs itself."""
Stated = Literal["stated"]
STATED: Final[Stated] = "stated"
"""The delay of cables that have the latencies of their links."""


@dataclass(frozen=True)
class Cable:
    """A cable between two nodes, the lower one first. Parallel links are one cable with the capacity of all."""

    ends: tuple[int, int]
    capacities: tuple[float, float]
    """Capacities from the first end to the second, and back, in bandwidths of the fastest link; 0 if no link leads that
    way."""
    seconds: float
    """How long a packet is on it: the largest latency of its links, or what `Wiring.delayed` says."""


@dataclass(frozen=True)
class Wiring:
    """Nodes, cables and routes. Nodes are numbered: hosts first, in the order of their ranks, then switches."""

    topology: Topology
    """The topology with the routes that are wired, each of which is one path."""
    names: list[str]
    hosts: int
    host_of_rank: list[int]
    cables: list[Cable]
    next_node: dict[tuple[int, int], int] = field(default_factory=dict)
    """By (node, host): the next node for packets to that host."""
    exceptions: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """By (node, sending host, host): the next node for packets of that sender, where it differs from `next_node`."""

    @staticmethod
    def of(topology: Topology, host_of_rank: list[int]) -> "Wiring":
        """The wiring of a topology. Raises TopologyError, with the reason, if it cannot be emulated.

        If ranks share hosts, the hosts' memories are the topology's nodes after the ranks, in the order of the hosts.
        """
        if not 2 <= topology.ranks <= MOST_RANKS:
            raise TopologyError(f"{topology.spec}: a testbed has from 2 to {MOST_RANKS} ranks, not {topology.ranks}")
        node_of = _nodes(topology, host_of_rank)
        hosts = max(host_of_rank) + 1
        switches = max(node_of) + 1 - hosts
        names = [f"host{number}" for number in range(hosts)] + [f"switch{number}" for number in range(switches)]
        routed, paths = _paths(topology, node_of)
        wiring = Wiring(routed, names, hosts, host_of_rank, _cables(topology, node_of))
        for source, destination, path in paths:
            for node, following in pairwise(path):
                if wiring.next_node.setdefault((node, destination), following) != following:
                    wiring.exceptions[node, source, destination] = following
        return wiring

    def delayed(self, delay: float | Stated) -> "Wiring":
        """The same with this delay on each cable: the largest latency of its links, where this is to be noticed, if
        `delay` is "stated". Raises ValueError."""
        if delay != STATED and delay and not LEAST_DELAY <= delay <= MOST_DELAY:
            raise ValueError(f"a delay of {delay:g} s: from {LEAST_DELAY:g} to {MOST_DELAY:g}, or 0")
        cables = []
        for cable in self.cables:
            seconds = cable.seconds if delay == STATED else delay
            cables.append(replace(cable, seconds=seconds if seconds >= LEAST_DELAY else 0.0))
        return replace(self, cables=cables)

    def host_of(self, rank: int) -> int:
        """The host of a rank. Raises ValueError for an unknown rank."""
        if not 0 <= rank < len(self.host_of_rank):
            raise ValueError(f"rank {rank} is not one of the {len(self.host_of_rank)} ranks of this testbed")
        return self.host_of_rank[rank]

    def ranks_of(self, host: int) -> list[int]:
        """The ranks on a host."""
        return [rank for rank, at in enumerate(self.host_of_rank) if at == host]

    @property
    def shared(self) -> bool:
        """Whether ranks share hosts. The topology then has nodes for the ranks, before those of this network."""
        return self.hosts < self.topology.ranks


def _nodes(topology: Topology, host_of_rank: list[int]) -> list[int]:
    """For each node of the topology the host or switch that contains it."""
    ranks, hosts = topology.ranks, max(host_of_rank) + 1
    if hosts == ranks:
        return list(range(topology.nodes))
    # The memories of the hosts come next, then switches.
    nodes = host_of_rank + list(range(topology.nodes - ranks))
    for source, target, *_ in topology.links:
        if min(source, target) < ranks and nodes[source] != nodes[target]:
            raise TopologyError(f"{topology.spec}: rank {min(source, target)} has a link that leaves its host")
    assert max(nodes) >= hosts - 1
    return nodes


def _cables(topology: Topology, node_of: list[int]) -> list[Cable]:
    capacities: dict[tuple[int, int], list[float]] = {}
    seconds: dict[tuple[int, int], float] = {}
    fastest = max(bandwidth for _, _, bandwidth, *_ in topology._links())
    for source, target, bandwidth, capacity, latency, extra_latency in topology._links():
        first, second = node_of[source], node_of[target]
        if first != second:
            ends = (min(first, second), max(first, second))
            capacities.setdefault(ends, [0.0, 0.0])[first > second] += capacity * bandwidth / fastest
            seconds[ends] = max(seconds.get(ends, 0.0), latency + extra_latency)
    return [Cable(ends, (there, back), seconds[ends]) for ends, (there, back) in sorted(capacities.items())]


_Path = tuple[int, int, list[int]]
"""(sending host, receiving host, nodes on the path)."""


def _paths(topology: Topology, node_of: list[int]) -> tuple[Topology, list[_Path]]:
    """The topology's own routes if each is a single path, else its first shortest paths; and the topology with them."""
    links = [(node_of[link[0]], node_of[link[1]]) for link in topology.links]
    first = {node_of[rank]: rank for rank in reversed(range(topology.ranks))}
    hosts = [(rank, host) for host, rank in sorted(first.items())]
    pairs = [(one, other) for one in hosts for other in hosts if one != other]

    def of(network: Topology) -> Iterator[_Path | None]:
        for (rank, host), (other_rank, other_host) in pairs:
            used = {links[index] for index, _ in network.route(rank, other_rank)[2]}
            path = _path(host, other_host, {pair for pair in used if pair[0] != pair[1]})
            yield (host, other_host, path) if path else None

    paths = [path for path in of(topology) if path is not None]
    if len(paths) < len(pairs):
        topology = topology.with_routing("single-path")
        paths = [path for path in of(topology) if path is not None]
    assert len(paths) == len(pairs), "a single path is one"
    return topology, paths


def _path(start: int, end: int, edges: set[tuple[int, int]]) -> list[int] | None:
    """The nodes from `start` to `end` if the edges form one path; else None."""
    following = dict(edges)
    path = [start]
    while path[-1] != end and path[-1] in following and len(path) <= len(edges):
        path.append(following[path[-1]])
    return path if path[-1] == end and len(path) == len(edges) + 1 else None
