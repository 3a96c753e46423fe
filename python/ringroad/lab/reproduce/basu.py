"""The statements of Basu et al. (HPDC 2024) on all-to-alls: `ringroad lab reproduce basu`.

basu.toml holds the data of the tables. The linear programs are those of `ringroad.lab.programs`, the flows those of
`alltoall_flow`, and the single paths those of `ringroad.lab.routes` and of `graphs`.
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
from ringroad.lab.reproduce.definition import Definition
from ringroad.lab.reproduce.tables import Chart, Points, TableReport, made
from ringroad.lab.synthesis import AlltoallFlow, alltoall_flow

_EXACT = 1e-6
_PROVEN = 0.005
_COARSE = 0.01


def reports(definition: Definition) -> dict[str, Callable[[], TableReport]]:
    """How to make each table. Raises ValueError if a package is missing."""
    missing = [name for name in ("highspy", "networkx") if find_spec(name) is None]
    if missing:
        raise ValueError(f"{' and '.join(missing)} not found; install with: pip install {' '.join(missing)}")
    tables: dict[str, Callable[..., None]] = {
        "Section 3.1": equal_programs,
        "Theorem 2": bound,
        "Section 6.2": schedules,
        "Figure 6": seconds_taken,
        "Figure 7": one_path,
        "Section 3.1.4": disjoint_paths,
        "Figures 8 and 11": near_the_bound,
        "Section 6.4": over_tori,
        "Figure 9": over_expanders,
        "Figure 12": over_expanders,
        "Appendix E": path_expanders,
        "Figure 13": hosts,
    }
    return {name: partial(_together, make) for name, make in made(definition, tables).items()}


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


def _spread(spec: str, routing: str = "minimal") -> float:
    """The load of the busiest link, in blocks, if every block takes its shortest paths, in equal parts or by
    `routing`."""
    network = Topology(spec, bandwidth=1.0, routing=routing)
    return CostModel().cost(Schedule.build("direct", network, "alltoall"), network, 0).max_link_load * network.ranks


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


def equal_programs(report: TableReport, networks: list[dict[str, Any]]) -> None:
    """Section 3.1: all formulations have the same optimum, also in steps."""
    columns = ("all pairs", "decomposed", "children", "in steps", "one more", "flow")
    report.header = ["network", "N", "diameter", "exact F", *columns]
    for row in networks:
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


def _farthest(ranks: int, degree: int) -> int:
    """The sum of the depths of a full tree: in no network of this degree is the sum of distances from a rank
    smaller."""
    total, level, left = 0, 1, ranks - 1
    while left > 0:
        here = min(degree**level, left)
        total, level, left = total + level * here, level + 1, left - here
    return total


def bound(report: TableReport, networks: list[str], full: list[list[int]]) -> None:
    """Section 4: theorem 2 and corollary 3."""
    report.header = ["network", "N", "d", "d/(N-1)", "bound on F", "F", "bound / F"]
    for spec in networks:
        flow = _flow(spec)
        ranks, degree = flow.topology.ranks, flow.topology.degree
        most, simple = degree / _farthest(ranks, degree), degree / (ranks - 1)
        text = "F is at most d over the depths of a full tree"
        _same(report, spec, text, flow.rate / most, _EXACT, bound="<= ")
        text = "F is at most d/(N-1), because every rank receives N-1 blocks (section 2.2)"
        _same(report, spec, text, flow.rate / simple, _EXACT, bound="<= ")
        rates = [f"{rate:.5f}" for rate in (simple, most, flow.rate)]
        report.rows.append([spec, str(ranks), str(degree), *rates, f"{most / flow.rate:.3f}"])
    for degree, depth in full:
        ranks = (degree ** (depth + 1) - 1) // (degree - 1)
        closed = degree * (1 - (depth + 1) * degree**depth + depth * degree ** (depth + 1)) / (degree - 1) ** 2
        text = "the closed form for full trees (corollary 3) is the sum of their depths"
        _same(report, f"({degree},{ranks})", text, _farthest(ranks, degree) / closed, _EXACT)


def schedules(report: TableReport, testbed: list[str], **optimal: list[str]) -> None:
    """Sections 5 and 6.2: statements about schedules for networks of up to 81 ranks, by the loads of links."""
    columns = ("one path", "one way", "even", "ordered", "disjoint")
    report.header = ["network", "optimum", *columns]
    found: dict[str, dict[str, float]] = {}
    for spec in testbed:
        found[spec] = {"one path": _shortest(_network(spec))}
        text = "one balanced shortest path for each pair is worse than the flow"
        why = "single shortest paths reach the optimum here, if they are chosen by the order of links"
        ratio = found[spec]["one path"] / _flow(spec).seconds
        _words(report, spec, text, "ratio", stated=1.05, ours=ratio, bound=">= ", why=why)
    for column, text, load in (
        ("disjoint", "weighted paths are as good as flows over links", _disjoint),
        ("even", "one path, or paths with equal weights, reach the optimum", _spread),
        ("one way", "one path for each pair reaches the optimum", _alone),
        ("ordered", "routes dimension after dimension are optimal on tori", _ordered),
    ):
        for spec in optimal[column]:
            loads = found.setdefault(spec, {})
            loads[column] = load(spec)
            _same(report, spec, text, loads[column] / _flow(spec).seconds, _EXACT)
    for spec, loads in found.items():
        cells = [f"{loads[key]:.4g}" if key in loads else "" for key in columns]
        report.rows.append([spec, f"{_flow(spec).seconds:.4g}", *cells])


def seconds_taken(report: TableReport, degree: int, **ranks: list[int]) -> None:
    """Figure 6: the time to find the flow."""
    programs.master_rate("ring:3")  # Loads the solver, so that its import is not timed.
    lines: dict[str, Points] = {}
    for label, solve in (
        ("all pairs", programs.link_rate),
        ("decomposed", programs.master_rate),
        ("flow", lambda network: alltoall_flow(network, gap=_COARSE)),
    ):
        networks = {n: _network(f"generalized-kautz:{degree}:{n}") for n in ranks[label]}
        lines[label] = [(n, _timed(solve, network)) for n, network in networks.items()]
    taken = [dict(points) for points in lines.values()]
    report.header = report.right = ["N", *lines]
    for n in ranks["flow"]:
        report.rows.append([str(n), *(seconds_text(some[n]) if n in some else "" for some in taken)])
    report.chart = Chart("ranks", "seconds", lines, log=True, ours=True)


def _timed(solve: Callable[[Topology], object], network: Topology) -> float:
    start = time.perf_counter()
    solve(network)
    return time.perf_counter() - start


def one_path(report: TableReport, networks: list[str]) -> None:
    """Figure 7, without the linear program over paths: single paths and equal parts beside the optimum."""
    report.header = ["network", "N", "optimum", "sources", "by links", "pairs", "one way", "even"]
    lines: dict[str, Points] = {label: [] for label in report.header[3:]}
    for spec in networks:
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
    report.chart = Chart("network", "load over the optimum", lines, ours=True)


def disjoint_paths(report: TableReport, networks: list[str]) -> None:
    """Figure 7 and section 3.1.4: the linear program over paths that share no link."""
    report.header = ["network", "N", "optimum", "disjoint", "disjoint / optimum"]
    for spec in networks:
        network = _network(spec)
        best, rate = programs.master_rate(network), programs.path_rate(network)
        report.rows.append([spec, str(network.ranks), f"{best:.5f}", f"{rate:.5f}", f"{rate / best:.4f}"])
        text = "link-disjoint paths reach the optimum, with links disabled too"
        why = "the paths of the best flow share links; the sets of paths are ours, and others may be better"
        _same(report, spec, text, rate / best, _PROVEN, why=why)


def near_the_bound(report: TableReport, degrees: list[int], ranks: list[int], covered: dict[str, Any]) -> None:
    """Figures 8 and 11: generalised Kautz graphs beside theorem 2."""
    lines: dict[str, Points] = {}
    for degree in degrees:
        flows = [_kautz(degree, n) for n in ranks]
        ratios = [flow.seconds * flow.bounds["degree"] for flow in flows]
        label = f"d = {degree}"
        lines[label] = list(zip(ranks, ratios, strict=True))
        few, many = fmean(ratios[: len(ratios) // 2]), fmean(ratios[len(ratios) // 2 :])
        _words(report, label, "close to the bound for all N", "largest", stated=1.2, ours=max(ratios), bound="<= ")
        text = "closer for large N: the larger half of N beside the smaller"
        _words(report, label, text, "mean", stated=few, ours=many, bound="<= ")
    # Topology raises an error if ranks cannot reach each other.
    every, largest = covered["degrees"], covered["largest"]
    sizes = [(degree, n) for degree in every for n in range(degree + 1, largest + 1)]
    there = sum(Topology(f"generalized-kautz:{degree}:{n}").ranks == n for degree, n in sizes)
    panel = f"d = {every[0]} to {every[-1]}, N up to {largest}"
    report.state(panel, "there is one for any N and d", "graphs", stated=len(sizes), ours=there)
    report.header = report.right = ["N", *lines]
    for n, *points in zip(ranks, *lines.values(), strict=True):
        report.rows.append([str(n), *(f"{ratio:.3f}" for _, ratio in points)])
    report.chart = Chart("ranks", "time over the bound", lines, ours=True)


def over_tori(report: TableReport, sides: list[int]) -> None:
    """Section 6.4: generalised Kautz graphs beside tori of two dimensions, four links out of each rank."""
    report.header = report.right = ["N", "torus", "generalised Kautz", "ratio"]
    points: Points = []
    for side in sides:
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


def over_expanders(report: TableReport, degree: int, sizes: list[int], stated: float | None = None) -> None:
    """Figures 9 and 12: generalised Kautz graphs beside Xpanders and random regular graphs."""
    lines: dict[str, Points] = {"Xpander": [], "random": [], "random, one way": []}
    report.header = report.right = ["N", "generalised Kautz", *lines]
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
    if stated is not None:
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


def path_expanders(report: TableReport, degree: int, sizes: list[int]) -> None:
    """Appendix E: networks made by a heuristic, beside generalised Kautz graphs."""
    report.header = report.right = ["N", "links", "expander", "generalised Kautz", "expander / Kautz"]
    for ranks in sizes:
        network = graphs.path_expander(ranks, degree, 1.0)
        load, kautz = alltoall_flow(network, gap=_COARSE).seconds, _kautz(degree, ranks).seconds
        cells = (f"{load:.4g}", f"{kautz:.4g}", f"{load / kautz:.3f}")
        report.rows.append([str(ranks), str(len(network.links)), *cells])
        text = "as good as generalised Kautz graphs, or slightly better"
        _words(report, f"N = {ranks}", text, "load", stated=1.02, ours=load / kautz, bound="<= ")


def hosts(report: TableReport, degree: int, side: int, hosts: list[float]) -> None:
    """Figure 13: hosts that send and receive less than their links carry."""
    ranks = side**2
    networks = {
        "torus": _network(f"torus:{side}x{side}"),
        "generalised Kautz": _network(f"generalized-kautz:{degree}:{ranks}"),
        "expander": graphs.path_expander(ranks, degree, 1.0),
    }
    behind: dict[str, Callable[[Topology, float], Topology]] = {
        "": Topology.behind_nics,
        ", through": graphs.through_hosts,
    }
    rates = {
        label + how: {host: alltoall_flow(make(network, host), gap=_COARSE).rate for host in hosts}
        for how, make in behind.items()
        for label, network in networks.items()
    }
    report.header = report.right = ["host", *rates]
    report.rows = [[f"{host:g}", *(f"{some[host]:.5f}" for some in rates.values())] for host in hosts]
    for label in list(networks)[1:]:
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
    lines = {label: sorted(some.items()) for label, some in rates.items()}
    report.chart = Chart("host's bandwidth, in links", "F", lines, ours=True)
