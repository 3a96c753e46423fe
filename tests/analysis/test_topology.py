"""Topologies: families, routing, and graphs from networkx and from files."""

import html
import json
import pickle
import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import networkx
import numpy as np
import pytest
import ringroad
from ringroad._graphs import read

# An example of every family and operator. Rust's tests know their degrees, links and diameters.
SPECS = [spec for kind in ringroad.Topology._kinds()[:2] for spec, _ in kind if spec != "net.graphml"]


@pytest.mark.parametrize("spec", SPECS)
def test_families(spec):
    """They look, copy and come back as they are, and networkx computes the same distances."""
    topology = ringroad.Topology(spec)
    assert (topology.spec, repr(topology)) == (spec, f"Topology('{spec}')")
    page = topology._repr_html_()
    assert html.escape(spec) in page and f">{len(topology.links)}</td>" in page
    graph = topology.to_graph()
    hops, ranks = dict(networkx.all_pairs_shortest_path_length(graph)), range(topology.ranks)
    assert max(hops[a][b] for a in ranks for b in ranks) == topology.diameter
    assert max(degree for node, degree in graph.out_degree() if node in ranks) == topology.degree
    again = ringroad.Topology.from_graph(graph)
    assert sorted(again._links()) == sorted(topology._links())
    assert (again.ranks, again.nodes, again.dimensions) == (topology.ranks, topology.nodes, topology.dimensions)
    for copy in (pickle.loads(pickle.dumps(topology)), ringroad.Topology.from_json(topology.to_json())):
        assert copy == topology


def test_operators_are_methods_too(refused):
    petersen, ring = ringroad.Topology("petersen"), ringroad.Topology("ring:4")
    made = {
        "line(petersen)": petersen.line(),
        "line-graph(petersen)": petersen.line_graph(),
        "degree(petersen, 2)": petersen.degree_expansion(2),
        "power(petersen, 2)": petersen.power(2),
        "product(petersen, ring:4, complete:3)": petersen.product(ring, "complete:3"),
        "transpose(petersen)": petersen.transpose(),
        "bidirectional(petersen)": petersen.bidirectional(),
        "without(ring:4, 0-1)": ring.without_links([(0, 1)]),
        "without(ring:4, 0>1, 2>3)": ring.without_links([(0, 1), (2, 3)], directed=True),
    }
    for spec, topology in made.items():
        assert (topology.spec, topology) == (spec, ringroad.Topology(spec))
        assert topology.digest == ringroad.Topology(spec).digest != ring.digest
    graph = ringroad.Topology.from_graph(networkx.cycle_graph(5), name="five")
    line = graph.line()
    assert (line.spec, line.ranks) == ("graph:line-five", 10)
    assert pickle.loads(pickle.dumps(line)) == line
    assert ringroad.Topology("circulant:8:1,3").is_cayley and not petersen.is_cayley
    with refused(ringroad.TopologyError, "rank 0", "rank 1"):
        ring.without_links([(0, 1), (0, 3)])


def test_routing(refused):
    torus = ringroad.Topology("torus:4x4", routing="dimension-ordered")
    assert (torus.spec, torus.routing) == ("torus:4x4,routing=dimension-ordered", "dimension-ordered")
    assert torus == ringroad.Topology(torus.spec) != ringroad.Topology("torus:4x4")
    assert torus.with_routing("minimal") == ringroad.Topology("torus:4x4")
    assert pickle.loads(pickle.dumps(torus)) == torus
    ends = {i: link[:2] for i, link in enumerate(torus.links)}
    hops, latency, shares = torus.route(0, 5)
    assert (hops, [(*ends[link], share) for link, share in shares]) == (2, [(0, 4, 1.0), (4, 5, 1.0)])
    assert latency == pytest.approx(1e-6)
    assert len(ringroad.Topology("torus:4x4").route(0, 5)[2]) == 4
    assert torus.coordinates(6) == (1, 2)
    with refused(ringroad.TopologyError):
        ringroad.Topology("switch:4", routing="dimension-ordered")
    with refused(ringroad.TopologyError, "single-path"):
        ringroad.Topology("ring:4", routing="single_path")
    with refused(ringroad.TopologyError, 99):
        torus.route(0, 99)


