"""The statements of Basu et al. (HPDC 2024) on all-to-alls: `ringroad lab reproduce basu`.

basu.toml holds the paper's statements. The linear programs are those of `ringroad.lab.programs`, the flows those of
`alltoall_flow`, and the single paths those of `ringroad.lab.routes`.
"""

import time
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from importlib.util import find_spec
from statistics import fmean
from typing import Any

from ringroad._native import CostModel, Schedule, Topology
from ringroad._support.text import seconds_text
from ringroad.lab import programs, routes
from ringroad.lab.reproduce import graphs
from ringroad.lab.reproduce.definition import NetworkDefinition
from ringroad.lab.reproduce.tables import Chart, TableReport
from ringroad.lab.synthesis import AlltoallFlow, alltoall_flow

PAPER = "basu"
_EXACT = 1e-6
_PROVEN = 0.005
_COARSE = 0.01


def reports(definition: NetworkDefinition) -> list[tuple[str, Callable[[], TableReport]]]:
    """The names of all tables, each with a function that makes it."""
    missing = [name for name in ("highspy", "networkx") if find_spec(name) is None]
    if missing:
        raise ValueError(f"{' and '.join(missing)} not found; install with: pip install {' '.join(missing)}")
    tables = definition.tables
    few, more = tables["figure9"]["expanders"], tables["figure12"]
    made: dict[str, Callable[[], TableReport]] = {
        "Section 3.1": lambda: equal_programs(tables["programs"]),
        "Theorem 2": lambda: bound(tables["bound"]),
        "Section 6.2": lambda: schedules(tables["schedules"]),
        "Figure 6": lambda: seconds_taken(tables["figure6"]),
        "Figure 7": lambda: one_path(tables["figure7"]),
        "Section 3.1.4": lambda: disjoint_paths(tables["disjoint"]),
        "Figures 8 and 11": lambda: near_the_bound(tables["figure8"]),
        "Section 6.4": lambda: over_tori(tables["figure9"]),
        "Figure 9": lambda: over_expanders("Figure 9", 4, few, stated=0.1),
        "Figure 12": lambda: over_expanders("Figure 12", more["degree"], more["expanders"], stated=None),
        "Appendix E": lambda: path_expanders(tables["appendix_e"]),
        "Figure 13": lambda: hosts(tables["figure13"]),
    }
    return [(name, partial(_together, make)) for name, make in made.items()]


def _together(make: Callable[[], TableReport]) -> TableReport:
    """A table whose statements are grouped by their text."""
    report = make()
    texts = list(dict.fromkeys(verdict.text for verdict in report.verdicts))
    report.verdicts.sort(key=lambda verdict: texts.index(verdict.text))
    return report


def _network(spec: str) -> Topology:
    """The network with links of bandwidth 1."""
    return Topology(spec, bandwidth=1.0)


@lru_cache(maxsize=256)
def _flow(spec: str, gap: float = _PROVEN) -> AlltoallFlow:
    return alltoall_flow(_network(spec), gap=gap)


def _kautz(degree: int, ranks: int) -> AlltoallFlow:
    return _flow(f"generalized-kautz:{degree}:{ranks}", _COARSE)


def _load(schedule: Schedule, network: Topology) -> float:
    """The load of the busiest link, in blocks."""
    return CostModel().cost(schedule, network, 0).max_link_load * network.ranks


def _spread(spec: str, routing: str = "minimal") -> float:
    """The same if every block takes its shortest paths, in equal parts or by `routing`."""
    network = Topology(spec, bandwidth=1.0, routing=routing)
    return _load(Schedule.build("direct", network, "alltoall"), network)


def _ordered(spec: str) -> float:
    """The same if every block goes dimension after dimension."""
    return _spread(spec, "dimension-ordered")


def _disjoint(spec: str) -> float:
    """The same by the linear program over paths that share no link."""
    return 1 / programs.path_rate(_network(spec))


def _alone(spec: str) -> float:
    """The same if every block takes one path, by routes that balance the links."""
    return routes.balanced(_network(spec), gap=_PROVEN, channels=None).load


def _shortest(network: Topology) -> float:
    """The same with single shortest paths, chosen source after source."""
    return routes.shortest(network, channels=None).load


