"""Pictures of figures, in the papers' layout: goodput with the gain and small vectors as insets, gains, or boxes."""

from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringroad._support.files import check_own
from ringroad._support.pictures import pyplot
from ringroad._support.text import bytes_text, significant
from ringroad.lab.reproduce.evaluation import Panel
from ringroad.lab.reproduce.report import Report
from ringroad.lab.reproduce.tables import Chart, TableReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SMALL = 32 << 10


def draw(report: Report | TableReport, folder: Path) -> Path | None:
    """Draws a figure into the folder and returns its path, or None for a table without a picture. Needs matplotlib."""
    drawing = pyplot()
    figure = picture(report)
    if figure is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.paper}-{report.name.lower().replace(' ', '-')}.png"
    check_own(path, b"ringroad")
    figure.savefig(path, dpi=120, metadata={"Software": "ringroad"})
    drawing.close(figure)
    return path


def picture(report: Report | TableReport) -> "Figure | None":
    """Draws a figure in the paper's layout, or a table's picture. Needs matplotlib.

    Args:
        report: The report.

    Returns:
        A matplotlib figure; None for a table without a picture.
    """
    if isinstance(report, TableReport):
        return _table(report, report.chart) if report.chart else None
    if report.plot == "none":
        return None
    from matplotlib import pyplot

    apart = {"goodput": _goodput, "time": _time}.get(report.plot)
    panels = len(report.panels) if apart else 1
    columns = panels if panels <= 3 else 2
    rows = -(-panels // columns)
    size = (6.4 * columns, 4.4 * rows + 0.6)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    if apart:
        for axis, panel in zip(axes.flat, report.panels, strict=False):
            apart(panel, axis)
    else:
        {"gain": _gains, "box": _boxes, "ranks": _by_ranks}[report.plot](report.panels, axes[0][0])
    for axis in axes.flat[panels:]:
        axis.set_axis_off()
    figure.suptitle(f"{report.paper.capitalize()}, {report.name}: {report.title}")
    lines = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if lines:
        across = min(len(lines), 3 * columns)
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=across, frameon=False, fontsize=8)
    return figure


def _table(report: TableReport, chart: Chart) -> "Figure":
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 4.6), layout="constrained")
    for (label, points), marker in zip(chart.lines.items(), cycle("osD^v*"), strict=False):
        axis.plot(*zip(*points, strict=True), label=label, alpha=0.8, ls="" if chart.points else "-", marker=marker)
    if chart.log:
        axis.set(xscale="log", yscale="log")
    title = f"{report.paper.capitalize()}, {report.name}{' (ours)' if chart.ours else ''}: {report.title}"
    axis.set(xlabel=chart.x, ylabel=chart.y)
    axis.set_title(title, fontsize=9)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return figure


def _lines(panel: Panel, axis: "Axes", value: Any, sizes: list[int]) -> None:
    for key in panel.forms:
        series, colour = panel.series[key], f"C{panel.numbers[key]}"
        style: dict[str, Any] = {"lw": 2.2 if key == panel.subject else 1.2, "ls": "--" if series.get("aside") else "-"}
        axis.plot(sizes, [value(key, size) for size in sizes], color=colour, label=series["label"], **style)
        changes = [size for before, size in pairwise(sizes) if panel.best(key, before) != panel.best(key, size)]
        axis.plot(changes, [value(key, size) for size in changes], "o", color=colour, markersize=5)


def _sizes_axis(axis: "Axes", sizes: list[int]) -> None:
    axis.set_xscale("log", base=2)
    shown = sizes[::2] if len(sizes) > 8 else sizes
    axis.set_xticks(shown, [bytes_text(size).replace(" ", "") for size in shown], rotation=45, fontsize=7)
    axis.set_xlabel("length of the vector")
    axis.grid(alpha=0.3)


def _goodput(panel: Panel, axis: "Axes") -> None:
    _lines(panel, axis, lambda key, size: 8e-9 * (size / panel.seconds(key, size)), panel.sizes)
    axis.axhline(8e-9 * panel.peak, color="grey", lw=0.8, ls=":")
    _sizes_axis(axis, panel.sizes)
    axis.set_title(panel.label, fontsize=9)
    axis.set_ylabel("goodput in Gb/s")
    # Room above the lines for the insets.
    axis.set_ylim(0, 8e-9 * panel.peak * 1.1)
    gain = axis.inset_axes((0.1, 0.64, 0.42, 0.28))
    gain.plot(panel.sizes, [100 * panel.gain(size) for size in panel.sizes], color="C0", lw=1)
    for size in panel.sizes:
        gain.annotate(panel.series[panel.rival(size)]["letter"], (size, 100 * panel.gain(size)), fontsize=7)
    gain.axhline(0, color="grey", lw=0.6)
    gain.set_xscale("log", base=2)
    gain.margins(y=0.2)
    gain.set_title("gain in %", fontsize=7)
    gain.tick_params(labelsize=7)
    small = axis.inset_axes((0.1, 0.24, 0.36, 0.28))
    sizes = [size for size in panel.sizes if size <= _SMALL]
    _lines(panel, small, lambda key, size: 1e6 * panel.seconds(key, size), sizes)
    slowest = max(panel.seconds(key, sizes[-1]) for key in panel.forms if key != "ring")
    small.set_ylim(0, 1.15e6 * slowest)
    small.set_xscale("log", base=2)
    shown = {key: panel.series[key]["letter"] for key in panel.forms if not panel.series[key].get("aside")}
    times = (f"{letter} {significant(1e6 * panel.seconds(key, sizes[0]))}" for key, letter in shown.items())
    small.set_title(f"us; {bytes_text(sizes[0])}: {', '.join(times)}", fontsize=7)
    small.tick_params(labelsize=7)


def _time(panel: Panel, axis: "Axes") -> None:
    _lines(panel, axis, lambda key, size: 1e6 * panel.seconds(key, size), panel.sizes)
    _sizes_axis(axis, panel.sizes)
    axis.set_yscale("log")
    axis.set_title(panel.label, fontsize=9)
    axis.set_ylabel("microseconds")


def _gains(panels: list[Panel], axis: "Axes") -> None:
    for panel in panels:
        axis.plot(panel.sizes, [100 * gain for gain in panel.gains()], marker="o", markersize=3, label=panel.label)
    axis.axhline(0, color="grey", lw=0.8)
    _sizes_axis(axis, panels[0].sizes)
    axis.set_ylabel(f"gain of {panels[0].series[panels[0].subject]['label']} in %")


def _by_ranks(panels: list[Panel], axis: "Axes") -> None:
    first = panels[0]
    ranks, size = [panel.ranks for panel in panels], first.sizes[0]
    for key in first.forms:
        times = [1e6 * panel.seconds(key, size) for panel in panels]
        axis.plot(ranks, times, marker="o", markersize=3, label=first.series[key]["label"])
    axis.set_yscale("log")
    axis.set_xlabel("ranks")
    axis.set_ylabel("microseconds")
    axis.grid(alpha=0.3)


def _boxes(panels: list[Panel], axis: "Axes") -> None:
    gains = [[100 * gain for gain in panel.gains()] for panel in reversed(panels)]
    labels = [panel.label for panel in reversed(panels)]
    axis.boxplot(gains, orientation="horizontal")
    axis.set_yticks(range(1, len(labels) + 1), labels, fontsize=7)
    axis.axvline(0, color="grey", lw=0.8)
    axis.set_xlabel(f"gain of {panels[0].series[panels[0].subject]['label']} in %")
    axis.grid(alpha=0.3)