def test_processing_is_added_to_what_links_take(refused):
    torus = ringroad.Topology("torus:4x4", latency=100e-9, processing=300e-9)
    assert {round(link[3] * 1e9) for link in torus.links} == {400}
    swing = ringroad.Schedule.build("swing", torus)
    plain = ringroad.Topology("torus:4x4", latency=400e-9)
    model = ringroad.CostModel()
    assert model.cost(swing, torus, 1).seconds == pytest.approx(model.cost(swing, plain, 1).seconds)
    # A latency that is given for all hops replaces the cables' own.
    stated = ringroad.CostModel(hop_latency=100e-9)
    assert stated.cost(swing, torus, 1).seconds == pytest.approx(model.cost(swing, plain, 1).seconds)
    with refused(ringroad.TopologyError):
        ringroad.Topology("ring:4", processing=-1e-9)


# ------------------------------------------------------------------------------------------------ graphs


def test_a_graph_without_attributes():
    petersen = ringroad.Topology.from_graph(networkx.petersen_graph())
    assert (petersen.spec, petersen.ranks, len(petersen.links)) == ("graph:Petersen-Graph", 10, 30)
    assert (petersen.degree, petersen.diameter, petersen.dimensions) == (3, 2, ())
    assert set(petersen.links[0][2:]) == set(ringroad.Topology("ring:2").links[0][2:])
    swing = ringroad.Schedule.build("swing", petersen)
    swing.verify()
    assert ringroad.CostModel().cost(swing, petersen, 1 << 20).seconds > 0


def test_directed_graphs_have_links_of_one_direction():
    ring = networkx.DiGraph([(0, 1), (1, 2), (2, 0)], name="one way")
    topology = ringroad.Topology.from_graph(ring)
    assert [link[:2] for link in topology.links] == [(0, 1), (1, 2), (2, 0)]
    assert (topology.spec, topology.diameter) == ("graph:one-way", 2)
    parallel = networkx.MultiGraph([("a", "b"), ("a", "b")])
    assert [link[:2] for link in ringroad.Topology.from_graph(parallel).links] == [(0, 1), (1, 0)] * 2


def test_attributes():
    graph = networkx.Graph()
    graph.add_node("spine", kind="switch", processing=1e-6)
    for name, rank in (("x", 1), ("y", 0)):
        graph.add_node(name, rank=rank)
        graph.add_edge(name, "spine", bandwidth=1e9, capacity=2, latency=1e-7, extra_latency=1e-8)
    topology = ringroad.Topology.from_graph(graph, name="pair")
    assert (topology.spec, topology.nodes) == ("graph:pair", 3)
    slow, fast = pytest.approx(1.11e-6), pytest.approx(1.1e-7)
    expected = [(0, 2, 2e9, slow), (1, 2, 2e9, slow), (2, 0, 2e9, fast), (2, 1, 2e9, fast)]
    assert sorted(topology.links) == expected
    assert min(topology._links()) == (0, 2, 1e9, 2.0, 1e-7, pytest.approx(1.01e-6))


