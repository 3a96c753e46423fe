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

from ringroad.lab.training import Iteration, Line, Model, Network, iterate

RANKS, DEGREE = 1024, 4
ALPHA = 10e-6
BANDWIDTH = 100e9 / 8
"""Bytes per second of a rank, over all its links."""
BYTES = 1 << 20
"""The vector of table 4."""

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


@lru_cache(maxsize=64)
def _model(name: str, throughput: float) -> Model:
    return Model.load(name, throughput=throughput)


def _run(name: str, place: Network, throughput: float = math.inf) -> Iteration:
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


def ratios(rows: Sequence[Row], other: Network, compute: float) -> list[float]:
    """For each model the time on another network over that on the best one, both with `compute` seconds."""
    return [(compute + _run(row.model, other).communication) / (compute + row.best.communication) for row in rows]
