"""The capacity of networks for an all-to-all: flows against linear programs, bounds, the command."""

import json
import random
from collections import Counter
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import ringroad
from helpers import FULL, failure_of
from ringroad import cli
from ringroad.lab import programs
from ringroad.lab.reproduce.graphs import through_hosts
from ringroad.lab.synthesis import alltoall_flow

GAP = 0.005
HELD = 1.5


def damaged():
    """Tori and other networks without 1 to 4 of their cables, as far as ranks stay connected."""
    specs = ["torus:3x3", "torus:4x4", "torus:3x3", "torus:3x5", "mesh:3x4", "torus:2x2x4", "hypercube:4"]
    specs += ["torus:5x5", "torus:3x3x3", "torus:6x6", "torus:4x8", "torus:7x7", "torus:8x8", "torus:4x4x4"]
    for seed, spec in enumerate(specs):
        dice, network = random.Random(seed), ringroad.Topology(spec)
        for cable in dice.sample(sorted({(a, b) for a, b, *_ in network.links if a < b}), 1 + seed % 4):
            with suppress(ringroad.TopologyError):
                network = network.without_links([cable])
        yield network, None


def drawn():
    """Random graphs, mostly directed, with unequal links; every second one with given demands."""
    for seed in range(18):
        ranks = 8 + 2 * seed if seed < 14 else 34 + 10 * (seed - 14)
        graph = nx.gnp_random_graph(ranks, min(0.35, 6 / ranks), seed=seed, directed=seed % 3 < 2)
        nx.add_cycle(graph, range(ranks))
        dice = random.Random(seed)
        for _, _, edge in graph.edges(data=True):
            edge["bandwidth"] = dice.choice([1e9, 1e9, 3e9, 2.5e9])
        yield ringroad.Topology.from_graph(graph, name=f"drawn-{seed}"), _demands(ranks, dice) if seed % 2 else None


def named():
    """Named networks: some for which flows are searched, and others with given demands."""
    for spec in ("generalized-kautz:3:14", "de-bruijn:2:4", "mesh:4x5", "generalized-kautz:4:40", "de-bruijn:2:6"):
        yield ringroad.Topology(spec), None
    for spec in ("ring:9", "petersen", "torus:4x4"):
        network = ringroad.Topology(spec)
        yield network, _demands(network.ranks, random.Random(spec))


def _demands(ranks, dice):
    return np.array([[dice.choice([0, 1, 1, 20]) for _ in range(ranks)] for _ in range(ranks)])


def cases(ranks=20):
    """All cases. Those with more ranks run only in long tests."""
    for number, (topology, demands) in enumerate([*damaged(), *drawn(), *named()]):
        skip = pytest.mark.skipif(topology.ranks > ranks and not FULL, reason="RINGROAD_TEST_FULL=1 runs it")
        given = "" if demands is None else ", demands"
        name = f"{number}: {topology.spec}, {topology.ranks} ranks{given}"
        yield pytest.param(topology, demands, marks=skip, id=name)


@pytest.mark.timeout(1200)  # the largest linear program takes minutes
@pytest.mark.parametrize(("topology", "demands"), list(cases()))
def test_the_proven_interval_holds_what_the_linear_program_finds(topology, demands):
    _within_the_proven_interval(topology, programs.master_rate(topology, demands), demands)


def _within_the_proven_interval(topology, rate, demands=None, gap=GAP):
    flow = alltoall_flow(topology, demands, gap=GAP)
    assert flow.gap <= gap and flow.least_seconds >= max(1 / bound for bound in flow.bounds.values()) * (1 - 1e-12)
    assert flow.rate <= rate * (1 + 1e-6)
    assert rate * flow.least_seconds <= 1 + 1e-6
    assert all(bound >= rate * (1 - 1e-9) for bound in flow.bounds.values())


