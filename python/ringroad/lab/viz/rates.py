"""The rates of a network's links, such as those that ranks have measured."""

from typing import TYPE_CHECKING

from ringroad._native import Topology
from ringroad._support.pictures import need_matplotlib
from ringroad.lab.viz.layout import draw
from ringroad.lab.viz.links import legend, paint, panel_size, scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def link_rates(network: Topology) -> "Figure":
    """Draws a network with its links in the colours of their bandwidths. Links of memory, which are faster by far, are
    left grey. Needs matplotlib.

    Args:
        network: The network.

    Returns:
        A matplotlib figure.
    """
    need_matplotlib()
    from matplotlib import pyplot

    hosts = network.hosts
    # Ranks that share a host hang on its memory.
    shared = {rank for rank, host in enumerate(hosts) if hosts.count(host) > 1}
    rates = {
        number: 8e-6 * bandwidth * capacity
        for number, (source, target, bandwidth, capacity, *_) in enumerate(network._links())
        if not shared & {source, target}
    }
    top = max(rates.values(), default=1.0)
    drawing = draw(network)
    width, height = panel_size(drawing)
    figure, panel = pyplot.subplots(figsize=(width + 1.5, height + 0.8), layout="constrained")
    paint(panel, drawing, network.ranks, rates, top)
    figure.colorbar(scale(top), ax=panel, label="Mbit/s", shrink=0.8)
    legend(figure, drawing, network.ranks)
    figure.suptitle(network.spec)
    return figure
