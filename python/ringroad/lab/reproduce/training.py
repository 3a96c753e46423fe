"""The training simulation of Zhao et al., arXiv 2202.03356: section 8.4, figure 8 (b) and table 8.

The paper overlaps an allreduce's estimated time, `T_L * alpha + T_B * M / B`, with the times at which each layer's
gradient is ready. It measured these times on an A100 and does not state them. This module does not need them: if every
gradient is ready before the allreduce of the first one ends, there are exactly two allreduces, whatever the times are.
All of the paper's statements about allreduce time then agree. `agreeing` shows how that changes if the time of a layer
follows from its operations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ringroad._support.text import print_table, print_wrapped, seconds_text
from ringroad.lab.training import Iteration, Line, Model, Network, iterate

RANKS, DEGREE = 1024, 4
ALPHA = 10e-6
BANDWIDTH = 100e9 / 8
"""Bytes per second of a rank, over all its links."""

_BEST = 2 * (RANKS - 1) / RANKS


def network(name: str, steps: int, volume: float) -> Network:
    """A network whose allreduce takes `steps` alphas and sends `volume` vectors at the bandwidth of a rank."""
    return Network(name, (Line(name, steps * ALPHA, volume / BANDWIDTH),), RANKS)


FRONTIER = (
    network("Π(4,1024)", 10, 2.66406),
    network("L³(C(16,{3,4}))", 12, 2 + 40 / 1024),
    network("L²(Diamond²)", 16, 2 + 8 / 1024),
    network("L(DBJMod(2,4)²)", 22, 2.0),
    network("(UniRing(1,4)□UniRing(1,8))²", 40, _BEST),
)
"""Table 4: no other topology of 1,024 ranks and degree 4 is better in both steps and bytes."""

BOUND = network("lower bound", 10, _BEST)
SHIFTED_RING = network("ShiftedRing", 2 * (RANKS - 1), _BEST)
DOUBLE_TREE = network("double binary tree", 2 * round(math.log2(RANKS)), 2 * math.log2(RANKS) * DEGREE)

_L3, _L2, _L1 = (one.name for one in FRONTIER[1:4])
TABLE_8 = {
    "alexnet": _L1,
    "inception_v3": _L2,
    "resnet18": _L2,
    "resnet50": _L2,
    "resnext50_32x4d": _L2,
    "shufflenet_v2_x2_0": _L3,
    "squeezenet1_1": _L3,
    "vgg16": _L1,
    "vgg19": _L1,
    "bert": _L1,
    "gpt2": _L1,
}
"""The topology that the paper chose for each model."""

COMPUTE = 7e-3
"""The seconds that every model computes, fitted to the paper's statements about minibatch times."""

MISSING = (
    "the time at which each layer's gradient is ready (measured on an A100): assumed within the first allreduce",
    "the time that a model computes in a minibatch: 7 ms for each, fitted to the statements about minibatch time",
    "the sizes of bert and gpt2: base and small; the batch and the length of sequences have no effect here",
    "the type of gradients: float32; the layers: modules with parameters",
    "the cost of a double binary tree: each of its 2 log2 N steps sends the whole vector over one link, B / d; with "
    "all of B, as in section 5.4 for table 4, it takes 9.6 times as long as the best",
)
"""Data that the paper does not state, and our assumptions instead."""


@dataclass(frozen=True)
class Row:
    """A model of table 8: the topology that the paper states, and the one with the least allreduce time."""

    model: str
    stated: str
    iterations: tuple[Iteration, ...]

    @property
    def best(self) -> Iteration:
        """The iteration with the least allreduce time."""
        return min(self.iterations, key=lambda iteration: iteration.communication)

    @property
    def computed(self) -> str:
        """The network of the best iteration."""
        return self.best.network.name

    @property
    def agrees(self) -> bool:
        """Whether it is the paper's topology."""
        return self.computed == self.stated