def uneven(seed):
    """A random digraph with very unequal capacities, some of its links parallel; and demands of few pairs."""
    dice = random.Random(seed)
    ranks = dice.randint(3, 11)
    graph = nx.MultiDiGraph()
    ends = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    ends += [tuple(dice.sample(range(ranks), 2)) for _ in range(dice.randint(1, 3) * ranks)]
    speeds = dice.choice([[1, 2, 2.5], [1, 3], [1, 1.3, 4, 10], [1, 1.9999, 0.777]])
    for source, target in ends:
        graph.add_edge(source, target, bandwidth=1e9 * dice.choice(speeds))
    demands = np.zeros((ranks, ranks))
    for _ in range(dice.randint(1, 6)):
        demands[tuple(dice.sample(range(ranks), 2))] = dice.choice([1, 3.7e3, 1e6])
    return ringroad.Topology.from_graph(graph, name=f"uneven-{seed}"), demands


@pytest.mark.parametrize("seed", range(200 if FULL else 12))
def test_unequal_links_and_few_pairs(seed):
    """The exact optimum for few pairs; and schedules that come as close to the bound as is promised."""
    topology, demands = uneven(seed)
    _within_the_proven_interval(topology, programs.link_rate(topology, demands), demands)
    exact = alltoall_flow(topology, demands, gap=0)
    assert exact.ended == "exact" and exact.gap < 1e-6
    assert exact.rate == pytest.approx(programs.link_rate(topology, demands), rel=1e-6)
    _within_the_proven_interval(topology, programs.link_rate(topology))
    flow = alltoall_flow(topology, gap=GAP)
    made = flow.schedule()
    made.schedule.verify()
    speeds = Counter()
    for source, target, bandwidth, *_ in topology.links:
        speeds[source, target] += bandwidth
    steps = [Counter() for _ in range(made.schedule.steps)]
    for step, source, target, chunks, *_ in made.schedule.sends():
        steps[step][source, target] += len(chunks)
    full = sum(max(count / speeds[link] for link, count in step.items()) for step in steps)
    loads = sum(steps, Counter())
    busiest = max(count / speeds[link] for link, count in loads.items())
    for time, excess, most in ((busiest, made.busiest_excess, 0.03), (full, made.excess, 0.05)):
        assert time / made.pieces / flow.least_seconds - 1 == pytest.approx(excess, abs=1e-9)
        assert excess <= most
    limited = flow.schedule(steps=topology.diameter, pieces=2)
    assert limited.pieces <= 2
    assert limited.excess >= limited.busiest_excess - 1e-9  # the same, but for rounding, if one link is always busiest
    assert limited.busiest_excess >= 0


def test_bounds_are_proofs():
    """One cut is the bound here: no rounding of capacities, of parallel links or of numbers may exceed it."""
    for speeds, demand in [([1.9999e9], 1e6), ([1e9 / 3, 3e9], 7), ([1e9, 0.7e9, 1.1e9], 1 / 3), ([1e3, 1e11], 1e-9)]:
        graph = nx.MultiDiGraph([(0, 1, {"bandwidth": 1e9})])
        for speed in speeds:
            graph.add_edge(1, 0, bandwidth=speed)
        flow = alltoall_flow(ringroad.Topology.from_graph(graph, name="cut"), [[0, 0], [demand, 0]])
        true = Fraction(demand) / sum(map(Fraction, speeds))
        assert Fraction(flow.least_seconds) <= true <= Fraction(flow.least_seconds) * (1 + Fraction(1, 10**12))
        assert flow.seconds == pytest.approx(float(true))
        assert all(Fraction(bound) >= 1 / true for bound in flow.bounds.values())


@pytest.mark.parametrize("topology", [pytest.param(case.values[0], marks=case.marks, id=case.id) for case in cases()])
def test_schedules_of_any_network_are_proven(topology):
    _proven(topology)


def _proven(topology):
    """Verifies the schedule, and that a rank holds at most HELD times its vector for others."""
    made = alltoall_flow(topology, gap=GAP).schedule()
    made.schedule.verify()
    assert made.held <= HELD * topology.ranks * made.pieces


