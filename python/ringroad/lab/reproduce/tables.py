"""Tables whose rows are networks or other things than sizes of vectors, and the statements in them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ringroad._support.text import print_table, print_wrapped
from ringroad.lab.reproduce.claims import Verdict, print_verdicts
from ringroad.lab.reproduce.definition import Definition

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A picture of a table: named lines of (x, y), with `points` single points, with `log` on logarithmic axes. `ours`:
    the layout is ours, because the paper's picture is not known, only its axes."""

    x: str
    y: str
    lines: dict[str, Points]
    points: bool = False
    log: bool = False
    ours: bool = False


@dataclass
class TableReport:
    """A table of a paper, recomputed.

    Attributes:
        paper: One of `PAPERS`.
        name: The table's name in the paper.
        title: What it shows.
        notes: Lines of text.
        header: The names of the columns.
        rows: The cells as text.
        right: The names of the columns that are aligned to the right. None: all but the first.
        verdicts: All statements of the table.
        inside: Whether the rows show the statements; otherwise they are printed after the table.
        chart: The picture of the table, if it has one.
    """

    paper: str
    name: str
    title: str
    notes: list[str] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    right: list[str] | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    inside: bool = False
    chart: Chart | None = None

    def state(self, panel: str, text: str, quantity: str, **rest: Any) -> Verdict:
        """Adds a statement.

        Args:
            panel: What it is about.
            text: The statement in words.
            quantity: What is stated.
            rest: The other attributes of `Verdict`.

        Returns:
            The statement beside our value.
        """
        self.verdicts.append(Verdict(self.name, panel, text, quantity, **rest))
        return self.verdicts[-1]

    def json(self) -> dict[str, Any]:
        """Returns the table as a dictionary for JSON."""
        return {
            "figure": self.name,
            "title": self.title,
            "rows": [dict(zip(self.header, row, strict=True)) for row in self.rows],
            "notes": self.notes,
            "statements": [asdict(verdict) for verdict in self.verdicts],
        }

    def show(self) -> None:
        """Prints the table, its notes and its statements."""
        print_wrapped(f"{self.name}: {self.title}\n")
        print_table(self.header, self.rows, right=self.header[1:] if self.right is None else self.right)
        for note in self.notes:
            print_wrapped(f"  {note}", "  ")
        print()
        if not self.inside:
            print_verdicts(self.verdicts)


def made(definition: Definition, tables: Mapping[str, Callable[..., None]]) -> dict[str, Callable[[], TableReport]]:
    """How to make each table: a function of `tables` fills it, with the table's data in the definition."""
    return {name: partial(_make, definition, name, fill) for name, fill in tables.items()}


def _make(definition: Definition, name: str, fill: Callable[..., None]) -> TableReport:
    data = dict(definition.data[name])
    report = TableReport(definition.paper, name, data.pop("title"), [*data.pop("notes", [])])
    fill(report, **data)
    return report


def yes(*holds: bool) -> str:
    """A cell that says whether all of these hold."""
    return "yes" if all(holds) else "no"
