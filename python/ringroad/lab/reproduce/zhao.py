"""The tables of Zhao et al., Efficient direct-connect topologies (arXiv 2202.03356): `ringroad lab reproduce zhao`.

zhao.toml holds the paper's tables. If a network of ours is better than the paper's, the tables show both.
"""

import math
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

from ringroad._native import CostModel, Schedule, Topology
from ringroad._support.text import seconds_text, significant
from ringroad.lab._finding import find
from ringroad.lab.reproduce import networks, training
from ringroad.lab.reproduce.definition import NetworkDefinition, NetworkModel
from ringroad.lab.reproduce.tables import Chart, TableReport, yes
from ringroad.lab.synthesis import BreadthFirst

PAPER = "zhao"


def reports(definition: NetworkDefinition) -> list[tuple[str, Callable[[], TableReport]]]:
    """The names of all tables, each with a function that makes it."""
    tables, model = definition.tables, definition.model
    return [
        ("Table 4", lambda: frontier(tables["table4"], model)),
        ("Table 5", lambda: small_networks(tables["table5"])),
        ("Table 6", lambda: synthesis_times(tables["table6"])),
        ("Table 7", lambda: distance_regular(tables["table7"])),
        ("Table 8", trained_models),
        ("Section 8.4", training_statements),
        ("Theorem 22", lambda: circulants(tables["theorem22"])),
        ("Figure 12", lambda: kautz(tables["figure12"])),
        ("Errata", lambda: errata(tables["conjecture"], model)),
    ]


def frontier(table: dict[str, Any], model: NetworkModel) -> TableReport:
    """Table 4, with the networks that `find` returns for as many ranks and links."""
    ranks, degree = table["ranks"], table["degree"]
    title = f"allreduce on networks of {ranks} ranks with {degree} links out of each"
    header = ["network", "whose", "T_L stated", "ours", "T_B stated", "ours ", "time stated", "ours  ", "agrees"]
    report = TableReport(PAPER, "Table 4", title, header, right=header[2:8], inside=True)

    def add(network: str, whose: str, exact: BreadthFirst | None, stated: dict[str, Any] | None = None) -> None:
        agrees = ""
        if exact and stated:
            times = {"unit": "seconds", "stated": stated["seconds"], "ours": _seconds(exact, model), "margin": 5e-8}
            sent = {"stated": stated["sent"], "ours": float(exact.bandwidth), "margin": 5e-4}
            agrees = yes(
                report.state(network, "T_L", "steps", stated=stated["steps"], ours=exact.steps).agrees,
                report.state(network, "T_B", "sent", **sent).agrees,
                report.state(network, "time", "time", **times).agrees,
            )
        report.rows.append([network, whose, *_cost_cells(exact, stated, model), agrees])

    for row in table["rows"]:
        exact = networks.evaluate(row["topology"]) if "topology" in row else None
        add(row["network"], "paper" if exact else "paper, its numbers", exact, row)
        if "stand_in" in row:
            add(row["stand_in"], "stand-in", networks.evaluate(row["stand_in"]))
    found = [network.spec for network in find(ranks, degree).networks]
    for spec in dict.fromkeys([*found, *table["ours"]]):
        add(spec, "ours", networks.evaluate(spec))
    add("lower bound", "bound", networks.least(ranks, degree), table["bound"])
    fastest = min(_seconds(networks.evaluate(spec), model) for spec in found)
    best = min(row["seconds"] for row in table["rows"])
    report.notes = [
        "Values agree to the last digit that the paper prints.",
        f"The fastest of ours takes {1e6 * fastest:.1f} us, the fastest of the paper's {1e6 * best:.1f} us.",
    ]
    points: dict[str, list[tuple[float, float]]] = {}
    for cells in report.rows:
        place = 3 if cells[3] else 2
        points.setdefault(cells[1], []).append((float(cells[place]), float(cells[place + 2])))
    report.chart = Chart("T_L in steps", "T_B in M/B", points, points=True)
    return report


def _seconds(exact: BreadthFirst, model: NetworkModel) -> float:
    return exact.seconds(model.bytes, alpha=model.alpha, bandwidth=model.bandwidth)


def _cost_cells(exact: BreadthFirst | None, stated: dict[str, Any] | None, model: NetworkModel) -> list[str]:
    def cells(steps: int, sent: float, seconds: float) -> list[str]:
        return [str(steps), f"{sent:.3f}", f"{1e6 * seconds:.1f} us"]

    there = cells(stated["steps"], stated["sent"], stated["seconds"]) if stated else [""] * 3
    here = cells(exact.steps, float(exact.bandwidth), _seconds(exact, model)) if exact else [""] * 3
    return [cell for pair in zip(there, here, strict=True) for cell in pair]