def test_a_torus_with_a_broken_cable(tmp_path, refused):
    torus = ringroad.Topology("torus:4x4")
    graph = torus.to_graph()
    graph.remove_edges_from([(0, 1), (1, 0)])
    broken = ringroad.Topology.from_graph(graph, name="broken")
    assert (broken.dimensions, len(broken.links), broken.route(0, 1)[0]) == ((4, 4), 62, 3)
    swing = ringroad.Schedule.build("swing", broken)
    assert swing == ringroad.Schedule.build("swing", torus)
    cost = ringroad.CostModel().cost
    assert cost(swing, broken, 1 << 20).seconds > cost(swing, torus, 1 << 20).seconds
    for path in (tmp_path / "broken.json", tmp_path / "broken.graphml"):
        broken.save(path)
        assert ringroad.Topology(path).dimensions == (4, 4)
    assert ringroad.Topology.from_graph(graph, dimensions=[2, 8]).dimensions == (2, 8)
    graph.graph["dimensions"] = (16,)
    assert ringroad.Topology.from_graph(graph).dimensions == (16,)
    for wrong in ("4 by 4", "4x5"):
        graph.graph["dimensions"] = wrong
        with refused(ringroad.TopologyError, wrong):
            ringroad.Topology.from_graph(graph)


def test_without_networkx(monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with refused(ringroad.TopologyError, "pip install networkx"):
        ringroad.Topology("ring:4").to_graph()


def test_ranks_are_numbered_by_name_where_names_are_numbers():
    named = networkx.path_graph(["10", "9", "2"])
    assert [link[:2] for link in ringroad.Topology.from_graph(named).links] == [(2, 1), (1, 2), (1, 0), (0, 1)]
    words = networkx.path_graph(["z", "a", "m"])
    assert ringroad.Topology.from_graph(words).links[0][:2] == (0, 1)


def _graph(*edges, nodes=(), directed=False, **attributes):
    graph = networkx.DiGraph() if directed else networkx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges, **attributes)
    return graph


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        (_graph((0, 1), (1, 1)), ["node 1"]),
        (_graph((0, 1), nodes=[(2, {})]), ["rank 0", "rank 2"]),
        (_graph(nodes=[(0, {"kind": "switch"})]), []),
        (_graph((0, 1), nodes=[(0, {"kind": "router"})]), ["node 0", "'router'"]),
        (_graph((0, 1), nodes=[(0, {"rank": 0})]), ["0 to 1"]),
        (_graph((0, 1), nodes=[(0, {"rank": 1}), (1, {"rank": 1})]), ["0 to 1"]),
        (_graph((0, 1), bandwidth="fast"), ["0 to 1", "fast", "100Gbit/s"]),
    ],
)
def test_graphs_that_are_no_networks(graph, names, refused):
    with refused(ringroad.TopologyError, *names):
        ringroad.Topology.from_graph(graph)


LINK = st.fixed_dictionaries(
    {},
    optional={
        "bandwidth": st.floats(1e6, 1e12),
        "capacity": st.floats(0.1, 10),
        "latency": st.floats(0, 1e-3),
        "extra_latency": st.floats(0, 1e-3),
    },
)


@hypothesis.given(
    ranks=st.integers(1, 8),
    switches=st.integers(0, 3),
    edges=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10), LINK), max_size=20),
    ending=st.sampled_from(["json", "graphml"]),
)
@hypothesis.settings(deadline=None, derandomize=True, database=None)
def test_graphs_come_back(tmp_path_factory, ranks, switches, edges, ending):
    """A ring, so that the graph is connected, and any other edges: the file has the same links."""
    graph = networkx.MultiGraph(name="drawn")
    graph.add_nodes_from(range(ranks), kind="rank")
    graph.add_nodes_from(range(ranks, ranks + switches), kind="switch")
    graph.add_edges_from((i, i + 1) for i in range(ranks - 1))
    ends = [(a % (ranks + switches), b % (ranks + switches), data) for a, b, data in edges]
    graph.add_edges_from((a, b, data) for a, b, data in ends if a != b)
    topology = ringroad.Topology.from_graph(graph)
    assert len(topology.links) == 2 * graph.number_of_edges()
    path = tmp_path_factory.mktemp("graphs") / f"drawn.{ending}"
    topology.save(path)
    again = ringroad.Topology(str(path))
    assert sorted(again._links()) == sorted(topology._links())
    assert (again.spec, again.ranks, again.nodes) == ("graph:drawn", ranks, ranks + switches)
    assert ending != "json" or again == topology


# ------------------------------------------------------------------------------------------------ files

