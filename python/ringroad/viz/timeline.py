"""What ranks do when: a row for each."""

from typing import TYPE_CHECKING

import numpy as np

from ringroad._text import seconds_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ringroad.simulation import Simulation

_COLOURS = "viridis"
_MOST = 64  # ranks that are still told apart
_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def timeline(simulation: "Simulation", *, ranks: "list[int] | None" = None) -> "Figure":
    """A row for each rank (or for those of `ranks`; by default the first 64): what it sends in the upper half, from
    when it posts a message until the last byte has left; what it reduces in the lower half; and a dot where a message
    has arrived, all in the colour of the step. Needs the simulation's details."""
    from matplotlib import colormaps, pyplot
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm

    events = simulation.events
    if simulation.messages and not events:
        raise ValueError("this simulation kept no events; simulate with details=True")
    shown = list(range(min(simulation.schedule.ranks, _MOST))) if ranks is None else ranks
    unit, size = next((u for u in _UNITS if simulation.seconds >= u[1]), _UNITS[-1])
    steps = max(simulation.schedule.steps, 1)
    colours = [tuple(colour) for colour in colormaps[_COLOURS](np.linspace(0, 1, steps))]
    figure, axes = pyplot.subplots(figsize=(10, 1.2 + 0.28 * max(len(shown), 4)), layout="constrained")
    for row, rank in enumerate(shown):
        own = [event for event in events if event.rank == rank]
        for kind, bottom in (("send", 0.05), ("reduce", -0.4)):
            bars = [event for event in own if event.kind == kind]
            spans = [(event.start / size, (event.end - event.start) / size) for event in bars]
            facecolors = [colours[event.step] for event in bars]
            axes.broken_barh(spans, (row - bottom - 0.35, 0.35), facecolors=facecolors, edgecolors="white", lw=0.3)
        received = [event for event in own if event.kind == "receive"]
        axes.scatter(
            [event.end / size for event in received],
            [row] * len(received),
            s=6,
            c=[colours[event.step] for event in received],
            zorder=3,
            linewidths=0,
        )
    if not simulation.free_running:
        for end in simulation.step_ends:
            axes.axvline(end / size, color="grey", linewidth=0.5, linestyle=":")
    axes.set_yticks(range(len(shown)), [str(rank) for rank in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, simulation.seconds / size * 1.01 or 1)
    axes.set_ylabel("rank")
    axes.set_xlabel(unit)
    axes.set_title(f"{simulation.title}: {seconds_text(simulation.seconds)}")
    scale = ScalarMappable(BoundaryNorm([step - 0.5 for step in range(steps + 1)], 256), _COLOURS)
    bar = figure.colorbar(scale, ax=axes, label="step", pad=0.01)
    bar.set_ticks([step for step in range(0, steps, -(-steps // 12))])
    return figure
