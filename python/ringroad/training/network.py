"""Networks for training: the time of an allreduce by its bytes."""

from dataclasses import dataclass

from ringroad._native import CostModel, Schedule, Topology


@dataclass(frozen=True)
class Line:
    """An allreduce that takes `fixed + per_byte * bytes` seconds."""

    name: str
    fixed: float
    per_byte: float

    def seconds(self, bytes: int) -> float:
        """The time of an allreduce of `bytes`, in seconds."""
        return self.fixed + self.per_byte * bytes


@dataclass(frozen=True)
class Network:
    """The allreduces of a network; for each size the cheapest one runs.

    `Network.on("torus:4x4")` has ringroad's algorithms; `Network("mine", (Line("mine", 120e-6, 163e-12),))` is any
    other network.
    """

    name: str
    lines: tuple[Line, ...]
    ranks: int | None = None

    @classmethod
    def on(
        cls, topology: Topology | str | int, *, model: CostModel | None = None, algorithm: str | None = None
    ) -> "Network":
        """The network of a topology: by the cost model, all algorithms that leave the same bits on all ranks, or
        `algorithm`."""
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
        """The cheapest allreduce for `bytes`; of equal ones the first."""
        return min(self.lines, key=lambda line: line.seconds(bytes))