NODE_LINK = {
    "directed": False,
    "multigraph": False,
    "graph": {},
    "nodes": [{"id": "a"}, {"id": "b"}, {"id": "s", "kind": "switch"}],
    "links": [{"source": "a", "target": "s", "bandwidth": 2e9}, {"source": "b", "target": "s"}],
}
GML = """graph [
  node [ id 0 label "a" ] node [ id 1 label "b" ] node [ id 2 label "s" kind "switch" ]
  edge [ source 0 target 2 bandwidth 2.0e9 ]
  edge [ source 1 target 2 ]
]
"""
STAR = [(0, 2, 2e9), (2, 0, 2e9), (1, 2, 12.5e9), (2, 1, 12.5e9)]
LINK = {"source": 0, "target": 1}
TWICE = [(0, 1, 12.5e9), (1, 0, 12.5e9)] * 2
PARALLEL = [*TWICE[:2], (0, 1, 1e9), (1, 0, 1e9)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("star.json", json.dumps(NODE_LINK), STAR),
        ("star.json", json.dumps(NODE_LINK | {"edges": NODE_LINK["links"]}), STAR),
        ("star.gml", GML, STAR),
        (
            "net.csv",
            "source,target,bandwidth\n0,1,1e9\n1,2,\n",
            [(0, 1, 1e9), (1, 0, 1e9), (1, 2, 12.5e9), (2, 1, 12.5e9)],
        ),
        (
            "net.csv",
            "source,target,bandwidth,latency\n0,1,100Mbit,20us\n1,2,1GB/s,\n",
            [(0, 1, 12.5e6), (1, 0, 12.5e6), (1, 2, 1e9), (2, 1, 1e9)],
        ),
        ("net.csv", "# directed\ntarget, source\n\n1, 0\n0, 1\n", [(0, 1, 12.5e9), (1, 0, 12.5e9)]),
        (
            "net.edges",
            "0 1\n# more\n1 0 {'bandwidth': 1e9}\n",
            [(0, 1, 12.5e9), (1, 0, 12.5e9), (1, 0, 1e9), (0, 1, 1e9)],
        ),
        ("net.txt", "# directed\n5 7\n7 5\n", [(0, 1, 12.5e9), (1, 0, 12.5e9)]),
        ("net.txt", "New York, Bonn\nBonn,New York,{'bandwidth': 1e9, 'a': 'b'}  # back\n", PARALLEL),
        ("net.gml", "Creator 1\ngraph [ node [ id 0 ] node [ id 1 ]" + 2 * " edge [ source 0 target 1 ]" + "]", TWICE),
        ("net.json", json.dumps(NODE_LINK | {"nodes": [{"id": 0}, {"id": 1}], "links": 2 * [LINK]}), TWICE),
        ("bom.csv", "\ufeffsource,target\n0,1\n0,1\n", TWICE),
        ("bom.edges", "\ufeff0 1\n0 1\n", TWICE),
        ("bom.json", "\ufeff" + json.dumps(NODE_LINK), STAR),
        ("bom.gml", "\ufeff" + GML, STAR),
        ("net.json", '{"spec": "ring:2", "bandwidth": 1e9}', [(0, 1, 1e9)] * 2 + [(1, 0, 1e9)] * 2),
    ],
)
def test_files(tmp_path, name, text, expected):
    path = tmp_path / name
    path.write_text(text)
    topology = ringroad.Topology(str(path))
    assert sorted(link[:3] for link in topology.links) == sorted(expected)
    assert topology == read(path) == ringroad.Topology(path)
    # Every argument that takes a spec also takes the path.
    assert ringroad.Schedule.build("ring", str(path)).ranks == topology.ranks


