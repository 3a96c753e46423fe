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
from ringroad.lab.reproduce.claims import Verdict, compare
from ringroad.lab.reproduce.definition import NetworkDefinition, NetworkModel
from ringroad.lab.reproduce.tables import Chart, TableReport, yes

PAPER = "zhao"
_DIGITS = "Values agree to the last digit that the paper prints."


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
    name, rows, verdicts = "Table 4", [], []

    def add(network: str, whose: str, spec: str | None, stated: dict[str, Any] | None) -> None:
        exact = networks.evaluate(spec) if spec else None
        verdict = _cost_verdicts(name, network, exact, stated, model) if exact and stated else []
        verdicts.extend(verdict)
        rows.append(
            [network, whose, *_cost_cells(exact, stated, model), yes(all(v.agrees for v in verdict)) if verdict else ""]
        )

    for row in table["rows"]:
        add(row["network"], "paper" if "topology" in row else "paper, its numbers", row.get("topology"), row)
        if "stand_in" in row:
            add(row["stand_in"], "stand-in", row["stand_in"], None)
    found = [network.spec for network in find(ranks, degree).networks]
    for spec in dict.fromkeys([*found, *table["ours"]]):
        add(spec, "ours", spec, None)
    bound = networks.least(ranks, degree)
    verdict = _cost_verdicts(name, "lower bound", bound, table["bound"], model)
    verdicts.extend(verdict)
    rows.append(
        ["lower bound", "bound", *_cost_cells(bound, table["bound"], model), yes(all(v.agrees for v in verdict))]
    )
    fastest = min(
        networks.evaluate(spec).seconds(model.bytes, alpha=model.alpha, bandwidth=model.bandwidth) for spec in found
    )
    best = min(row["seconds"] for row in table["rows"])
    header = ["network", "whose", "T_L stated", "ours", "T_B stated", "ours ", "time stated", "ours  ", "agrees"]
    notes = [
        _DIGITS,
        f"The fastest of ours takes {1e6 * fastest:.1f} us, the fastest of the paper's {1e6 * best:.1f} us.",
    ]
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        place = 3 if row[3] else 2
        points.setdefault(row[1], []).append((float(row[place]), float(row[place + 2])))
    title = f"allreduce on networks of {ranks} ranks with {degree} links out of each"
    chart = Chart("T_L in steps", "T_B in M/B", points, points=True)
    return TableReport(PAPER, name, title, header, rows, header[2:8], verdicts, notes=notes, chart=chart)


def _cost_verdicts(table: str, network: str, exact: Any, stated: dict[str, Any], model: NetworkModel) -> list[Verdict]:
    seconds = exact.seconds(model.bytes, alpha=model.alpha, bandwidth=model.bandwidth)
    return [
        compare(table, network, "T_L", "steps", unit="number", stated=stated["steps"], ours=exact.steps),
        compare(
            table,
            network,
            "T_B",
            "sent",
            unit="number",
            stated=stated["sent"],
            ours=float(exact.bandwidth),
            margin=5e-4,
        ),
        compare(table, network, "time", "time", unit="seconds", stated=stated["seconds"], ours=seconds, margin=5e-8),
    ]


def _cost_cells(exact: Any, stated: dict[str, Any] | None, model: NetworkModel) -> list[str]:
    def cells(steps: int, sent: float, seconds: float) -> list[str]:
        return [str(steps), f"{sent:.3f}", f"{1e6 * seconds:.1f} us"]

    there = cells(stated["steps"], stated["sent"], stated["seconds"]) if stated else [""] * 3
    here = [""] * 3
    if exact:
        seconds = exact.seconds(model.bytes, alpha=model.alpha, bandwidth=model.bandwidth)
        here = cells(exact.steps, float(exact.bandwidth), seconds)
    return [cell for pair in zip(there, here, strict=True) for cell in pair]


def small_networks(table: dict[str, Any]) -> TableReport:
    """Table 5: allreduces on the networks that the paper built."""
    name, rows, verdicts = "Table 5", [], []
    for row in table["rows"]:
        spec = row["topology"]
        exact = networks.evaluate(spec)
        verdict = [_steps(name, row, exact.steps), _optimal(name, row, spec, "allreduce")]
        verdicts += verdict
        agrees = yes(all(v.agrees for v in verdict))
        steps = [str(row["steps"]), str(exact.steps)]
        optimal = yes(networks.is_optimal(spec))
        rows.append([str(row["ranks"]), row["network"], *steps, optimal, networks.verified_text(spec), agrees])
    header = ["N", "network", "T_L stated", "ours", "T_B optimal", "verified", "agrees"]
    notes = ["The paper states that all of them are optimal in T_B."]
    title = "allreduce on networks of 4 links out of each rank"
    return TableReport(PAPER, name, title, header, rows, ["N", *header[2:4]], verdicts, notes=notes)