@dataclass(frozen=True)
class Statement:
    """A number of section 8.4, and our value. They agree if they differ by at most `margin`, a fraction of the stated
    number. With `bound` they also agree if our value is smaller. `fitted`: an assumption was fitted to it."""

    text: str
    stated: float
    ours: float
    unit: str
    margin: float = 0.05
    bound: bool = False
    fitted: bool = False

    @property
    def agrees(self) -> bool:
        """Whether both agree."""
        difference = self.ours / self.stated - 1
        return difference <= self.margin and (self.bound or difference >= -self.margin)

    @property
    def tolerance(self) -> str:
        """The margin as text; that of a bound is one-sided."""
        return f"{'<= ' if self.bound else ''}{100 * self.margin:g} %"

    @property
    def stated_text(self) -> str:
        """The stated number as text."""
        return f"{'<= ' if self.bound else ''}{self.show(self.stated)}"

    def show(self, number: float) -> str:
        """One of the two numbers as text."""
        return f"{100 * number:.2g} %" if self.unit == "%" else f"{number:.2g}x"


@lru_cache(maxsize=64)
def _model(name: str, throughput: float) -> Model:
    return Model.load(name, throughput=throughput)


def _run(name: str, place: Network, throughput: float) -> Iteration:
    return iterate(_model(name, throughput), place, bucket="backlog")


def table8(networks: Sequence[Network] = FRONTIER, *, throughput: float = math.inf) -> list[Row]:
    """Every model on all networks; a layer's time follows from its operations and `throughput` (per second)."""
    return [
        Row(name, stated, tuple(_run(name, place, throughput) for place in networks))
        for name, stated in TABLE_8.items()
    ]


def agreeing(throughputs: Sequence[float]) -> list[tuple[float, int]]:
    """For each throughput the number of models whose best topology, by allreduce time, is the paper's."""
    return [(speed, sum(row.agrees for row in table8(throughput=speed))) for speed in throughputs]


def statements(networks: Sequence[Network] = FRONTIER) -> list[Statement]:
    """The statements of section 8.4 about all eleven models together, and our values with two allreduces for each."""
    rows = table8(networks)

    def ratios(other: Network, compute: float) -> list[float]:
        """For each model the time on another network over that on the best one; both include `compute` seconds."""
        return [
            (compute + _run(row.model, other, math.inf).communication) / (compute + row.best.communication)
            for row in rows
        ]

    found = []
    for what, compute, ring, tree, mean, most in (
        ("allreduce time", 0.0, 6.7, 38, 0.015, 0.057),
        ("minibatch time", COMPUTE, 2.6, 28, 0.007, 0.017),
    ):
        above = [1 / ratio - 1 for ratio in ratios(BOUND, compute)]
        rings, trees = (_mean(ratios(other, compute)) for other in (SHIFTED_RING, DOUBLE_TREE))
        fitted = compute > 0
        found += [
            Statement(f"{what} of ShiftedRing over the best, mean", ring, rings, "x", fitted=fitted),
            Statement(f"{what} of double trees over the best, mean", tree, trees, "x", fitted=True),
            Statement(f"{what} above the lower bound, mean", mean, _mean(above), "%", fitted=fitted),
            Statement(f"{what} above the lower bound, at most", most, max(above), "%", bound=True, fitted=fitted),
        ]
    return found


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def show(networks: Sequence[Network] = FRONTIER) -> None:
    """Prints the tables and the assumptions."""
    rows = table8(networks)
    header = ["model", "allreduce", "over the bound", "best", "the paper's", "agrees"]
    table = []
    for row in rows:
        bound = _run(row.model, BOUND, math.inf).communication
        above = f"{100 * (row.best.communication / bound - 1):.2f} %"
        agrees = "yes" if row.agrees else "no"
        table.append([row.model, seconds_text(row.best.communication), above, row.computed, row.stated, agrees])
    print("Table 8: the topology with the least allreduce time, N = 1024, d = 4\n")
    print_table(header, table, right=header[1:3])
    print("\nSection 8.4, all models together\n")
    header = ["the paper states", "stated", "ours", "agrees"]
    texts = [[s.text, s.stated_text, s.show(s.ours), "yes" if s.agrees else "no"] for s in statements(networks)]
    print_table(header, texts, right=header[1:3])
    print("\nIf the time of a layer follows from its operations at this speed, batch 64\n")
    speeds = agreeing([math.inf, 1e15, 3e14, 1e14, 5e13, 2e13])
    print_table(["TFLOP/s", "rows that agree"], [[f"{s / 1e12:g}", f"{n} of {len(rows)}"] for s, n in speeds])
    print("\nThe paper does not state, so assumed here:")
    for text in MISSING:
        print_wrapped(f"  - {text}", "    ")
