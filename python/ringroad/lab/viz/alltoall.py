"""The loads of links in an all-to-all: by direct sends, and by a flow."""

from typing import TYPE_CHECKING

import numpy as np

from ringroad._support.pictures import need_matplotlib
from ringroad._support.text import significant
from ringroad.lab.viz.layout import draw
from ringroad.lab.viz.links import legend, paint, panel_size, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ringroad.lab.synthesis import AlltoallFlow

Loads = dict[int, float]
_LOAD = "load, in units of the bound"


def alltoall_loads(flow: "AlltoallFlow") -> "Figure":
    """Draws how long links are busy in an all-to-all: if ranks send directly, and if they send along a flow.

    Direct messages take the paths of the topology's routing. A third panel shows all links of both in order. The
    unit is the least that the busiest link needs. Needs matplotlib.

    Args:
        flow: The flow, from `ringroad.lab.synthesis.alltoall_flow`.

    Returns:
        A matplotlib figure.
    """
    need_matplotlib()
    from matplotlib import pyplot

    network = flow.topology
    least = flow.least_seconds or 1.0
    shown = {"direct": _direct(flow), "flow": _along(flow)}
    shown = {name: {link: busy / least for link, busy in loads.items()} for name, loads in shown.items()}
    top = max((max(loads.values(), default=0.0) for loads in shown.values()), default=0.0) or 1.0
    drawing = draw(network)
    width, height = panel_size(drawing, most=3.5)
    figure, panels = pyplot.subplots(
        1, 3, figsize=(2 * width + 5, max(height, 3) + 0.6), width_ratios=[width, width, 3.5], layout="constrained"
    )
    for panel, (name, loads) in zip(panels[:2], shown.items(), strict=True):
        paint(panel, drawing, network.ranks, loads, top)
        routing = f", {network.routing} routing" if name == "direct" else ""
        most = significant(max(loads.values(), default=0.0))
        panel.set_title(f"{name}{routing}\nbusiest link: {most} times the least", fontsize=8)
    figure.colorbar(scale(top), ax=list(panels[:2]), label=_LOAD, shrink=0.8)
    _in_order(panels[2], shown, len(network.links))
    legend(figure, drawing, network.ranks)
    figure.suptitle(f"all-to-all on {network.spec}")
    return figure


def _direct(flow: "AlltoallFlow") -> Loads:
    """Seconds that each link is busy by direct sends."""
    network = flow.topology
    seconds = [1 / (bandwidth * capacity) for _, _, bandwidth, capacity, *_ in network._links()]
    demands = np.broadcast_to(flow.demands, (network.ranks, network.ranks))
    loads: Loads = {}
    for source in range(network.ranks):
        for target in range(network.ranks):
            if source != target and demands[source, target]:
                for link, part in network.route(source, target)[2]:
                    loads[link] = loads.get(link, 0.0) + part * demands[source, target] * seconds[link]
    return loads


def _along(flow: "AlltoallFlow") -> Loads:
    """Seconds that each link is busy by the flow; parallel links are equally busy."""
    busy = {(load.source, load.target): load.seconds for load in flow.links}
    return {link: busy.get((source, target), 0.0) for link, (source, target, *_) in enumerate(flow.topology.links)}


def _in_order(panel: "Axes", shown: dict[str, Loads], links: int) -> None:
    for name, loads in shown.items():
        busy = sorted((loads.get(link, 0.0) for link in range(links)), reverse=True)
        panel.step(range(1, links + 1), busy, where="mid", label=name)
    panel.axhline(1, color="grey", lw=0.8, ls=":", label="no flow is below")
    most = max((busy for loads in shown.values() for busy in loads.values()), default=0.0)
    panel.set_ylim(0, 1.1 * max(most, 1.0))
    panel.set_xlabel("links, the busiest first")
    panel.set_ylabel(_LOAD)
    panel.legend(loc="lower left", fontsize=8)
