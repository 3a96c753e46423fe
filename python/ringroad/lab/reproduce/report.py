"""Tables of figures: every series' times, and the paper's statements beside our values."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ringroad._support.text import bytes_text, print_table, print_wrapped, seconds_text
from ringroad.lab.reproduce import basu, zhao
from ringroad.lab.reproduce.claims import Verdict, print_verdicts
from ringroad.lab.reproduce.definition import Definition
from ringroad.lab.reproduce.evaluation import Panel
from ringroad.lab.reproduce.quantities import judge
from ringroad.lab.reproduce.tables import TableReport

TABLES = {"zhao": zhao.reports, "basu": basu.reports}
"""The functions that make the tables of papers that compare networks."""


@dataclass(frozen=True)
class Report:
    """A figure with its panels, and what the paper states of it.

    Attributes:
        paper: One of `PAPERS`.
        name: The figure's name in the paper.
        title: What it shows.
        plot: What its panels show over the sizes: "goodput", "time", "gain", "box", "ranks" or "none".
        panels: The panels, with computed times.
        verdicts: The paper's statements beside the computed values.
    """

    paper: str
    name: str
    title: str
    plot: str
    panels: list[Panel]
    verdicts: list[Verdict]

    def json(self) -> dict[str, Any]:
        """Returns the figure as a dictionary for JSON."""
        return {
            "figure": self.name,
            "title": self.title,
            "panels": [_panel(panel) for panel in self.panels],
            "statements": [asdict(verdict) for verdict in self.verdicts],
        }

    def show(self) -> None:
        """Prints the figure as a table, and the statements."""
        print_wrapped(f"{self.name}: {self.title}\n")
        if self.plot != "none":
            _PRINTED[self.plot](self.panels)
        print_verdicts(self.verdicts)


def reproduce(paper: str, figure: str | None = None) -> Iterator[Report | TableReport]:
    """Recomputes the figures of a paper with the cost model, one after the other.

    Args:
        paper: One of `PAPERS`.
        figure: Only those of this name, such as "Figure 7". None: all of them.

    Returns:
        An iterator of `Report`, or of `TableReport` for papers that compare networks.

    Raises:
        ValueError: It is another paper, or the paper has no such figure. The message lists those that it has.

    Example:
        >>> from ringroad.lab.reproduce import reproduce
        >>> (report,) = reproduce("kolmakov", "Figure 11")
        >>> all(verdict.agrees for verdict in report.verdicts)
        True
    """
    definition = Definition.load(paper)
    made: Mapping[str, Callable[[], Report | TableReport]]
    if paper in TABLES:
        made = TABLES[paper](definition)
    else:
        made = {entry["name"]: partial(_report, definition, entry) for entry in definition.data["figure"]}
    chosen = [make for name, make in made.items() if figure in (None, name)]
    if not chosen:
        raise ValueError(f"{paper} has no figure {figure!r} here; expected one of: {', '.join(made)}")
    return (make() for make in chosen)


def _report(definition: Definition, figure: Mapping[str, Any]) -> Report:
    name = figure["name"]
    panels = [Panel(definition, figure, network) for network in figure["panels"]]
    verdicts = [verdict for claim in figure["claims"] for verdict in judge(name, panels, **claim)]
    return Report(definition.paper, name, figure["title"], figure["plot"], panels, verdicts)


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "network": panel.label,
        "topology": panel.topology,
        "bandwidth": panel.bandwidth,
        "sizes": panel.sizes,
        "not_offered": panel.missing,
        "series": {
            key: [
                {"bytes": size, "seconds": panel.seconds(key, size), "form": panel.best(key, size)}
                for size in panel.sizes
            ]
            for key in panel.forms
        },
        "gain": panel.gains(),
    }


def _percent(part: float) -> str:
    return f"{round(100 * part):+d} %"


def _cells(panel: Panel, size: int) -> list[str]:
    """The time of each series, the letter of the best other one, and the gain over it."""
    times = [seconds_text(panel.seconds(key, size)) for key in panel.forms]
    return [*times, panel.series[panel.rival(size)]["letter"], _percent(panel.gain(size))]


def _print_times(first: str, panel: Panel, rows: list[list[str]]) -> None:
    labels = [panel.series[key]["label"] for key in panel.forms]
    print_table([first, *labels, "best other", "gain"], rows, right=[first, *labels, "gain"])
    if panel.missing:
        print_wrapped(f"not possible here: {', '.join(panel.series[key]['label'] for key in panel.missing)}")
    print()


def _print_by_ranks(panels: list[Panel]) -> None:
    """The times of all panels, which have one size."""
    _print_times("ranks", panels[0], [[str(panel.ranks), *_cells(panel, panel.sizes[0])] for panel in panels])


def _print_by_size(panels: list[Panel]) -> None:
    for panel in panels:
        ranks = f"{panel.ranks} ranks"
        label = panel.label if panel.label == ranks else f"{panel.label}, {ranks}"
        print_wrapped(f"{label}, {8e-9 * panel.bandwidth:g} Gb/s")
        _print_times("bytes", panel, [[bytes_text(size), *_cells(panel, size)] for size in panel.sizes])


def _print_gains(panels: list[Panel]) -> None:
    """Gains on all panels, each with the letter of the best other one."""
    header = ["bytes", *(panel.label for panel in panels)]
    rows = [
        [bytes_text(size), *(f"{gain} {letter}" for *_, letter, gain in (_cells(panel, size) for panel in panels))]
        for size in panels[0].sizes
    ]
    print_table(header, rows, right=header)
    print()


def _print_quartiles(panels: list[Panel]) -> None:
    header = ["network", "least gain", "first quartile", "median", "third quartile", "largest", "at"]
    rows = []
    for panel in panels:
        gains = panel.gains()
        values = (min(gains), *statistics.quantiles(gains, n=4, method="inclusive"), max(gains))
        rows.append([panel.label, *map(_percent, values), bytes_text(panel.sweet_spot())])
    print_table(header, rows, right=header[1:])
    print()


_PRINTED = {
    "goodput": _print_by_size,
    "time": _print_by_size,
    "gain": _print_gains,
    "box": _print_quartiles,
    "ranks": _print_by_ranks,
}
"""How a figure is printed, by its plot."""