@pytest.mark.parametrize(
    ("spec", "rate"),
    [
        ("hypercube:3", 1 / 4),
        ("twisted-hypercube:3", 1 / 4),
        ("complete-bipartite:4", 2 / 5),
        ("complete:5", 1),
        ("ring:8", 1 / 8),
        ("torus:3x3", 1 / 3),
        ("torus:4x4", 1 / 8),
        ("torus:5x5", 1 / 15),
        ("torus:3x3x3", 1 / 9),
        ("cayley:s3:213,132", None),
        ("circulant:9:1,3", None),
        ("torus:3x4", None),
    ],
)
def test_where_all_ranks_look_alike_the_flow_is_exact(spec, rate):
    network = ringroad.Topology(spec, bandwidth=1.0)
    flow = alltoall_flow(network)
    assert flow.rate == pytest.approx(programs.master_rate(network), rel=1e-5)
    assert rate is None or (flow.rate == pytest.approx(rate, rel=1e-12) and flow.iterations == 0)


def test_linear_programs_without_a_solution_say_why(refused):
    for demands in (np.zeros((4, 4)), -np.ones((4, 4)), np.full((4, 4), np.nan)):
        with refused(ValueError):
            programs.link_rate("ring:4", demands)
    for steps in (0, 1):
        with refused(ValueError, "steps"):
            programs.stepped_rate("ring:4", steps)
    with refused(ValueError):
        programs.link_rate("ring:1")


def test_all_linear_programs_agree(capfd):
    for spec in ("hypercube:3", "without(torus:3x3, 0-1)"):
        rate = programs.master_rate(spec)
        assert programs.link_rate(spec) == pytest.approx(rate)
        assert programs.children_rate(spec) == pytest.approx(rate)
        # From the diameter on, a limit on the steps costs nothing.
        assert programs.stepped_rate(spec, 5) == pytest.approx(rate)
        assert programs.path_rate(spec, paths="shortest") <= rate * (1 + 1e-6)
        assert programs.path_rate(spec, paths="disjoint") <= rate * (1 + 1e-6)
    assert programs.path_rate("hypercube:3", paths="shortest") == pytest.approx(programs.master_rate("hypercube:3"))
    assert capfd.readouterr() == ("", ""), "the solver keeps silent"


def test_ways_carry_what_links_are_said_to():
    flow = alltoall_flow("without(torus:4x4, 0-1)")
    loads = dict.fromkeys(((link.source, link.target) for link in flow.links), 0.0)
    for source in range(16):
        paths = flow.paths(source)
        assert sorted(paths) == [target for target in range(16) if target != source]
        for target, some in paths.items():
            assert sum(way.share for way in some) == pytest.approx(1)
            for way in some:
                assert (way.ranks[0], way.ranks[-1]) == (source, target)
                assert len(set(way.ranks)) == len(way.ranks)
                for hop in zip(way.ranks, way.ranks[1:], strict=False):
                    loads[hop] += way.share
    for link in flow.links:
        assert link.seconds * link.bandwidth == pytest.approx(loads[link.source, link.target], rel=1e-5)
    assert max(link.seconds for link in flow.links) == pytest.approx(flow.seconds)
    assert flow.paths(3, 5).keys() == {5}
    assert alltoall_flow("without(torus:4x4, 0-1)").links == flow.links  # the same network again


@pytest.mark.parametrize("spec", ["mesh:2x3", "kautz:2:2", "without(torus:3x3, 0-1)"])
def test_flows_over_links_are_made_of_paths(spec):
    """The widest paths together carry what every pair gets, and no link exceeds its capacity."""
    rate, flows = programs.link_flows(spec)
    carried = dict.fromkeys([(link.source, link.target) for link in alltoall_flow(spec).links], 0.0)
    for (source, target), flow in flows.items():
        paths = programs.widest_paths(flow, source, target)
        widths = [width for width, _ in paths]
        assert sum(widths) >= rate * (1 - 1e-6) and widths == sorted(widths, reverse=True)
        for width, path in paths:
            assert (path[0], path[-1]) == (source, target) and len(set(path)) == len(path)
            for hop in pairwise(path):
                carried[hop] += width
    assert max(carried.values()) <= 12.5e9 * (1 + 1e-6)
    assert programs.widest_paths({(0, 1): 2.0, (1, 2): 1.0, (0, 2): 1.5}, 0, 2) == [(1.5, (0, 2)), (1.0, (0, 1, 2))]
    assert programs.widest_paths({}, 0, 2) == []


