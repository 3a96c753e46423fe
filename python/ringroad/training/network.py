"""Networks as training sees them: how long an allreduce of so many bytes takes."""

from dataclasses import dataclass

from ringroad._native import CostModel, Schedule, Topology


@dataclass(frozen=True)
class Line:
    """An allreduce that takes `fixed + per_byte * bytes` seconds."""

    name: str
    fixed: float
    per_byte: float

    def seconds(self, bytes: int) -> float:
        """What it takes."""
        return self.fixed + self.per_byte * bytes


@dataclass(frozen=True)
class Network:
    """The allreduces that a network offers; the cheapest for a size is the one that runs.

    `Network.on("torus:4x4")` has ringroad's; `Network("mine", (Line("mine", 120e-6, 163e-12),))` any other one.
    """

    name: str
    lines: tuple[Line, ...]
    ranks: int | None = None

    @classmethod
    def on(
        cls, topology: Topology | str | int, *, model: CostModel | None = None, algorithm: str | None = None
    ) -> "Network":
        """What the cost model says of all algorithms that leave the same bits on all ranks, or of the one given."""
        if not isinstance(topology, Topology):
            topology = Topology(topology if isinstance(topology, str) else f"ring:{topology}")
        model = model or CostModel()
        if algorithm is not None:
            cost = model.cost(Schedule.build(algorithm, topology), topology, 0)
            lines = [Line(algorithm, cost.fixed, cost.per_byte)]
        else:
            candidates = [row for row in model.explain("allreduce", topology, 0) if row.consistent]
            lines = [Line(row.algorithm, row.fixed, row.per_byte) for row in candidates]
        return cls(topology.spec, tuple(lines), topology.ranks)

    def best(self, bytes: int) -> Line:
        """The cheapest for so many bytes; the first of those that cost the same."""
        return min(self.lines, key=lambda line: line.seconds(bytes))
