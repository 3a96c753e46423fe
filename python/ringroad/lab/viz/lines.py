"""Times of algorithms over the length of the vector."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from ringroad._support.pictures import need_matplotlib
from ringroad.lab.viz.axes import log_bytes, log_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def lines(
    sizes: Sequence[int],
    times: Mapping[str, Sequence[float]],
    *,
    title: str,
    measured: Mapping[str, Mapping[int, float]] | None = None,
    axes: "Axes | None" = None,
) -> "Figure":
    """Draws seconds over bytes: by algorithm those of all sizes, and what was measured as dots. Infinite ones have no
    line, and a dash in the legend."""
    need_matplotlib()
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    if axes is None:
        _, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    for index, (name, seconds) in enumerate(times.items()):
        fits = all(map(isfinite, seconds))
        axes.plot(*((sizes, seconds) if fits else ([], [])), color=f"C{index}", label=name if fits else f"{name}: -")
        if measured and name in measured:
            points = sorted(measured[name].items())
            axes.plot([b for b, _ in points], [s for _, s in points], "o--", color=f"C{index}", linewidth=0.7)
    log_bytes(axes)
    log_seconds(axes)
    axes.grid(alpha=0.3)
    handles, _ = axes.get_legend_handles_labels()
    if measured:
        handles.append(Line2D([], [], marker="o", ls="--", lw=0.7, color="grey", label="measured"))
    axes.legend(handles=handles, fontsize=8)
    axes.set_title(title)
    return figure_of(axes)


def figure_of(axes: "Axes") -> "Figure":
    """The figure of these axes."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure
