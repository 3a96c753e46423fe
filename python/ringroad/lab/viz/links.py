"""The loads of links, step by step: the network with its links in the colour of their load."""

import importlib
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ringroad._support.pictures import need_matplotlib
from ringroad._support.text import runs_text, seconds_text, significant
from ringroad.lab.viz.axes import unit_of_size, unit_of_time
from ringroad.lab.viz.layout import Drawing, draw
from ringroad.lab.viz.subjects import Loaded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SAYS = {"bytes": "load of the link", "seconds": "time of the link"}
_COLOURS = "plasma_r"
_IDLE = "#d8d8d8"
_FAILED = "#d62728"
_NAMED = 128  # ranks; more have no room for their numbers
_PANELS = 12
_PAGE = (12.0, 16.0)
"""The width of a picture of several steps, and the height of one whose steps nobody has chosen, in inches."""


def link_loads(
    simulation: Loaded,
    *,
    steps: "list[int] | None" = None,
    columns: int = 4,
    by: Literal["bytes", "seconds"] = "bytes",
) -> "Figure":
    """Draws what every link carries, a panel for each step. Crosses are links that have failed. The title says which
    steps are left out. Needs matplotlib.

    Args:
        simulation: A `Simulation` with details.
        steps: The steps to draw. None: at most 12, and as many as fit a page, spread over all.
        columns: The most panels side by side. Fewer are in a row where these would be wider than 12 inches.
        by: What colours say: the bytes of each link, or how long they take it, where links have different rates.

    Returns:
        A matplotlib figure.

    Raises:
        ValueError: The simulation has no details, or `by` is something else.
    """
    need_matplotlib()
    from matplotlib import pyplot

    loads, top, unit = _by_step(simulation, by)
    drawing = draw(simulation.topology)
    size = panel_size(drawing, most=5.5, unit=0.5)
    beside, below = (max(1, int((page - 1) / panel)) for page, panel in zip(_PAGE, size, strict=True))
    columns = min(columns, beside)
    chosen = _spread(simulation.steps, columns * below) if steps is None else steps
    rows = max(1, -(-len(chosen) // columns))
    width = min(columns, max(1, len(chosen)))
    figure, panels = pyplot.subplots(
        rows, width, figsize=(size[0] * width + 1, size[1] * rows + 0.6), squeeze=False, layout="constrained"
    )
    for panel, step in zip(panels.flat, chosen, strict=False):
        _paint_step(panel, simulation, drawing, loads[step], top, unit, step)
    for panel in panels.flat[len(chosen) :]:
        panel.axis("off")
    _explain(figure, simulation, drawing, panels, top, f"{_SAYS[by]} in {unit}")
    if left_out := sorted(set(range(simulation.steps)) - set(chosen)):
        figure.suptitle(f"{simulation.title}\n{_left_out(left_out, simulation.steps, 45 * width)}")
    return figure


def animate(simulation: Loaded, *, milliseconds: int = 700, by: Literal["bytes", "seconds"] = "bytes") -> Any:
    """Draws what every link carries, with a slider for the steps, for notebooks. Needs matplotlib and IPython.

    Args:
        simulation: A `Simulation` with details.
        milliseconds: How long each step is shown.
        by: As for `link_loads`.

    Returns:
        An IPython.display.HTML object.

    Raises:
        ValueError: As for `link_loads`.
    """
    need_matplotlib()
    from matplotlib import pyplot
    from matplotlib.animation import FuncAnimation

    loads, top, unit = _by_step(simulation, by)
    drawing = draw(simulation.topology)
    width, height = panel_size(drawing)
    size = (max(1.4 * width + 1, 5), max(1.4 * height + 1, 3))
    figure, panel = pyplot.subplots(figsize=size, layout="constrained")
    _explain(figure, simulation, drawing, panel, top, f"{_SAYS[by]} in {unit}")

    def frame(step: int) -> list[Any]:
        panel.clear()
        _paint_step(panel, simulation, drawing, loads[step], top, unit, step)
        return []

    steps = simulation.steps
    animation = FuncAnimation(figure, frame, frames=steps, init_func=lambda: [], interval=milliseconds)
    page = animation.to_jshtml(default_mode="once")
    pyplot.close(figure)
    return importlib.import_module("IPython.display").HTML(page)


def _spread(steps: int, fitting: int) -> list[int]:
    most = min(fitting, _PANELS)
    if steps <= most:
        return list(range(steps))
    return [int(step) for step in np.unique(np.linspace(0, steps - 1, most).round())]


def _left_out(steps: list[int], all_steps: int, columns: int) -> str:
    """Which steps are not drawn, in lines of at most this many characters."""
    text = f"not drawn: steps {runs_text(steps)} of 0-{all_steps - 1}"
    return "\n".join(wrap(text, columns, break_on_hyphens=False))


def _by_step(simulation: Loaded, by: str) -> tuple[list[dict[int, float]], float, str]:
    """The load of each step's links in a unit, the maximum of all, and the unit."""
    if by not in _SAYS:
        raise ValueError(f"links are coloured by {' or by '.join(_SAYS)}, not by {by!r}")
    loads: list[dict[int, float]] = [{} for _ in range(simulation.steps)]
    carried = simulation.link_loads
    if any(simulation.loads) and not carried:
        raise ValueError("this simulation kept no loads of steps; simulate with details=True")
    most = max((getattr(load, by) for load in carried), default=0.0)
    unit, size = unit_of_size(most) if by == "bytes" else unit_of_time(most)
    for load in carried:
        loads[load.step][load.link] = getattr(load, by) / size
    return loads, most / size or 1.0, unit


def _explain(figure: "Figure", simulation: Loaded, drawing: Drawing, panels: Any, top: float, label: str) -> None:
    """Adds the scale of colours, the legend and the title."""
    figure.colorbar(scale(top), ax=panels, label=label, shrink=0.8)
    legend(figure, drawing, simulation.topology.ranks, failed=bool(simulation.failed_links))
    figure.suptitle(simulation.title)


def legend(figure: "Figure", drawing: Drawing, ranks: int, failed: bool = False) -> None:
    """Adds a legend below the panels: what is neither a rank nor a link with a load."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=_IDLE, lw=3, label="idle link")]
    if failed or len(drawing.removed):
        handles.append(Line2D([], [], color=_FAILED, marker="x", ls=":", lw=1, label="failed link"))
    if len(drawing.nodes) > ranks:
        handles.append(Line2D([], [], color="black", marker="s", ls="", ms=6, label="switch or memory"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)


def scale(top: float) -> Any:
    """The scale of colours for loads up to `top`."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(0, top), _COLOURS)


def panel_size(drawing: Drawing, most: float = 7.0, unit: float = 0.7) -> tuple[float, float]:
    """Width and height of a panel of at most this many inches, with this many between neighbours."""
    spread = drawing.nodes.max(axis=0) - drawing.nodes.min(axis=0) + 1.5
    width, height = spread * min(unit, most / float(spread.max()))
    return max(float(width), 2.4), max(float(height), 1.2)


def _paint_step(
    panel: "Axes",
    simulation: Loaded,
    drawing: Drawing,
    loads: dict[int, float],
    top: float,
    unit: str,
    step: int,
) -> None:
    ends, failed = simulation.topology.links, set(simulation.failed_links)
    paint(
        panel,
        drawing,
        simulation.topology.ranks,
        loads,
        top,
        failed=[link for link, (source, target, *_) in enumerate(ends) if (source, target) in failed],
    )
    most = significant(max(loads.values(), default=0.0))
    panel.set_title(f"step {step}, done at {seconds_text(simulation.step_ends[step])}\nmost: {most} {unit}", fontsize=8)


def paint(
    panel: "Axes",
    drawing: Drawing,
    ranks: int,
    loads: dict[int, float],
    top: float,
    failed: Sequence[int] = (),
) -> None:
    """Draws the network, with links in the colour of their loads on a scale that ends at `top`."""
    colours_of = scale(top)
    busy = np.array([loads.get(link, 0.0) for link in range(len(drawing.lines))])
    colours = [colours_of.to_rgba(load) if load else _IDLE for load in busy]
    # Idle links first, so that they lie below the others.
    order = np.argsort(busy, kind="stable")
    starts, ways = drawing.lines[order, 0], drawing.lines[order, 1] - drawing.lines[order, 0]
    panel.quiver(
        starts[:, 0],
        starts[:, 1],
        ways[:, 0],
        ways[:, 1],
        color=[colours[link] for link in order],
        angles="xy",
        scale_units="xy",
        scale=1,
        units="xy",
        width=0.05,
        headwidth=3.2,
        headlength=3.2,
        headaxislength=3,
    )
    for start, end in [*drawing.lines[list(failed)], *drawing.removed]:
        panel.plot(*zip(start, end, strict=True), ":", color=_FAILED, lw=1)
        panel.plot(*((start + end) / 2), "x", color=_FAILED, ms=6, zorder=2)
    x, y = drawing.nodes.T
    panel.scatter(x[:ranks], y[:ranks], s=150 if ranks <= _NAMED else 8, c="white", edgecolors="black", zorder=3)
    panel.scatter(x[ranks:], y[ranks:], s=60, c="black", marker="s", zorder=3)
    if ranks <= _NAMED:
        for rank in range(ranks):
            panel.text(x[rank], y[rank], str(rank), ha="center", va="center", fontsize=7, zorder=4)
    low, high = drawing.nodes.min(axis=0) - 0.7, drawing.nodes.max(axis=0) + 0.7
    panel.set_xlim(low[0], high[0])
    panel.set_ylim(low[1], high[1])
    panel.set_aspect("equal")
    panel.axis("off")
