"""Compares a paper's statements with the model: quantities of a panel, and the differences."""

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from itertools import groupby
from typing import Any

from ringroad._support.text import bytes_text, parse_bytes, print_table, print_wrapped, seconds_text, significant
from ringroad.lab.reproduce.definition import Claim, Figure, Kind, Model
from ringroad.lab.reproduce.evaluation import Panel
from ringroad.lab.reproduce.formulas import FORMULAS


def _smallest_gain(panel: Panel) -> float:
    # Equal series may differ by rounding; that is a gain of 0.
    smallest = min(panel.gains())
    return 0.0 if abs(smallest) < 1e-12 else smallest


def _excess(panel: Panel, form: str) -> float:
    """By how much the most loaded link carries more than on a square torus of the shortest side."""
    return panel.form(form).cost.worst_link - panel.on_square(form).cost.worst_link


def _form_margin(panel: Panel, form: str, among: list[str]) -> float:
    """The least margin by which a form is faster than others, over the sizes for which it is the subject's best
    form."""
    there = {found.name for forms in panel.forms.values() for found in forms}
    others = [panel.form(name) for name in among if name in there]
    sizes = [size for size in panel.sizes if panel.best(panel.subject, size).name == form]
    return min(other.seconds(size) / panel.form(form).seconds(size) for size in sizes for other in others) - 1


def _of_cost(name: str) -> Callable[[Panel, str], Any]:
    return lambda panel, form: getattr(panel.form(form).cost, name)


QUANTITIES: dict[str, tuple[Callable[..., Any], str]] = {
    "gain": (Panel.gain, "percent"),
    "largest gain": (
        lambda panel, smallest=0, largest=math.inf, of=None: max(
            panel.gain(size, of=of) for size in panel.sizes if smallest <= size <= largest
        ),
        "percent",
    ),
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
    "goodput": (lambda panel, key, size: panel.goodput(key, size) / panel.peak, "percent"),
    "form time": (lambda panel, form, size: panel.form(form).seconds(size), "seconds"),
    "best r": (lambda panel, key, size: int(panel.best(key, size).name.partition(":")[2]), "number"),
    "steps": (_of_cost("steps"), "number"),
    "Lambda": (_of_cost("latency_deficiency"), "number"),
    "Psi": (_of_cost("bandwidth_deficiency"), "number"),
    "Xi": (_of_cost("congestion_deficiency"), "number"),
    "Psi Xi": (_of_cost("worst_link"), "number"),
    "excess": (_excess, "number"),
    "margin": (_form_margin, "percent"),
}
"""The quantities of a panel, each with its function and unit."""

MEANINGS = {
    "gain": "goodput over that of the best other series, less 1",
    "growth": "increase of the gain over another series from a small size to a large one",
    "sweet spot": "the size with the largest gain",
    "leads until": "the largest size up to which it is the fastest",
    "margin": "the least advantage over the others, where it is the best form",
    "goodput": "fraction of the peak",
    "Lambda": "steps over log2 of the ranks",
    "Psi": "bytes that a rank sends over the least possible",
    "Xi": "load of the most loaded link over its load without congestion",
    "Psi Xi": "load of the most loaded link over the least possible",
    "excess": "Psi Xi, less that of a square torus of the shorter side",
}
"""Explanations of quantities whose names do not explain themselves."""


