"""The positions of a network's nodes in a picture, as the core gives them, and the lines of its links."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringroad._native import Topology

Points = NDArray[np.float64]

_STUB = 0.42  # length of a wrap-around link, of which only the beginning is drawn
_SIDE = 0.055  # distance of a link from the straight line, so that both directions of a cable are visible
_UPWARDS = np.array([1.0, -1.0])


@dataclass(frozen=True)
class Drawing:
    """Positions of nodes, and each link's line from its source to the end of its arrow; also of the links that the
    operator `without` has removed."""

    nodes: Points
    lines: Points
    removed: Points


def draw(topology: Topology) -> Drawing:
    """Where nodes and links lie. Of wrap-around links of grids only stubs are drawn."""
    found = topology._drawing()
    nodes = np.array(found["nodes"]) * _UPWARDS
    wraps = {link: np.array(direction) * _UPWARDS for link, direction in found["wraps"]}
    parallel: dict[tuple[int, int], int] = {}
    lines = []
    for link, (source, target, _, _) in enumerate(topology.links):
        if link in wraps:
            start, way = nodes[source], wraps[link]
            lines.append(np.array([start + 0.16 * way, start + _STUB * way]) + _aside(way))
            continue
        number = parallel[source, target] = parallel.get((source, target), -1) + 1
        lines.append(_line(nodes[source], nodes[target], number))
    return Drawing(nodes, np.array(lines).reshape(-1, 2, 2), _removed(topology))


def _removed(topology: Topology) -> Points:
    whole, left = topology._whole(), {link[:2] for link in topology.links}
    return np.zeros((0, 2, 2)) if whole is None else draw(whole).lines[[link[:2] not in left for link in whole.links]]


def _line(start: Points, end: Points, parallel: int) -> Points:
    """A line beside the straight line between two nodes, so that the other direction and parallel links have room. It
    stops short of both nodes."""
    way = end - start
    length = float(np.hypot(*way)) or 1.0
    shorten = way / length * min(0.16, length / 4)
    return np.array([start + shorten, end - shorten]) + (1 + 1.5 * parallel) * _aside(way / length)


def _aside(direction: Points) -> Points:
    return np.array([direction[1], -direction[0]]) * _SIDE
