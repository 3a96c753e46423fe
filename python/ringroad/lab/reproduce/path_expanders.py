"""Shortest-path expanders, appendix E of Basu et al.

The heuristic starts with all possible links and keeps those that paths use. Each pair in turn takes the cheapest path,
whose links become more expensive. When a rank uses all the links out or in that it may have, its unused links are
removed.
"""

import heapq
import random

from ringroad._native import Topology
from ringroad.lab.reproduce.random_graphs import of_links

_UNUSED = 0.01
"""The cost of an unused link; each path over a link adds 1."""


def path_expander(ranks: int, degree: int, bandwidth: float = 12.5e9) -> Topology:
    """The network; its links go one way. The order of pairs is random but always the same."""
    pairs = [(source, target) for source in range(ranks) for target in range(ranks) if source != target]
    random.Random(ranks).shuffle(pairs)
    growing = _Growing(ranks, degree)
    for source, target in pairs:
        if not growing.has_room():
            break
        growing.lay(source, target)
    links = [(rank, other, 1.0) for rank, used in enumerate(growing.used) for other in sorted(used)]
    return of_links(f"path-expander-{ranks}", ranks, links, bandwidth=bandwidth)


class _Growing:
    """The costs of used links by their ends, and the number of used links into each rank."""

    def __init__(self, ranks: int, degree: int) -> None:
        self.degree = degree
        self.used: list[dict[int, float]] = [{} for _ in range(ranks)]
        self.into = [0] * ranks

    def unused(self, rank: int) -> list[int]:
        """The ranks to which unused links lead."""
        if len(self.used[rank]) == self.degree:
            return []
        full = self.degree
        return [to for to, links in enumerate(self.into) if links < full and to != rank and to not in self.used[rank]]

    def has_room(self) -> bool:
        return any(self.unused(rank) for rank in range(len(self.used)))

    def lay(self, source: int, target: int) -> None:
        """Uses the links of the cheapest path, if there is any, and makes them more expensive."""
        came = self._cheapest(source, target)
        rank = target
        while rank != source and rank in came:
            before = came[rank]
            if rank not in self.used[before]:
                self.used[before][rank] = _UNUSED
                self.into[rank] += 1
            self.used[before][rank] += 1
            rank = before

    def _cheapest(self, source: int, target: int) -> dict[int, int]:
        """For each rank that was reached, the rank before it on the cheapest path from the source."""
        costs, came, heap = {source: 0.0}, dict[int, int](), [(0.0, source)]
        while heap:
            cost, rank = heapq.heappop(heap)
            if rank == target:
                break
            if cost > costs[rank]:
                continue
            for other, more in (self.used[rank] | dict.fromkeys(self.unused(rank), _UNUSED)).items():
                if cost + more < costs.get(other, float("inf")):
                    costs[other], came[other] = cost + more, rank
                    heapq.heappush(heap, (cost + more, other))
        return came