@dataclass(frozen=True)
class Verdict:
    """A statement of a paper beside the computed value.

    Attributes:
        figure: The figure that it is about.
        panel: The panel that it is about.
        text: The statement in words.
        quantity: What is stated.
        unit: The unit of both values.
        stated: The paper's value.
        bound: ">= " or "<= " if the paper states a bound, else empty.
        ours: The computed value.
        difference: How far the two are apart; None for names.
        agrees: Whether they are close enough.
        margin: How far apart values that agree may be; for bytes a factor.
        ours_stated: Whether the paper has words only, and `stated` is our reading of them.
        why: Why they differ, if it is known.
        kind: "statement"; "fit" if an assumption was fitted to it; "check" if it is ours and the paper has no such
            statement.
    """

    figure: str
    panel: str
    text: str
    quantity: str
    _: KW_ONLY
    unit: str = "number"
    stated: Any
    bound: str = ""
    ours: Any
    difference: float | None = field(init=False)
    agrees: bool = field(init=False)
    margin: float = 0.0
    ours_stated: bool = False
    why: str = ""
    kind: Kind = "statement"

    def __post_init__(self) -> None:
        difference, agrees = None, self.ours == self.stated
        if self.unit != "name":
            difference = self.ours - self.stated
            # Rounding errors are no difference.
            if abs(difference) <= 1e-12 * abs(self.stated):
                difference = 0.0
            low, high = -self.margin, self.margin
            if self.unit == "bytes" and self.margin:
                low, high = self.stated / self.margin - self.stated, self.stated * self.margin - self.stated
            agrees = (self.bound == "<= " or difference >= low) and (self.bound == ">= " or difference <= high)
        object.__setattr__(self, "difference", difference)
        object.__setattr__(self, "agrees", agrees)

    @property
    def stated_text(self) -> str:
        """The paper's value as text, with a star if the paper has words only."""
        return f"{self.bound}{_shown(self.stated, self.unit)}{'*' if self.ours_stated else ''}"

    @property
    def tolerance_text(self) -> str:
        """How far apart values that agree may be, as text. That of a bound is one-sided."""
        if self.unit == "name":
            return ""
        side = "<= " if self.bound and self.margin else ""
        if self.unit == "bytes":
            return f"{side}x{significant(self.margin)}" if self.margin else "0"
        return side + _shown(self.margin, "points" if self.unit == "percent" else self.unit)

    @property
    def ours_text(self) -> str:
        """The computed value as text."""
        return _shown(self.ours, self.unit)

    @property
    def difference_text(self) -> str:
        """How far the two values are apart, as text."""
        if self.difference is None:
            return "none" if self.agrees else "another one"
        if self.unit == "bytes":
            return "0" if self.difference == 0 else f"x{self.ours / self.stated:.3g}"
        sign = "+" if self.difference > 0 else "-" if self.difference < 0 else ""
        return f"{sign}{_shown(abs(self.difference), 'points' if self.unit == 'percent' else self.unit)}"


def _shown(value: Any, unit: str) -> str:
    if isinstance(value, str):
        return value
    match unit:
        case "percent" | "points":
            return f"{100 * value:.0f}" + (" %" if unit == "percent" else " points")
        case "tenths":
            return f"{100 * value:.1f} %"
        case "bytes":
            return bytes_text(int(value))
        case "seconds":
            return seconds_text(value)
        case _:
            return str(value) if isinstance(value, int) else f"{value:.4g}"


def judge(model: Model, figure: Figure, claim: Claim, panels: list[Panel]) -> list[Verdict]:
    """The verdicts of a claim on each of its panels. Raises ValueError for an unknown quantity."""
    if claim.quantity not in QUANTITIES:
        raise ValueError(
            f"{figure.name} states the unknown quantity {claim.quantity!r}; expected one of: {', '.join(QUANTITIES)}"
        )
    wanted = range(len(panels)) if claim.panels is None else claim.panels
    return [_judge(model, figure.name, claim, panels[index]) for index in wanted]


def _judge(model: Model, figure: str, claim: Claim, panel: Panel) -> Verdict:
    measure, unit = QUANTITIES[claim.quantity]
    sizes = {"size", "smallest", "largest"}
    arguments = {name: parse_bytes(value) if name in sizes else value for name, value in claim.arguments.items()}
    given: dict[str, Any] = {"": claim.stated, ">= ": claim.at_least, "<= ": claim.at_most}
    if claim.formula:
        given[""] = FORMULAS[claim.formula](panel, model, **arguments)
    bound, stated = next((bound, value) for bound, value in given.items() if value is not None)
    if isinstance(stated, str) and unit == "bytes":
        stated = parse_bytes(stated)
    return Verdict(
        figure,
        panel.label,
        claim.text,
        claim.quantity,
        unit=unit,
        stated=stated,
        bound=bound,
        ours=measure(panel, **arguments),
        margin=claim.margin,
        ours_stated=claim.ours,
        why=claim.why,
        kind=claim.kind,
    )


