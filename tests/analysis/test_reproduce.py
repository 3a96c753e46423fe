"""The papers' evaluations: which statements agree, which do not and why; and that definitions and pictures are
complete.
"""

import json
import statistics
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import get_args

import pytest
from helpers import check_fits, long
from ringroad import CostModel, Schedule, Topology
from ringroad._support.text import parse_bytes
from ringroad.lab.reproduce import PAPERS, Definition, Panel, Report, basu, reproduce, zhao
from ringroad.lab.reproduce.claims import Kind, counted, counts_text
from ringroad.lab.reproduce.definition import ORIGINS
from ringroad.lab.reproduce.quantities import EQUATIONS, QUANTITIES, judge


class Reports(dict[str, list[Report]]):
    """The reports of each paper, made when a test first asks for them: all together they take long."""

    def __missing__(self, paper: str) -> list[Report]:
        return self.setdefault(paper, list(reproduce(paper)))


@pytest.fixture(scope="module")
def reports() -> Reports:
    return Reports()


@pytest.mark.parametrize(
    ("paper", "statements", "agreeing", "checks", "fitted"),
    [
        ("swing", 96, 76, 15, 7),
        ("trivance", 29, 16, 6, 0),
        ("kolmakov", 34, 33, 0, 0),
        ("zhao", 134, 130, 0, 5),
    ],
)
def test_statements(reports, paper, statements, agreeing, checks, fitted):
    """The number of statements that agree. One more or fewer is a change of the model, which should be reported."""
    _check_statements(reports[paper], statements, agreeing, checks, fitted)


def _check_statements(reports, statements, agreeing, checks=0, fitted=0):
    """Our checks all hold; neither they nor statements to which we fitted count as the paper's."""
    verdicts = [verdict for report in reports for verdict in report.verdicts]
    assert counted(verdicts) == {
        "statements": statements,
        "agreeing": agreeing,
        "checks": checks,
        "checks_agreeing": checks,
        "fitted": fitted,
    }
    unexplained = [(v.figure, v.panel, v.text) for v in verdicts if not (v.agrees or v.why)]
    assert not unexplained, "a statement that we do not confirm needs a reason"


def test_tables_fit_terminals(reports, capsys, monkeypatch):
    for report in [report for paper in PAPERS if paper != "basu" for report in reports[paper]]:
        check_fits(capsys, monkeypatch, report.show)


def test_swing_on_64x64(reports):
    """Swing is the best from 32 B to 32 MiB, by about 120 % at 2 MiB. From 128 MiB on, bucket is the best."""
    (panel,) = next(report.panels for report in reports["swing"] if report.name == "Figure 7")
    rivals = {"recursive-doubling", "bucket", "ring"}
    assert set(panel.rivals) == rivals
    for size in panel.sizes:
        times = {key: panel.seconds(key, size) for key in rivals | {"swing"}}
        expected = "swing" if size <= 32 << 20 else "bucket"
        assert min(times, key=times.get) == panel.winner(size) == expected, size
    expected = {"32": 0.42, "2MiB": 1.27, "32MiB": 0.18, "128MiB": -0.06, "512MiB": -0.13}
    found = {size: panel.gain(parse_bytes(size)) for size in expected}
    assert found == pytest.approx(expected, abs=0.01)


def test_rectangular_tori(reports):
    """On tori of two dimensions, the excess of Swing's worst link is four times what equation (3) says."""
    verdicts = [v for report in reports["swing"] for v in report.verdicts if v.quantity == "excess"]
    assert len(verdicts) == 4
    for verdict in verdicts:
        assert verdict.ours / verdict.stated == pytest.approx(4, rel=0.02), verdict.panel


def test_swing_without_start_up_times():
    """With hop latencies alone, whole-vector Swing is 1.5 times as fast as recursive doubling, as in the paper."""
    network = Topology("torus:64x64", latency=100e-9, processing=300e-9)
    model = CostModel(step_latency=0.0)
    swing = model.cost(Schedule.build("swing-latency", network).on_slice(0), network, 0)
    doubling = model.cost(Schedule.build("recursive-doubling", network), network, 0)
    assert doubling.fixed / swing.fixed == pytest.approx(1.5)


