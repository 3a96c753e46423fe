"""The tables of Zhao et al., Efficient direct-connect topologies (arXiv 2202.03356): `ringroad lab reproduce zhao`.

zhao.toml holds the paper's tables. If a network of ours is better than the paper's, the tables show both.
"""

import math
import time
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from statistics import fmean
from typing import Any

from ringroad._native import CostModel, Schedule, Topology, moore_steps
from ringroad._support.text import seconds_text, significant
from ringroad.lab._finding import find
from ringroad.lab.reproduce import training
from ringroad.lab.reproduce.definition import Definition
from ringroad.lab.reproduce.tables import Chart, Points, TableReport, made, yes
from ringroad.lab.reproduce.training import ALPHA, BANDWIDTH, BYTES
from ringroad.lab.synthesis import BreadthFirst, bfb_cost

Row = dict[str, Any]
Rows = list[Row]


VERIFIED = 512
"""The most ranks for which a schedule is made and verified."""


def reports(definition: Definition) -> dict[str, Callable[[], TableReport]]:
    """How to make each table."""
    tables: dict[str, Callable[..., None]] = {
        "Table 4": frontier,
        "Table 5": small_networks,
        "Table 6": synthesis_times,
        "Table 7": distance_regular,
        "Table 8": trained_models,
        "Section 8.4": training_statements,
        "Theorem 22": circulants,
        "Figure 12": kautz,
        "Errata": errata,
    }
    return made(definition, tables)


@lru_cache(maxsize=1024)
def evaluate(spec: str, collective: str = "allreduce") -> BreadthFirst:
    """The cost of the breadth-first schedule: T_L in steps, and T_B in M/B."""
    return bfb_cost(spec, collective)


def least(ranks: int, degree: int, collective: str = "allreduce") -> BreadthFirst:
    """The lower bound for all networks: the steps of the Moore bound, and (n-1)/n for each phase."""
    phases = 2 if collective == "allreduce" else 1
    return BreadthFirst(phases * moore(ranks, degree), phases * Fraction(ranks - 1, ranks))


def moore(ranks: int, degree: int, both_ways: bool = False) -> int:
    """The fewest steps in which `degree` links out of each rank can reach all ranks; `both_ways`: if all have a link
    back."""
    steps = moore_steps(ranks, degree, both_ways)
    if steps is None:
        raise ValueError(f"{degree} links out of each rank cannot reach {ranks} ranks")
    return steps


def frontier(report: TableReport, ranks: int, degree: int, rows: Rows, bound: Row, more: list[str]) -> None:
    """Table 4, with the networks that `find` returns for as many ranks and links."""
    report.header = ["network", "whose", "T_L stated", "ours", "T_B stated", "ours ", "time stated", "ours  ", "agrees"]
    report.right, report.inside = report.header[2:8], True
    points: dict[str, Points] = {}

    def add(network: str, whose: str, exact: BreadthFirst | None, stated: Row | None = None) -> None:
        ours: Row | None = exact and {"steps": exact.steps, "sent": float(exact.bandwidth), "time": _seconds(exact)}
        cells, agree = [], []
        for text, quantity, shown, rest in (
            ("T_L", "steps", str, {}),
            ("T_B", "sent", "{:.3f}".format, {"margin": 5e-4}),
            ("time", "time", _us, {"unit": "seconds", "margin": 5e-8}),
        ):
            cells += [shown(one[quantity]) if one else "" for one in (stated, ours)]
            if ours and stated:
                values = {"stated": stated[quantity], "ours": ours[quantity]}
                agree.append(report.state(network, text, quantity, **values, **rest).agrees)
        report.rows.append([network, whose, *cells, yes(*agree) if agree else ""])
        one = ours or stated or {}
        points.setdefault(whose, []).append((one["steps"], round(one["sent"], 3)))

    for row in rows:
        exact = evaluate(row["topology"]) if "topology" in row else None
        add(row["network"], "paper" if exact else "paper, its numbers", exact, row)
        if "stand_in" in row:
            add(row["stand_in"], "stand-in", evaluate(row["stand_in"]))
    found = [network.spec for network in find(ranks, degree).networks]
    for spec in dict.fromkeys([*found, *more]):
        add(spec, "ours", evaluate(spec))
    add("lower bound", "bound", least(ranks, degree), bound)
    fastest, best = min(_seconds(evaluate(spec)) for spec in found), min(row["time"] for row in rows)
    report.notes.append(f"The fastest of ours takes {_us(fastest)}, the fastest of the paper's {_us(best)}.")
    report.chart = Chart("T_L in steps", "T_B in M/B", points, points=True)