def distance_regular(table: dict[str, Any]) -> TableReport:
    """Table 7: allgathers on distance-regular graphs."""
    name, rows, verdicts = "Table 7", [], []
    for row in table["rows"]:
        spec = row["topology"]
        ranks = Topology(spec).ranks
        exact = networks.evaluate(spec, "allgather")
        bounds = [networks.moore(ranks, 4, both_ways) for both_ways in (False, True)]
        verdict = [
            compare(name, row["network"], "N", "ranks", unit="number", stated=row["ranks"], ours=ranks),
            _steps(name, row, exact.steps),
            compare(name, row["network"], "T_L*", "bound", unit="number", stated=row["moore"], ours=bounds[0]),
            compare(name, row["network"], "T_L**", "bound", unit="number", stated=row["both_ways"], ours=bounds[1]),
            _optimal(name, row, spec, "allgather"),
        ]
        verdicts += verdict
        numbers = zip((row["steps"], row["moore"], row["both_ways"]), (exact.steps, *bounds), strict=True)
        cells = [str(number) for pair in numbers for number in pair]
        optimal = yes(networks.is_optimal(spec, "allgather"))
        agrees = yes(all(v.agrees for v in verdict))
        rows.append([str(ranks), row["network"], *cells, optimal, networks.verified_text(spec), agrees])
    pairs = ["T_L stated", "ours", "T_L* stated", "ours ", "T_L** stated", "ours  "]
    header = ["N", "network", *pairs, "T_B optimal", "verified", "agrees"]
    notes = [
        "T_L is that of an allgather; T_L* the fewest steps for this many ranks of 4 links, T_L** with links back.",
        "The paper states that all of them are optimal in T_B. The allreduce is verified.",
    ]
    title = "distance-regular graphs of 4 links out of each rank"
    return TableReport(PAPER, name, title, header, rows, ["N", *pairs], verdicts, notes=notes)


def _steps(table: str, row: dict[str, Any], ours: int) -> Verdict:
    return compare(table, row["network"], "T_L", "steps", unit="number", stated=row["steps"], ours=ours)


def _optimal(table: str, row: dict[str, Any], spec: str, collective: str) -> Verdict:
    sent = networks.evaluate(spec, collective).bandwidth
    least = networks.least(Topology(spec).ranks, 4, collective).bandwidth
    text = "optimal in T_B"
    return compare(table, row["network"], text, "sent", unit="number", stated=float(least), ours=float(sent))


def synthesis_times(table: dict[str, Any]) -> TableReport:
    """Table 6: the time to make an allgather's schedule."""
    rows = []
    for row in table["rows"]:
        network = Topology(row["topology"])
        alike, unlike = min(_timed(network) for _ in range(3)), _timed(_unlike(network))
        times = [seconds_text(seconds) for seconds in (row["seconds"], unlike, alike)]
        ratios = [f"{significant(row['seconds'] / seconds)} times" for seconds in (unlike, alike)]
        rows.append([row["topology"], str(network.ranks), *times, *ratios])
    header = ["network", "N", "paper", "ours, any graph", "ours, alike", "paper / any graph", "paper / alike"]
    notes = [
        "Not compared, because machines differ: the paper's linear programs ran in parallel, ours in one thread here.",
        "Any graph: given as links only, rank by rank. Alike: ringroad knows that ranks are alike, and makes one row.",
    ]
    title = "seconds to make an allgather's schedule"
    return TableReport(PAPER, "Table 6", title, header, rows, header[1:], notes=notes)


def _unlike(network: Topology) -> Topology:
    """The same links, without any knowledge of the family."""
    return Topology._from_links("links", network.ranks, network.nodes, network._links(), [network.ranks])


def _timed(network: Topology) -> float:
    start = time.perf_counter()
    Schedule.build("bfb", network, "allgather")
    return time.perf_counter() - start


