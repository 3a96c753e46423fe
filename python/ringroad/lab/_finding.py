"""`ringroad.lab.find`: the best networks to build."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ringroad._native import find_networks
from ringroad._support.pictures import need_matplotlib
from ringroad._support.text import bytes_text, items, length, number, seconds_text, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Performed = Literal["allreduce", "allgather", "reduce_scatter"]


@dataclass(frozen=True)
class FrontierNetwork:
    """A network of the frontier: no other one has both fewer steps and a smaller bandwidth term.

    Attributes:
        spec: The network as `Topology` reads it.
        ranks: The number of ranks.
        degree: The number of links out of each rank, and of links into it.
        regular: Whether all ranks have that many. A generalised Kautz graph may have links from ranks to themselves;
            they are dropped, and their ranks have one link less.
        bidirectional: Whether every link has one back, so that cables have both directions.
        cables: The number of cables, with a link in each direction: half the number of links, dropped ones included.
        algorithm: The algorithm with these costs: `bfb`, breadth-first broadcast, or `expanded`, the schedule of the
            smaller network that this one is made of.
        steps: The steps of the collective.
        bandwidth_term: The time for the bytes, in units of the time that a rank takes to send the whole vector over
            all its links.
        seconds: The time of the collective.
    """

    spec: str
    ranks: int
    degree: int
    regular: bool
    bidirectional: bool
    cables: float
    algorithm: str
    steps: int
    bandwidth_term: Fraction
    seconds: float


@dataclass(frozen=True)
class Findings:
    """The result of `ringroad.lab.find`: the frontier of networks, and what no network can beat.

    Attributes:
        collective: The collective.
        alpha: Seconds to start a step.
        bytes: The length of the vector: a number of bytes, or a text such as "1MiB".
        bandwidth: Bytes per second of all links of a rank together.
        networks: The frontier, the fewest steps first.
        best: The network that takes the least time.
        least_steps: A lower bound of the steps: the Moore bound for this number of links out of each rank.
        least_bandwidth_term: A lower bound of the bandwidth term.
        least_seconds: The time at both lower bounds.
    """

    collective: str
    alpha: float
    bytes: int
    bandwidth: float
    networks: list[FrontierNetwork]
    best: FrontierNetwork
    least_steps: int
    least_bandwidth_term: Fraction
    least_seconds: float

    def plot(self, *, axes: "Axes | None" = None) -> "Figure":
        """Draws steps and bandwidth terms, with the best network and the bounds. Needs matplotlib.

        Args:
            axes: Where to draw. None: a new figure.

        Returns:
            The matplotlib figure.
        """
        need_matplotlib()
        from matplotlib import pyplot

        axes = axes or pyplot.subplots(figsize=(7, 4.5), layout="constrained")[1]
        steps, terms = [n.steps for n in self.networks], [float(n.bandwidth_term) for n in self.networks]
        axes.plot(steps, terms, "o-", color="tab:blue", drawstyle="steps-post", label="best known")
        axes.plot([self.best.steps], [float(self.best.bandwidth_term)], "*", ms=14, color="tab:orange", label="fastest")
        axes.axvline(self.least_steps, ls=":", color="gray", label="bounds")
        axes.axhline(float(self.least_bandwidth_term), ls=":", color="gray")
        for network in self.networks:
            at = (network.steps, float(network.bandwidth_term))
            spec = network.spec if len(network.spec) <= 48 else network.spec[:45] + "..."
            axes.annotate(spec, at, xytext=(5, 5), textcoords="offset points", fontsize=7)
        size = f"{bytes_text(self.bytes)}: {seconds_text(self.best.seconds)}"
        axes.set(
            xlabel=f"steps of {self.collective}",
            ylabel="bandwidth term [vectors / bandwidth of a rank]",
            title=f"{self.best.ranks} ranks, {size} with {self.best.degree} links each",
        )
        axes.locator_params("x", integer=True)
        axes.margins(0.1)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False)
        return axes.get_figure(root=True)  # type: ignore[return-value]


def find(
    ranks: int | None = None,
    degree: int | None = None,
    *,
    collective: Performed = "allreduce",
    alpha: float = 10e-6,
    bytes: int | str = 1 << 20,
    bandwidth: float = 12.5e9,
    bidirectional: bool = False,
    budget: tuple[int, int] | None = None,
) -> Findings:
    """Finds networks in which a collective takes the fewest steps, loads links the least, or anything in between.

    It looks at the networks of Zhao et al., Efficient direct-connect topologies for collective communications
    (arXiv 2202.03356), made of small graphs by expansions, with breadth-first broadcast or, where that is better, the
    expanded schedule of the small graph.

    Args:
        ranks: The number of ranks.
        degree: The number of links out of each rank.
        collective: "allreduce", "allgather" or "reduce_scatter".
        alpha: Seconds to start a step.
        bytes: The length of the vector in bytes.
        bandwidth: Bytes per second of all links of a rank together; each of them has `bandwidth / degree`.
        bidirectional: True: every link has one back.
        budget: Instead of `ranks` and `degree`, a number of ranks and the most cables, each with a link in each
            direction. All degrees for which the cables suffice are searched.

    Returns:
        A `Findings` with the networks and lower bounds.

    Raises:
        ValueError: Arguments contradict each other or are invalid, or no network is known.

    Example:
        >>> found = ringroad.lab.find(ranks=16, degree=4)
        >>> found.best.ranks, found.best.degree, found.best.seconds >= found.least_seconds
        (16, 4, True)
    """
    if (budget is None) == (ranks is None or degree is None) or (budget is not None and (ranks or degree)):
        raise ValueError("give ranks and degree, or a budget of ranks and cables")
    if number("alpha", alpha) < 0 or number("bandwidth", bandwidth) <= 0:
        raise ValueError("alpha must be 0 or more, and bandwidth above 0 bytes per second")
    size = length("bytes", bytes)
    ranks, degrees = _sizes(ranks, degree, budget)
    found: Findings = find_networks(ranks, list(degrees), bidirectional, collective, alpha, size, bandwidth)
    return found


def _sizes(ranks: int | None, degree: int | None, budget: tuple[int, int] | None) -> tuple[int, Sequence[int]]:
    if budget is None:
        assert ranks is not None and degree is not None
        return ranks, [degree]
    if len(given := items("budget", budget)) != 2:
        raise ValueError(f"budget must be a number of ranks and a number of cables, not {budget!r:.60}")
    ranks, cables = (whole("a number of the budget", one) for one in given)
    most = 2 * cables // ranks if ranks > 0 else 0
    if ranks < 2 or most < 1:
        raise ValueError(f"a budget of {ranks} ranks and {cables} cables joins nothing; {ranks} ranks need a link each")
    return ranks, range(1, min(most, ranks - 1, 32) + 1)
