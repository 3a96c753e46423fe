"""Networks to discover: the few of a table, and as many random ones as wanted, with every form that hosts can have."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import networkx
from ringroad import Topology

RATES = (10, 20, 50, 100, 200)
"""Of cables of random graphs, in Mbit/s."""


@dataclass(frozen=True)
class Emulated:
    """A network for the testbed.

    Attributes:
        name: What tables call it.
        topology: The network; its ranks are hosts.
        rate: Of the fastest cable, in Mbit/s.
        hosts: How many ranks each host has; None: one.
        order: The place of every rank; None: its own.
        bridges: Whether switches are bridges.
    """

    name: str
    topology: Topology
    rate: float = 100
    hosts: list[int] | None = None
    order: list[int] | None = None
    bridges: bool = False

    def words(self, folder: Path) -> list[str]:
        """Returns the arguments of `ringroad testbed` but for the rate. Writes the topology's file into the folder."""
        file = folder / "network.json"
        self.topology.save(file)
        words = [str(file)]
        words += ["--hosts", ",".join(map(str, self.hosts))] if self.hosts else []
        words += ["--order", ",".join(map(str, self.order))] if self.order else []
        return words + (["--bridges"] if self.bridges else [])


def with_rates(name: str, ranks: int, nodes: int, cables: list[tuple[int, int, float]]) -> Topology:
    """Cables between nodes, with rates in Mbit/s."""
    links = [(*ends, rate * 1e6 / 8, 1.0, 2e-5, 0.0) for a, b, rate in cables for ends in ((a, b), (b, a))]
    topology = Topology._from_links(name, ranks, nodes, links, [])
    return topology if nodes > ranks else topology.with_routing("single-path")


def racks(sizes: list[int], uplinks: list[float]) -> Topology:
    """Racks of so many hosts, each behind a switch, whose uplinks to a core switch carry so many Mbit/s; two racks are
    joined by one uplink. Hosts' cables carry 100 Mbit/s."""
    ranks = sum(sizes)
    rack = [number for number, size in enumerate(sizes) for _ in range(size)]
    cables = [(rank, ranks + rack[rank], 100.0) for rank in range(ranks)]
    core = ranks + len(sizes)
    if len(sizes) == 2:
        return with_rates("racks", ranks, core, [*cables, (ranks, ranks + 1, uplinks[0])])
    cables += [(ranks + number, core, uplink) for number, uplink in enumerate(uplinks)]
    return with_rates("racks", ranks, core + 1, cables)


def of_table() -> list[Emulated]:
    """Those on which unknown networks are compared with known ones."""
    shuffled = [4, 7, 0, 2, 8, 5, 1, 3, 6]
    # Two racks of three hosts, an uplink with half the rate of a cable between them, and one host with a quarter.
    two = Topology(Path(__file__).parent / "networks" / "racks.json")
    return [
        Emulated("ring:8", Topology("ring:8")),
        Emulated("torus:3x3, shuffled", Topology("torus:3x3"), order=shuffled),
        Emulated("hypercube:3", Topology("hypercube:3")),
        Emulated("switch:6", Topology("switch:6")),
        Emulated("switch:6, bridged", Topology("switch:6"), bridges=True),
        Emulated("hosts 1,2,3", Topology("switch:3"), hosts=[1, 2, 3]),
        Emulated("racks", two),
        Emulated("racks, bridged", two, bridges=True),
    ]


def at_random(count: int, seed: int) -> Iterator[Emulated]:
    """Networks of 3 to 16 ranks, all forms in turn."""
    draw = random.Random(seed)
    forms = [_regular, _tree, _several, _racks, _graph, _damaged, _bridged, _regular]
    for number in range(count):
        yield forms[number % len(forms)](draw)


def _order(draw: random.Random, ranks: int) -> list[int]:
    return draw.sample(range(ranks), ranks)


def _regular(draw: random.Random) -> Emulated:
    specs = [
        "ring:5",
        "ring:8",
        "torus:3x3",
        "torus:4x3",
        "hypercube:3",
        "hypercube:4",
        "mesh:3x4",
        "torus:4x4",
        "ring:13",
    ]
    spec = draw.choice(specs)
    topology = Topology(spec)
    return Emulated(f"{spec} shuffled", topology, draw.choice(RATES[1:]), order=_order(draw, topology.ranks))


def _tree(draw: random.Random) -> Emulated:
    """Routers that form a tree, with hosts at any of them."""
    routers, ranks = draw.randint(2, 5), draw.randint(4, 10)
    cables = [(ranks + number, ranks + draw.randrange(number), draw.choice(RATES[1:])) for number in range(1, routers)]
    # A router that joins only two others cannot be told from a slow cable's latency, but it answers.
    cables += [
        (rank, ranks + (rank if rank < routers else draw.randrange(routers)) % routers, 100) for rank in range(ranks)
    ]
    fastest = max(rate for *_, rate in cables)
    return Emulated(
        f"tree of {routers} routers, {ranks} hosts", with_rates("tree", ranks, ranks + routers, cables), fastest
    )


def _several(draw: random.Random) -> Emulated:
    """Hosts with unequal numbers of ranks."""
    spec = draw.choice(["switch:3", "switch:4", "ring:4", "ring:5", "mesh:2x2"])
    topology = Topology(spec)
    counts = [draw.randint(1, 3) for _ in range(topology.ranks)]
    return Emulated(f"{spec} with {','.join(map(str, counts))} ranks", topology, 100, hosts=counts)


def _racks(draw: random.Random) -> Emulated:
    sizes = [draw.randint(2, 4) for _ in range(draw.randint(2, 3))]
    uplinks = [draw.choice([50.0, 100.0]) for _ in sizes]
    return Emulated(f"racks of {sizes} behind routers", racks(sizes, uplinks), 100)


def _bridged(draw: random.Random) -> Emulated:
    if draw.random() < 0.25:
        size = draw.randint(3, 8)
        return Emulated(f"switch:{size} bridged", Topology(f"switch:{size}"), 100, bridges=True)
    sizes = [draw.randint(2, 4) for _ in range(draw.randint(2, 3))]
    uplinks = [draw.choice([50.0, 25.0]) for _ in sizes]
    topology = racks(sizes, uplinks)
    ranks = topology.ranks
    return Emulated(f"racks of {sizes} bridged", topology, 100, order=_order(draw, ranks), bridges=True)


def _graph(draw: random.Random) -> Emulated:
    """A connected random graph, with cables of several rates."""
    ranks = draw.randint(5, 12)
    while True:
        graph = networkx.gnm_random_graph(ranks, draw.randint(ranks, 2 * ranks), seed=draw.randrange(1 << 30))
        if networkx.is_connected(graph):
            break
    cables = [(a, b, draw.choice(RATES)) for a, b in graph.edges]
    fastest = max(rate for *_, rate in cables)
    return Emulated(
        f"random graph of {ranks}, {len(cables)} cables", with_rates("random", ranks, ranks, cables), fastest
    )


def _damaged(draw: random.Random) -> Emulated:
    """A torus or hypercube without one of its cables."""
    whole = Topology(draw.choice(["torus:3x3", "torus:4x3", "hypercube:3", "hypercube:4", "ring:7"]))
    a, b, *_ = draw.choice(whole.links)
    damaged = whole.without_links([(a, b)])
    return Emulated(f"{whole.spec} without {a}-{b}", damaged, 100, order=_order(draw, whole.ranks))