def _same(report: TableReport, panel: str, text: str, ratio: float, margin: float, **rest: Any) -> None:
    """States that a ratio is 1, or at least or at most 1 with `bound`."""
    report.state(panel, text, "ratio", stated=1.0, ours=ratio, margin=margin, **rest)


def _words(report: TableReport, panel: str, text: str, quantity: str, **rest: Any) -> None:
    """States what the paper says in words; the number is ours."""
    report.state(panel, text, quantity, ours_stated=True, **rest)


def equal_programs(table: dict[str, Any]) -> TableReport:
    """Section 3.1: all formulations have the same optimum, also in steps."""
    columns = ("all pairs", "decomposed", "children", "in steps", "one more", "flow")
    header = ["network", "N", "diameter", "exact F", *columns]
    title = "F by each of the linear programs, and by our flow"
    report = TableReport(PAPER, "Section 3.1", title, header, right=header[1:])
    for row in table["rows"]:
        spec = row["network"]
        network, same = _network(spec), partial(_same, report, spec)
        found = {"decomposed": programs.master_rate(network), "flow": _flow(spec).rate}
        if row.get("small"):
            whole = found["all pairs"] = programs.link_rate(network)
            found["children"] = programs.children_rate(network)
            found["in steps"] = programs.stepped_rate(network, network.diameter)
            found["one more"] = programs.stepped_rate(network, network.diameter + 1)
            same("the decomposed program has the optimum of the whole one", found["decomposed"] / whole, _EXACT)
            same("its children reach the rate of the master", found["children"] / whole, _EXACT)
            text = "time-stepped schedules reach the optimum, in at most one step more than the diameter"
            same(text, found["one more"] / whole, _EXACT, kind="check")
        text = "our flow is as good as the linear program"
        same(text, found["flow"] / found["decomposed"], _PROVEN, kind="check")
        exact = Fraction(row["rate"]) if "rate" in row else None
        if exact is not None:
            same("our flow has the exact optimum", found["flow"] / float(exact), _EXACT, kind="check")
        rates = [f"{found[key]:.5f}" if key in found else "" for key in columns]
        report.rows.append([spec, str(network.ranks), str(network.diameter), str(exact or ""), *rates])
    report.notes = [
        "All pairs: formulas (1) to (5). Decomposed: (6) to (9), children: (10) to (14). In steps: (15) to (20), with",
        "as many steps as the diameter, and with one more, as the best flow may use longer paths. Flow: our method,",
        "without a linear program.",
    ]
    return report


def _farthest(ranks: int, degree: int) -> int:
    """The sum of the depths of a full tree: in no network of this degree is the sum of distances from a rank
    smaller."""
    total, level, left = 0, 1, ranks - 1
    while left > 0:
        here = min(degree**level, left)
        total, level, left = total + level * here, level + 1, left - here
    return total


def bound(table: dict[str, Any]) -> TableReport:
    """Section 4: theorem 2 and corollary 3."""
    header = ["network", "N", "d", "d/(N-1)", "bound on F", "F", "bound / F"]
    title = "no network of N ranks and d links out of each has a larger F"
    report = TableReport(PAPER, "Theorem 2", title, header, right=header[1:])
    for spec in table["networks"]:
        flow = _flow(spec)
        ranks, degree = flow.topology.ranks, flow.topology.degree
        most, simple = degree / _farthest(ranks, degree), degree / (ranks - 1)
        text = "F is at most d over the depths of a full tree"
        _same(report, spec, text, flow.rate / most, _EXACT, bound="<= ")
        text = "F is at most d/(N-1), because every rank receives N-1 blocks (section 2.2)"
        _same(report, spec, text, flow.rate / simple, _EXACT, bound="<= ")
        rates = [f"{rate:.5f}" for rate in (simple, most, flow.rate)]
        report.rows.append([spec, str(ranks), str(degree), *rates, f"{most / flow.rate:.3f}"])
    for degree, depth in table["full"]:
        ranks = (degree ** (depth + 1) - 1) // (degree - 1)
        closed = degree * (1 - (depth + 1) * degree**depth + depth * degree ** (depth + 1)) / (degree - 1) ** 2
        text = "the closed form for full trees (corollary 3) is the sum of their depths"
        _same(report, f"({degree},{ranks})", text, _farthest(ranks, degree) / closed, _EXACT)
    return report


