"""Compares the algorithm that the cost model chooses with all others, as simulated with ranks that do not wait for each
other: how much longer does the chosen one take than the fastest?

    python benchmarks/choice.py --json record.json

The result is the same on every machine.
"""

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import networkx
from ringroad import RingroadError, Topology
from ringroad.lab import CostModel, simulate

RATE = 12_500_000
"""The rate of a link in bytes per second: 100 Mbit/s."""
MODEL = CostModel(step_latency=30e-6, hop_latency=15e-6, message_latency=5e-6, incast_latency=2e-6)
"""About what the ranks of an emulated network take."""
COLLECTIVES = ("allreduce", "reduce_scatter", "allgather", "broadcast", "alltoall")
SIZES = (4 << 10, 64 << 10, 1 << 20, 8 << 20)
OVERLAP = 0.4
"""No schedule takes less than this fraction of its cost. So a candidate with a higher cost need not be simulated."""
SPECS = (
    *("ring:5", "ring:7", "ring:8", "ring:12", "switch:6", "switch:9", "complete:6", "hypercube:3", "hypercube:4"),
    *("torus:3x3", "torus:2x4", "torus:4x4", "torus:3x5", "torus:2x2x3", "twisted-torus:4x2", "mesh:3x4", "mesh:2x5"),
    *("hyperx:3x4", "petersen", "fattree:4x4:2", "hosts:1,2,3", "hosts:3x4", "hosts:4x2", "generalized-kautz:3:14"),
    *("directed-circulant:9:1,2", "without(torus:4x4, 0-1)", "without(torus:3x3, 0-1, 4-5)", "de-bruijn:2:3"),
)
CAPACITIES = (0.25, 0.5, 1.0, 2.0)


def graphs() -> Iterator[tuple[str, networkx.Graph]]:
    """Networks that no spec names: unequal rates in both directions or in one, and graphs without any symmetry."""
    for ranks in (6, 9):
        yield f"wheel of {ranks}", networkx.wheel_graph(ranks)
    ring = networkx.cycle_graph(8)
    ring.edges[0, 1]["capacity"] = 0.25
    yield "ring of 8 with a slow link", ring
    one_way = networkx.cycle_graph(6).to_directed()
    one_way.edges[0, 1]["capacity"] = 0.5
    yield "ring of 6, slow in one direction", one_way
    for seed, (degree, ranks) in enumerate(((3, 8), (3, 10), (4, 12))):
        graph = networkx.random_regular_graph(degree, ranks, seed=seed)
        for place, edge in enumerate(sorted(graph.edges)):
            graph.edges[edge]["capacity"] = CAPACITIES[(place * 7 + seed) % len(CAPACITIES)]
        yield f"random, {ranks} ranks of degree {degree}, unequal rates", graph
    prism = networkx.circular_ladder_graph(5)
    yield "prism of 10", prism
    racks = networkx.Graph()
    racks.add_nodes_from((8, 9), kind="switch")
    racks.add_edges_from((rank, 8 + rank // 4) for rank in range(8))
    racks.add_edge(8, 9, capacity=0.5)
    yield "two racks with a thin uplink", racks


@cache
def networks() -> dict[str, Topology]:
    found = {spec: Topology(f"{spec},bandwidth={8 * RATE / 1e6:g}Mbit/s") for spec in SPECS}
    for name, graph in graphs():
        arcs = graph if graph.is_directed() else graph.to_directed()
        links = [(a, b, {"bandwidth": RATE * data.get("capacity", 1.0)}) for a, b, data in arcs.edges(data=True)]
        rated = networkx.DiGraph()
        rated.add_nodes_from(sorted(graph.nodes(data=True)))
        rated.add_edges_from(links)
        found[name] = Topology.from_graph(rated, name=name)
    return found


@dataclass(frozen=True)
class Case:
    """A call, the chosen algorithm, the one with the lowest cost, and the fastest one, with simulated milliseconds."""

    network: str
    collective: str
    bytes: int
    chosen: str
    chosen_ms: float
    cheapest: str
    cheapest_ms: float
    best: str
    best_ms: float

    @property
    def loss(self) -> float:
        return self.chosen_ms / self.best_ms - 1

    @property
    def loss_by_cost(self) -> float:
        return self.cheapest_ms / self.best_ms - 1


def case(name: str, topology: Topology, collective: str, size: int) -> Case:
    bytes = -(-size // topology.ranks) * topology.ranks if collective == "alltoall" else size
    explained = MODEL.explain(collective, topology, bytes)
    allowed = [row for row in explained.candidates if row.bit_identical] or explained.candidates

    def seconds(algorithm: str) -> float:
        done = simulate(
            algorithm, topology, bytes, collective=collective, model=MODEL, free_running=True, details=False
        )
        return done.seconds

    by_cost = sorted(allowed, key=lambda row: row.seconds)
    times = {algorithm: seconds(algorithm) for algorithm in {explained.algorithm, by_cost[0].algorithm}}
    for row in by_cost:
        if row.algorithm not in times and OVERLAP * row.seconds < min(times.values()):
            times[row.algorithm] = seconds(row.algorithm)
    found = (explained.algorithm, by_cost[0].algorithm, min(times, key=lambda algorithm: times[algorithm]))
    chosen, cheapest, best = ((algorithm, 1e3 * times[algorithm]) for algorithm in found)
    return Case(name, collective, bytes, *chosen, *cheapest, *best)


def cases(name: str, collective: str, sizes: tuple[int, ...]) -> list[Case]:
    topology = networks()[name]
    try:
        return [case(name, topology, collective, size) for size in sizes]
    except RingroadError as error:
        raise RuntimeError(f"{collective} on {name}: {error}") from error


def line(losses: list[float]) -> str:
    near, far = sum(loss <= 0.05 for loss in losses), sum(loss > 0.15 for loss in losses)
    return f"   {100 * near / len(losses):8.1f} %  {far:9}  {100 * max(losses):10.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every case to this file")
    parser.add_argument("--only", default="", metavar="TEXT", help="only networks whose names contain this")
    asked = parser.parse_args()
    names = [name for name in networks() if asked.only in name]
    with ProcessPoolExecutor() as pool:
        jobs = [pool.submit(cases, name, collective, SIZES) for name in names for collective in COLLECTIVES]
        found = [case for job in jobs for case in job.result()]
    for one in sorted(found, key=lambda one: -one.loss):
        if one.loss > 0.05:
            print(
                f"{one.network}: {one.collective} of {one.bytes} bytes: {one.chosen} {one.chosen_ms:.2f} ms, "
                f"{one.best} {one.best_ms:.2f} ms, {100 * one.loss:.0f} % less"
            )
    print(f"{'':32}the choice                          the lowest cost")
    print(f"{'collective':16} cases" + 2 * "   within 5 %  over 15 %  largest loss")
    for collective in (*COLLECTIVES, "all"):
        some = [one for one in found if collective in (one.collective, "all")]
        cells = [line([one.loss for one in some]), line([one.loss_by_cost for one in some])]
        print(f"{collective:16} {len(some):5}" + "".join(cells))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
