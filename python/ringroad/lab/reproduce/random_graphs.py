"""Random networks from fixed seeds: regular graphs and Xpanders."""

import random
from itertools import combinations

from ringroad._native import Topology

Link = tuple[int, int, float]


def of_links(name: str, ranks: int, links: list[Link], nodes: int | None = None, bandwidth: float = 12.5e9) -> Topology:
    """A network of links with their capacities, in units of `bandwidth`."""
    properties = [(a, b, bandwidth, capacity, 0.5e-6, 0.0) for a, b, capacity in links]
    return Topology._from_links(name, ranks, nodes or ranks, properties, [])


def regular(ranks: int, cycles: int, bandwidth: float = 12.5e9, *, one_way: bool = False) -> Topology:
    """A network of `cycles` random cycles through all ranks. Each cycle gives every rank two cables, or with `one_way`
    one link out. Jellyfish is such a network of cables."""
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