def small_networks(table: dict[str, Any]) -> TableReport:
    """Table 5: allreduces on the networks that the paper built."""
    title = "allreduce on networks of 4 links out of each rank"
    header = ["N", "network", "T_L stated", "ours", "T_B optimal", "verified", "agrees"]
    notes = ["The paper states that all of them are optimal in T_B."]
    report = TableReport(PAPER, "Table 5", title, header, right=["N", *header[2:4]], notes=notes, inside=True)
    for row in table["rows"]:
        spec = row["topology"]
        steps = networks.evaluate(spec).steps
        agrees = yes(_steps(report, row, steps), _optimal(report, row, spec, "allreduce"))
        checked = [yes(networks.is_optimal(spec)), networks.verified_text(spec), agrees]
        report.rows.append([str(row["ranks"]), row["network"], str(row["steps"]), str(steps), *checked])
    return report


def distance_regular(table: dict[str, Any]) -> TableReport:
    """Table 7: allgathers on distance-regular graphs."""
    title = "distance-regular graphs of 4 links out of each rank"
    pairs = ["T_L stated", "ours", "T_L* stated", "ours ", "T_L** stated", "ours  "]
    header = ["N", "network", *pairs, "T_B optimal", "verified", "agrees"]
    report = TableReport(PAPER, "Table 7", title, header, right=["N", *pairs], inside=True)
    for row in table["rows"]:
        spec, network = row["topology"], row["network"]
        ranks, steps = Topology(spec).ranks, networks.evaluate(spec, "allgather").steps
        one_way, both_ways = (networks.moore(ranks, 4, both) for both in (False, True))
        agrees = yes(
            report.state(network, "N", "ranks", stated=row["ranks"], ours=ranks).agrees,
            _steps(report, row, steps),
            report.state(network, "T_L*", "bound", stated=row["moore"], ours=one_way).agrees,
            report.state(network, "T_L**", "bound", stated=row["both_ways"], ours=both_ways).agrees,
            _optimal(report, row, spec, "allgather"),
        )
        numbers = (row["steps"], steps, row["moore"], one_way, row["both_ways"], both_ways)
        checked = [yes(networks.is_optimal(spec, "allgather")), networks.verified_text(spec), agrees]
        report.rows.append([str(ranks), network, *map(str, numbers), *checked])
    report.notes = [
        "T_L is that of an allgather; T_L* the fewest steps for this many ranks of 4 links, T_L** with links back.",
        "The paper states that all of them are optimal in T_B. The allreduce is verified.",
    ]
    return report


def _steps(report: TableReport, row: dict[str, Any], ours: int) -> bool:
    return report.state(row["network"], "T_L", "steps", stated=row["steps"], ours=ours).agrees


def _optimal(report: TableReport, row: dict[str, Any], spec: str, collective: str) -> bool:
    sent = networks.evaluate(spec, collective).bandwidth
    least = networks.least(Topology(spec).ranks, 4, collective).bandwidth
    return report.state(row["network"], "optimal in T_B", "sent", stated=float(least), ours=float(sent)).agrees


def synthesis_times(table: dict[str, Any]) -> TableReport:
    """Table 6: the time to make an allgather's schedule."""
    title = "seconds to make an allgather's schedule"
    header = ["network", "N", "paper", "ours, any graph", "ours, alike", "paper / any graph", "paper / alike"]
    notes = [
        "Not compared, because machines differ: the paper's linear programs ran in parallel, ours in one thread here.",
        "Any graph: given as links only, rank by rank. Alike: ringroad knows that ranks are alike, and makes one row.",
    ]
    report = TableReport(PAPER, "Table 6", title, header, right=header[1:], notes=notes)
    for row in table["rows"]:
        network = Topology(row["topology"])
        alike, unlike = min(_timed(network) for _ in range(3)), _timed(_unlike(network))
        times = [seconds_text(seconds) for seconds in (row["seconds"], unlike, alike)]
        ratios = [f"{significant(row['seconds'] / seconds)} times" for seconds in (unlike, alike)]
        report.rows.append([row["topology"], str(network.ranks), *times, *ratios])
    return report


def _unlike(network: Topology) -> Topology:
    """The same links, without any knowledge of the family."""
    return Topology._from_links("links", network.ranks, network.nodes, network._links(), [network.ranks])


def _timed(network: Topology) -> float:
    start = time.perf_counter()
    Schedule.build("bfb", network, "allgather")
    return time.perf_counter() - start


