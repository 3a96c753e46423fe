"""What papers state about panels: quantities, equations, and claims in TOML files."""

import math
import statistics
from collections.abc import Callable
from typing import Any

from ringroad._native import Topology
from ringroad._support.text import parse_bytes
from ringroad.lab.reproduce.claims import Verdict
from ringroad.lab.reproduce.evaluation import Panel, cost_of_form, seconds


def _smallest_gain(panel: Panel) -> float:
    # Equal series may differ by rounding; that is a gain of 0.
    smallest = min(panel.gains())
    return 0.0 if abs(smallest) < 1e-12 else smallest


def _largest_gain(panel: Panel, smallest: int = 0, largest: float = math.inf, of: str | None = None) -> float:
    return max(panel.gain(size, of=of) for size in panel.sizes if smallest <= size <= largest)


def _excess(panel: Panel, form: str) -> float:
    """By how much the most loaded link carries more than on a square torus of the shortest side."""
    sides = Topology(panel.topology).dimensions
    square = cost_of_form(form, "torus:" + "x".join([str(min(sides))] * len(sides)), **panel.model)
    assert square is not None, f"{form} does not run on the square torus"
    return panel.form(form).worst_link - square.worst_link


def _form_margin(panel: Panel, form: str, among: list[str]) -> float:
    """The least margin by which a form is faster than others, over the sizes for which it is the subject's best
    form."""
    costs = {name: cost for forms in panel.forms.values() for name, cost in forms.items()}
    others = [costs[name] for name in among if name in costs]
    sizes = [size for size in panel.sizes if panel.best(panel.subject, size) == form]
    return min(seconds(other, size) / seconds(costs[form], size) for size in sizes for other in others) - 1


QUANTITIES: dict[str, tuple[Callable[..., Any], str]] = {
    "gain": (Panel.gain, "percent"),
    "largest gain": (_largest_gain, "percent"),
    "smallest gain": (_smallest_gain, "percent"),
    "median gain": (lambda panel: statistics.median(panel.gains()), "percent"),
    "gain over": (Panel.gain, "percent"),
    "growth": (
        lambda panel, over, smallest, largest: panel.gain(largest, over) - panel.gain(smallest, over),
        "percent",
    ),
    "sweet spot": (Panel.sweet_spot, "bytes"),
    "leads until": (Panel.leads_until, "bytes"),
    "winner": (Panel.winner, "name"),
    "goodput": (lambda panel, key, size: size / panel.seconds(key, size) / panel.peak, "percent"),
    "form time": (lambda panel, form, size: seconds(panel.form(form), size), "seconds"),
    "best r": (lambda panel, key, size: int(panel.best(key, size).partition(":")[2]), "number"),
    "steps": (lambda panel, form: panel.form(form).steps, "number"),
    "Lambda": (lambda panel, form: panel.form(form).latency_deficiency, "number"),
    "Psi": (lambda panel, form: panel.form(form).bandwidth_deficiency, "number"),
    "Xi": (lambda panel, form: panel.form(form).congestion_deficiency, "number"),
    "Psi Xi": (lambda panel, form: panel.form(form).worst_link, "number"),
    "excess": (_excess, "number"),
    "margin": (_form_margin, "percent"),
}
"""The quantities of a panel, each with its function and unit."""


def _levels(panel: Panel) -> int:
    return math.ceil(math.log2(panel.ranks))


def generalized(panel: Panel, form: str, size: int) -> float:
    """Kolmakov, Zhang, arXiv 2004.09362, equations (25) for r = 0, (44) for r = L, and (36) between, in seconds."""
    ranks, levels, r = panel.ranks, _levels(panel), int(form.partition(":")[2])
    sent, reduced = 2 * (ranks - 1), ranks - 1
    if r == levels:
        sent, reduced = ranks * levels, ranks * (2 * levels - 2)
    elif r > 0:
        sent += (2**r - 1) * (levels - 1)
        reduced += (2**r - 1) * (2 * levels - 2)
    per_byte: float = sent / panel.model["bandwidth"] + reduced * panel.model["reduce_cost"]
    return (2 * levels - r) * panel.model["step_latency"] + size / ranks * per_byte


def best_r(panel: Panel, key: str, size: int) -> int:
    """The best r by equation (37) of the same paper, rounded and limited to 0 to L."""
    network = panel.model["step_latency"] / (size * (1 / panel.model["bandwidth"] + 2 * panel.model["reduce_cost"]))
    shape = panel.ranks / ((math.log2(panel.ranks) - 1) * math.log(2))
    return min(max(round(math.log2(network * shape)), 0), _levels(panel))


def crossing(panel: Panel) -> int:
    """The bytes for which equations (25) and (44) give the same time."""
    levels, share, model = _levels(panel), (panel.ranks - 1) / panel.ranks, panel.model
    per_byte = (levels - 2 * share) / model["bandwidth"] + (2 * levels - 2 - share) * model["reduce_cost"]
    return round(levels * model["step_latency"] / per_byte)


def rectangular(panel: Panel, form: str) -> float:
    """Swing (De Sensi et al.), equation (3): by how much the most loaded link carries more than on a square torus."""
    sides = Topology(panel.topology).dimensions
    others = math.prod(sides) // max(sides)
    return math.log2(max(sides) / min(sides)) / (6 * others)


EQUATIONS: dict[str, Callable[..., Any]] = {
    "generalized": generalized,
    "best r": best_r,
    "crossing": crossing,
    "rectangular": rectangular,
}
"""Equations of papers, to compare with schedules. They take the arguments of the quantity."""

_SIZES = ("size", "smallest", "largest")
"""Arguments that are lengths in bytes."""


def judge(
    figure: str,
    there: list[Panel],
    *,
    text: str,
    quantity: str,
    stated: Any = None,
    at_least: Any = None,
    at_most: Any = None,
    formula: str = "",
    panels: list[int] | None = None,
    **rest: Any,
) -> list[Verdict]:
    """The verdicts of a claim in a TOML file on each of its panels, or on all of them.

    The paper's value is a number or a name that is `stated`, a bound, or computed by one of `EQUATIONS`. The rest are
    the quantity's arguments and other attributes of `Verdict`.
    """
    measure, unit = QUANTITIES[quantity]
    about: dict[str, Any] = {name: rest.pop(name) for name in ("margin", "ours_stated", "why", "kind") if name in rest}
    arguments = {name: parse_bytes(value) if name in _SIZES else value for name, value in rest.items()}
    given = {"": stated, ">= ": at_least, "<= ": at_most}
    bound, value = next(((bound, value) for bound, value in given.items() if value is not None), ("", None))
    if isinstance(value, str) and unit == "bytes":
        value = parse_bytes(value)
    verdicts = []
    for panel in there if panels is None else [there[index] for index in panels]:
        value = EQUATIONS[formula](panel, **arguments) if formula else value
        about |= {"unit": unit, "bound": bound, "stated": value, "ours": measure(panel, **arguments)}
        verdicts.append(Verdict(figure, panel.label, text, quantity, **about))
    return verdicts
