"""Prints which algorithms are ever chosen: python tools/chosen.py [--most RANKS] [--patience SECONDS]

Asks the cost models, without measurements, for every collective and every size of vectors, on networks of all families
from 2 ranks to --most. It leaves a family when a network has taken longer than --patience. A part of a chosen algorithm
(`hierarchical:ring`) is chosen, too.
"""

import argparse
import math
import time
from collections.abc import Iterator
from typing import Any

import ringroad
from ringroad import CostModel
from ringroad._native import collectives

CORES = 4
"""The cores of a host on which more ranks than that take turns."""


def models(ranks: int) -> dict[str, CostModel]:
    """What predicts times without measurements: the default, and what communicators take for networks, shared memory,
    more ranks than cores, and hosts that one machine emulates (`choice/agreement.rs`)."""
    network: dict[str, Any] = {
        "step_latency": 1e-6,
        "message_latency": 0.5e-6,
        "incast_latency": 0.0,
        "reduce_cost": 5e-11,
    }
    shared = {"step_latency": 0.5e-6, "message_latency": 0.1e-6, "bandwidth": 27.5e9, "reduce_cost": 4e-12}
    oversubscribed = {
        "step_latency": 0.5e-6 + 2.5e-6 * (ranks / CORES - 1),
        "message_latency": 0.6e-6,
        "bandwidth": 80e9,
    }
    found = {
        "default": CostModel(),
        "network": CostModel(**network),
        "memory": CostModel(**network | shared),
        "emulated": CostModel(**network | {"message_latency": 5.5e-6}, cores=CORES, over_links=True),
    }
    if ranks > CORES:
        found["few cores"] = CostModel(**network | oversubscribed | {"reduce_cost": 2.5e-11}, cores=CORES)
    return found


def numbers(most: int) -> Iterator[int]:
    """All small numbers of ranks, then powers of two, their neighbours and what lies between."""
    yield from range(2, min(most, 40) + 1)
    for exponent in range(5, 13):
        power = 1 << exponent
        yield from (n for n in (power - 1, power, power + 1, power * 5 // 4, power * 3 // 2) if 40 < n <= most)


def grids(most: int) -> Iterator[str]:
    """Grids of two to four dimensions."""
    for a in (2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 27, 32, 64):
        for shape in ((a, a), (a, a + 1), (2 * a, a), (2, a), (a, 8), (a, a, a), (4, a, 2), (a, a, 2), (a, 3, 3, 2)):
            if math.prod(shape) <= most:
                yield "x".join(map(str, shape))


def specs(most: int) -> Iterator[list[str]]:
    """The networks of each family."""
    one, two = list(numbers(most)), sorted(set(grids(most)), key=lambda spec: math.prod(map(int, spec.split("x"))))
    pairs = [spec for spec in two if spec.count("x") == 1]
    for name in ("ring", "switch", "mesh"):
        yield [f"{name}:{n}" for n in one]
    for name in ("torus", "mesh", "hyperx"):
        yield [f"{name}:{spec}" for spec in two]
    yield [f"complete:{n}" for n in one if n <= 256]
    yield [f"complete-bipartite:{n // 2}" for n in one if n <= 256]
    yield [f"twisted-torus:{2 * a}x{a}" for a in range(2, 45) if 2 * a * a <= most]
    yield [f"hammingmesh:{board}:{spec}" for spec in pairs for board in ("1x1", "2x2", "4x4", "2x3")]
    yield [f"hypercube:{d}" for d in range(1, 13) if 1 << d <= most]
    yield [f"twisted-hypercube:{d}" for d in range(3, 13) if 1 << d <= most]
    yield [f"fattree:{spec}{up}" for spec in pairs for up in ("", ":2", ":4")]
    yield [f"hosts:{spec}" for spec in pairs]
    yield ["hosts:1,2,3", "hosts:2,3", "hosts:1,1,4", "hosts:3,4,5,6", "hosts:4,4,3", "hosts:8,8,7,8"]
    yield [f"circulant:{n}:{m},{m + 1}" for n in one if n > 6 for m in (round(math.sqrt(n / 2)),) if 2 * m + 2 < n]
    yield [f"directed-circulant:{n}:1,{round(math.sqrt(n))}" for n in one if n > 4]
    yield [f"generalized-kautz:{d}:{n}" for n in one for d in (2, 4, 8) if d < n]
    yield [f"kautz:{d}:{k}" for k in (1, 2, 3, 4) for d in (2, 3, 4, 8) if (d + 1) * d**k <= most]
    yield [f"de-bruijn:{d}:{k}" for k in range(2, 9) for d in (2, 3, 4) if d**k <= most]
    yield [f"uniring:{d}:{n}" for n in one for d in (1, 2, 4)]
    yield [f"biring:{d}:{n}" for n in one if n > 2 for d in (2, 4)]
    yield [f"hamming:{d}:{k}" for k in (2, 3, 4, 8) for d in (2, 3, 4) if k**d <= most]
    yield [f"{name}:{k}" for k in (2, 3, 4, 5, 6) for name in ("odd-graph", "doubled-odd-graph")]
    families, operators, _ = ringroad.Topology._kinds()
    examples = [spec for spec, _ in (*families, *operators) if spec != "net.graphml"]
    named = [name for _, text in families if "others are " in text for name in text.split("others are ")[1].split(", ")]
    yield [*examples, *named, "without(torus:8x8, 0-1)", "without(ring:9, 3-4)", "bottleneck(torus:8x8, 2)"]


def ask(spec: str, found: dict[tuple[str, str], str]) -> None:
    """Adds what is chosen on a network: for each algorithm and collective an example."""
    network = ringroad.Topology(spec)
    for collective in collectives():
        for about, model in models(network.ranks).items():
            for bit_identical in (True, False):
                for size, member in model.switch_points(collective, network, bit_identical):
                    for part in member.split(":"):
                        found.setdefault((part, collective), f"{spec} from {size} bytes on, {about}")


def main() -> None:
    """Prints a line for each algorithm and collective."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=4096)
    parser.add_argument("--patience", type=float, default=20.0)
    arguments = parser.parse_args()
    found: dict[tuple[str, str], str] = {}
    for family in specs(arguments.most):
        asked = 0
        for spec in family:
            start = time.monotonic()
            ask(spec, found)
            asked += 1
            if time.monotonic() - start > arguments.patience:
                break
        print(f"# {asked} of {len(family)} networks, up to {spec}", flush=True)
    for algorithm in ringroad.algorithms():
        for collective in algorithm.collectives:
            print(f"{algorithm.name:30}{collective:16}{found.get((algorithm.name, collective), 'never')}")


if __name__ == "__main__":
    main()