def test_trivance_on_tori_of_threes(reports):
    """Where the published distances are exact, the paper's statements hold: the best from 32 B to 8 MiB and beyond."""
    report = next(report for report in reports["trivance"] if report.name == "Figures 11 and 12")
    panel = report.panels[0]
    assert all(panel.winner(size) == "trivance" for size in panel.sizes if size <= 8 << 20)
    assert statistics.median(panel.gains()) > 0.05


def test_equations_of_kolmakov(reports):
    """(25), (36) and (44) are the costs of schedules on 127 ranks, up to rounding, and (37) finds the best one."""
    equations = next(report for report in reports["kolmakov"] if report.name == "Equations")
    assert len(equations.verdicts) == 14
    for verdict in equations.verdicts:
        assert verdict.ours == pytest.approx(verdict.stated, rel=1e-12), verdict.text


@pytest.mark.parametrize("paper", ["swing", "trivance", "kolmakov"])
def test_definitions_name_what_there_is(paper):
    data = Definition.load(paper).data
    keys = data["series"].keys()
    assert data["subject"] in keys
    for figure in data["figure"]:
        assert figure["plot"] in {"none", "goodput", "time", "gain", "box", "ranks"}
        assert figure["panels"] and set(figure.get("without", [])) <= keys
        assert figure.get("sizes", data["sizes"]).keys() == {"smallest", "largest", "factor"}
        for network in figure["panels"]:
            if not isinstance(network, str):
                assert network.keys() <= {"topology", "bandwidth", "label", "without"}
                assert set(network.get("without", [])) <= keys
        for claim in figure["claims"]:
            assert claim["quantity"] in QUANTITIES and claim.get("kind", "statement") in get_args(Kind)
            assert claim.get("formula", "best r") in EQUATIONS
            assert len(claim.keys() & {"stated", "at_least", "at_most", "formula"}) == 1, claim


@pytest.mark.parametrize("paper", PAPERS)
def test_assumptions_say_whose_they_are(paper):
    assumptions = Definition.load(paper).assumptions
    assert assumptions and {assumption["origin"] for assumption in assumptions} <= set(ORIGINS)


def test_networks_of_zhao(reports):
    """The figures that the paper prints of its networks are exact. Verified ones agree. Ours are better than all of
    them.
    """
    tables = {report.name: report for report in reports["zhao"]}
    assert list(tables) == [
        "Table 4",
        "Table 5",
        "Table 6",
        "Table 7",
        "Table 8",
        "Section 8.4",
        "Theorem 22",
        "Figure 12",
        "Errata",
    ]
    for name in ["Table 4", "Table 5", "Table 7", "Table 8", "Theorem 22", "Figure 12"]:
        assert all(verdict.agrees for verdict in tables[name].verdicts), name
    for name in ["Table 5", "Table 7"]:
        verified = [dict(zip(tables[name].header, row, strict=True))["verified"] for row in tables[name].rows]
        assert set(verified) <= {"yes", "over 512"} and verified.count("over 512") <= 1
    rows = [dict(zip(tables["Table 4"].header, row, strict=True)) for row in tables["Table 4"].rows]
    times = {
        kind: [float(row["ours  "].split()[0]) for row in rows if row["whose"] == kind]
        for kind in ("bound", "paper", "ours")
    }
    assert max(times["bound"]) < min(times["ours"]) and max(times["ours"]) < min(times["paper"])


def _fewer(tables):
    """The part of Basu et al.'s tables that takes a moment."""
    whole = tables["Section 3.1"]["networks"]
    small = {
        "Section 3.1": {"networks": [row for row in whole if not row["network"].startswith("torus")]},
        "Section 6.2": {"ordered": ["torus:3x3x3", "torus:4x4"]},
        "Figure 6": {"all pairs": [8], "decomposed": [8, 16], "flow": [8, 16, 40]},
        "Figure 7": {"networks": ["torus:3x3x3", "generalized-kautz:4:40"]},
        "Section 3.1.4": {"networks": ["generalized-kautz:4:20"]},
        "Figures 8 and 11": {
            "degrees": [4],
            "ranks": [25, 50, 150, 200],
            "covered": {"degrees": [2, 3], "largest": 40},
        },
        "Section 6.4": {"sides": [5, 10, 20]},
        "Figure 9": {"sizes": [50, 100]},
        "Figure 12": {"sizes": [45]},
        "Appendix E": {"sizes": [64]},
        "Figure 13": {"hosts": [4, 1.3, 1, 0.5]},
    }
    return tables | {name: tables[name] | fewer for name, fewer in small.items()}


