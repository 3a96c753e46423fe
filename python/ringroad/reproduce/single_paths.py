"""One shortest path for each pair, chosen by what links carry so far: what flows are compared with."""

import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal

from ringroad._native import Topology

Order = Literal["sources", "pairs"]
Pair = tuple[int, int]


def busiest_link(topology: Topology, order: Order) -> int:
    """What the busiest link carries if every pair has one unit for the other. Links side by side count as one.

    `sources`: all pairs of a source choose at once, before what they carry is counted (SSSP of Domke et al.,
    Deadlock-free oblivious routing for arbitrary topologies, 2011). `pairs`: one pair after the other, in random order.
    """
    links = sorted({(source, target) for source, target, *_ in topology.links})
    network = _Loads(topology.ranks, links)
    for pairs in _batches(topology.ranks, order):
        network.route(pairs)
    return max(network.loads.values())


def _batches(ranks: int, order: Order) -> Iterator[list[Pair]]:
    every = [[(source, target) for target in range(ranks) if target != source] for source in range(ranks)]
    if order == "sources":
        yield from every
        return
    pairs = [pair for some in every for pair in some]
    random.Random(ranks).shuffle(pairs)
    yield from ([pair] for pair in pairs)


class _Loads:
    """What links carry, and how far apart ranks are."""

    def __init__(self, ranks: int, links: list[Pair]) -> None:
        self.loads = dict.fromkeys(links, 0)
        self.out: list[list[int]] = [[] for _ in range(ranks)]
        into: list[list[int]] = [[] for _ in range(ranks)]
        for source, target in links:
            self.out[source].append(target)
            into[target].append(source)
        self.to = [_hops(into, target) for target in range(ranks)]

    def route(self, pairs: Iterable[Pair]) -> None:
        """A path for each pair, as if none of the others were there."""
        for path in [self.lightest(source, target) for source, target in pairs]:
            for link in path:
                self.loads[link] += 1

    def lightest(self, source: int, target: int) -> list[Pair]:
        """The shortest path whose links carry the least together."""
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
