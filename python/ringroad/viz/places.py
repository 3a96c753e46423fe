"""Where the ranks of a network that has no grid are drawn: as its family, or what it is made of, suggests."""

import importlib.util
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ringroad._native import Topology

Points = NDArray[np.float64]
Places = Callable[[Topology], Points]

_SEARCHED = 200  # nodes; the places of more take long to find
_ROUND = {"ring", "circulant", "directed-circulant", "complete", "complete-bipartite", "uniring", "biring"}
_ROUND |= {"switch", "hosts", "fattree", "octahedron", "k55-minus-matching"}


def without_grid(topology: Topology, places: Places) -> Points:
    """Of the ranks; `places` finds those of operands. What an operator makes lies where its operands' ranks and links
    would; what is made of rotations on a circle; sides of different sizes in two columns; and of the rest, ranks that
    are near each other in the network are near in the picture."""
    operands = topology._operands()
    if operands is not None:
        operator, specs, parameters = operands
        return _made(topology, operator, [Topology(spec) for spec in specs], parameters, places)
    family, _, sizes = topology.spec.partition(",")[0].partition(":")
    if family == "complete-bipartite" and "x" in sizes:
        return _columns(topology, int(sizes.partition("x")[0]))
    if family == "hamming":
        return _tiles(topology.ranks, [circle(int(sizes.partition(":")[2]))] * int(sizes.partition(":")[0]))
    rotations = family in _ROUND or (family == "cayley" and sizes.partition(":")[0].lstrip("z").isdigit())
    if rotations or topology.nodes > _SEARCHED or importlib.util.find_spec("networkx") is None:
        return circle(topology.ranks)
    return _by_distance(topology)


def circle(ranks: int) -> Points:
    """Clockwise from the top, at a distance of 1 from each other."""
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
    """The last factor's picture at every place of the one before it, which is drawn as much larger."""
    whole = np.zeros((1, 2))
    for tile in reversed(factors):
        size = 1.5 + float(np.ptp(whole, axis=0).max())
        # Askew, so that no three are in a line and links beside each other remain apart.
        turn = 0.12 if len(whole) > 1 else 0.0
        turned = tile @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        whole = (size / _nearest(turned) * turned[:, None, :] + whole[None, :, :]).reshape(-1, 2)
    return whole[:ranks]


def _middles(base: Points, ends: list[tuple[int, int]], beside: float) -> Points:
    """Each link's middle, to its left, and the further the more links go the same way."""
    places = np.zeros((len(ends), 2))
    known: dict[tuple[int, int], int] = {}
    for number, (source, target) in enumerate(ends):
        parallel = known[source, target] = known.get((source, target), -1) + 1
        way = base[target] - base[source]
        left = np.array([-way[1], way[0]]) / (float(np.hypot(*way)) or 1.0)
        # Not quite in the middle, where links of a circle cross each other.
        places[number] = base[source] + 0.44 * way + (beside / 2 + 0.5 * parallel) * left * min(1.0, _nearest(base))
    return places * (1.0 / max(_nearest(places), 0.15))


def _cables(topology: Topology) -> list[tuple[int, int]]:
    """The first link of each, in their order: the n-th from one rank to another and the n-th back are one cable."""
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
    """Kamada and Kawai (1989): as far apart as the network has them; where there is no SciPy, by springs."""
    import networkx  # type: ignore[import-untyped]

    graph = networkx.Graph((source, target) for source, target, _, _ in topology.links)
    graph.add_nodes_from(range(topology.nodes))
    if importlib.util.find_spec("scipy") is None:
        found = networkx.spring_layout(graph, seed=1)
    else:
        # Starting from a circle in the order of the ranks makes it the same everywhere.
        start = dict(enumerate(circle(topology.nodes)))
        found = networkx.kamada_kawai_layout(graph, pos=start)
    places: Points = np.array([found[node] for node in range(topology.nodes)])
    scaled: Points = places[: topology.ranks] / max(_nearest(places), 0.05 / len(places) ** 0.5)
    return scaled


def _nearest(places: Points) -> float:
    """How far apart the two are that are nearest to each other."""
    if len(places) < 2:
        return 1.0
    places = places[:_SEARCHED]
    apart = np.hypot(*(places[:, None, :] - places[None, :, :]).T)
    np.fill_diagonal(apart, np.inf)
    return float(apart.min()) or 1.0