def test_a_search_can_be_followed_and_ended(refused):
    heard = []
    flow = alltoall_flow("generalized-kautz:3:40", gap=0.0, budget=0.2, progress=lambda *now: heard.append(now))
    assert [iteration for iteration, *_ in heard] == list(range(1, flow.iterations + 1))
    assert 0 < flow.gap < 0.05 and flow.ended == "budget"

    def enough(*_):
        raise KeyError("enough")

    with refused(KeyError, "enough"):
        alltoall_flow("generalized-kautz:3:40", progress=enough)


def test_what_makes_no_sense(refused):
    for demand in (-1.0, float("nan"), float("inf"), 1e300):
        demands = np.ones((4, 4))
        demands[1, 2] = demand
        with refused(ValueError, "rank 1", "rank 2"):
            alltoall_flow("ring:4", demands)
    with refused(ValueError, (4, 4), (3, 4)):
        alltoall_flow("ring:4", np.ones((3, 4)))
    with refused(ValueError):
        alltoall_flow("ring:4", gap=2)
    with refused(ValueError):
        alltoall_flow("mesh:4", budget=-1)
    with refused(ValueError):
        alltoall_flow("switch:4").schedule()
    with refused(ringroad.ScheduleError):
        ringroad.Schedule.build("flow", "switch:4", "alltoall")
    with refused(ValueError):
        alltoall_flow("ring:4", np.ones((4, 4))).schedule()
    with refused(ValueError):
        alltoall_flow("ring:4").schedule(steps=0)
    with refused(ValueError, 1048576):
        alltoall_flow("ring:4").schedule(pieces=0)
    nothing = alltoall_flow("mesh:3", np.zeros((3, 3)))
    assert nothing.seconds == 0 and nothing.rate == float("inf")


@pytest.mark.parametrize("spec", ["torus:3x3", "without(torus:3x3, 0-1)", "generalized-kautz:3:10"])
@pytest.mark.parametrize("capacity", [3, 1.5, 0.5])
def test_flows_of_hosts_against_the_linear_program(spec, capacity):
    network = ringroad.Topology(spec, bandwidth=1.0)
    behind = network.behind_nics(capacity)
    through = through_hosts(network, capacity)
    _within_the_proven_interval(behind, programs.master_rate(behind))
    # If all traffic goes through hosts, the search may end before the gap is as small as requested.
    _within_the_proven_interval(through, programs.master_rate(through), gap=0.03)
    assert alltoall_flow(through).rate >= programs.master_rate(through) * 0.99
    # NICs forward the blocks of others, so a host limits only its own blocks.
    expected = min(programs.master_rate(network), capacity / (network.ranks - 1))
    assert programs.master_rate(behind) == pytest.approx(expected)
    assert programs.link_rate(behind) == pytest.approx(expected)


def on(spec):
    """Processes on a network, which end with the test."""
    return ringroad.local(ringroad.Topology(spec).ranks, env={"RINGROAD_TOPOLOGY": spec}, timeout=60)


