"""The positions of a network's nodes in a picture, and the lines of its links."""

import re
from dataclasses import dataclass

import numpy as np

from ringroad._native import Topology
from ringroad.lab.viz.places import Points, is_made_of_its_spec, without_grid

_GAP = 1.5  # between the planes of a torus of three and more dimensions
_STUB = 0.42  # length of a wrap-around link, of which only the beginning is drawn
_DIAGONAL = 0.5**0.5
_SIDE = 0.055  # distance of a link from the straight line, so that both directions of a cable are visible


@dataclass(frozen=True)
class Drawing:
    """Positions of nodes, and each link's line from its source to the end of its arrow; also of the links that the
    operator `without` has removed."""

    nodes: Points
    lines: Points
    removed: Points


def draw(topology: Topology) -> Drawing:
    """Draws grids of two and more dimensions as grids, with wrap-around links as stubs. For other networks `places`
    gives the positions of ranks; switches lie between the nodes that they join."""
    nodes = _places(topology)
    wraps = _wraps(topology) if len(topology.dimensions) > 1 else {}
    parallel: dict[tuple[int, int], int] = {}
    lines = []
    for link, (source, target, _, _) in enumerate(topology.links):
        if link in wraps:
            lines.append(_stub(nodes[source], wraps[link]))
            continue
        number = parallel[source, target] = parallel.get((source, target), -1) + 1
        lines.append(_line(nodes[source], nodes[target], number))
    return Drawing(nodes, np.array(lines).reshape(-1, 2, 2), _removed(topology))


def _removed(topology: Topology) -> Points:
    operands = topology._operands()
    if operands is None or operands[0] != "without" or not is_made_of_its_spec(topology):
        return np.zeros((0, 2, 2))
    _, (spec,), cuts = operands
    gone = set()
    for cut in cuts:
        source, direction, target = re.split("([->])", cut.replace(" ", ""))
        gone.add((int(source), int(target)))
        if direction == "-":
            gone.add((int(target), int(source)))
    whole = Topology(spec)
    return draw(whole).lines[[link[:2] in gone for link in whole.links]]


def _places(topology: Topology) -> Points:
    if len(topology.dimensions) > 1:
        return _grid(topology)
    places = np.zeros((topology.nodes, 2))
    places[: topology.ranks] = without_grid(topology, _places)
    return _between(topology, places, lift=0.0)


def _grid(topology: Topology) -> Points:
    """The last two dimensions make a plane; planes stand side by side. Switches lie off the grid, in the middle of
    their neighbours."""
    *planes, _, columns = topology.dimensions
    places = np.zeros((topology.nodes, 2))
    for rank in range(topology.ranks):
        *plane, row, column = topology.coordinates(rank)
        number = 0
        for size, coordinate in zip(planes, plane, strict=True):
            number = number * size + coordinate
        places[rank] = (column + number * (columns + _GAP), -row)
    return _between(topology, places, lift=0.35)


def _between(topology: Topology, places: Points, lift: float) -> Points:
    """Puts each switch in the middle of its neighbours, by solving a linear system (Tutte, How to draw a graph,
    1963)."""
    count = topology.nodes - topology.ranks
    if count == 0:
        return places
    pull = np.zeros((count, topology.nodes))
    for source, target, _, _ in topology.links:
        for node, other in ((source, target), (target, source)):
            if node >= topology.ranks:
                pull[node - topology.ranks, other] += 1
    total = np.maximum(pull.sum(axis=1, keepdims=True), 1)
    pull /= total
    own, ranks = pull[:, topology.ranks :], pull[:, : topology.ranks]
    # Switches that reach no rank have no defined position: least squares still gives them one.
    places[topology.ranks :] = np.linalg.lstsq(np.eye(count) - own, ranks @ places[: topology.ranks], rcond=None)[0]
    places[topology.ranks :, 1] += lift
    return places


def _line(start: Points, end: Points, parallel: int) -> Points:
    """A line beside the straight line between two nodes, so that the other direction and parallel links have room. It
    stops short of both nodes."""
    way = end - start
    length = float(np.hypot(*way)) or 1.0
    shorten = way / length * min(0.16, length / 4)
    return np.array([start + shorten, end - shorten]) + (1 + 1.5 * parallel) * _aside(way / length)


def _stub(start: Points, direction: Points) -> Points:
    return np.array([start + 0.16 * direction, start + _STUB * direction]) + _aside(direction)


def _aside(direction: Points) -> Points:
    return np.array([direction[1], -direction[0]]) * _SIDE


def _wraps(topology: Topology) -> dict[int, Points]:
    """The wrap-around links, each with the direction in which it leaves the grid: the links to the other end of a
    dimension; in a dimension of two ranks, the second of the two links between them."""
    sizes = topology.dimensions
    places = np.array([topology.coordinates(rank) for rank in range(topology.ranks)])
    wraps: dict[int, Points] = {}
    known: set[tuple[int, int]] = set()
    for link, (source, target, _, _) in enumerate(topology.links):
        if max(source, target) >= topology.ranks:
            continue
        steps = places[target] - places[source]
        (differing,) = np.nonzero(steps)
        if len(differing) == 1:
            dimension = int(differing[0])
            is_second, size = (source, target) in known, sizes[dimension]
            if abs(steps[dimension]) == size - 1 and (size > 2 or is_second):
                wraps[link] = _outwards(len(sizes) - 1 - dimension, -np.sign(steps[dimension]))
        known.add((source, target))
    return wraps


def _outwards(dimension: int, sign: float) -> Points:
    """The direction of a wrap-around link. Dimensions count from the last: along the row, along the column, else
    diagonal."""
    if dimension == 0:
        return np.array([sign, 0.0])
    if dimension == 1:
        return np.array([0.0, -sign])
    return np.array([sign, -sign]) * _DIAGONAL