def schedules(table: dict[str, Any]) -> TableReport:
    """Sections 5 and 6.2: statements about schedules for networks of up to 81 ranks, by the loads of links."""
    columns = ("one path", "one way", "even", "ordered", "disjoint")
    header = ["network", "optimum", *columns]
    title = "the load of the busiest link, in blocks"
    report = TableReport(PAPER, "Section 6.2", title, header, right=header[1:])
    found: dict[str, dict[str, float]] = {}
    for spec in table["testbed"]:
        found[spec] = {"one path": _shortest(_network(spec))}
        text = "one balanced shortest path for each pair is worse than the flow"
        why = "single shortest paths reach the optimum here, if they are chosen by the order of links"
        ratio = found[spec]["one path"] / _flow(spec).seconds
        _words(report, spec, text, "ratio", stated=1.05, ours=ratio, bound=">= ", why=why)
    optimal: list[tuple[str, str, str, Callable[[str], float]]] = [
        ("routed", "weighted paths are as good as flows over links", "disjoint", _disjoint),
        ("even", "one path, or paths with equal weights, reach the optimum", "even", _spread),
        ("tori", "one path for each pair reaches the optimum", "one way", _alone),
        ("ordered", "routes dimension after dimension are optimal on tori", "ordered", _ordered),
    ]
    for networks, text, column, load in optimal:
        for spec in table[networks]:
            loads = found.setdefault(spec, {})
            loads[column] = load(spec)
            _same(report, spec, text, loads[column] / _flow(spec).seconds, _EXACT)
    for spec, loads in found.items():
        cells = [f"{loads[key]:.4g}" if key in loads else "" for key in columns]
        report.rows.append([spec, f"{_flow(spec).seconds:.4g}", *cells])
    report.notes = [
        "One path: shortest paths, source after source, by load. One way: the flow rounded to a path for each pair.",
        "Even: all shortest paths equally. Ordered: dimension after dimension, both ways if they are equally long.",
        "Disjoint: the linear program over paths that share no link.",
    ]
    return report


def seconds_taken(table: dict[str, Any]) -> TableReport:
    """Figure 6: the time to find the flow."""
    ways: dict[str, tuple[list[int], Callable[[Topology], object]]] = {
        "all pairs": (table["links"], programs.link_rate),
        "decomposed": (table["decomposed"], programs.master_rate),
        "flow": (table["flow"], lambda network: alltoall_flow(network, gap=_COARSE)),
    }
    programs.master_rate("ring:3")  # Loads the solver, so that its import is not timed.
    lines: dict[str, list[tuple[float, float]]] = {}
    for label, (sizes, solve) in ways.items():
        networks = [_network(f"generalized-kautz:{table['degree']}:{ranks}") for ranks in sizes]
        lines[label] = [(network.ranks, _timed(solve, network)) for network in networks]
    taken = {label: dict(points) for label, points in lines.items()}
    header = ["N", *ways]
    title = f"seconds to find the flow on generalised Kautz graphs, d = {table['degree']}"
    report = TableReport(PAPER, "Figure 6", title, header, right=header)
    for ranks in table["flow"]:
        cells = [seconds_text(taken[label][ranks]) if ranks in taken[label] else "" for label in ways]
        report.rows.append([str(ranks), *cells])
    report.notes = [
        "Not compared, because machines and solvers differ. The paper's decomposed program takes 40 minutes on its",
        "largest network, on many cores. HiGHS solves the programs here; the flow is ours, to 1 %.",
    ]
    report.chart = Chart("ranks", "seconds", lines, log=True, ours=True)
    return report


def _timed(solve: Callable[[Topology], object], network: Topology) -> float:
    start = time.perf_counter()
    solve(network)
    return time.perf_counter() - start


