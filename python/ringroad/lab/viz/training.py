"""Timelines of training iterations: computing, and below it communication."""

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from ringroad._support.pictures import need_matplotlib
from ringroad._support.text import seconds_text
from ringroad.lab.viz.axes import unit_of_time
from ringroad.lab.viz.subjects import Iteration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHADES = {"forward": ("#9ecae1", "#6baed6"), "backward": ("#3182bd", "#08519c")}
_SENT, _EXPOSED = "#fd8d3c", "#fee8d2"


def iterations(shown: Sequence[Iteration]) -> "Figure":
    """Draws iterations of training, a panel for each, in one scale of time. Needs matplotlib.

    The upper lane has the layers of the forward and the backward pass, the lower one the allreduces. What is
    exposed has a background.

    Args:
        shown: The iterations.

    Returns:
        A matplotlib figure.

    Raises:
        ValueError: There are none.
    """
    need_matplotlib()
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    if not shown:
        raise ValueError("no iteration to draw; give at least one")
    longest = max(iteration.seconds for iteration in shown)
    unit, size = unit_of_time(longest)
    figure, panels = pyplot.subplots(
        len(shown), 1, figsize=(10, 0.9 + 1.3 * len(shown)), sharex=True, squeeze=False, layout="constrained"
    )
    for panel, iteration in zip(panels[:, 0], shown, strict=True):
        _draw(panel, iteration, size)
    panels[-1, 0].set_xlim(0, longest / size * 1.01 or 1)
    panels[-1, 0].set_xlabel(f"time in {unit}")
    handles = [
        Patch(color=_SHADES["forward"][0], label="forward pass, layer by layer"),
        Patch(color=_SHADES["backward"][0], label="backward pass"),
        Patch(color=_SENT, label="allreduces"),
        Patch(color=_EXPOSED, label="exposed: only the network is busy"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _draw(panel: "Axes", iteration: Iteration, size: float) -> None:
    layers, clock = iteration.model.layers, 0.0
    forward, backward = [layer.forward for layer in layers], [layer.backward for layer in reversed(layers)]
    for seconds, shades in ((forward, _SHADES["forward"]), (backward, _SHADES["backward"])):
        starts = list(accumulate(seconds, initial=clock))
        clock = starts.pop()
        spans = [(start / size, length / size) for start, length in zip(starts, seconds, strict=True)]
        panel.broken_barh(spans, (0.1, 0.8), facecolors=[shades[i % 2] for i in range(len(spans))])
    sent = [(a.start / size, (a.end - a.start) / size) for a in iteration.allreduces]
    panel.broken_barh(sent, (-0.9, 0.8), facecolors=_SENT, edgecolors="white", lw=0.5)
    panel.axvspan(iteration.compute / size, iteration.seconds / size, color=_EXPOSED, zorder=0)
    panel.set_yticks([0.5, -0.5], ["compute", "network"])
    panel.set_ylim(-1, 1)
    panel.set_title(
        f"{iteration.title}: {seconds_text(iteration.seconds)}, {seconds_text(iteration.exposed)} exposed", fontsize=9
    )
