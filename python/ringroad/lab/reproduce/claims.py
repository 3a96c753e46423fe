"""Statements of papers beside our values: differences, counts and tables."""

from dataclasses import KW_ONLY, dataclass, field
from itertools import groupby
from typing import Any, Literal

from ringroad._support.text import bytes_text, print_table, print_wrapped, seconds_text, significant

Kind = Literal["statement", "fit", "check"]
"""What is compared: a statement of the paper; a statement to which an assumption was fitted, whose agreement proves
nothing; or a check of ours, of which the paper says nothing."""

HEADINGS: dict[Kind, str] = {
    "statement": "the paper states",
    "fit": "the paper states, and we fitted to it",
    "check": "we check",
}
"""The heading of each kind's statements. Those of each kind have a table of their own."""

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


def counted(verdicts: list[Verdict]) -> dict[str, int]:
    """The numbers of statements and of our checks, and how many of them agree; and of statements that do not count,
    because an assumption was fitted to them.
    """
    agrees = {kind: [verdict.agrees for verdict in verdicts if verdict.kind == kind] for kind in HEADINGS}
    return {
        "statements": len(agrees["statement"]),
        "agreeing": sum(agrees["statement"]),
        "checks": len(agrees["check"]),
        "checks_agreeing": sum(agrees["check"]),
        "fitted": len(agrees["fit"]),
    }


def counts_text(verdicts: list[Verdict]) -> str:
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
        if of_kind := [verdict for verdict in verdicts if verdict.kind == kind]:
            _print_kind(heading, of_kind)


def _print_kind(heading: str, verdicts: list[Verdict]) -> None:
    header = ["on", heading, "quantity", "stated", "tolerance", "ours", "difference", "agrees", "note"]
    notes: dict[str, int] = {}
    rows = []
    differing = {(v.quantity, v.text) for v in verdicts if not v.agrees}
    for _, group in groupby(verdicts, key=_shared_row):
        alike = list(group)
        first, ordered = alike[0], sorted(alike, key=lambda v: (v.difference or 0, v.ours_text))
        asked = any(v.difference for v in alike) and (first.quantity, first.text) not in differing
        explained = first.why and (asked or not first.agrees)
        note = f"[{notes.setdefault(first.why, len(notes) + 1)}]" if explained else ""
        rows.append(
            [
                first.panel if len(alike) == 1 else f"{len(alike)} networks",
                *(first.text, first.quantity, first.stated_text, first.tolerance_text),
                _between(ordered[0].ours_text, ordered[-1].ours_text),
                _between(ordered[0].difference_text, ordered[-1].difference_text),
                *("yes" if first.agrees else "no", note),
            ]
        )
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
    return verdict.quantity, verdict.text, verdict.stated_text, verdict.agrees or verdict.panel


def _between(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"
