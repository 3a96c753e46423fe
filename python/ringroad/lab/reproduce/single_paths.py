"""One shortest path for each pair of ranks, to compare with flows.

`ringroad.lab.routes.shortest` goes source after source, and chooses among equal paths by the order of links. On
symmetric networks the result depends on this order, so this module offers a random one. It also chooses paths pair
after pair.
"""

import random
from collections import deque

from ringroad._native import Topology
from ringroad.lab.reproduce.random_graphs import of_links

Pair = tuple[int, int]


def with_links_in_random_order(topology: Topology) -> Topology:
    """The same network with links of bandwidth 1, in a random order from a fixed seed."""
    links = sorted((source, target, 1.0) for source, target, *_ in topology.links)
    random.Random(topology.ranks).shuffle(links)
    return of_links(f"shuffled-{topology.ranks}", topology.ranks, links, bandwidth=1.0)


def busiest_link(topology: Topology) -> int:
    """The load of the busiest link if every pair sends one unit over the shortest path with the least load so far.

    Pairs choose one after the other, in random order; parallel links count as one.
    """
    pairs = [(source, target) for source in range(topology.ranks) for target in range(topology.ranks)]
    random.Random(topology.ranks).shuffle(pairs)
    network = _Loads(topology)
    for source, target in pairs:
        for link in network.lightest(source, target):
            network.loads[link] += 1
    return max(network.loads.values())


class _Loads:
    """The loads of links, and the distances between ranks."""

    def __init__(self, topology: Topology) -> None:
        self.loads = {(source, target): 0 for source, target, *_ in sorted(topology.links)}
        self.out: list[list[int]] = [[] for _ in range(topology.ranks)]
        into: list[list[int]] = [[] for _ in range(topology.ranks)]
        for source, target in self.loads:
            self.out[source].append(target)
            into[target].append(source)
        self.to = [_hops(into, target) for target in range(topology.ranks)]

    def lightest(self, source: int, target: int) -> list[Pair]:
        """The shortest path with the least sum of loads."""
        hops = self.to[target]
        best: dict[int, tuple[int, list[Pair]]] = {source: (0, [])}
        while target not in best:
            nearer: dict[int, tuple[int, list[Pair]]] = {}
            for rank, (load, path) in best.items():
                for other in self.out[rank]:
                    if hops[other] < hops[rank]:
                        link = (rank, other)
                        found = load + self.loads[link], [*path, link]
                        nearer[other] = min(nearer.get(other, found), found)
            best = nearer
        return best[target][1]


def _hops(into: list[list[int]], target: int) -> dict[int, int]:
    hops, seen = {target: 0}, deque([target])
    while seen:
        rank = seen.popleft()
        for other in into[rank]:
            if other not in hops:
                hops[other] = hops[rank] + 1
                seen.append(other)
    return hops
