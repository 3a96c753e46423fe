"""Networks and paths with which Basu et al. compare: random graphs, path expanders, hosts, and single paths."""

import heapq
import random
from collections.abc import Iterator
from importlib import import_module
from itertools import combinations, pairwise, product
from typing import Any

from ringroad._native import Topology

Link = tuple[int, int, float]

_UNUSED = 0.01
"""The cost of an unused link of a path expander; each path over a link adds 1."""


def of_links(name: str, ranks: int, links: list[Link], nodes: int | None = None, bandwidth: float = 12.5e9) -> Topology:
    """A network of links with their capacities, in units of `bandwidth`."""
    properties = [(a, b, bandwidth, capacity, 0.5e-6, 0.0) for a, b, capacity in links]
    return Topology._from_links(name, ranks, nodes or ranks, properties, [])


def regular(ranks: int, cycles: int, bandwidth: float = 12.5e9, *, one_way: bool = False) -> Topology:
    """A network of `cycles` random cycles through all ranks. Each cycle gives every rank two cables, or with `one_way`
    one link out. Jellyfish is such a network of cables. The seed is fixed, as in all networks here."""
    chance = random.Random(ranks)
    links: list[Link] = []
    for _ in range(cycles):
        order = chance.sample(range(ranks), ranks)
        for a, b in zip(order, order[1:] + order[:1], strict=True):
            links += _cable(a, b)[: 1 if one_way else 2]
    return of_links(f"random-{ranks}", ranks, sorted(links), bandwidth=bandwidth)


def xpander(ranks: int, degree: int, bandwidth: float = 12.5e9) -> Topology:
    """A complete graph of `degree + 1` groups of ranks; each edge is a random matching between two groups."""
    copies, rest = divmod(ranks, degree + 1)
    if rest:
        raise ValueError(f"an Xpander with {degree} links out of each rank needs a multiple of {degree + 1} ranks")
    chance = random.Random(ranks)
    links: list[Link] = []
    for first, second in combinations(range(degree + 1), 2):
        for copy, other in enumerate(chance.sample(range(copies), copies)):
            links += _cable(first * copies + copy, second * copies + other)
    return of_links(f"xpander-{ranks}", ranks, sorted(links), bandwidth=bandwidth)


def _cable(a: int, b: int) -> list[Link]:
    return [(a, b, 1.0), (b, a, 1.0)]


def path_expander(ranks: int, degree: int, bandwidth: float = 12.5e9) -> Topology:
    """A shortest-path expander (appendix E); its links go one way.

    The heuristic starts with all possible links and keeps those that paths use. Each pair in turn takes the cheapest
    path, whose links become more expensive. When a rank uses all the links out or in that it may have, its unused links
    are removed.
    """
    used: list[dict[int, float]] = [{} for _ in range(ranks)]
    """The costs of the used links out of each rank, by their ends."""
    into = [0] * ranks

    def unused(rank: int) -> list[int]:
        """The ranks to which unused links lead."""
        if len(used[rank]) == degree:
            return []
        return [to for to, links in enumerate(into) if links < degree and to != rank and to not in used[rank]]

    def cheapest(source: int, target: int) -> dict[int, int]:
        """For each rank that was reached, the rank before it on the cheapest path from the source."""
        costs, came, heap = {source: 0.0}, dict[int, int](), [(0.0, source)]
        while heap:
            cost, rank = heapq.heappop(heap)
            if rank == target:
                break
            if cost > costs[rank]:
                continue
            for other, more in (used[rank] | dict.fromkeys(unused(rank), _UNUSED)).items():
                if cost + more < costs.get(other, float("inf")):
                    costs[other], came[other] = cost + more, rank
                    heapq.heappush(heap, (cost + more, other))
        return came

    pairs = [(source, target) for source, target in product(range(ranks), repeat=2) if source != target]
    random.Random(ranks).shuffle(pairs)
    for source, rank in pairs:
        if not any(map(unused, range(ranks))):
            break
        came = cheapest(source, rank)
        while rank != source and rank in came:
            before = came[rank]
            if rank not in used[before]:
                used[before][rank] = _UNUSED
                into[rank] += 1
            used[before][rank] += 1
            rank = before
    links = [(rank, other, 1.0) for rank, others in enumerate(used) for other in sorted(others)]
    return of_links(f"path-expander-{ranks}", ranks, links, bandwidth=bandwidth)


def through_hosts(topology: Topology, capacity: float) -> Topology:
    """The network whose hosts carry less than their links and forward all messages, unlike with `Topology.behind_nics`
    (figure 3). Links have bandwidth 1.

    A host receives from node `ranks + rank` and sends to node `2 * ranks + rank`, `capacity` links' worth each.
    """
    ranks = topology.ranks
    received = [(ranks + rank, rank, capacity) for rank in range(ranks)]
    sent = [(rank, 2 * ranks + rank, capacity) for rank in range(ranks)]
    links = [(2 * ranks + source, ranks + target, 1.0) for source, target, *_ in topology.links]
    return of_links(f"through-hosts-{ranks}", ranks, received + sent + links, 3 * ranks, bandwidth=1.0)


def with_links_in_random_order(topology: Topology) -> Topology:
    """The same network with links of bandwidth 1, in a random order. `ringroad.lab.routes.shortest` chooses among equal
    paths by the order of links, on which the result depends if the network is symmetric."""
    links = sorted((source, target, 1.0) for source, target, *_ in topology.links)
    random.Random(topology.ranks).shuffle(links)
    return of_links(f"shuffled-{topology.ranks}", topology.ranks, links, bandwidth=1.0)


def busiest_link(topology: Topology) -> int:
    """The load of the busiest link if every pair sends one unit over the shortest path with the least load so far.

    Pairs choose one after the other, in random order; parallel links count as one. Needs networkx.
    """
    networkx: Any = import_module("networkx")
    graph = networkx.DiGraph((source, target) for source, target, *_ in topology.links)
    before = [networkx.predecessor(graph, source) for source in range(topology.ranks)]
    loads = dict.fromkeys(graph.edges, 0)

    def paths(source: int, target: int) -> Iterator[list[int]]:
        if source == target:
            yield [source]
        for rank in before[source][target]:
            yield from ([*path, target] for path in paths(source, rank))

    def load(path: list[int]) -> int:
        return sum(loads[link] for link in pairwise(path))

    pairs = list(product(range(topology.ranks), repeat=2))
    random.Random(topology.ranks).shuffle(pairs)
    for source, target in pairs:
        lightest = min(paths(source, target), key=lambda path: (load(path), path))
        for link in pairwise(lightest):
            loads[link] += 1
    return max(loads.values())
