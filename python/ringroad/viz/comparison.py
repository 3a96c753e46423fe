"""Algorithms side by side, by the cost model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringroad._native import CostModel, Topology
from ringroad._pictures import need_matplotlib
from ringroad._text import bytes_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Best:
    """The fastest algorithm for a network and a size.

    Attributes:
        topology: The spec of the network.
        ranks: The number of ranks.
        bytes: The length of the vector in bytes.
        algorithm: The fastest algorithm.
        seconds: Its time.
        runner_up: The fastest algorithm of another family; "-" if there is none.
        margin: How much longer that one takes: 0.1 for 10 %. Infinite if there is none.
    """

    topology: str
    ranks: int
    bytes: int
    algorithm: str
    seconds: float
    runner_up: str
    margin: float


def best_algorithms(
    topologies: Iterable[Topology | str],
    sizes: Iterable[int],
    *,
    collective: str = "allreduce",
    model: CostModel | None = None,
    among: Sequence[str] | None = None,
) -> list[Best]:
    """Returns the fastest algorithm for every network and size, of those that leave the same bits on all ranks.

    Members of one family count as one algorithm: `nested:1` and `nested:2` do not compete for the margin.

    Args:
        topologies: Topologies, or specs.
        sizes: The lengths of the vector in bytes.
        collective: For example "allreduce".
        model: The cost model. None: `CostModel()`.
        among: Only these families. None: all.

    Returns:
        A `Best` for each network and size.

    Raises:
        ValueError: None of the algorithms performs the collective on a network.

    Example:
        >>> from ringroad.viz import best_algorithms
        >>> [best.algorithm for best in best_algorithms(["torus:8x8"], [1 << 20])]
        ['bfb-ring']
    """
    model = model or CostModel()
    found = []
    sizes = list(sizes)
    for topology in topologies:
        network = topology if isinstance(topology, Topology) else Topology(topology)
        for size in sizes:
            rows = [row for row in model.explain(collective, network, size) if row.consistent]
            rows = [row for row in rows if among is None or _family(row.algorithm) in among]
            if not rows:
                raise ValueError(f"none of {', '.join(among or [])} performs {collective} on {network.spec}")
            best, family = rows[0], _family(rows[0].algorithm)
            second = next((row for row in rows if _family(row.algorithm) != family), None)
            margin = second.seconds / best.seconds - 1 if second and best.seconds else float("inf")
            runner_up = second.algorithm if second else "-"
            found.append(Best(network.spec, network.ranks, size, best.algorithm, best.seconds, runner_up, margin))
    return found


def heatmap(best: Sequence[Best], *, axes: "Axes | None" = None) -> "Figure":
    """Draws the best algorithm over size and network, with the margin to the runner-up. Needs matplotlib.

    Args:
        best: What `best_algorithms` returned.
        axes: Where to draw. None: a new figure.

    Returns:
        The matplotlib figure.
    """
    need_matplotlib()
    from matplotlib import pyplot
    from matplotlib.patches import Rectangle

    networks, sizes = list(dict.fromkeys(b.topology for b in best)), sorted({b.bytes for b in best})
    families = sorted({_family(b.algorithm) for b in best})
    if axes is None:
        _, axes = pyplot.subplots(figsize=(1.2 + 0.95 * len(sizes), 1.4 + 0.55 * len(networks)), layout="constrained")
    palette = pyplot.get_cmap("tab20")
    for entry in best:
        column, row = sizes.index(entry.bytes), networks.index(entry.topology)
        colour = palette(families.index(_family(entry.algorithm)) % palette.N)
        # The smaller the margin, the paler the colour.
        strength = 0.25 + 0.75 * min(entry.margin, 0.5) / 0.5
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=(*colour[:3], strength), edgecolor="white"))
        margin = "" if entry.margin == float("inf") else f"\n+{entry.margin:.0%}"
        axes.text(column + 0.5, row + 0.5, entry.algorithm + margin, ha="center", va="center", fontsize=6)
    axes.set_xlim(0, len(sizes))
    axes.set_ylim(len(networks), 0)
    axes.set_xticks([i + 0.5 for i in range(len(sizes))], [bytes_text(size) for size in sizes], rotation=45, ha="right")
    axes.set_yticks([i + 0.5 for i in range(len(networks))], networks)
    axes.set_title("fastest algorithm, and how much longer the next one takes")
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def curves(
    topology: Topology | str,
    sizes: Sequence[int],
    *,
    collective: str = "allreduce",
    model: CostModel | None = None,
    algorithms: Sequence[str] | None = None,
    measured: Mapping[str, Mapping[int, float]] | None = None,
    axes: "Axes | None" = None,
) -> "Figure":
    """Draws predicted seconds over bytes, a line for each algorithm. Needs matplotlib.

    Args:
        topology: A `Topology`, or a spec.
        sizes: The lengths of the vector in bytes.
        collective: For example "allreduce".
        model: The cost model. None: `CostModel()`.
        algorithms: The algorithms to draw. None: those that are the best for one of the sizes.
        measured: Measured seconds by algorithm and bytes, drawn as dots.
        axes: Where to draw. None: a new figure.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: An algorithm does not perform the collective on the network.
    """
    need_matplotlib()
    from matplotlib import pyplot

    network = topology if isinstance(topology, Topology) else Topology(topology)
    model = model or CostModel()
    rows = {size: {row.algorithm: row for row in model.explain(collective, network, size)} for size in sizes}
    measured = measured or {}
    if algorithms is None:
        best = [next(row.algorithm for row in table.values() if row.consistent) for table in rows.values()]
        algorithms = list(dict.fromkeys([*best, *measured]))
    missing = [name for name in algorithms if any(name not in table for table in rows.values())]
    if missing:
        raise ValueError(
            f"{', '.join(missing)}: no algorithm of that name is offered for {collective} on {network.spec}"
        )
    if axes is None:
        _, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for index, name in enumerate(algorithms):
        times = [rows[size][name].seconds * 1e6 for size in sizes]
        axes.loglog(sizes, times, color=f"C{index}", label=name, base=10)
        if name in measured:
            points = sorted(measured[name].items())
            axes.loglog([b for b, _ in points], [1e6 * s for _, s in points], "o--", color=f"C{index}", linewidth=0.7)
    axes.set_xlabel("bytes")
    axes.set_ylabel("microseconds")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    dots = "; dots: measured" if measured else ""
    axes.set_title(f"{collective} on {network.spec}, predicted{dots}")
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def _family(algorithm: str) -> str:
    return algorithm.partition(":")[0]
