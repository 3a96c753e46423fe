"""The loads of links, step by step: the network with its links in the colour of their load."""

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ringroad._pictures import need_matplotlib
from ringroad._text import bytes_text, seconds_text
from ringroad.viz.layout import Drawing, draw
from ringroad.viz.subjects import Loaded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = "plasma_r"
_IDLE = "#d8d8d8"
_NAMED = 128  # ranks; more have no room for their numbers
_PANELS = 12


def link_loads(simulation: Loaded, *, steps: "list[int] | None" = None, columns: int = 4) -> "Figure":
    """Draws the bytes of every link, a panel for each step. Needs matplotlib.

    Args:
        simulation: A `Simulation` with details.
        steps: The steps to draw. None: at most 12, spread over all.
        columns: The most panels side by side.

    Returns:
        A matplotlib figure.

    Raises:
        ValueError: The simulation has no details.
    """
    need_matplotlib()
    from matplotlib import pyplot

    chosen = _spread(simulation.steps) if steps is None else steps
    loads, top = _by_step(simulation)
    drawing = draw(simulation.topology)
    rows = max(1, -(-len(chosen) // columns))
    width = min(columns, max(1, len(chosen)))
    size = panel_size(drawing)
    figure, panels = pyplot.subplots(
        rows, width, figsize=(size[0] * width + 1, size[1] * rows + 0.6), squeeze=False, layout="constrained"
    )
    for panel, step in zip(panels.flat, chosen, strict=False):
        _paint_step(panel, simulation, drawing, loads[step], top, step)
    for panel in panels.flat[len(chosen) :]:
        panel.axis("off")
    figure.colorbar(scale(top), ax=panels, label="bytes on the link", shrink=0.8)
    figure.suptitle(simulation.title)
    return figure


def animate(simulation: Loaded, *, milliseconds: int = 700) -> Any:
    """Draws the bytes of every link, with a slider for the steps, for notebooks. Needs matplotlib and IPython.

    Args:
        simulation: A `Simulation` with details.
        milliseconds: How long each step is shown.

    Returns:
        An IPython.display.HTML object.

    Raises:
        ValueError: The simulation has no details.
    """
    need_matplotlib()
    from matplotlib import pyplot
    from matplotlib.animation import FuncAnimation

    loads, top = _by_step(simulation)
    drawing = draw(simulation.topology)
    width, height = panel_size(drawing)
    figure, panel = pyplot.subplots(figsize=(1.4 * width + 1, 1.4 * height + 0.6), layout="constrained")
    figure.colorbar(scale(top), ax=panel, label="bytes on the link", shrink=0.8)
    figure.suptitle(simulation.title)

    def frame(step: int) -> list[Any]:
        panel.clear()
        _paint_step(panel, simulation, drawing, loads[step], top, step)
        return []

    steps = simulation.steps
    animation = FuncAnimation(figure, frame, frames=steps, init_func=lambda: [], interval=milliseconds)
    page = animation.to_jshtml(default_mode="once")
    pyplot.close(figure)
    return importlib.import_module("IPython.display").HTML(page)


def _spread(steps: int) -> list[int]:
    if steps <= _PANELS:
        return list(range(steps))
    return [int(step) for step in np.unique(np.linspace(0, steps - 1, _PANELS).round())]


def _by_step(simulation: Loaded) -> tuple[list[dict[int, float]], float]:
    """The bytes of each step's links, and the maximum of all."""
    loads: list[dict[int, float]] = [{} for _ in range(simulation.steps)]
    for load in simulation.link_loads:
        loads[load.step][load.link] = load.bytes
    if simulation.messages and not any(loads):
        raise ValueError("this simulation kept no loads of steps; simulate with details=True")
    return loads, max((max(step.values()) for step in loads if step), default=1.0)


def scale(top: float) -> Any:
    """The scale of colours for loads up to `top`."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(0, top), _COLOURS)


def panel_size(drawing: Drawing) -> tuple[float, float]:
    """Width and height of a panel, in inches."""
    spread = drawing.nodes.max(axis=0) - drawing.nodes.min(axis=0) + 1.5
    width, height = spread * min(0.7, 7.0 / float(spread.max()))
    return max(float(width), 2.4), max(float(height), 1.2)


def _paint_step(
    panel: "Axes", simulation: Loaded, drawing: Drawing, loads: dict[int, float], top: float, step: int
) -> None:
    paint(panel, drawing, simulation.topology.ranks, loads, top)
    most = max(loads.values(), default=0.0)
    panel.set_title(
        f"step {step}, done at {seconds_text(simulation.step_ends[step])}\nmost: {bytes_text(round(most))}", fontsize=8
    )


def paint(panel: "Axes", drawing: Drawing, ranks: int, loads: dict[int, float], top: float) -> None:
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
    x, y = drawing.nodes.T
    panel.scatter(x[:ranks], y[:ranks], s=110 if ranks <= _NAMED else 8, c="white", edgecolors="black", zorder=3)
    panel.scatter(x[ranks:], y[ranks:], s=60, c="black", marker="s", zorder=3)
    if ranks <= _NAMED:
        for rank in range(ranks):
            panel.text(x[rank], y[rank], str(rank), ha="center", va="center", fontsize=6, zorder=4)
    low, high = drawing.nodes.min(axis=0) - 0.7, drawing.nodes.max(axis=0) + 0.7
    panel.set_xlim(low[0], high[0])
    panel.set_ylim(low[1], high[1])
    panel.set_aspect("equal")
    panel.axis("off")