def _seconds(exact: BreadthFirst) -> float:
    return exact.seconds(BYTES, alpha=ALPHA, bandwidth=BANDWIDTH)


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} us"


def small_networks(report: TableReport, rows: Rows) -> None:
    """Table 5: allreduces on the networks that the paper built."""
    report.header = ["N", "network", "T_L stated", "ours", "T_B optimal", "verified", "agrees"]
    report.right, report.inside = ["N", *report.header[2:4]], True
    for row in rows:
        steps = evaluate(row["topology"]).steps
        checked = _checked(report, row, "allreduce", steps=steps)
        report.rows.append([str(row["ranks"]), row["network"], str(row["steps"]), str(steps), *checked])


def distance_regular(report: TableReport, rows: Rows) -> None:
    """Table 7: allgathers on distance-regular graphs."""
    pairs = ["T_L stated", "ours", "T_L* stated", "ours ", "T_L** stated", "ours  "]
    report.header = ["N", "network", *pairs, "T_B optimal", "verified", "agrees"]
    report.right, report.inside = ["N", *pairs], True
    for row in rows:
        ranks, steps = Topology(row["topology"]).ranks, evaluate(row["topology"], "allgather").steps
        bounds = {"moore": moore(ranks, 4), "both_ways": moore(ranks, 4, both_ways=True)}
        checked = _checked(report, row, "allgather", ranks=ranks, steps=steps, **bounds)
        numbers = (row["steps"], steps, row["moore"], bounds["moore"], row["both_ways"], bounds["both_ways"])
        report.rows.append([str(ranks), row["network"], *map(str, numbers), *checked])


_NAMES = {
    "ranks": ("N", "ranks"),
    "steps": ("T_L", "steps"),
    "moore": ("T_L*", "bound"),
    "both_ways": ("T_L**", "bound"),
}
"""The text and the quantity of what a row states."""


def _checked(report: TableReport, row: Row, collective: str, **ours: int) -> list[str]:
    """Whether T_B is the least possible and the allreduce is verified; and whether all that the row states agrees."""
    network, spec = row["network"], row["topology"]
    sent = evaluate(spec, collective).bandwidth
    best = least(Topology(spec).ranks, 4, collective).bandwidth
    found = [report.state(network, *_NAMES[key], stated=row[key], ours=number) for key, number in ours.items()]
    found.append(report.state(network, "optimal in T_B", "sent", stated=float(best), ours=float(sent)))
    return [yes(sent == best), verified(spec), yes(*(verdict.agrees for verdict in found))]


@lru_cache(maxsize=1024)
def verified(spec: str) -> str:
    """Whether the allreduce is correct and costs what `evaluate` says."""
    network = Topology(spec)
    if network.ranks > VERIFIED:
        return f"over {VERIFIED}"
    schedule = Schedule.build("bfb", network)
    schedule.verify()
    exact, cost = evaluate(spec), CostModel().cost(schedule, network, 0)
    load = float(exact.bandwidth / network.degree)
    return yes(cost.steps == exact.steps, math.isclose(cost.link_load, load, rel_tol=1e-12))


def synthesis_times(report: TableReport, rows: Rows) -> None:
    """Table 6: the time to make an allgather's schedule."""
    report.header = ["network", "N", "paper", "ours, any graph", "ours, alike", "paper / any graph", "paper / alike"]
    for row in rows:
        network = Topology(row["topology"])
        # The same links, without any knowledge of the family.
        links = Topology._from_links("links", network.ranks, network.nodes, network._links(), [network.ranks])
        alike, unlike = min(_timed(network) for _ in range(3)), _timed(links)
        times = [seconds_text(seconds) for seconds in (row["seconds"], unlike, alike)]
        ratios = [f"{significant(row['seconds'] / seconds)} times" for seconds in (unlike, alike)]
        report.rows.append([row["topology"], str(network.ranks), *times, *ratios])


def _timed(network: Topology) -> float:
    start = time.perf_counter()
    Schedule.build("bfb", network, "allgather")
    return time.perf_counter() - start


