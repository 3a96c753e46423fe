"""Equations of papers, to compare with schedules: `FORMULAS[name](panel, model, ...)`, with a claim's arguments."""

import math
from collections.abc import Callable
from typing import Any

from ringroad._native import Topology
from ringroad.lab.reproduce.definition import Model
from ringroad.lab.reproduce.evaluation import Panel


def _levels(ranks: int) -> int:
    return math.ceil(math.log2(ranks))


def generalized(panel: Panel, model: Model, form: str, size: int) -> float:
    """Kolmakov, Zhang, arXiv 2004.09362, equations (25) for r = 0, (44) for r = L, and (36) between, in seconds."""
    ranks, levels, r = panel.ranks, _levels(panel.ranks), int(form.partition(":")[2])
    sent, reduced = 2 * (ranks - 1), ranks - 1
    if r == levels:
        sent, reduced = ranks * levels, ranks * (2 * levels - 2)
    elif r > 0:
        sent += (2**r - 1) * (levels - 1)
        reduced += (2**r - 1) * (2 * levels - 2)
    block = size / ranks
    steps = 2 * levels - r
    return steps * model.step_latency + block * (sent / model.bandwidth + reduced * model.reduce_cost)


def best_r(panel: Panel, model: Model, key: str, size: int) -> int:
    """The best r by equation (37) of the same paper, rounded and limited to 0 to L."""
    ranks, levels = panel.ranks, _levels(panel.ranks)
    network = model.step_latency / (size * (1 / model.bandwidth + 2 * model.reduce_cost))
    shape = ranks / ((math.log2(ranks) - 1) * math.log(2))
    return min(max(round(math.log2(network * shape)), 0), levels)


def crossing(panel: Panel, model: Model) -> int:
    """The bytes for which equations (25) and (44) give the same time."""
    levels = _levels(panel.ranks)
    share = (panel.ranks - 1) / panel.ranks
    per_byte = (levels - 2 * share) / model.bandwidth + (2 * levels - 2 - share) * model.reduce_cost
    return round(levels * model.step_latency / per_byte)


def rectangular(panel: Panel, model: Model, form: str) -> float:
    """Swing (De Sensi et al.), equation (3): by how much the most loaded link carries more than on a square torus."""
    sides = Topology(panel.setting.topology).dimensions
    others = math.prod(sides) // max(sides)
    return math.log2(max(sides) / min(sides)) / (6 * others)


FORMULAS: dict[str, Callable[..., Any]] = {
    "generalized": generalized,
    "best r": best_r,
    "crossing": crossing,
    "rectangular": rectangular,
}