HEADINGS: dict[Kind, str] = {
    "statement": "the paper states",
    "fit": "the paper states, and we fitted to it",
    "check": "we check",
}
"""The heading of each kind's statements. Those of each kind have a table of their own."""


def counted(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """The numbers of statements and of our checks, and how many of them agree; and of statements that do not count,
    because an assumption was fitted to them.
    """
    kinds: dict[Kind, list[bool]] = {kind: [] for kind in HEADINGS}
    for verdict in verdicts:
        kinds[verdict.kind].append(verdict.agrees)
    return {
        "statements": len(kinds["statement"]),
        "agreeing": sum(kinds["statement"]),
        "checks": len(kinds["check"]),
        "checks_agreeing": sum(kinds["check"]),
        "fitted": len(kinds["fit"]),
    }


def counts_text(verdicts: Iterable[Verdict]) -> str:
    """The same as a sentence."""
    count = counted(verdicts)
    text = f"{count['agreeing']} of {count['statements']} statements agree"
    if count["checks"]:
        text += f"; {count['checks_agreeing']} of {count['checks']} checks of ours hold"
    if count["fitted"]:
        text += f"; {count['fitted']} statements do not count, because assumptions were fitted to them"
    return text


def print_verdicts(verdicts: list[Verdict]) -> None:
    """Prints statements beside our values, with tolerances. Panels on which a statement agrees alike share a row."""
    for kind, heading in HEADINGS.items():
        _print_kind(heading, [verdict for verdict in verdicts if verdict.kind == kind])


def _print_kind(heading: str, verdicts: list[Verdict]) -> None:
    if not verdicts:
        return
    header = ["on", heading, "quantity", "stated", "tolerance", "ours", "difference", "agrees", "note"]
    notes: dict[str, int] = {}
    rows = []
    differing = {(v.quantity, v.text) for v in verdicts if not v.agrees}
    for _, group in groupby(verdicts, key=_shared_row):
        alike = list(group)
        first = alike[0]
        asked = any(v.difference not in (0, None) for v in alike) and (first.quantity, first.text) not in differing
        explained = first.why and (asked or not first.agrees)
        note = f"[{notes.setdefault(first.why, len(notes) + 1)}]" if explained else ""
        together = [first.panel] if len(alike) == 1 else [f"{len(alike)} networks"]
        measured = [_between([getattr(v, name) for v in _ordered(alike)]) for name in ("ours_text", "difference_text")]
        agrees = "yes" if first.agrees else "no"
        texts = [first.text, first.quantity, first.stated_text, first.tolerance_text, *measured, agrees, note]
        rows.append(together + texts)
    print_table(header, rows, right=["stated", "tolerance", "ours", "difference"])
    for why, number in notes.items():
        print_wrapped(f"  [{number}] {why}", "      ")
    if any(verdict.ours_stated for verdict in verdicts):
        print_wrapped("  * the paper has words and no number; this number is ours", "    ")
    meanings = {v.quantity: MEANINGS[v.quantity] for v in verdicts if v.quantity in MEANINGS}
    if meanings:
        print_wrapped("  " + "; ".join(f"{quantity}: {meaning}" for quantity, meaning in meanings.items()), "  ")
    print()


def _shared_row(verdict: Verdict) -> tuple[object, ...]:
    """The key by which statements share a row. A statement that does not agree has a row of its own."""
    shared = (verdict.quantity, verdict.text, verdict.stated_text, verdict.agrees)
    return shared if verdict.agrees else (*shared, verdict.panel)


def _ordered(verdicts: list[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda v: (v.difference or 0, v.ours_text))


def _between(texts: list[str]) -> str:
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"
