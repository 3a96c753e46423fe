"""The timeline of ranks, a row for each."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ringroad._support.pictures import need_matplotlib
from ringroad._support.text import seconds_text
from ringroad.lab.viz.axes import unit_of_time
from ringroad.lab.viz.subjects import Timeline

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

_COLOURS = "viridis"
_MAX_DRAWN_RANKS = 64  # ranks that are drawn by default


class _Span(NamedTuple):
    """The part of an event that is drawn."""

    kind: str
    rank: int
    step: int
    start: float
    end: float


def timeline(shown: Timeline, *, ranks: list[int] | None = None) -> "Figure":
    """Draws the timeline of a simulation or of a trace, a row for each rank. Needs matplotlib.

    The upper half of a row has what the rank sends, from when it posts a message until the last byte has left; the
    lower half has what it reduces. Dots are messages that it has received. Colours are steps.

    Args:
        shown: A `Simulation` with details, or a `ringroad.measure.traces.Trace`.
        ranks: The ranks to draw. None: the first 64.

    Returns:
        A matplotlib figure.

    Raises:
        ValueError: The simulation has no details.
    """
    need_matplotlib()
    from matplotlib import colormaps, pyplot
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    events = [
        _Span(e.kind, e.rank, e.step, e.start, e.end) for e in shown.events if e.step is not None and e.end is not None
    ]
    if shown.messages and not events:
        raise ValueError("this simulation kept no events; simulate with details=True")
    rows = list(range(min(shown.ranks, _MAX_DRAWN_RANKS))) if ranks is None else ranks
    unit, size = unit_of_time(shown.seconds)
    steps = max(shown.steps, 1)
    colours = [tuple(colour) for colour in colormaps[_COLOURS](np.linspace(0, 1, steps))]
    figure, axes = pyplot.subplots(figsize=(10, 1.5 + 0.28 * max(len(rows), 4)), layout="constrained")
    for row, rank in enumerate(rows):
        own = [event for event in events if event.rank == rank]
        for kinds, bottom in ((["send"], 0.05), (["reduce", "encode", "decode"], -0.4)):
            bars = [event for event in own if event.kind in kinds]
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
    for moment in shown.dividers:
        axes.axvline(moment / size, color="grey", linewidth=0.5, linestyle=":")
    axes.set_yticks(range(len(rows)), [str(rank) for rank in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, shown.seconds / size * 1.01 or 1)
    axes.set_ylabel("rank")
    axes.set_xlabel(f"time in {unit}")
    axes.set_title(f"{shown.title}: {seconds_text(shown.seconds)}")
    scale = ScalarMappable(BoundaryNorm([step - 0.5 for step in range(steps + 1)], 256), _COLOURS)
    bar = figure.colorbar(scale, ax=axes, label="step", pad=0.01)
    bar.set_ticks([step for step in range(0, steps, -(-steps // 12))])
    middle = colours[len(colours) // 2]
    drawn = {event.kind for event in events}
    signs = {
        "send": Patch(color=middle, label="upper bar: a rank sends"),
        "reduce": Patch(color=middle, label="lower bar: it reduces"),
        "encode": Patch(color=middle, label="lower bar: it encodes or decodes"),
        "receive": Line2D([], [], marker="o", ls="", ms=3, color=middle, label="dot: a message has arrived"),
    }
    handles: list[Artist] = [sign for kind, sign in signs.items() if kind in drawn]
    if shown.dividers:
        handles.append(Line2D([], [], color="grey", lw=0.8, ls=":", label=shown.divider))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8)
    return figure
