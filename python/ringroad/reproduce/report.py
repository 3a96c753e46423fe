"""Tables of figures: every series' times, the paper's statements, and where ours differ."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ringroad._text import bytes_text, print_table, seconds_text
from ringroad.reproduce.claims import Verdict, judge
from ringroad.reproduce.definition import Definition, Figure
from ringroad.reproduce.evaluation import Panel


@dataclass(frozen=True)
class Report:
    """A figure with its panels, and what the paper states of it."""

    definition: Definition
    figure: Figure
    panels: list[Panel]
    verdicts: list[Verdict]

    def json(self) -> dict[str, Any]:
        return {
            "figure": self.figure.name,
            "title": self.figure.title,
            "panels": [_panel(panel) for panel in self.panels],
            "statements": [asdict(verdict) for verdict in self.verdicts],
        }

    def show(self) -> None:
        """Prints it."""
        print(f"{self.figure.name}: {self.figure.title}\n")
        if self.figure.plot == "ranks":
            _print_by_ranks(self.panels)
        elif self.figure.plot != "none":
            for panel in self.panels:
                _print_panel(panel)
        if self.verdicts:
            header = ["on", "the paper states", "quantity", "stated", "ours", "difference", "agrees"]
            rows = [
                [
                    v.panel,
                    v.text,
                    v.quantity,
                    v.stated_text,
                    v.ours_text,
                    v.difference_text,
                    "yes" if v.agrees else "no",
                ]
                for v in self.verdicts
            ]
            print_table(header, rows, right=["stated", "ours", "difference"])
            reasons = dict.fromkeys(
                (v.quantity, v.text, v.why)
                for v in self.verdicts
                if v.why and not (v.agrees and v.difference in (0, None))
            )
            for quantity, text, why in reasons:
                print(f"  {quantity} ({text}): {why}")
            print()


def reproduce(paper: str) -> Iterator[Report]:
    """The figures of one of `PAPERS`, one after the other."""
    definition = Definition.load(paper)
    for figure in definition.figures:
        panels = [Panel(definition, setting, figure.sizes) for setting in figure.settings]
        verdicts = [verdict for claim in figure.claims for verdict in judge(definition.model, figure, claim, panels)]
        yield Report(definition, figure, panels, verdicts)


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "network": panel.label,
        "topology": panel.setting.topology,
        "bandwidth": panel.setting.bandwidth,
        "sizes": panel.sizes,
        "not_offered": panel.missing,
        "series": {
            key: [
                {"bytes": size, "seconds": panel.seconds(key, size), "form": panel.best(key, size).name}
                for size in panel.sizes
            ]
            for key in panel.forms
        },
        "gain": panel.gains(),
    }


def _print_by_ranks(panels: list[Panel]) -> None:
    labels = [panels[0].series[key].label for key in panels[0].forms]
    rows = []
    for panel in panels:
        size = panel.sizes[0]
        times = [seconds_text(panel.seconds(key, size)) for key in panels[0].forms]
        best, gain = panel.series[panel.rival(size)].letter, f"{100 * panel.gain(size):+.0f} %"
        rows.append([str(panel.ranks), *times, best, gain])
    print_table(["ranks", *labels, "best other", "gain"], rows, right=["ranks", *labels, "gain"])
    print()


def _print_panel(panel: Panel) -> None:
    labels = [panel.series[key].label for key in panel.forms]
    rows = [
        [
            bytes_text(size),
            *(seconds_text(panel.seconds(key, size)) for key in panel.forms),
            panel.series[panel.rival(size)].letter,
            f"{100 * panel.gain(size):+.0f} %",
        ]
        for size in panel.sizes
    ]
    print(f"{panel.label}, {panel.ranks} ranks, {8e-9 * panel.setting.bandwidth:g} Gb/s")
    header = ["bytes", *labels, "best other", "gain"]
    print_table(header, rows, right=["bytes", *labels, "gain"])
    if panel.missing:
        print(f"not possible here: {', '.join(panel.series[key].label for key in panel.missing)}")
    print()