def test_flows_of_basu():
    """A few networks of each table; all of them with RINGROAD_TEST_FULL=1."""
    definition = Definition.load("basu")
    found = {name: make() for name, make in basu.reports(replace(definition, data=_fewer(definition.data))).items()}
    assert [report.name for report in found.values()] == list(found)
    _check_statements(found.values(), 85, 75, checks=20)
    programs = found["Section 3.1"]
    assert all(verdict.agrees for verdict in programs.verdicts)
    (cells,) = (row for row in programs.rows if row[0] == "generalized-kautz:2:8")
    row = dict(zip(programs.header, cells, strict=True))
    # The paths of the best flow are longer than the diameter, and one more step is enough for them.
    assert float(row["in steps"]) / float(row["one more"]) == pytest.approx(0.75, abs=1e-3)
    assert all(verdict.agrees for verdict in found["Theorem 2"].verdicts)
    (at_400,) = found["Section 6.4"].verdicts
    assert at_400.ours == pytest.approx(2.35, abs=0.03)


@long
def test_all_flows_of_basu():
    _check_statements(list(reproduce("basu")), 123, 95, checks=29)


def test_conjecture_on_circulants():
    """The smallest circulants for which breadth-first broadcast is not optimal; the formula in Python."""

    def sent(ranks: int, offsets: tuple[int, ...]) -> Fraction:
        links = [shift % ranks for offset in offsets for shift in (offset, -offset)]
        distance, reached = {0: 0}, [0]
        for rank in reached:
            for link in links:
                if (rank + link) % ranks not in distance:
                    distance[(rank + link) % ranks] = distance[rank] + 1
                    reached.append((rank + link) % ranks)
        total = Fraction(0)
        for step in range(1, max(distance.values()) + 1):
            jobs = [
                {number for number, link in enumerate(links) if distance[(rank + link) % ranks] == step - 1}
                for rank in distance
                if distance[rank] == step
            ]
            subsets = (set(some) for size in range(1, len(links) + 1) for some in combinations(range(len(links)), size))
            total += max(Fraction(sum(job <= some for job in jobs), len(some)) for some in subsets)
        return total * Fraction(len(links), ranks)

    for offsets, most, spec in [(3, 15, "circulant:15:1,4,5"), (4, 12, "circulant:12:1,3,4,5"), (2, 12, None)]:
        found, looked = zhao.counterexample(offsets, most)
        assert found == spec and looked > 10
    for ranks, offsets in [(15, (1, 4, 5)), (12, (1, 3, 4, 5)), (13, (1, 3, 4)), (12, (2, 3))]:
        spec = f"circulant:{ranks}:{','.join(map(str, offsets))}"
        assert zhao.evaluate(spec, "allgather").bandwidth == sent(ranks, offsets), spec
    assert sent(15, (1, 4, 5)) == 1 > Fraction(14, 15)


def test_bounds_and_margins(refused):
    definition = Definition.load("swing")
    figure = next(figure for figure in definition.data["figure"] if figure["name"] == "Figure 7")
    panel = Panel(definition, figure, figure["panels"][0])

    def agrees(quantity: str, **claim: object) -> bool:
        (verdict,) = judge("Figure 7", [panel], text="", quantity=quantity, **claim)
        return verdict.agrees

    at = {"size": "2MiB"}
    assert agrees("gain", **at, stated=1.2, margin=0.1)
    assert not agrees("gain", **at, stated=1.2, margin=0.01)
    assert agrees("gain", **at, at_least=1.0)
    assert not agrees("gain", **at, at_least=1.4)
    assert agrees("gain", **at, at_most=1.4)
    assert agrees("gain", **at, at_most=1.0, margin=0.3)
    assert agrees("sweet spot", stated="1MiB", margin=2)
    assert not agrees("sweet spot", stated="1MiB", margin=1.5)
    assert agrees("winner", **at, stated="swing")
    assert not agrees("winner", **at, stated="ring")
    with refused(ValueError, "torus:64x64", "'bruck'"):
        panel.form("bruck")


