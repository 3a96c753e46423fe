"""Algorithms side by side, by the cost model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ringroad._native import CostModel, Schedule, Topology
from ringroad._support.pictures import need_matplotlib
from ringroad._support.text import bytes_text, lengths
from ringroad.lab._comparison import SIZES, compare
from ringroad.lab.viz.lines import figure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 15
"""The most characters of a line in the heatmap."""
_SHADES = (0.0, 0.25, 0.5)
"""The margins whose colours the legend shows, from the palest to the strongest."""


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
    topologies: Iterable[Topology | str | int],
    sizes: Iterable[int | str],
    *,
    collective: str = "allreduce",
    model: CostModel | None = None,
    among: Sequence[str] | None = None,
) -> list[Best]:
    """Returns the fastest algorithm for every network and size, of those that leave the same bits on all ranks.

    Members of one family count as one algorithm: `nested:1` and `nested:2` do not compete for the margin.

    Args:
        topologies: Topologies, specs, or numbers of ranks, which stand for rings.
        sizes: The lengths of the vector: numbers of bytes, or texts such as "1MiB".
        collective: For example "allreduce".
        model: The cost model. None: `CostModel()`.
        among: Only these families. None: all.

    Returns:
        A `Best` for each network and size.

    Raises:
        ValueError: None of the algorithms performs the collective on a network.

    Example:
        >>> from ringroad.lab.viz import best_algorithms
        >>> [best.algorithm for best in best_algorithms(["torus:8x8"], [1 << 20])]
        ['bfb-ring']
    """
    model = model or CostModel()
    found = []
    sizes = list(sizes)
    for topology in topologies:
        network = Topology(topology)
        for explained in model.compare(collective, network, sizes).sizes:
            rows = [row for row in explained.candidates if row.bit_identical]
            rows = [row for row in rows if among is None or _family(row.algorithm) in among]
            if not rows:
                raise ValueError(f"none of {', '.join(among or [])} performs {collective} on {network.spec}")
            best, family = rows[0], _family(rows[0].algorithm)
            second = next((row for row in rows if _family(row.algorithm) != family), None)
            margin = second.ratio / best.ratio - 1 if second and best.ratio else float("inf")
            seconds = best.seconds if best.free_seconds is None else best.free_seconds
            runner_up = second.algorithm if second else "-"
            found.append(Best(network.spec, network.ranks, explained.bytes, best.algorithm, seconds, runner_up, margin))
    return found


def heatmap(best: Sequence[Best], *, axes: "Axes | None" = None) -> "Figure":
    """Draws the best algorithm over size and network, with the runner-up and its margin. Needs matplotlib.

    Args:
        best: What `best_algorithms` returned.
        axes: Where to draw. None: a new figure.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: `best` is empty.
    """
    need_matplotlib()
    from matplotlib import pyplot
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.patches import Patch, Rectangle

    if not best:
        raise ValueError("nothing to draw; give what best_algorithms returned for one network and size or more")
    networks, sizes = list(dict.fromkeys(b.topology for b in best)), sorted({b.bytes for b in best})
    palette = pyplot.get_cmap("tab20")
    families = sorted({_family(b.algorithm) for b in best})
    # The dark colours first.
    order = [*range(0, palette.N, 2), *range(1, palette.N, 2)]
    colours = {family: palette(order[number % palette.N])[:3] for number, family in enumerate(families)}
    texts = [_texts(b) for b in best]
    # The most lines of a name, and of what is below it.
    above, below = (max(text.count("\n") + 1 for text in column) for column in zip(*texts, strict=True))
    if axes is None:
        longest = max(len(line) for pair in texts for text in pair for line in text.splitlines())
        width, height = len(sizes) * (0.075 * longest + 0.15), len(networks) * (0.13 * (above + below) + 0.12)
        _, axes = pyplot.subplots(figsize=(max(3.2 + width, 7.0), 1.5 + height), layout="constrained")
    for entry, (name, runner_up) in zip(best, texts, strict=True):
        column, row = sizes.index(entry.bytes), networks.index(entry.topology)
        colour = _paled(colours[_family(entry.algorithm)], entry.margin)
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white"))
        ink = "black" if 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2] > 0.5 else "white"
        place: dict[str, Any] = {"ha": "center", "color": ink}
        middle = row + 0.03 + above / (above + below)
        axes.text(column + 0.5, middle, name, va="bottom", fontsize=8, fontweight="bold", **place)
        axes.text(column + 0.5, middle, runner_up, va="top", fontsize=7, **place)
    axes.set_xlim(0, len(sizes))
    axes.set_ylim(len(networks), 0)
    axes.set_xticks([i + 0.5 for i in range(len(sizes))], [bytes_text(size) for size in sizes])
    axes.set_yticks([i + 0.5 for i in range(len(networks))], networks)
    axes.set_xlabel("length of the vector")
    axes.set_ylabel("network")
    axes.set_title(
        "the fastest algorithm; below it the next family, and how much longer that takes\n(the paler, the closer)",
        fontsize=10,
    )
    # matplotlib's types know no tuples of patches, which its guide to legends shows.
    shades: Any = [tuple(Patch(color=_paled(colour, margin)) for margin in _SHADES) for colour in colours.values()]
    axes.legend(
        shades,
        list(colours),
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        title="family",
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        fontsize=8,
    )
    return figure_of(axes)


def _paled(colour: Sequence[float], margin: float) -> Any:
    """The colour of a cell: the smaller the margin, the paler."""
    strength = 0.25 + 0.75 * min(margin, _SHADES[-1]) / _SHADES[-1]
    return tuple(1 - strength * (1 - part) for part in colour)


def _texts(best: Best) -> tuple[str, str]:
    """What a cell of the heatmap says of the fastest algorithm and of the runner-up. Long names have several lines."""
    name, runner_up = ("\n".join(wrap(text, _WIDTH)) for text in (best.algorithm, best.runner_up))
    return name, "no other" if best.margin == float("inf") else f"{runner_up}\n+{best.margin:.0%}"


def curves(
    algorithms: Sequence[str | Schedule] | None,
    topology: Topology | str | int,
    sizes: Sequence[int | str] | int | str = SIZES,
    *,
    collective: str = "allreduce",
    root: int | None = None,
    model: CostModel | None = None,
    measured: Mapping[str, Mapping[int, float]] | None = None,
    axes: "Axes | None" = None,
) -> "Figure":
    """Draws predicted seconds over bytes, a line for each algorithm. Needs matplotlib.

    It draws what `ringroad.lab.compare` returns for the same arguments.

    Args:
        algorithms: The algorithms to draw, as for `ringroad.lab.compare`. None: those that are the best for one of the
            sizes, and those that were measured.
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        sizes: The lengths of the vector, or one: numbers of bytes, or texts such as "1MiB".
        collective: For example "allreduce".
        root: The root of a broadcast, reduce, gather or scatter. None: rank 0.
        model: The cost model. None: `CostModel()`.
        measured: Measured seconds by algorithm and bytes, drawn as dots.
        axes: Where to draw. None: a new figure.

    Returns:
        The matplotlib figure.

    Raises:
        ScheduleError: An algorithm is unknown, or none of them performs the collective on the network.
    """
    model = model or CostModel()
    if algorithms is None:
        found = model.compare(collective, topology, lengths("sizes", sizes))
        best = [next(row.algorithm for row in size.candidates if row.bit_identical) for size in found.sizes]
        algorithms = list(dict.fromkeys([*best, *(measured or {})]))
    compared = compare(algorithms, topology, sizes, collective=collective, root=root, model=model)
    return compared.plot(measured=measured, axes=axes)


def _family(algorithm: str) -> str:
    return algorithm.partition(":")[0]