def trained_models() -> TableReport:
    """Table 8: the best topology for each model among the paper's topologies, and the best of all known ones."""
    name, rows, verdicts = "Table 8", [], []
    ours = [
        training.network(n.spec, n.steps, float(n.bandwidth_term))
        for n in find(training.RANKS, training.DEGREE).networks
    ]
    for row, mine in zip(training.table8(), training.table8(ours), strict=True):
        verdict = compare(
            name, row.model, "the best topology", "winner", unit="name", stated=row.stated, ours=row.computed
        )
        verdicts.append(verdict)
        gain = f"{100 * (row.best.communication / mine.best.communication - 1):+.1f} %"
        rows.append([row.model, row.stated, row.computed, yes(verdict.agrees), mine.computed, gain])
    header = ["model", "stated", "ours", "agrees", "best of all known", "gain"]
    speeds = training.agreeing([3e14, 1e14, 2e13])
    otherwise = ", ".join(f"{agreeing} of {len(rows)} at {speed / 1e12:g}" for speed, agreeing in speeds)
    notes = [
        "The gain is in allreduce time. If layers computed at some TFLOP/s, instead of the first assumption below,",
        f"fewer would agree: {otherwise}. The paper does not state, so assumed here:",
        *(f"- {missing}" for missing in training.MISSING),
    ]
    title = f"the topology with the least allreduce time, N = {training.RANKS}, d = {training.DEGREE}"
    return TableReport(PAPER, name, title, header, rows, ["gain"], verdicts, notes=notes)


def training_statements() -> TableReport:
    """Section 8.4: eleven models together."""
    verdicts, rows = [], []
    for found in training.statements():
        verdict = compare(
            "Section 8.4",
            "11 models",
            found.text,
            "mean",
            unit="tenths" if found.unit == "%" else "number",
            stated=found.stated,
            ours=found.ours,
            bound="<= " if found.bound else "",
            margin=found.margin * found.stated,
            kind="fit" if found.fitted else "statement",
        )
        verdicts.append(verdict)
        texts = [found.text, found.stated_text, found.tolerance, found.show(found.ours)]
        rows.append([*texts, yes(verdict.agrees), "no, fitted" if found.fitted else "yes"])
    header = ["the paper states", "stated", "tolerance", "ours", "agrees", "counts"]
    notes = [
        "Two assumptions are fitted: 7 ms of computing for each model, and a double tree whose steps send the whole",
        "vector over one link. The statements to which they were fitted do not count.",
    ]
    title = "training, all models together"
    return TableReport(PAPER, "Section 8.4", title, header, rows, header[1:4], verdicts, notes=notes)


def circulants(table: dict[str, Any]) -> TableReport:
    """Theorem 22: C(n, {m, m+1})."""
    first, last = table["all"]
    ranges = [(f"n = {first} to {last}", range(first, last + 1)), ("beyond", table["beyond"])]
    rows, verdicts = [], []
    for label, sizes in ranges:
        exact = {n: networks.evaluate(f"circulant:{n}:{_m(n)},{_m(n) + 1}", "allgather") for n in sizes}
        diameter = sum(exact[n].steps == _m(n) for n in sizes)
        optimal = sum(exact[n].bandwidth == networks.least(n, 4, "allgather").bandwidth for n in sizes)
        for text, ours in (("diameter m", diameter), ("optimal in T_B", optimal)):
            verdicts.append(compare("Theorem 22", label, text, "n", unit="number", stated=len(sizes), ours=ours))
        shown = label if label != "beyond" else ", ".join(map(str, sizes))
        rows.append([shown, str(len(sizes)), str(diameter), str(optimal), str(max(e.steps for e in exact.values()))])
    header = ["n", "graphs", "diameter m", "T_B optimal", "largest m"]
    notes = [
        "m is the least number with 2 m^2 + 2 m + 1 >= n. Two offsets reach no more ranks in m steps, so "
        "no circulant of two offsets has a smaller diameter.",
    ]
    title = "the circulant C(n, {m, m + 1})"
    return TableReport(PAPER, "Theorem 22", title, header, rows, header[1:], verdicts, notes=notes)


