"""Routing tables: paths, loads, channels, files, their use by costs and simulations, the command."""

import csv
import io
import itertools
import json
import pickle

import networkx as nx
import pytest
import ringroad
from ringroad import cli
from ringroad.lab import routes
from ringroad.lab.synthesis import alltoall_flow

SPECS = ["petersen", "without(torus:4x4, 0-1)", "biring:4:6", "generalized-kautz:3:20", "mesh:3x4"]


def random_graph(ranks, degree=4):
    return ringroad.Topology.from_graph(nx.random_regular_graph(degree, ranks, seed=ranks))


def checked(made):
    """Checks the table's figures by counting again in Python."""
    topology = made.topology
    counts = [0] * len(topology.links)
    waits = nx.DiGraph()
    for source in range(topology.ranks):
        for target in range(topology.ranks):
            path = made.path(source, target)
            nodes = [source, *(hop.target for hop in path)]
            assert nodes[-1] == target and len(set(nodes)) == len(nodes)
            for hop, before in zip(path, nodes, strict=False):
                assert (hop.source, hop.target) == topology.links[hop.link][:2] and hop.source == before
                counts[hop.link] += 1
            held = [(hop.link, hop.channel) for hop in path]
            waits.add_edges_from(itertools.pairwise(held))
            hops, _, shares = topology.route(source, target)
            assert (hops, [link for link, _ in shares]) == (len(path), [hop.link for hop in path])
    assert counts == made.counts
    assert made.load == pytest.approx(max(n / link[2] for n, link in zip(counts, topology.links, strict=True)))
    assert made.is_deadlock_free == nx.is_directed_acyclic_graph(waits)
    assert made.channels == 1 + max((channel for _, channel in waits), default=0)
    assert made.longest == max(len(made.path(0, target)) for target in range(topology.ranks)) or made.longest > 0
    return made


@pytest.mark.parametrize("spec", SPECS)
def test_tables_say_what_their_paths_do(spec):
    balanced = checked(routes.balanced(spec))
    shortest = checked(routes.shortest(spec))
    assert balanced.is_deadlock_free and shortest.is_deadlock_free
    assert 1 - 1e-9 <= balanced.ratio <= 1.35
    assert balanced.load <= shortest.load * (1 + 1e-9)
    assert balanced.bound == pytest.approx(alltoall_flow(spec).least_seconds, rel=0.01)
    assert shortest.ratio is None and shortest.bound is None
    assert shortest.with_bound().bound == pytest.approx(balanced.bound)
    assert balanced.topology.spec == f"{spec},routing=table" and balanced.topology.routing == "table"
    assert checked(shortest.with_channels("lash")).is_deadlock_free
    assert routes.shortest(spec, channels=None).channels == 1


@pytest.mark.parametrize("spec", ["torus:4x4", "fattree:2x4", "hosts:2x3", "petersen"])
def test_paths_up_and_down(spec):
    made = checked(routes.up_down(spec))
    assert (made.channels, made.is_deadlock_free) == (1, True)


def test_large_graphs_need_few_channels():
    for topology in (ringroad.Topology("generalized-kautz:4:300"), random_graph(300)):
        made = routes.balanced(topology)
        assert made.ratio <= 1.02 and made.channels <= 6 and made.is_deadlock_free


def test_costs_and_simulations_use_the_table():
    plain = random_graph(12)
    single = plain.with_routing("single-path")
    own = routes.own(single)
    assert routes.own(own.topology).topology == own.topology
    model = ringroad.CostModel()
    balanced = routes.balanced(plain)
    for collective, name in (("alltoall", "direct"), ("allreduce", "ring"), ("allgather", "bfb")):
        schedule = ringroad.Schedule.build(name, single, collective)
        seconds = [model.cost(schedule, network, 12 << 16).seconds for network in (single, own.topology)]
        assert seconds[0] == seconds[1]
        simulated = [ringroad.lab.simulate(schedule, network, 12 << 16).seconds for network in (single, own.topology)]
        assert simulated[0] == simulated[1]
    # All pairs at once load the busiest link as the table says.
    schedule = ringroad.Schedule.build("direct", balanced.topology, "alltoall")
    cost = model.cost(schedule, balanced.topology, 12)
    assert cost.link_load * 12 / plain.links[0][2] == pytest.approx(balanced.load)