def trained_models(report: TableReport) -> None:
    """Table 8: the best topology for each model among the paper's topologies, and the best of all known ones."""
    report.header = ["model", "stated", "ours", "agrees", "best of all known", "gain"]
    report.right, report.inside = ["gain"], True
    known = find(training.RANKS, training.DEGREE).networks
    ours = [training.network(network.spec, network.steps, float(network.bandwidth_term)) for network in known]
    for row, mine in zip(training.table8(), training.table8(ours), strict=True):
        names = {"unit": "name", "stated": row.stated, "ours": row.computed}
        agrees = yes(report.state(row.model, "the best topology", "winner", **names).agrees)
        gain = f"{100 * (row.best.communication / mine.best.communication - 1):+.1f} %"
        report.rows.append([row.model, row.stated, row.computed, agrees, mine.computed, gain])
    speeds = training.agreeing([3e14, 1e14, 2e13])
    otherwise = ", ".join(f"{agreeing} of {len(report.rows)} at {speed / 1e12:g}" for speed, agreeing in speeds)
    report.notes += [
        f"fewer would agree: {otherwise}. The paper does not state, so assumed here:",
        *(f"- {missing}" for missing in training.MISSING),
    ]


def training_statements(report: TableReport) -> None:
    """Section 8.4: eleven models together. Values agree if they differ by at most 5 % of the stated number."""
    report.header = ["the paper states", "stated", "tolerance", "ours", "agrees", "counts"]
    report.right, report.inside = report.header[1:4], True
    models, others = training.table8(), (training.SHIFTED_RING, training.DOUBLE_TREE, training.BOUND)
    for what, compute, ring, tree, mean, most in (
        ("allreduce time", 0.0, 6.7, 38, 0.015, 0.057),
        ("minibatch time", training.COMPUTE, 2.6, 28, 0.007, 0.017),
    ):
        rings, trees, bounds = (training.ratios(models, other, compute) for other in others)
        above, fitted = [1 / ratio - 1 for ratio in bounds], compute > 0
        for text, bound, stated, ours, unit, is_fitted in (
            ("of ShiftedRing over the best, mean", "", ring, fmean(rings), "number", fitted),
            ("of double trees over the best, mean", "", tree, fmean(trees), "number", True),
            ("above the lower bound, mean", "", mean, fmean(above), "tenths", fitted),
            ("above the lower bound, at most", "<= ", most, max(above), "tenths", fitted),
        ):
            rest: Row = {"unit": unit, "margin": 0.05 * stated, "kind": "fit" if is_fitted else "statement"}
            verdict = report.state("11 models", f"{what} {text}", "mean", stated=stated, bound=bound, ours=ours, **rest)
            numbers = [f"{100 * x:.2g} %" if unit == "tenths" else f"{x:.2g}x" for x in (stated, ours)]
            counts = "no, fitted" if is_fitted else "yes"
            cells = [bound + numbers[0], f"{bound}5 %", numbers[1], yes(verdict.agrees), counts]
            report.rows.append([verdict.text, *cells])


def circulants(report: TableReport, first: int, last: int, beyond: list[int]) -> None:
    """Theorem 22: C(n, {m, m+1})."""
    report.header, report.inside = ["n", "graphs", "diameter m", "T_B optimal", "largest m"], True
    several = f"n = {first} to {last}"
    for label, shown, sizes in (
        (several, several, range(first, last + 1)),
        ("beyond", ", ".join(map(str, beyond)), beyond),
    ):
        exact = {n: evaluate(f"circulant:{n}:{_m(n)},{_m(n) + 1}", "allgather") for n in sizes}
        diameter = sum(exact[n].steps == _m(n) for n in sizes)
        optimal = sum(exact[n].bandwidth == least(n, 4, "allgather").bandwidth for n in sizes)
        for text, ours in (("diameter m", diameter), ("optimal in T_B", optimal)):
            report.state(label, text, "n", stated=len(sizes), ours=ours)
        numbers = (len(sizes), diameter, optimal, max(e.steps for e in exact.values()))
        report.rows.append([shown, *map(str, numbers)])