def one_path(table: dict[str, Any]) -> TableReport:
    """Figure 7, without the linear program over paths: single paths and equal parts beside the optimum."""
    header = ["network", "N", "optimum", "sources", "by links", "pairs", "one way", "even"]
    title = "one path for each pair, and equal parts, over the optimum"
    report = TableReport(PAPER, "Figure 7", title, header, right=header[1:])
    lines: dict[str, list[tuple[float, float]]] = {label: [] for label in header[3:]}
    for spec in table["networks"]:
        network, least = _network(spec), _flow(spec).least_seconds
        ratios = {
            "sources": _shortest(graphs.with_links_in_random_order(network)) / least,
            "by links": _shortest(network) / least,
            "pairs": graphs.busiest_link(network) / least,
            "one way": _alone(spec) / least,
            "even": _spread(spec) / least,
        }
        cells = (f"{ratio:.2f}" for ratio in ratios.values())
        report.rows.append([spec, str(network.ranks), f"{least:.4g}", *cells])
        for label, ratio in ratios.items():
            lines[label].append((len(report.rows), ratio))
        _on_single_paths(report, spec, ratios)
    report.notes = [
        "Load of the busiest link over the optimum. Sources: shortest paths by load, source after source (SSSP),",
        "any of equal ones. By links: the same, but of equal paths the one over each rank's first links, which on",
        "whole tori is dimension after dimension. Pairs: one pair after the other (appendix D). One way: the flow",
        "rounded to a path for each pair; the paper has an integer program. Even: all shortest paths equally. The",
        "picture has the networks in this order.",
    ]
    report.chart = Chart("network", "load over the optimum", lines, ours=True)
    return report


def _on_single_paths(report: TableReport, spec: str, ratios: dict[str, float]) -> None:
    text = "iterative shortest paths are 1.6 to 1.8 times worse than the optimum"
    why = "the paper's networks are not known; here tori of three and more dimensions have about 1.7, others less"
    report.state(spec, text, "sources", stated=1.7, ours=ratios["sources"], margin=0.115, why=why)
    text = "load-aware shortest paths are worse by more than 2 times (appendix D)"
    why = "one pair after the other, by hops and then by load; section 6.3 states 1.6 to 1.8 for a similar method"
    report.state(spec, text, "pairs", stated=2.0, ours=ratios["pairs"], bound=">= ", why=why)
    text = "the best single paths are near the optimum"
    _words(report, spec, text, "one way", stated=1.05, ours=ratios["one way"], bound="<= ")
    if spec.startswith("torus:"):
        text = "multiple shortest paths perform poorly on tori"
        why = "true for a few paths only; all shortest paths in equal parts load a whole torus evenly"
        _words(report, spec, text, "even", stated=1.05, ours=ratios["even"], bound=">= ", why=why)


def disjoint_paths(table: dict[str, Any]) -> TableReport:
    """Figure 7 and section 3.1.4: the linear program over paths that share no link."""
    header = ["network", "N", "optimum", "disjoint", "disjoint / optimum"]
    notes = ["The paper does not say which disjoint paths it takes: ours are those of a maximum flow."]
    title = "F over paths that share no link"
    report = TableReport(PAPER, "Section 3.1.4", title, header, right=header[1:], notes=notes)
    for spec in table["networks"]:
        network = _network(spec)
        best, rate = programs.master_rate(network), programs.path_rate(network)
        report.rows.append([spec, str(network.ranks), f"{best:.5f}", f"{rate:.5f}", f"{rate / best:.4f}"])
        text = "link-disjoint paths reach the optimum, with links disabled too"
        why = "the paths of the best flow share links; the sets of paths are ours, and others may be better"
        _same(report, spec, text, rate / best, _PROVEN, why=why)
    return report


