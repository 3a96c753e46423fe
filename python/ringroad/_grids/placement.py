"""Which rank stands where on a grid, so that neighbours reach each other fast."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ringroad._grids.neighbours import at_once
from ringroad._native import Communicator, Schedule, Topology

_BYTES = 1 << 20
"""What a rank sends, where ways are compared. Long messages tell which links are shared."""
_COMPARED = 256
"""With more ranks, costs take long: fewer neighbours on different hosts are then better."""


def order(comm: Communicator, shape: tuple[int, ...], edges: NDArray[np.int64]) -> list[int]:
    """The rank for each place of a grid, in row-major order: the best of those that suit hosts or network, and the
    ranks' own order where none is better. `edges[s, t]` is how often place `s` sends to place `t`."""
    network = comm._part(range(comm.size))
    hosts = _hosts(network.hosts if network else comm.hosts)
    ways = [list(range(comm.size)), *_by_hosts(hosts, shape), *_by_network(network, shape)]
    others = edges.copy()
    np.fill_diagonal(others, 0)
    return min(ways, key=lambda way: _cost(comm, others, way))


def _cost(comm: Communicator, edges: NDArray[np.int64], way: list[int]) -> float:
    if not edges.any():
        return 0.0
    if comm.size > _COMPARED:
        hosts = np.unique(comm.hosts, return_inverse=True)[1][way]
        return float(edges[hosts[:, None] != hosts].sum())
    schedule = Schedule.build(at_once(comm.size), comm.size, "alltoall")
    return comm._cost(schedule, _BYTES, _placed(edges, way)).seconds


def _placed(edges: NDArray[np.int64], way: Sequence[int]) -> list[int]:
    """The blocks that ranks send each other if they stand in this way."""
    placed = np.zeros_like(edges)
    placed[np.ix_(way, way)] = edges
    return [int(n) for n in placed.ravel()]


def _hosts(names: Sequence[object]) -> list[list[int]]:
    """The ranks of each host, where these are the ranks' hosts."""
    groups: dict[object, list[int]] = {}
    for rank, name in enumerate(names):
        groups.setdefault(name, []).append(rank)
    return list(groups.values())


def _by_hosts(groups: list[list[int]], shape: tuple[int, ...]) -> Iterator[list[int]]:
    """Each host has a box of the grid, of any shape that tiles it."""
    sizes = {len(ranks) for ranks in groups}
    if len(groups) > 1 and len(sizes) == 1:
        for box in _boxes(sizes.pop(), shape):
            yield _filled(groups, shape, box)


def _boxes(size: int, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The boxes of this many ranks that tile the grid."""
    if not shape:
        if size == 1:
            yield ()
        return
    for length in (n for n in range(1, shape[0] + 1) if size % n == 0 and shape[0] % n == 0):
        for rest in _boxes(size // length, shape[1:]):
            yield (length, *rest)


def _filled(groups: list[list[int]], shape: tuple[int, ...], box: tuple[int, ...]) -> list[int]:
    boxes = tuple(n // b for n, b in zip(shape, box, strict=True))
    way = []
    for place in itertools.product(*map(range, shape)):
        group = np.ravel_multi_index([p // b for p, b in zip(place, box, strict=True)], boxes)
        way.append(groups[group][np.ravel_multi_index([p % b for p, b in zip(place, box, strict=True)], box)])
    return way


def _by_network(network: Topology | None, shape: tuple[int, ...]) -> Iterator[list[int]]:
    """Where the network is a grid with the same lengths, in any order of its dimensions, neighbours there are
    neighbours here."""
    if network is None or math.prod(network.dimensions or (0,)) != math.prod(shape):
        return
    lengths = network.dimensions
    wide = [index for index, length in enumerate(shape) if length > 1]
    at = {network.coordinates(rank): rank for rank in range(network.ranks)}
    axes = [index for index, length in enumerate(lengths) if length > 1]
    for turned in itertools.permutations(axes):
        if [lengths[axis] for axis in turned] == [shape[index] for index in wide]:
            way = []
            for place in itertools.product(*map(range, shape)):
                there = [0] * len(lengths)
                for axis, index in zip(turned, wide, strict=True):
                    there[axis] = place[index]
                way.append(at[tuple(there)])
            yield way