def test_rates_that_are_not_used_are_named(tmp_path, recwarn):
    path = tmp_path / "net.gml"
    path.write_text(GML.replace("bandwidth", "LinkSpeedRaw").replace("target 2 ]", 'target 2 weight 3 colour "red" ]'))
    for _ in range(2):
        ringroad.Topology(path)
    (told,) = {str(one.message) for one in recwarn}
    assert "edges have as LinkSpeedRaw, weight is not used" in told and "reads rates from bandwidth" in told
    recwarn.clear()
    ringroad.Topology.from_graph(ringroad.Topology("ring:4").to_graph())
    assert not recwarn


def test_rates_in_specs():
    ring = ringroad.Topology("ring:9,bandwidth=200Mbit/s,latency=20us,0-1=50Mbit/s")
    assert ring.spec == "ring:9"
    assert {link[2] for link in ring.links if link[:2] in [(0, 1), (1, 0)]} == {50e6 / 8}
    assert {link[2:] for link in ring.links if link[:2] not in [(0, 1), (1, 0)]} == {(25e6, 20e-6)}
    assert ringroad.Topology.from_json(ring.to_json()) == ring


def test_ranks_are_placed(refused):
    placed = ringroad.Topology("torus:2x2@2,0,1,3")
    base = ringroad.Topology("torus:2x2")
    assert (placed.positions, placed.base, base.positions, base.base) == ([2, 0, 1, 3], base, None, base)
    assert placed == base.placed([2, 0, 1, 3]) == ringroad.Topology.from_json(placed.to_json())
    assert placed.coordinates(0) == base.coordinates(2)
    assert ringroad.Topology("hosts:1,2@2,0,1").hosts == [1, 0, 1]
    ringroad.Schedule.build("swing", placed).verify()
    # A graph in a file has no positions, and so no grid.
    assert not ringroad.Topology.from_graph(placed.to_graph()).dimensions
    with refused(ringroad.TopologyError):
        base.placed([0, 1, 2])


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("net.csv", "a,b\n0,1\n", ["a, b", "source", "target", "bandwidth"]),
        ("net.csv", "source,target,colour\n0,1,red\n", ["colour"]),
        ("net.csv", "source,target\n0\n", ["line 2"]),
        ("net.csv", "source,target,latency\n0,1,soon\n", ["'0' to '1'", "soon"]),
        ("net.csv", "", ["source", "target"]),
        ("net.json", "{}", ["spec"]),
        ("net.json", "[1", []),
        ("net.json", '{"spec": "rings:4"}', ["ring?"]),
        ("net.json", '{"spec": "graph:g"}', []),
        ("net.graphml", "<graphml", []),
        ("net.gml", "graph", []),
        ("net.edges", "0\n", []),
        ("net.dot", "graph {}", [".json", ".graphml"]),
    ],
)
def test_files_that_describe_nothing(tmp_path, name, text, names, refused):
    path = tmp_path / name
    path.write_text(text)
    with refused(ringroad.TopologyError, *names):
        ringroad.Topology(str(path))


def test_files_that_cannot_be(tmp_path, refused):
    with pytest.raises(FileNotFoundError):
        ringroad.Topology(str(tmp_path / "none.json"))
    with refused(ValueError, ".json", ".graphml"):
        ringroad.Topology("ring:4").save(tmp_path / "net.csv")


def test_a_file_keeps_family_and_routing(tmp_path):
    path = tmp_path / "mine.json"
    torus = ringroad.Topology("torus:3x3", bandwidth=1e9, processing=1e-7, routing="single-path")
    torus.save(path)
    assert ringroad.Topology(str(path)) == torus


def test_ranks_run_on_a_graph(tmp_path):
    """Rank 0 publishes the graph to the others, or all ranks read its file."""
    path = tmp_path / "petersen.json"
    graph = ringroad.Topology.from_graph(networkx.cycle_graph(3), name="triangle").with_routing("single-path")
    graph.save(path)

    def call(comm):
        return comm.topology, comm.allreduce(np.full(5, comm.rank + 1.0)).tolist()

    expected = [("graph:triangle,routing=single-path", [6.0] * 5)] * 3
    for given in ({"topology": graph}, {"topology": str(path)}, {"env": {"RINGROAD_TOPOLOGY": str(path)}}):
        with ringroad.local(3, **given) as cluster:
            assert cluster.run(call) == expected