def trained_models() -> TableReport:
    """Table 8: the best topology for each model among the paper's topologies, and the best of all known ones."""
    title = f"the topology with the least allreduce time, N = {training.RANKS}, d = {training.DEGREE}"
    header = ["model", "stated", "ours", "agrees", "best of all known", "gain"]
    report = TableReport(PAPER, "Table 8", title, header, right=["gain"], inside=True)
    known = find(training.RANKS, training.DEGREE).networks
    ours = [training.network(network.spec, network.steps, float(network.bandwidth_term)) for network in known]
    for row, mine in zip(training.table8(), training.table8(ours), strict=True):
        names = {"unit": "name", "stated": row.stated, "ours": row.computed}
        agrees = yes(report.state(row.model, "the best topology", "winner", **names).agrees)
        gain = f"{100 * (row.best.communication / mine.best.communication - 1):+.1f} %"
        report.rows.append([row.model, row.stated, row.computed, agrees, mine.computed, gain])
    speeds = training.agreeing([3e14, 1e14, 2e13])
    otherwise = ", ".join(f"{agreeing} of {len(report.rows)} at {speed / 1e12:g}" for speed, agreeing in speeds)
    report.notes = [
        "The gain is in allreduce time. If layers computed at some TFLOP/s, instead of the first assumption below,",
        f"fewer would agree: {otherwise}. The paper does not state, so assumed here:",
        *(f"- {missing}" for missing in training.MISSING),
    ]
    return report


def training_statements() -> TableReport:
    """Section 8.4: eleven models together."""
    header = ["the paper states", "stated", "tolerance", "ours", "agrees", "counts"]
    notes = [
        "Two assumptions are fitted: 7 ms of computing for each model, and a double tree whose steps send the whole",
        "vector over one link. The statements to which they were fitted do not count.",
    ]
    title = "training, all models together"
    verdicts = training.statements()
    report = TableReport(PAPER, "Section 8.4", title, header, [], header[1:4], verdicts, notes=notes, inside=True)
    for verdict in verdicts:
        share = verdict.unit == "tenths"
        stated, ours = (f"{100 * x:.2g} %" if share else f"{x:.2g}x" for x in (verdict.stated, verdict.ours))
        tolerance = f"{verdict.bound}{100 * verdict.margin / verdict.stated:g} %"
        counts = "no, fitted" if verdict.kind == "fit" else "yes"
        report.rows.append([verdict.text, verdict.bound + stated, tolerance, ours, yes(verdict.agrees), counts])
    return report


def circulants(table: dict[str, Any]) -> TableReport:
    """Theorem 22: C(n, {m, m+1})."""
    header = ["n", "graphs", "diameter m", "T_B optimal", "largest m"]
    notes = [
        "m is the least number with 2 m^2 + 2 m + 1 >= n. Two offsets reach no more ranks in m steps, so "
        "no circulant of two offsets has a smaller diameter.",
    ]
    title = "the circulant C(n, {m, m + 1})"
    report = TableReport(PAPER, "Theorem 22", title, header, right=header[1:], notes=notes, inside=True)
    first, last = table["all"]
    for label, sizes in ((f"n = {first} to {last}", range(first, last + 1)), ("beyond", table["beyond"])):
        exact = {n: networks.evaluate(f"circulant:{n}:{_m(n)},{_m(n) + 1}", "allgather") for n in sizes}
        diameter = sum(exact[n].steps == _m(n) for n in sizes)
        optimal = sum(exact[n].bandwidth == networks.least(n, 4, "allgather").bandwidth for n in sizes)
        for text, ours in (("diameter m", diameter), ("optimal in T_B", optimal)):
            report.state(label, text, "n", stated=len(sizes), ours=ours)
        shown = label if label != "beyond" else ", ".join(map(str, sizes))
        numbers = (len(sizes), diameter, optimal, max(e.steps for e in exact.values()))
        report.rows.append([shown, *map(str, numbers)])
    return report