def _m(n: int) -> int:
    """The least m with 2 m^2 + 2 m + 1 >= n."""
    m = max((math.isqrt(2 * n - 1) - 1) // 2, 0)
    return m if 2 * m * m + 2 * m + 1 >= n else m + 1


def kautz(report: TableReport, degrees: list[int], ranks: list[int]) -> None:
    """Figure 12 and theorem 21: generalised Kautz graphs."""
    report.rows = [[str(n)] for n in ranks]
    loads: dict[str, Points] = {}
    for degree in degrees:
        later, points = 0, loads.setdefault(f"d = {degree}", [])
        for n, row in zip(ranks, report.rows, strict=True):
            exact = evaluate(f"generalized-kautz:{degree}:{n}", "allgather")
            bound = least(n, degree, "allgather")
            ratio, more = float(exact.bandwidth / bound.bandwidth), exact.steps - bound.steps
            points.append((n, ratio))
            later = max(later, more)
            row.append(f"{exact.steps} ({more:+d}), {ratio:.3f}")
        most = max(ratio for _, ratio in points)
        report.state(f"d = {degree}", "T_L at most T_L* + 1", "steps more", stated=1, ours=later, bound="<= ")
        report.state(f"d = {degree}", "T_B at most 2 T_B*", "ratio", stated=2.0, ours=most, bound="<= ")
    report.header = report.right = ["N", *loads]
    report.chart = Chart("ranks", "T_B over the least", loads)


def counterexample(offsets: int, most: int) -> tuple[str | None, int]:
    """The smallest circulant whose breadth-first allgather is not optimal in T_B (or None), and the number checked."""
    looked = 0
    for ranks in range(2 * offsets + 1, most + 1):
        for chosen in combinations(range(1, (ranks + 1) // 2), offsets):
            if math.gcd(ranks, *chosen) > 1:
                continue
            looked += 1
            spec = f"circulant:{ranks}:{','.join(map(str, chosen))}"
            if evaluate(spec, "allgather").bandwidth > Fraction(ranks - 1, ranks):
                return spec, looked
    return None, looked


def errata(report: TableReport, looked: list[list[int]]) -> None:
    """Statements of the paper that do not hold, or that rest on other numbers than stated."""
    report.header = ["what", "stated", "ours", "holds", "why"]
    report.right, report.inside = ["stated"], True
    conjecture = "every circulant is optimal in T_B (conjecture 1)"
    for offsets, most in looked:
        spec, checked = counterexample(offsets, most)
        ours, why = f"holds for all {checked} of up to {most} ranks", "proved in the paper for two offsets"
        if spec:
            sent, best = evaluate(spec, "allgather").bandwidth, 1 - Fraction(1, Topology(spec).ranks)
            ours, why = f"{spec} has {sent}, not {best}", "the smallest for this number of offsets; breadth-first only"
        names = {"unit": "name", "stated": "none", "ours": spec or "none", "why": why}
        report.state(f"{offsets} offsets", conjecture, "counterexample", **names)
        report.rows.append([f"{conjecture}, {offsets} offsets", "none against it", ours, yes(spec is None), why])
    # The paper's numbers below table 4, ours, and ours as the paper counts.
    ranks, levels, decimal = training.RANKS, round(math.log2(training.RANKS)), 1e6 / BANDWIDTH
    ring, tree = _cost_of("bidirectional-ring", f"ring:{ranks}", 2), 2 * levels * (ALPHA + BYTES / BANDWIDTH)
    why = "the paper takes 1 MB as 10^6 B here, and as 2^20 B in the table"
    for text, stated, exact, rounded, reason in (
        ("shifted ring", 20640e-6, ring, 2 * ranks * ALPHA + 2 * decimal, f"{why}; and 2 N steps, of 2 (N - 1)"),
        ("double binary tree", 1800e-6, tree, 2 * levels * (ALPHA + decimal), why),
    ):
        times = {"unit": "seconds", "stated": stated, "ours": exact, "margin": 5e-8, "why": reason}
        agrees = yes(report.state("N = 1024", text, "time", **times).agrees)
        report.rows.append([text, _us(stated), f"{_us(exact)}; {_us(rounded)} as the paper counts", agrees, reason])
    for text, seconds in (
        ("ring, breadth first", _seconds(evaluate("biring:4:1024"))),
        ("torus 32x32, dimension by dimension", _cost_of("bucket", "torus:32x32", 4)),
        ("torus 32x32, breadth first", _seconds(evaluate("torus:32x32"))),
    ):
        report.rows.append([text, "", _us(seconds), "", "by the paper's own method, for comparison"])


def _cost_of(algorithm: str, spec: str, degree: int) -> float:
    """An algorithm's seconds on a network on which the links of a rank share their bandwidth."""
    network = Topology(spec, bandwidth=BANDWIDTH / degree, latency=0.0, processing=0.0)
    costs = CostModel(step_latency=ALPHA, reduce_cost=0.0)
    return costs.cost(Schedule.build(algorithm, network), network, BYTES).seconds
