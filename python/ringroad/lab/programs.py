"""The linear programs of all-to-all, solved by HiGHS, to compare with `ringroad.lab.synthesis.alltoall_flow`.

Basu et al.: Efficient all-to-all collective communication schedules for direct-connect topologies, HPDC 2024, states
maximum concurrent flow in these ways. They are exact and slow: 16 ranks take a moment, hundreds take minutes.
They need highspy and networkx, the package's extra `programs`.

All of them return rates as `AlltoallFlow.rate` does: how often per second all demands can be met; without demands, in
bytes per second of each pair.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringroad._arrays import as_numbers
from ringroad._native import Topology
from ringroad._support.text import whole

__all__ = ["children_rate", "link_flows", "link_rate", "master_rate", "path_rate", "stepped_rate", "widest_paths"]
__dir__ = __all__.copy

Term = tuple[int, float]
Link = tuple[int, int]
"""From a rank to a neighbour."""


class _Program:
    """A linear program: non-negative variables, and rows of them between bounds."""

    def __init__(self, variables: int) -> None:
        self.variables = variables
        self.costs = np.zeros(variables)
        self.starts: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []

    def row(self, lower: float, terms: Iterable[Term], upper: float) -> None:
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)
        for column, value in terms:
            self.columns.append(column)
            self.values.append(value)

    def minimise(self) -> tuple[float, NDArray[np.float64]]:
        try:
            highspy: Any = importlib.import_module("highspy")
        except ImportError:
            raise ImportError("linear programs need highspy; install it with pip install highspy") from None
        # highspy.Highs prints a banner before its output can be switched off; its base class does not.
        solver = highspy.Highs.__base__()
        solver.setOptionValue("output_flag", False)
        endless = highspy.kHighsInf
        solver.addVars(self.variables, np.zeros(self.variables), np.full(self.variables, endless))
        solver.changeColsCost(self.variables, np.arange(self.variables, dtype=np.int32), self.costs)
        bounded = [np.clip(np.array(side), -endless, endless) for side in (self.lower, self.upper)]
        starts, columns = (np.array(numbers, dtype=np.int32) for numbers in (self.starts, self.columns))
        solver.addRows(len(starts), *bounded, len(columns), starts, columns, np.array(self.values))
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            raise ValueError("no flow meets all demands: the steps are too few, or ranks cannot reach each other")
        if status != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"HiGHS ends with {solver.modelStatusToString(status)}")
        return float(solver.getInfo().objective_function_value), np.array(solver.getSolution().col_value)


class _Network:
    """Links and demands, scaled to numbers near 1. Parallel links are one link. Switches only forward."""

    def __init__(self, topology: Topology | str | int, demands: ArrayLike | None) -> None:
        resolved = Topology(topology)
        if resolved.ranks < 2:
            raise ValueError(f"{resolved.spec} has one rank, which sends nothing")
        self.ranks, self.nodes = resolved.ranks, resolved.nodes
        speeds: dict[tuple[int, int], float] = {}
        for source, target, bandwidth, capacity, *_ in resolved._links():
            speeds[source, target] = speeds.get((source, target), 0.0) + bandwidth * capacity
        self.links = sorted(speeds)
        self.unit = max(speeds.values())
        self.speeds = np.array([speeds[link] / self.unit for link in self.links])
        given = np.ones((self.ranks, self.ranks)) if demands is None else as_numbers(demands, "demands")
        if given.shape != (self.ranks, self.ranks):
            raise ValueError(f"demands for {self.ranks} ranks have shape {(self.ranks,) * 2}, not {given.shape}")
        np.fill_diagonal(given, 0)
        self.largest = given.max()
        if not (np.isfinite(given).all() and given.min() >= 0 and self.largest > 0):
            raise ValueError("demands are finite and not negative, and not all of them 0")
        self.demands = np.zeros((self.nodes, self.nodes))
        self.demands[: self.ranks, : self.ranks] = given / self.largest
        self.out: list[list[int]] = [[] for _ in range(self.nodes)]
        self.into: list[list[int]] = [[] for _ in range(self.nodes)]
        for number, (source, target) in enumerate(self.links):
            self.out[source].append(number)
            self.into[target].append(number)
        self.pairs = [(int(s), int(t)) for s, t in zip(*np.nonzero(self.demands), strict=True)]

    def rate(self, value: float) -> float:
        return float(value * self.unit / self.largest)


def link_rate(topology: Topology | str | int, demands: ArrayLike | None = None) -> float:
    """Returns the rate by formulas (1) to (5): a flow for each pair over each link.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        demands: Bytes from each rank to each rank, shape `(ranks, ranks)`. None: a byte for each pair.
    """
    return link_flows(topology, demands)[0]


def link_flows(
    topology: Topology | str | int, demands: ArrayLike | None = None
) -> tuple[float, dict[tuple[int, int], dict[Link, float]]]:
    """Returns the rate of `link_rate` with the flows.

    A flow may carry more than the rate, and may go in cycles: `widest_paths` returns the part that arrives.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        demands: As for `link_rate`.

    Returns:
        The rate, and for each pair the bytes per second over each link that it uses.
    """
    net = _Network(topology, demands)
    links, rate = len(net.links), len(net.pairs) * len(net.links)
    program = _Program(rate + 1)
    program.costs[rate] = -1
    for link, speed in enumerate(net.speeds):
        program.row(0, ((pair * links + link, 1.0) for pair in range(len(net.pairs))), speed)
    for pair, (source, target) in enumerate(net.pairs):
        for node in range(net.nodes):
            entering = [(pair * links + link, 1.0) for link in net.into[node]]
            leaving = [(pair * links + link, -1.0) for link in net.out[node]]
            if node == target:
                program.row(0, [*entering, *leaving, (rate, -net.demands[source, target])], np.inf)
            elif node != source:
                program.row(0, entering + leaving, np.inf)
    value, solution = program.minimise()
    flows = solution[:rate].reshape(len(net.pairs), links) * net.unit
    used = [{net.links[link]: float(flow[link]) for link in np.flatnonzero(flow > 0)} for flow in flows]
    return net.rate(-value), dict(zip(net.pairs, used, strict=True))


def widest_paths(
    flow: Mapping[Link, float], source: int, target: int, *, least: float = 1e-9
) -> list[tuple[float, tuple[int, ...]]]:
    """Returns the paths of a flow, the widest first, as the paper extracts them.

    Args:
        flow: Bytes per second by link.
        source: The rank where the flow starts.
        target: The rank where it ends.
        least: The extraction ends when the next path carries no more than this fraction of the first one.

    Returns:
        Tuples of what a path carries and its nodes.
    """
    left = dict(flow)
    paths: list[tuple[float, tuple[int, ...]]] = []
    while True:
        width, path = _widest(left, source, target)
        if width <= least * (paths[0][0] if paths else 0):
            return paths
        paths.append((width, path))
        for link in pairwise(path):
            left[link] -= width


def _widest(flow: Mapping[Link, float], source: int, target: int) -> tuple[float, tuple[int, ...]]:
    """The widest path and its width (that of its narrowest link), or 0 and no path: Dijkstra's algorithm with min for
    sum."""
    onward: dict[int, list[tuple[int, float]]] = {}
    for (start, end), width in flow.items():
        onward.setdefault(start, []).append((end, width))
    waiting: list[tuple[float, tuple[int, ...]]] = [(-np.inf, (source,))]
    done: set[int] = set()
    while waiting:
        narrowest, path = heappop(waiting)
        here = path[-1]
        if here == target:
            return float(-narrowest), path
        if here not in done:
            done.add(here)
            for end, width in onward.get(here, ()):
                if width > 0 and end not in done:
                    heappush(waiting, (max(narrowest, -width), (*path, end)))
    return 0.0, ()


def master_rate(topology: Topology | str | int, demands: ArrayLike | None = None) -> float:
    """Returns the rate by formulas (6) to (9), the master of the decomposition: a flow for each source over each link.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        demands: As for `link_rate`.
    """
    return _master(_Network(topology, demands))[0]


def _master(net: _Network) -> tuple[float, NDArray[np.float64]]:
    links, rate = len(net.links), net.ranks * len(net.links)
    program = _Program(rate + 1)
    program.costs[rate] = -1
    for link, speed in enumerate(net.speeds):
        program.row(0, ((source * links + link, 1.0) for source in range(net.ranks)), speed)
    for source in range(net.ranks):
        for node in range(net.nodes):
            entering = [(source * links + link, 1.0) for link in net.into[node]]
            if node == source:
                program.row(0, entering, 0)
                continue
            leaving = [(source * links + link, -1.0) for link in net.out[node]]
            program.row(0, [*entering, *leaving, (rate, -net.demands[source, node])], np.inf)
    value, solution = program.minimise()
    return net.rate(-value), solution[:rate].reshape(net.ranks, links)


def children_rate(topology: Topology | str | int, demands: ArrayLike | None = None) -> float:
    """Returns the rate by formulas (10) to (14): each source's flow of the master, as flows for pairs.

    It is the least rate of all sources.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        demands: As for `link_rate`.
    """
    net = _Network(topology, demands)
    links = len(net.links)
    _, given = _master(net)
    least = np.inf
    for source in range(net.ranks):
        targets = [target for s, target in net.pairs if s == source]
        rate = len(targets) * links
        if not targets:
            continue
        program = _Program(rate + 1)
        program.costs[rate] = -1
        for link in range(links):
            program.row(0, ((index * links + link, 1.0) for index in range(len(targets))), given[source, link])
        for index, target in enumerate(targets):
            for node in set(range(net.nodes)) - {source}:
                entering = [(index * links + link, 1.0) for link in net.into[node]]
                leaving = [(index * links + link, -1.0) for link in net.out[node]]
                wanted = [(rate, -net.demands[source, target])] if node == target else []
                program.row(0, [*entering, *leaving, *wanted], np.inf)
        least = min(least, -program.minimise()[0])
    return net.rate(least)


def stepped_rate(topology: Topology | str | int, steps: int, demands: ArrayLike | None = None) -> float:
    """Returns the rate by formulas (15) to (20): flows in steps, in which a rank passes on only what it has.

    The lengths of the steps add up to the time in which all demands are met once.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        steps: The number of steps: at least the hops between the two ranks that are the farthest apart.
        demands: As for `link_rate`.

    Raises:
        ValueError: The steps are too few.
    """
    if whole("steps", steps) < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    net = _Network(topology, demands)
    links, pairs = len(net.links), len(net.pairs)
    lengths = pairs * links * steps

    def column(pair: int, link: int, step: int) -> int:
        return (step * pairs + pair) * links + link

    program = _Program(lengths + steps)
    program.costs[lengths:] = 1
    for step in range(steps):
        for link, speed in enumerate(net.speeds):
            used = [(column(pair, link, step), 1.0) for pair in range(pairs)]
            program.row(-np.inf, [*used, (lengths + step, -speed)], 0)
    for pair, (source, target) in enumerate(net.pairs):
        demand = net.demands[source, target]

        def passed(links: Sequence[int], end: int, sign: float, pair: int = pair) -> list[Term]:
            return [(column(pair, link, step), sign) for link in links for step in range(end)]

        program.row(demand, passed(net.out[source], steps, 1), demand)
        program.row(demand, passed(net.into[target], steps, 1), demand)
        program.row(0, passed(net.into[source], steps, 1), 0)
        program.row(0, passed(net.out[target], steps, 1), 0)
        for node in set(range(net.nodes)) - {source, target}:
            for step in range(steps):
                program.row(0, passed(net.into[node], step, 1) + passed(net.out[node], step + 1, -1), np.inf)
            program.row(0, passed(net.into[node], steps, 1) + passed(net.out[node], steps, -1), 0)
    return net.rate(1 / program.minimise()[0])


def path_rate(
    topology: Topology | str | int,
    demands: ArrayLike | None = None,
    *,
    paths: Literal["shortest", "disjoint"] = "disjoint",
) -> float:
    """Returns the rate by formulas (21) to (24): demands over given paths.

    Args:
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        demands: As for `link_rate`.
        paths: "shortest": all shortest paths. "disjoint": as many paths as share no link.

    Raises:
        ValueError: `paths` is something else.
    """
    nx: Any = importlib.import_module("networkx")
    net = _Network(topology, demands)
    graph = nx.DiGraph(net.links)
    number = {link: index for index, link in enumerate(net.links)}
    every: list[tuple[int, list[int]]] = []
    for pair, (source, target) in enumerate(net.pairs):
        if paths == "shortest":
            found = nx.all_shortest_paths(graph, source, target)
        elif paths == "disjoint":
            found = nx.edge_disjoint_paths(graph, source, target)
        else:
            raise ValueError(f"paths must be shortest or disjoint, not {paths!r}")
        every += [(pair, [number[hop] for hop in pairwise(path)]) for path in found]
    rate = len(every)
    program = _Program(rate + 1)
    program.costs[rate] = -1
    users: list[list[Term]] = [[] for _ in net.links]
    parts: list[list[Term]] = [[] for _ in net.pairs]
    for column, (pair, hops) in enumerate(every):
        parts[pair].append((column, 1.0))
        for link in hops:
            users[link].append((column, 1.0))
    for link, speed in enumerate(net.speeds):
        program.row(0, users[link], speed)
    for (source, target), terms in zip(net.pairs, parts, strict=True):
        program.row(0, [*terms, (rate, -net.demands[source, target])], np.inf)
    return net.rate(-program.minimise()[0])