def test_files(tmp_path, refused):
    made = routes.balanced("generalized-kautz:2:9")
    again = routes.Routes.from_json(made.to_json())
    assert again == made and again.counts == made.counts and again.channels == made.channels
    assert pickle.loads(pickle.dumps(made.topology)) == made.topology
    rows = list(csv.DictReader(io.StringIO(made.to_csv())))
    assert tuple(rows[0]) == routes.COLUMNS and len(rows) == sum(made.counts)
    for row in rows:
        number = {name: int(value) for name, value in row.items()}
        hop = routes.Hop(number["link"], number["from"], number["to"], number["channel"])
        assert made.path(number["source"], number["target"])[number["hop"]] == hop
    made.save(tmp_path / "routes.csv")
    assert (tmp_path / "routes.csv").read_text() == made.to_csv()
    made.save(tmp_path / "routes.json")
    assert routes.Routes.from_json((tmp_path / "routes.json").read_text()) == made
    made.topology.save(tmp_path / "net.json")
    assert ringroad.Topology(tmp_path / "net.json") == made.topology
    with refused(ValueError, ".json", ".csv"):
        made.save(tmp_path / "routes.txt")


def test_what_makes_no_sense(refused):
    with refused(ringroad.TopologyError):
        ringroad.Topology("torus:4x4,routing=table")
    with refused(ringroad.TopologyError):
        ringroad.Topology("torus:4x4").with_routing("table")
    with refused(ringroad.TopologyError):
        routes.own("torus:4x4")
    with refused(ringroad.TopologyError):
        routes.up_down("uniring:1:4")
    with refused(ValueError):
        routes.balanced("petersen", gap=2)
    with refused(ValueError):
        routes.balanced("petersen", budget=-1)
    with refused(ValueError, "none"):
        routes.shortest("petersen", channels="none")
    made = routes.shortest("petersen")
    with refused(IndexError, 10):
        made.path(0, 10)
    made = routes.shortest("ring:4")
    for damaged, names in [
        ("[]", ["Routes.to_json"]),
        ('{"method": "own"}', ["Routes.to_json"]),
        (made.to_json().replace('"links":[', '"links":[7,', 1), ["links"]),
        (made.to_json().replace('"hops":[0,1,', '"hops":[1,0,', 1), ["rank 0", "rank 1", "ring:4"]),
        (made.to_json().replace("routing=table", "routing=single-path"), ["table"]),
    ]:
        with refused(ringroad.TopologyError, *names):
            routes.Routes.from_json(damaged)


def test_a_search_can_be_followed_and_ended(refused):
    heard = []
    made = routes.balanced("generalized-kautz:3:40", gap=0.0, budget=0.2, progress=lambda *now: heard.append(now))
    assert heard and made.ratio >= 1

    def enough(*_):
        raise KeyError("enough")

    with refused(KeyError, "enough"):
        routes.balanced("generalized-kautz:3:40", progress=enough)


def test_the_command(capsys, tmp_path):
    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            cli.main(["lab", "routes", *arguments])
        assert end.value.code == code
        out, err = capsys.readouterr()
        return err if code else out

    text = run("petersen")
    assert "balanced routes on petersen, 10 ranks" in text and "no deadlock" in text and "proven" in text
    report = json.loads(run("generalized-kautz:3:20", "--method", "shortest", "--channels", "lash", "--json"))
    assert report["ratio"] >= 1 and report["is_deadlock_free"] and report["method"] == "shortest"
    assert report["load"] >= report["bound"] > 0
    assert "proven" in run("fattree:2x4", "--method", "up-down")
    for name in ("routes.json", "routes.csv"):
        assert run("petersen", "--save", str(tmp_path / name))
    made = routes.Routes.from_json((tmp_path / "routes.json").read_text())
    assert (tmp_path / "routes.csv").read_text() == made.to_csv()
    assert "not 'fast'" in run("petersen", "--method", "fast", code=2)
    assert "not 'many'" in run("petersen", "--channels", "many", code=2)