def _m(n: int) -> int:
    """The least m with 2 m^2 + 2 m + 1 >= n."""
    m = max((math.isqrt(2 * n - 1) - 1) // 2, 0)
    return m if 2 * m * m + 2 * m + 1 >= n else m + 1


def kautz(table: dict[str, Any]) -> TableReport:
    """Figure 12 and theorem 21: generalised Kautz graphs."""
    degrees = {f"d = {degree}": degree for degree in table["degrees"]}
    header = ["N", *degrees]
    report = TableReport(PAPER, "Figure 12", "allgather on generalised Kautz graphs", header, right=header)
    loads: dict[str, list[tuple[float, float]]] = {label: [] for label in degrees}
    later = dict.fromkeys(degrees, 0)
    for ranks in table["ranks"]:
        cells = []
        for label, degree in degrees.items():
            exact = networks.evaluate(f"generalized-kautz:{degree}:{ranks}", "allgather")
            bound = networks.least(ranks, degree, "allgather")
            ratio, more = float(exact.bandwidth / bound.bandwidth), exact.steps - bound.steps
            loads[label].append((ranks, ratio))
            later[label] = max(later[label], more)
            cells.append(f"{exact.steps} ({more:+d}), {ratio:.3f}")
        report.rows.append([str(ranks), *cells])
    for label, points in loads.items():
        most = max(ratio for _, ratio in points)
        report.state(label, "T_L at most T_L* + 1", "steps more", stated=1, ours=later[label], bound="<= ")
        report.state(label, "T_B at most 2 T_B*", "ratio", stated=2.0, ours=most, bound="<= ")
    report.notes = [
        "Each cell: T_L (and the difference to the Moore bound), T_B over the least.",
        f"The paper shows all N to 2000; these are {len(table['ranks'])} of them.",
    ]
    report.chart = Chart("ranks", "T_B over the least", loads)
    return report


def counterexample(offsets: int, most: int) -> tuple[str | None, int]:
    """The smallest circulant whose breadth-first allgather is not optimal in T_B (or None), and the number checked."""
    looked = 0
    for ranks in range(2 * offsets + 1, most + 1):
        for chosen in combinations(range(1, (ranks + 1) // 2), offsets):
            if math.gcd(ranks, *chosen) > 1:
                continue
            looked += 1
            spec = f"circulant:{ranks}:{','.join(map(str, chosen))}"
            if not networks.is_optimal(spec, "allgather"):
                return spec, looked
    return None, looked


def errata(table: dict[str, Any], model: NetworkModel) -> TableReport:
    """Statements of the paper that do not hold, or that rest on other numbers than stated."""
    title = "statements that do not hold as the paper has them"
    header = ["what", "stated", "ours", "holds", "why"]
    report = TableReport(PAPER, "Errata", title, header, right=["stated"], inside=True)
    conjecture = "every circulant is optimal in T_B (conjecture 1)"
    for offsets, most in table["looked"]:
        spec, looked = counterexample(offsets, most)
        ours, why = f"holds for all {looked} of up to {most} ranks", "proved in the paper for two offsets"
        if spec:
            sent = networks.evaluate(spec, "allgather").bandwidth
            least = networks.least(Topology(spec).ranks, 2, "allgather").bandwidth
            ours, why = f"{spec} has {sent}, not {least}", "the smallest for this number of offsets; breadth-first only"
        names = {"unit": "name", "stated": "none", "ours": spec or "none", "why": why}
        report.state(f"{offsets} offsets", conjecture, "counterexample", **names)
        report.rows.append([f"{conjecture}, {offsets} offsets", "none against it", ours, yes(spec is None), why])
    for text, stated, exact, rounded, why in _comparisons(model):
        times = {"unit": "seconds", "stated": stated, "ours": exact, "margin": 5e-8, "why": why}
        agrees = yes(report.state("N = 1024", text, "time", **times).agrees)
        ours = f"{1e6 * exact:.1f} us; {1e6 * rounded:.1f} us as the paper counts"
        report.rows.append([text, f"{1e6 * stated:.1f} us", ours, agrees, why])
    for text, seconds in _breadth_first(model):
        report.rows.append([text, "", f"{1e6 * seconds:.1f} us", "", "by the paper's own method, for comparison"])
    return report


def _comparisons(model: NetworkModel) -> list[tuple[str, float, float, float, str]]:
    """Statements below table 4: text, stated seconds, ours, the value as the paper counts, and why they differ."""
    ranks = training.RANKS
    levels = round(math.log2(ranks))
    ring = _cost_of("bidirectional-ring", f"ring:{ranks}", 2, model)
    decimal = 1e6 / model.bandwidth
    tree = 2 * levels * (model.alpha + model.bytes / model.bandwidth)
    why = "the paper takes 1 MB as 10^6 B here, and as 2^20 B in the table"
    return [
        ("shifted ring", 20640e-6, ring, 2 * ranks * model.alpha + 2 * decimal, f"{why}; and 2 N steps, of 2 (N - 1)"),
        ("double binary tree", 1800e-6, tree, 2 * levels * (model.alpha + decimal), why),
    ]


def _breadth_first(model: NetworkModel) -> list[tuple[str, float]]:
    return [
        ("ring, breadth first", _seconds(networks.evaluate("biring:4:1024"), model)),
        ("torus 32x32, dimension by dimension", _cost_of("bucket", "torus:32x32", 4, model)),
        ("torus 32x32, breadth first", _seconds(networks.evaluate("torus:32x32"), model)),
    ]


def _cost_of(algorithm: str, spec: str, degree: int, model: NetworkModel) -> float:
    """An algorithm's seconds on a network on which the links of a rank share the model's bandwidth."""
    network = Topology(spec, bandwidth=model.bandwidth / degree, latency=0.0, processing=0.0)
    costs = CostModel(step_latency=model.alpha, reduce_cost=0.0)
    return costs.cost(Schedule.build(algorithm, network), network, model.bytes).seconds