def test_tables(reports, capsys):
    """Each row has its tolerance, our own figures have a star, and networks on which a statement agrees share a row."""
    report = next(report for report in reports["kolmakov"] if report.name == "Figure 1")
    report.show()
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 networks negligible for very large vectors gain 0 %* 2 points 0 % to 1 %" in shown
    assert "* the paper has words and no number; this number is ours" in shown
    report = next(report for report in reports["swing"] if report.name == "Figure 8")
    report.show()
    shown = " ".join(capsys.readouterr().out.split())
    assert "8x8 Swing is the best up to 32 MiB on every size of network leads until >= 32 MiB 0 8 MiB x0.25 no" in shown
    assert "3 networks Swing is the best up to 32 MiB" in shown


def test_what_counts(reports, capsys):
    """Checks of ours, and statements to which we fitted, have tables of their own; a bound's tolerance is one-sided."""
    next(report for report in reports["trivance"] if report.name == "Deficiencies").show()
    theirs, ours = capsys.readouterr().out.split("we check")
    assert "log3 n steps, 1 / log2 3 of log2 n" in theirs and "(2/3) log3 n" in ours
    verdicts = [verdict for report in reports["swing"] for verdict in report.verdicts]
    text = "76 of 96 statements agree; 15 of 15 checks of ours hold; 7 statements do not count, because "
    assert counts_text(verdicts) == text + "assumptions were fitted to them"
    texts = {verdict.text: (verdict.stated_text, verdict.tolerance_text) for verdict in verdicts}
    assert texts["medians range between 20 % and 50 %: at least"] == (">= 20 %", "<= 3 points")
    assert texts["the median gain is around 25 %, whatever the bandwidth"] == ("25 %", "10 points")
    (minibatch,) = (report for report in reports["zhao"] if report.name == "Section 8.4")
    rows = [dict(zip(minibatch.header, row, strict=True)) for row in minibatch.rows]
    most = next(row for row in rows if row["the paper states"] == "allreduce time above the lower bound, at most")
    assert (most["stated"], most["tolerance"], most["counts"]) == ("<= 5.7 %", "<= 5 %", "yes")
    assert [row["counts"] for row in rows] == ["yes", "no, fitted", "yes", "yes"] + 4 * ["no, fitted"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ringroad", "lab", "reproduce", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_one_figure(reports, refused):
    (report,) = reproduce("zhao", "Table 5")
    assert report.name == "Table 5"
    assert [report.name for report in reports["zhao"]] == list(zhao.reports(Definition.load("zhao")))
    with refused(ValueError, "swing", "'Figure 1'"):
        reproduce("swing", "Figure 1")


def test_command(tmp_path):
    run = _run("kolmakov", "--plot", str(tmp_path))
    assert run.returncode == 0, run.stderr
    assert "33 of 34 statements agree" in run.stdout
    names = {"1", "7-to-9", "10", "11", "12"}
    pictures = {path.name for path in tmp_path.iterdir()}
    assert pictures == {f"kolmakov-figure{'s' if '-to-' in name else ''}-{name}.png" for name in names}
    assert all(path.stat().st_size > 10_000 for path in tmp_path.iterdir())
    run = _run("trivance", "--json")
    report = json.loads(run.stdout)
    assert (report["statements"], report["agreeing"], report["checks"]) == (29, 16, 6)
    figure = next(figure for figure in report["figures"] if figure["figure"] == "Figure 10")
    assert [panel["network"] for panel in figure["panels"]][-1] == "3.2 Tb/s"
    first = figure["panels"][0]["series"]["trivance"][0]
    assert (first["bytes"], first["form"]) == (32, "trivance-latency")
    run = _run("swings")
    assert run.returncode == 2
    assert run.stderr == "ringroad: unknown paper 'swings'; expected one of: swing, trivance, kolmakov, zhao, basu\n"