def test_counts_that_make_no_sense():
    def work(comm):
        good = np.full((3, 3), 2)
        texts = []
        for where, value in (((1, 2), -1), ((0, 1), 2**62), ((0, 0), 2**63)):
            counts = good.astype(object)
            counts[where] = value
            with pytest.raises((ValueError, MemoryError)) as error:
                comm.alltoall(np.ones(6), counts=counts.tolist())
            texts.append(str(error.value))
        for counts in (good[:2], good * float("nan"), [1, 2, 3], [[1, 2], [3, 4]]):
            error, text = failure_of(lambda counts=counts: comm.alltoall(np.ones(6), counts=counts))
            assert error == "ValueError" and "counts must be 3 by 3" in text, text
        error, text = failure_of(lambda: comm.alltoall(np.ones(5), counts=good))
        assert error == "ValueError" and "6 rows" in text, text
        same = np.ones(6)
        error, text = failure_of(lambda: comm.alltoall(same, same, counts=good))
        assert error == "ValueError" and "in place" in text, text
        assert comm.alltoall(np.full(6, comm.rank), counts=good).tolist() == [0, 0, 1, 1, 2, 2]
        return texts

    with on("ring:3") as cluster:
        everybody = cluster.run(work)
    for texts in everybody:
        assert "rank 1 has -1 for rank 2" in texts[0] and all(texts)


def test_counts_that_differ():
    """All ranks learn that some have passed different matrices."""

    def work(comm):
        counts = np.full((3, 3), 2)
        if comm.rank == 1:
            counts[0, 2] = 5
        with pytest.raises(ringroad.RingroadError) as error:
            comm.alltoall(np.ones(6), counts=counts, timeout=20)
        return type(error.value).__name__, str(error.value)

    with on("ring:3") as cluster:
        errors = cluster.run(work)
    assert {name for name, _ in errors} <= {"MismatchError", "AbortedError"}, errors
    assert any(name == "MismatchError" for name, _ in errors), errors


def test_pictures_compare_direct_sending_with_the_flow():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from ringroad.lab import viz

    def lines(topology, demands=None):
        figure = viz.alltoall_loads(alltoall_flow(topology, demands))
        titles = [axes.get_title() for axes in figure.axes]
        return titles, {line.get_label(): line.get_ydata() for axes in figure.axes for line in axes.lines}

    titles, busy = lines("without(torus:4x4, 0-1)")
    assert titles[0].startswith("direct, minimal routing") and titles[1].startswith("flow")
    assert len(busy["direct"]) == len(busy["flow"]) == 62
    assert busy["direct"][0] > 1.05 > busy["flow"][0] >= 1
    _, busy = lines("ring:6")
    assert busy["direct"] == pytest.approx(busy["flow"])
    # All that rank 0 sends to rank 1: directly by one link, or along the flow by both ways around.
    _, busy = lines("ring:4", np.eye(4, k=1) * [[1], [0], [0], [0]])
    assert list(busy["direct"]) == pytest.approx([2, *[0] * 7], rel=0.01), "the other way around is three links"
    assert list(busy["flow"]) == pytest.approx([1, 1, 1, 1, 0, 0, 0, 0], abs=0.02)
    lines("ring:3", np.zeros((3, 3)))


def test_the_command(capsys, tmp_path):
    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.main(["lab", "alltoall", *arguments])
        assert end.value.code == 0
        return capsys.readouterr().out

    text = run("without(torus:4x4, 0-1)", "--bytes", "64KiB")
    assert "16 ranks" in text and "proven" in text and "least busy" in text
    assert "exact, because all ranks look alike" in run("torus:4x4")
    assert "64 of 64 links are as busy as the busiest" in run("torus:4x4")
    report = json.loads(run("torus:4x4", "--bytes", "1MiB", "--json"))
    # A rank has 64 KiB for each other rank, and every link carries 8 blocks.
    assert report["seconds"] == pytest.approx(8 * 65536 / report["links"][0]["bandwidth"])
    run("torus:3x3", "--plot", str(tmp_path / "links.png"))
    assert (tmp_path / "links.png").stat().st_size > 10_000
    file = tmp_path / "demands.csv"
    np.savetxt(file, np.eye(4, k=1) * 1000, delimiter=",")
    report = json.loads(run("ring:4", "--demands", str(file), "--json"))
    assert report["gap"] <= 0.005 and report["ended"] in ("gap", "exact")
    assert "--budget was over" in run("generalized-kautz:3:40", "--gap", "0", "--budget", "0.01")
