"""Networks for training: the time of an allreduce by its bytes."""

from dataclasses import dataclass

from ringroad._native import CostModel, Schedule, Topology
from ringroad._support.text import check_class, items, length


@dataclass(frozen=True)
class Line:
    """An allreduce that takes `fixed + per_byte * bytes` seconds.

    Attributes:
        name: The name of the algorithm.
        fixed: Seconds that do not depend on the bytes.
        per_byte: Seconds for each byte of the vector.
    """

    name: str
    fixed: float
    per_byte: float

    def seconds(self, bytes: int | str) -> float:
        """Returns the time for a vector.

        Args:
            bytes: The length of the vector, in bytes or with a unit, such as "1MiB".
        """
        return self.fixed + self.per_byte * length("bytes", bytes)


@dataclass(frozen=True)
class Network:
    """The allreduces that a network offers. For each size the cheapest one runs.

    Attributes:
        name: The network's name.
        lines: The allreduces.
        ranks: The number of ranks, if it is known.

    Example:
        `Network.on` has ringroad's allreduces; the constructor takes any others.

        >>> from ringroad.lab.training import Line, Network
        >>> Network("mine", (Line("mine", 120e-6, 163e-12),)).best("1MiB").name
        'mine'
    """

    name: str
    lines: tuple[Line, ...]
    ranks: int | None = None

    def __post_init__(self) -> None:
        for line in items("lines", self.lines):
            check_class("a line", line, Line)

    @classmethod
    def on(
        cls, topology: Topology | str | int, *, model: CostModel | None = None, algorithm: str | None = None
    ) -> "Network":
        """Returns the allreduces that give all ranks the same bits, by the cost model.

        Args:
            topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
            model: The cost model. None: `CostModel()`.
            algorithm: Only this algorithm.

        Returns:
            The network.

        Raises:
            ScheduleError: The algorithm is unknown, or does not run on this network.
            TopologyError: The topology is malformed.
        """
        topology = Topology(topology)
        model = CostModel() if model is None else model
        check_class("model", model, CostModel)
        if algorithm is not None:
            cost = model.cost(Schedule.build(algorithm, topology), topology, 0)
            lines = [Line(algorithm, cost.fixed, cost.per_byte)]
        else:
            found = model.explain("allreduce", topology, 0)
            candidates = [row for row in found.candidates if row.bit_identical]
            lines = [Line(row.algorithm, row.fixed, row.per_byte) for row in candidates]
        return cls(topology.spec, tuple(lines), topology.ranks)

    def best(self, bytes: int | str) -> Line:
        """Returns the cheapest allreduce for a vector; of those that cost the same, the first.

        Args:
            bytes: The length of the vector, in bytes or with a unit, such as "1MiB".
        """
        return min(self.lines, key=lambda line: line.seconds(bytes))