def near_the_bound(table: dict[str, Any]) -> TableReport:
    """Figures 8 and 11: generalised Kautz graphs beside theorem 2."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for degree in table["degrees"]:
        flows = {ranks: _kautz(degree, ranks) for ranks in table["ranks"]}
        lines[f"d = {degree}"] = [(ranks, flow.seconds * flow.bounds["degree"]) for ranks, flow in flows.items()]
    header = ["N", *lines]
    notes = ["Time over the bound of theorem 2, which holds for all networks of as many links."]
    title = "all-to-all on generalised Kautz graphs"
    report = TableReport(PAPER, "Figures 8 and 11", title, header, right=header, notes=notes)
    for label, points in lines.items():
        ratios = [ratio for _, ratio in points]
        few, many = fmean(ratios[: len(ratios) // 2]), fmean(ratios[len(ratios) // 2 :])
        _words(report, label, "close to the bound for all N", "largest", stated=1.2, ours=max(ratios), bound="<= ")
        text = "closer for large N: the larger half of N beside the smaller"
        _words(report, label, text, "mean", stated=few, ours=many, bound="<= ")
    _state_coverage(report, **table["all"])
    for index, ranks in enumerate(table["ranks"]):
        report.rows.append([str(ranks), *(f"{points[index][1]:.3f}" for points in lines.values())])
    report.chart = Chart("ranks", "time over the bound", lines, ours=True)
    return report


def _state_coverage(report: TableReport, degrees: list[int], largest: int) -> None:
    """States that there is a graph for all numbers of ranks and links. Topology raises an error if ranks cannot reach
    each other."""
    sizes = [(degree, ranks) for degree in degrees for ranks in range(degree + 1, largest + 1)]
    there = sum(Topology(f"generalized-kautz:{degree}:{ranks}").ranks == ranks for degree, ranks in sizes)
    panel = f"d = {degrees[0]} to {degrees[-1]}, N up to {largest}"
    report.state(panel, "there is one for any N and d", "graphs", stated=len(sizes), ours=there)


def over_tori(table: dict[str, Any]) -> TableReport:
    """Section 6.4: generalised Kautz graphs beside tori of two dimensions, four links out of each rank."""
    header = ["N", "torus", "generalised Kautz", "ratio"]
    title = "the load of the busiest link on tori and generalised Kautz graphs, d = 4"
    report = TableReport(PAPER, "Section 6.4", title, header, right=header)
    points: list[tuple[float, float]] = []
    for side in table["tori"]:
        ranks = side * side
        torus, kautz = _flow(f"torus:{side}x{side}").seconds, _kautz(4, ranks).seconds
        ratio = torus / kautz
        report.rows.append([str(ranks), f"{torus:.4g}", f"{kautz:.4g}", f"{ratio:.2f}"])
        points.append((ranks, ratio))
        if ranks >= 200:
            text = "about 2.4 times the throughput of 2D tori, for large N"
            why = "the ratio grows without limit, as the root of N over its logarithm, and passes 2.4 near 400 ranks"
            report.state(f"N = {ranks}", text, "ratio", stated=2.4, ours=ratio, margin=0.15, why=why)
    report.chart = Chart("ranks", "throughput over that of the torus", {"generalised Kautz": points}, ours=True)
    return report


def over_expanders(figure: str, degree: int, sizes: list[int], stated: float | None) -> TableReport:
    """Figures 9 and 12: generalised Kautz graphs beside Xpanders and random regular graphs."""
    lines: dict[str, list[tuple[float, float]]] = {"Xpander": [], "random": [], "random, one way": []}
    header = ["N", "generalised Kautz", *lines]
    title = f"the load of the busiest link, and its ratio to generalised Kautz graphs, d = {degree}"
    notes = [
        "Random, one way: as many cycles as links out of a rank. Xpanders and the other random graphs have cables."
    ]
    report = TableReport(PAPER, figure, title, header, right=header, notes=notes)
    for ranks in sizes:
        kautz = _kautz(degree, ranks).seconds
        others = {
            "Xpander": graphs.xpander(ranks, degree, 1.0),
            "random": graphs.regular(ranks, degree // 2, 1.0),
            "random, one way": graphs.regular(ranks, degree, 1.0, one_way=True),
        }
        loads = {label: alltoall_flow(network, gap=_COARSE).seconds for label, network in others.items()}
        for label, load in loads.items():
            lines[label].append((ranks, load / kautz))
        cells = (f"{load:.4g} ({load / kautz:.2f})" for load in loads.values())
        report.rows.append([str(ranks), f"{kautz:.4g}", *cells])
    if stated is None:
        notes.append("The text of the paper does not give the advantage of generalised Kautz graphs.")
    else:
        text = "about 10 % better than Xpanders and random regular graphs"
        why = (
            "the paper's N are not known; most of the advantage comes from one-way links, as random graphs of them show"
        )
        rest: dict[str, Any] = {"unit": "percent", "stated": stated, "margin": 0.06, "why": why}
        for label in ("Xpander", "random"):
            for size, ratio in lines[label]:
                if size >= 100:
                    report.state(f"{label}, N = {size}", text, "advantage", ours=ratio - 1, **rest)
    report.chart = Chart("ranks", "throughput over that of the other", lines, ours=True)
    return report


def path_expanders(table: dict[str, Any]) -> TableReport:
    """Appendix E: networks made by a heuristic, beside generalised Kautz graphs."""
    degree = table["degree"]
    header = ["N", "links", "expander", "generalised Kautz", "expander / Kautz"]
    notes = [
        "Pairs in random order; a few ranks may end with a link less. Links go one way, as in Kautz graphs.",
        "The paper also has 256 ranks, which take the heuristic 10 seconds and are left out here.",
    ]
    title = f"the load of the busiest link on shortest-path expanders, d = {degree}"
    report = TableReport(PAPER, "Appendix E", title, header, right=header, notes=notes)
    for ranks in table["ranks"]:
        network = graphs.path_expander(ranks, degree, 1.0)
        load, kautz = alltoall_flow(network, gap=_COARSE).seconds, _kautz(degree, ranks).seconds
        cells = (f"{load:.4g}", f"{kautz:.4g}", f"{load / kautz:.3f}")
        report.rows.append([str(ranks), str(len(network.links)), *cells])
        text = "as good as generalised Kautz graphs, or slightly better"
        _words(report, f"N = {ranks}", text, "load", stated=1.02, ours=load / kautz, bound="<= ")
    return report


def hosts(table: dict[str, Any]) -> TableReport:
    """Figure 13: hosts that send and receive less than their links carry."""
    degree, ranks = table["degree"], table["side"] ** 2
    networks = {
        "torus": _network(f"torus:{table['side']}x{table['side']}"),
        "generalised Kautz": _network(f"generalized-kautz:{degree}:{ranks}"),
        "expander": graphs.path_expander(ranks, degree, 1.0),
    }
    behind: dict[str, Callable[[Topology, float], Topology]] = {
        "": Topology.behind_nics,
        ", through": graphs.through_hosts,
    }
    rates = {
        label + how: {host: alltoall_flow(make(network, host), gap=_COARSE).rate for host in table["hosts"]}
        for how, make in behind.items()
        for label, network in networks.items()
    }
    header = ["host", *rates]
    title = f"F with hosts that send less than their links, {ranks} ranks, d = {degree}"
    report = TableReport(PAPER, "Figure 13", title, header, right=header)
    report.rows = [[f"{host:g}", *(f"{some[host]:.5f}" for some in rates.values())] for host in table["hosts"]]
    for label in list(networks)[1:]:
        _on_hosts(report, label, rates, ranks)
    report.notes = [
        "Host: its bandwidth, in links. NICs forward messages for others, or, with through, hosts do, as in",
        "section 3.2.3. The text has the torus, four links, and hosts of 4 to 0.5; the steps between are ours.",
    ]
    lines = {label: sorted(some.items()) for label, some in rates.items()}
    report.chart = Chart("host's bandwidth, in links", "F", lines, ours=True)
    return report


def _on_hosts(report: TableReport, label: str, rates: dict[str, dict[float, float]], ranks: int) -> None:
    """States what the paper says about an expander beside the torus."""
    gains = {host: rates[label][host] / rate for host, rate in rates["torus"].items()}
    for host in (4, 1.3):
        text = "expanders are better than the torus of their size until hosts send about 1.3"
        _words(report, f"{label}, host {host:g}", text, "ratio", stated=1.05, ours=gains[host], bound=">= ")
    text = "their advantage is whole until hosts send about 1.3"
    report.state(label, text, "host", stated=1.3, ours=rates[label][4] * (ranks - 1), margin=0.1)
    for host in (1, 0.5):
        text = "with less, the torus performs equally well"
        why = "hosts limit the torus only below 0.79; from 1.2 down to there the advantage shrinks"
        _same(report, f"{label}, host {host:g}", text, gains[host], 0.02, why=why)
    text = "the same if hosts forward messages for others (section 3.2.3)"
    why = "all networks lose alike then, and the advantage stays: the figure must assume NICs that forward"
    gain = rates[f"{label}, through"][0.5] / rates["torus, through"][0.5]
    _same(report, f"{label}, host 0.5", text, gain, 0.02, why=why)
