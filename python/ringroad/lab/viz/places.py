"""Positions of the ranks of a network without a grid, by its family or its operator."""

import importlib.util
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ringroad._graphs import need_networkx
from ringroad._native import Topology

Points = NDArray[np.float64]
Places = Callable[[Topology], Points]

_SEARCHED = 200  # nodes; larger networks take too long


def without_grid(topology: Topology, places: Places) -> Points:
    """The positions of the ranks; `places` gives those of an operator's operands. The result of an operator follows the
    ranks and links of its operands. Networks with rotational symmetry lie on a cycle, bipartite ones with sides of
    different sizes in two columns. In all others ranks a few hops apart are close in the picture."""
    if topology.positions is not None:
        return places(topology.base)[topology.positions]
    operands = topology._operands()
    if operands is not None and is_made_of_its_spec(topology):
        operator, specs, parameters = operands
        return _made(topology, operator, [Topology(spec) for spec in specs], parameters, places)
    family, _, sizes = topology.spec.partition(",")[0].partition(":")
    if family == "complete-bipartite" and "x" in sizes:
        return _columns(topology, int(sizes.partition("x")[0]))
    if family == "hamming":
        return _tiles(topology.ranks, [circle(int(sizes.partition(":")[2]))] * int(sizes.partition(":")[0]))
    is_round = topology.nodes > _SEARCHED or topology._facts(diameter=False)["is_round"]
    if not is_round and importlib.util.find_spec("networkx"):
        return _by_distance(topology)
    return circle(topology.ranks)


def is_made_of_its_spec(topology: Topology) -> bool:
    """Whether the spec says all links; it does not say those of graphs and files."""
    return "graph:" not in topology.spec


def circle(ranks: int) -> Points:
    """Positions on a cycle, clockwise from the top, about 1 apart."""
    radius = max(1.0, ranks / (2 * np.pi)) if ranks > 1 else 0.0
    angles = np.pi / 2 - 2 * np.pi * np.arange(ranks) / ranks
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _made(topology: Topology, operator: str, operands: list[Topology], parameters: list[str], places: Places) -> Points:
    first = operands[0]
    base = places(first)
    if operator == "line":
        return _middles(base, [link[:2] for link in first.links], beside=0.6)
    if operator == "line-graph":
        return _middles(base, _cables(first), beside=0.0)
    if operator == "degree":
        return _tiles(topology.ranks, [base, 0.6 * circle(int(parameters[0]))])
    if operator == "power":
        return _tiles(topology.ranks, [base] * int(parameters[0]))
    if operator == "product":
        return _tiles(topology.ranks, [places(operand) for operand in operands])
    return base[: topology.ranks]


def _tiles(ranks: int, factors: list[Points]) -> Points:
    """Puts the last factor's picture at every position of the factor before it, which is drawn larger to make room."""
    whole = np.zeros((1, 2))
    for tile in reversed(factors):
        size = 1.5 + float(np.ptp(whole, axis=0).max())
        # Turned a little, so that no three ranks are in a line and parallel links stay apart.
        turn = 0.12 if len(whole) > 1 else 0.0
        turned = tile @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        whole = (size / _nearest(turned) * turned[:, None, :] + whole[None, :, :]).reshape(-1, 2)
    return whole[:ranks]


def _middles(base: Points, ends: list[tuple[int, int]], beside: float) -> Points:
    """A position for each link: near its middle, to its left; further links of the same ends lie further left."""
    places = np.zeros((len(ends), 2))
    known: dict[tuple[int, int], int] = {}
    for number, (source, target) in enumerate(ends):
        parallel = known[source, target] = known.get((source, target), -1) + 1
        way = base[target] - base[source]
        left = np.array([-way[1], way[0]]) / (float(np.hypot(*way)) or 1.0)
        # Not exactly in the middle, because links of a cycle cross there.
        places[number] = base[source] + 0.44 * way + (beside / 2 + 0.5 * parallel) * left * min(1.0, _nearest(base))
    return places * (1.0 / max(_nearest(places), 0.15))


def _cables(topology: Topology) -> list[tuple[int, int]]:
    """The first link of each cable, in order. The n-th link from one rank to another and the n-th link back are one
    cable."""
    open_ends: dict[tuple[int, int], int] = {}
    cables = []
    for source, target, _, _ in topology.links:
        if open_ends.get((target, source), 0):
            open_ends[target, source] -= 1
        else:
            open_ends[source, target] = open_ends.get((source, target), 0) + 1
            cables.append((source, target))
    return cables


def _columns(topology: Topology, left: int) -> Points:
    right = topology.ranks - left
    height = float(max(left, right))
    sides = [(0.0, left), (max(2.5, height / 2), right)]
    rows = [[(x, -height * (row + 0.5) / count) for row in range(count)] for x, count in sides]
    return np.array(rows[0] + rows[1])


def _by_distance(topology: Topology) -> Points:
    """Distances in the picture follow hops in the network (Kamada and Kawai, 1989); without SciPy, a spring layout."""
    networkx = need_networkx()
    graph = networkx.Graph((source, target) for source, target, _, _ in topology.links)
    graph.add_nodes_from(range(topology.nodes))
    if importlib.util.find_spec("scipy") is None:
        found = networkx.spring_layout(graph, seed=1)
    else:
        # The start on a cycle in the order of the ranks makes the result the same everywhere.
        start = dict(enumerate(circle(topology.nodes)))
        found = networkx.kamada_kawai_layout(graph, pos=start)
    places: Points = np.array([found[node] for node in range(topology.nodes)])
    scaled: Points = places[: topology.ranks] / max(_nearest(places), 0.05 / len(places) ** 0.5)
    return scaled


def _nearest(places: Points) -> float:
    """The least distance between two of the positions."""
    if len(places) < 2:
        return 1.0
    places = places[:_SEARCHED]
    apart = np.hypot(*(places[:, None, :] - places[None, :, :]).T)
    np.fill_diagonal(apart, np.inf)
    return float(apart.min()) or 1.0