CTRL_C = """
import signal
import ringroad

def handler(*_):
    calls.append(1)
    if len(calls) == 3:
        signal.setitimer(signal.ITIMER_REAL, 0)  # While Python ends, nothing handles the signal.
        raise KeyboardInterrupt

calls = []
ringroad.lab.simulate("ring", "ring:2", "1KiB")  # Python may lose what a handler raises while it imports modules.
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
try:
    {}
    print("has ended")
except KeyboardInterrupt:
    print("was interrupted")
"""


@pytest.mark.parametrize(
    "work", ['ringroad.Topology("complete:3000")', 'ringroad.lab.simulate("ring", "ring:320", "1MiB", details=False)']
)
def test_long_work_can_be_interrupted(work):
    """Handlers of signals run meanwhile. After work that heeds none, a handler is called once."""
    command = [sys.executable, "-c", CTRL_C.format(work)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "was interrupted\n"


# ------------------------------------------------------------------------------------------------ command line


def test_topology_command(ask, tmp_path):
    assert (
        ask("topology", "hammingmesh:2x2:32x32")
        == """\
hammingmesh:2x2:32x32
  ranks           4096
  other nodes     128
  links           24576
  grid            64x64
  links per rank  4
  diameter        4 hops
  routing         minimal
  bandwidth       100 Gbit/s
  latency         500 ns
"""
    )
    path = tmp_path / "net.json"
    options = ["--bandwidth", "5e9", "--latency", "1e-7", "--processing", "3e-7", "--routing", "single-path"]
    report = json.loads(ask("topology", "hosts:2x2", *options, "--save", str(path), "--json"))
    assert report == {
        "topology": "hosts:2x2,routing=single-path",
        "ranks": 4,
        "nodes": 7,
        "links": 12,
        "dimensions": [],
        "positions": None,
        "degree": 1,
        "diameter": 4,
        "routing": "single-path",
        "bandwidth": [5e9, 10e9],
        "latency": pytest.approx([4e-7, 8.5e-7]),
        "graph": None,
    }
    assert json.loads(ask("topology", str(path), "--json")) == report
    listed = ask("topology")
    families, operators, _ = ringroad.Topology._kinds()
    for spec, summary in [*families, *operators]:
        assert spec in listed and " ".join(summary.split()[:2]) in listed
    assert (
        ask("topology", "line(petersen)")
        == """\
line(petersen)
  ranks                 30
  other nodes           0
  links                 90
  grid                  none: algorithms see a ring
  links per rank        3
  diameter              3 hops
  rank 0 has links to   21, 22, 23
  ranks by hops from 0  1, 3, 8, 18
  Moore bound           3 hops at least with this number of links
  alike                 not by the order of links
  routing               minimal
  bandwidth             100 Gbit/s
  latency               500 ns
"""
    )
    listed = json.loads(ask("topology", "--json"))
    assert set(listed["routings"]) == {"minimal", "dimension-ordered", "single-path"}
    for spec in listed["operators"]:
        assert ringroad.Topology(spec).spec == spec
    for spec in listed["topologies"]:
        assert spec == "net.graphml" or ringroad.Topology(spec).spec == spec


def test_costs_on_a_graph_from_a_file(ask, tmp_path):
    path = tmp_path / "petersen.graphml"
    networkx.write_graphml(networkx.petersen_graph(), path)
    ring = ["--algorithm", "ring", "--topology", str(path)]
    report = json.loads(ask("explain", "allreduce", *ring, "--bytes", "1MiB", "--json"))
    report |= report["sizes"][0]
    assert (report["topology"], report["steps"]) == ("graph:petersen", 18)
    # The numbers do not follow a cycle: from 4 to 5 and from 9 to 0 there are two hops, so every step takes two.
    assert report["hops"] == 36