def _m(n: int) -> int:
    """The least m with 2 m^2 + 2 m + 1 >= n."""
    m = max((math.isqrt(2 * n - 1) - 1) // 2, 0)
    return m if 2 * m * m + 2 * m + 1 >= n else m + 1


def kautz(table: dict[str, Any]) -> TableReport:
    """Figure 12 and theorem 21: generalised Kautz graphs."""
    name, degrees = "Figure 12", table["degrees"]
    rows, verdicts = [], []
    loads: dict[str, list[tuple[float, float]]] = {f"d = {degree}": [] for degree in degrees}
    later = dict.fromkeys(degrees, 0)
    for ranks in table["ranks"]:
        cells = []
        for degree in degrees:
            exact = networks.evaluate(f"generalized-kautz:{degree}:{ranks}", "allgather")
            bound = networks.least(ranks, degree, "allgather")
            ratio = float(exact.bandwidth / bound.bandwidth)
            loads[f"d = {degree}"].append((ranks, ratio))
            later[degree] = max(later[degree], exact.steps - bound.steps)
            cells.append(f"{exact.steps} ({exact.steps - bound.steps:+d}), {ratio:.3f}")
        rows.append([str(ranks), *cells])
    for degree in degrees:
        most = max(ratio for _, ratio in loads[f"d = {degree}"])
        label = f"d = {degree}"
        verdicts.append(
            compare(
                name,
                label,
                "T_L at most T_L* + 1",
                "steps more",
                unit="number",
                stated=1,
                ours=later[degree],
                bound="<= ",
            )
        )
        verdicts.append(
            compare(name, label, "T_B at most 2 T_B*", "ratio", unit="number", stated=2.0, ours=most, bound="<= ")
        )
    header = ["N", *loads]
    notes = [
        "Each cell: T_L (and the difference to the Moore bound), T_B over the least.",
        f"The paper shows all N to 2000; these are {len(table['ranks'])} of them.",
    ]
    chart = Chart("ranks", "T_B over the least", loads)
    title = "allgather on generalised Kautz graphs"
    return TableReport(PAPER, name, title, header, rows, header, below=verdicts, notes=notes, chart=chart)


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
    name, rows, verdicts = "Errata", [], []
    conjecture = "every circulant is optimal in T_B (conjecture 1)"
    for offsets, most in table["looked"]:
        spec, looked = counterexample(offsets, most)
        ours, why = f"holds for all {looked} of up to {most} ranks", "proved in the paper for two offsets"
        if spec:
            sent = networks.evaluate(spec, "allgather").bandwidth
            least = networks.least(Topology(spec).ranks, 2, "allgather").bandwidth
            ours, why = f"{spec} has {sent}, not {least}", "the smallest for this number of offsets; breadth-first only"
        verdicts.append(
            compare(
                name,
                f"{offsets} offsets",
                conjecture,
                "counterexample",
                unit="name",
                stated="none",
                ours=spec or "none",
                why=why,
            )
        )
        rows.append([f"{conjecture}, {offsets} offsets", "none against it", ours, yes(spec is None), why])
    for text, stated, exact, rounded, why in _comparisons(model):
        agrees = abs(exact - stated) <= 5e-8
        verdict = compare(
            name, "N = 1024", text, "time", unit="seconds", stated=stated, ours=exact, margin=5e-8, why=why
        )
        verdicts.append(verdict)
        times = [f"{1e6 * seconds:.1f} us" for seconds in (stated, exact)]
        rows.append([text, times[0], f"{times[1]}; {1e6 * rounded:.1f} us as the paper counts", yes(agrees), why])
    for text, seconds in _breadth_first(model):
        rows.append([text, "", f"{1e6 * seconds:.1f} us", "", "by the paper's own method, for comparison"])
    header = ["what", "stated", "ours", "holds", "why"]
    title = "statements that do not hold as the paper has them"
    return TableReport(PAPER, name, title, header, rows, ["stated"], verdicts)


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
    def seconds(spec: str) -> float:
        return networks.evaluate(spec).seconds(model.bytes, alpha=model.alpha, bandwidth=model.bandwidth)

    return [
        ("ring, breadth first", seconds("biring:4:1024")),
        ("torus 32x32, dimension by dimension", _cost_of("bucket", "torus:32x32", 4, model)),
        ("torus 32x32, breadth first", seconds("torus:32x32")),
    ]


def _cost_of(algorithm: str, spec: str, degree: int, model: NetworkModel) -> float:
    """An algorithm's seconds on a network on which the links of a rank share the model's bandwidth."""
    network = Topology(spec, bandwidth=model.bandwidth / degree, latency=0.0, processing=0.0)
    costs = CostModel(step_latency=model.alpha, reduce_cost=0.0)
    return costs.cost(Schedule.build(algorithm, network), network, model.bytes).seconds
