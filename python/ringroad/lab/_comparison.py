"""Algorithms side by side: what the cost model says of each, by the length of the vector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from ringroad._costs import Cost
from ringroad._native import Algorithm, CostModel, Schedule, Topology, collective_name
from ringroad._notebook import frame, table
from ringroad._support.text import bytes_text, check_class, items, length, lengths, seconds_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = ("1KiB", "16KiB", "256KiB", "1MiB", "4MiB", "16MiB", "64MiB")


def compare(
    algorithms: Sequence[str | Schedule],
    topology: Topology | str | int,
    sizes: Sequence[int | str] | int | str = SIZES,
    *,
    collective: str = "allreduce",
    root: int | None = None,
    model: CostModel | None = None,
) -> "Comparison":
    """Compares algorithms, or schedules of your own, on a network. In a notebook the result shows itself as a table.

    All of them are compared that are named, also those that are no candidates on the network by default; for these see
    `CostModel.explain`. Those that do not perform the collective on this network have a dash.

    Args:
        algorithms: Names of algorithms, such as "swing" or "generalized:2", and schedules.
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        sizes: The lengths of the vector, or one: numbers of bytes, or texts such as "1MiB".
        collective: What is performed.
        root: The root of a broadcast, reduce, gather or scatter. None: rank 0.
        model: The cost model. None: `CostModel()`.

    Returns:
        A `Comparison`.

    Raises:
        TypeError: `algorithms` is not a list, or it or `sizes` has something else.
        ValueError: Nothing is to be compared, a size is not a length, two have the same name, or a schedule is of
            another collective.
        ScheduleError: An algorithm is unknown, or none performs the collective on this network.
        TopologyError: The topology is malformed.

    Example:
        >>> print(ringroad.lab.compare(["swing", "trivance", "bfb"], "torus:8x8", ["1KiB", "64MiB"]))
        allreduce on torus:8x8
          size    swing  trivance      bfb   fastest
         1 KiB    16 us   12.1 us    16 us  trivance
        64 MiB  2.91 ms   3.33 ms  2.66 ms       bfb
    """
    network, model = Topology(topology), CostModel() if model is None else model
    check_class("model", model, CostModel)
    if not (algorithms := items("algorithms", algorithms)):
        raise ValueError('nothing to compare; give a list of algorithms, such as ["swing", "ring"]')
    some = lengths("sizes", sizes)
    if not some:
        raise ValueError('nothing to compare; give at least one size, such as "1MiB"')
    performed = collective_name(collective)
    costs: dict[str, Cost | None] = {}
    for given in algorithms:
        check_class("an algorithm", given, str, Schedule)
        name = given if isinstance(given, str) else given.name
        if name in costs:
            raise ValueError(f"two of the algorithms are called {name}")
        if isinstance(given, str) and not Algorithm(given).supports(network, collective):
            costs[name] = None
            continue
        schedule = Schedule.build(given, network, collective, root) if isinstance(given, str) else given
        if schedule.collective != performed:
            raise ValueError(f"{name} is a schedule of {schedule.collective}, not of {performed}; pass collective=")
        costs[name] = model.cost(schedule, network, some[0])
    if not any(costs.values()):
        Schedule.build(next(iter(costs)), network, collective, root)  # says why not
    return Comparison(performed, network.spec, some, costs)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `ringroad.lab.compare`. In a notebook it shows itself; `print` shows the same.

    Attributes:
        collective: The collective.
        topology: The spec of the network.
        sizes: The lengths of the vector in bytes.
        costs: The `Cost` of each algorithm, by its name, for the first of the sizes; None if it does not perform the
            collective on the network.
    """

    collective: str
    topology: str
    sizes: list[int]
    costs: dict[str, Cost | None]

    def seconds(self, algorithm: str, bytes: int | str) -> float:
        """Returns the time that an algorithm takes: infinite if it does not perform the collective on the network.

        Args:
            algorithm: One of the compared.
            bytes: The length of the vector, also one that was not asked for: a number of bytes, or a text.

        Raises:
            KeyError: The algorithm is not one of the compared.
            ValueError: `bytes` is not a length.
        """
        cost = self.costs[algorithm]
        size = length("bytes", bytes)
        return inf if cost is None else cost.fixed + cost.per_byte * size

    def fastest(self, bytes: int | str) -> str:
        """Returns the name of the algorithm that takes the least time.

        Args:
            bytes: The length of the vector: a number of bytes, or a text.

        Raises:
            ValueError: `bytes` is not a length.
        """
        return min(self.costs, key=lambda name: self.seconds(name, bytes))

    @property
    def title(self) -> str:
        """One line that says what was compared."""
        return f"{self.collective} on {self.topology}"

    def df(self) -> Any:
        """Returns the times in seconds as a pandas.DataFrame with a row for each size and a column for each algorithm.

        Raises:
            ImportError: pandas is not installed.
        """
        rows = [(size, *(self.seconds(name, size) for name in self.costs)) for size in self.sizes]
        return frame(rows, ["bytes", *self.costs])

    def plot(
        self, *, measured: Mapping[str, Mapping[int, float]] | None = None, axes: "Axes | None" = None
    ) -> "Figure":
        """Draws time over size, a line for each algorithm. Needs matplotlib.

        Args:
            measured: Measured seconds by algorithm and bytes, drawn as dots.
            axes: Where to draw. None: a new figure.

        Returns:
            The matplotlib figure.
        """
        from ringroad.lab.viz.lines import lines

        times = {name: [self.seconds(name, size) for size in self.sizes] for name in self.costs}
        title = f"{self.title}: {'predicted and measured' if measured else 'predicted'} times"
        return lines(self.sizes, times, title=title, measured=measured, axes=axes)

    def cells(self) -> list[list[str]]:
        """Returns the table as texts: a row for each size, with the times, and the name of the fastest."""
        return [
            [bytes_text(size), *(self._text(name, size) for name in self.costs), self.fastest(size)]
            for size in self.sizes
        ]

    def _text(self, name: str, size: int) -> str:
        return seconds_text(self.seconds(name, size)) if self.costs[name] else "-"

    @property
    def columns(self) -> list[str]:
        """The titles of `cells`."""
        return ["size", *self.costs, "fastest"]

    def __str__(self) -> str:
        rows = [self.columns, *self.cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join([self.title, *lines])

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.costs)}: {self.title}>"

    def _repr_html_(self) -> str:
        below = [f"{name}: {cost.steps} steps, {cost.hops} hops" for name, cost in self.costs.items() if cost]
        return table(self.title, self.cells(), self.columns, right=self.columns[:-1], below="\n".join(below))
