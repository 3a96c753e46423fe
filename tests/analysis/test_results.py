"""The objects of the analysis: what they show in notebooks, their tables, copies and pickles, and what equals what."""

import copy
import multiprocessing
import pickle
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import ringroad
from ringroad.lab import routes, synthesis, training, viz

SIZE = 1 << 20
MODEL = ringroad.CostModel(step_latency=1e-6, reduce_cost=1e-10, overlapped=True, cores=2)
TORUS = ringroad.Topology("torus:4x4", bandwidth=1e9)
SWING = ringroad.Schedule.build("swing", TORUS)
OBJECTS = {
    "model": MODEL,
    "plain model": ringroad.CostModel(),
    "cost": MODEL.cost(SWING, TORUS, SIZE),
    "candidate": MODEL.explain("allreduce", TORUS, SIZE).candidates[0],
    "explanation": MODEL.explain("allreduce", TORUS, SIZE),
    "algorithm": ringroad.Algorithm("generalized:2"),
    "schedule": SWING,
    "topology": TORUS,
}
OTHERS = {
    "model": ringroad.CostModel(step_latency=1e-6, reduce_cost=1e-10, overlapped=True, cores=3),
    "plain model": MODEL,
    "cost": MODEL.cost(SWING, TORUS, SIZE + 1),
    "candidate": MODEL.explain("allreduce", TORUS, SIZE).candidates[1],
    "explanation": MODEL.explain("allreduce", TORUS, SIZE + 1),
    "algorithm": ringroad.Algorithm("generalized:1"),
    "schedule": ringroad.Schedule.build("swing", "torus:4x2"),
    "topology": ringroad.Topology("torus:4x4", bandwidth=2e9),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_copies_are_equal(name):
    original = OBJECTS[name]
    for made in (pickle.loads(pickle.dumps(original)), copy.copy(original), copy.deepcopy(original)):
        assert type(made) is type(original) and made == original and repr(made) == repr(original)
        assert str(made) == str(original)
        if name != "explanation":  # it has a list
            assert hash(made) == hash(original)
    assert original != OTHERS[name] and original != 1


def test_pickles_reach_other_processes():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(copy.copy, OBJECTS).result(timeout=60) == OBJECTS


def test_a_profile_can_be_pickled():
    a, b = ringroad.Communicator.in_process(2)
    with a, b:
        profile = ringroad.measure.calibrate(a, [("allreduce", "ring", 8, 1e-6)])
    assert pickle.loads(pickle.dumps(profile)).to_json() == profile.to_json()


def test_objects_say_what_matters():
    assert repr(ringroad.CostModel()) == "CostModel(step_latency=5e-07, incast_latency=1e-07)"
    assert eval(repr(MODEL), {"CostModel": ringroad.CostModel}) == MODEL
    assert repr(OBJECTS["algorithm"]) == "Algorithm('generalized:2')"
    assert repr(SWING) == "<Schedule swing: allreduce over 16 ranks in 8 steps>"
    assert repr(ringroad.Schedule.build("binomial", 4, "broadcast", 3)) == (
        "<Schedule binomial: broadcast (root 3) over 4 ranks in 2 steps>"
    )
    ring = ringroad.CostModel().cost(ringroad.Schedule.build("ring", 8), 8, SIZE)
    assert repr(ring) == "<Cost: 161 us, 14 steps, 14 hops, link load 1.75>"
    found = OBJECTS["candidate"]
    assert repr(found).startswith(f"<Candidate {found.algorithm}: ") and repr(found).endswith(", 1.00x>")
    chosen = OBJECTS["explanation"].algorithm
    assert repr(OBJECTS["explanation"]) == f"<Explanation of allreduce, 1 MiB: {chosen} (model)>"


SHOWN = {
    **OBJECTS,
    "simulation": ringroad.lab.simulate("ring", 4, 64),
    "iteration": training.iterate("alexnet", "ring:4"),
    "comparison": training.compare("alexnet", ["ring:4", 8]),
}
WORDS = {
    "model": ["start of a step", "1 us", "10 GB/s", "2 cores"],
    "plain model": ["as the links say", "takes no time"],
    "cost": ["link load", "latency deficiency"],
    "candidate": ["algorithm", "the same bits on all ranks"],
    "explanation": ["allreduce of 1 MiB on torus:4x4", "vs best", "the fastest by the cost model", "more candidates"],
    "algorithm": ["generalized:2", "source", "allreduce", "needs "],
    "schedule": ["swing", "1.875 of the message", "step 0"],
    "topology": ["torus:4x4", "links per rank"],
    "simulation": ["cost model", "busiest link"],
    "iteration": ["alexnet on ring:4"],
    "comparison": ["efficiency", "ring:8"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_html(name):
    """Tables have the words, and no colours of their own, so that they can be read on light and on dark pages."""
    html = SHOWN[name]._repr_html_()
    for word in WORDS[name]:
        assert word in html
    assert not re.search(r"#[0-9a-fA-F]{3}|rgb|hsl", html)
    assert set(re.findall(r"color:(\w+)|background:(\w+)", html)) <= {("inherit", ""), ("", "none")}
    assert html.count("<table ") == html.count("</table>") == 1


def test_html_escapes_names():
    part = ringroad.Schedule.build("ring", 4)
    html = ringroad.Schedule.split("<script>", [part, part])._repr_html_()
    assert "&lt;script&gt;" in html and "<script>" not in html


def test_large_schedules_show_no_steps():
    html = ringroad.Schedule.build("swing", "torus:32x32")._repr_html_()
    assert "1024" in html and "step 0" not in html


TABLES = {
    "model": (1, ["step_latency", "message_latency"]),
    "cost": (1, ["seconds", "fixed"]),
    "candidate": (1, ["algorithm", "bit_identical", "free_seconds", "ratio", "seconds"]),
    "explanation": (len(OBJECTS["explanation"].candidates), ["algorithm", "bit_identical", "free_seconds"]),
    "algorithm": (len(OBJECTS["algorithm"].collectives), ["algorithm", "collective", "requirement"]),
    "schedule": (len(SWING.sends()), ["step", "source", "destination", "chunks"]),
    "topology": (64, ["source", "target", "bandwidth", "capacity"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_df(name):
    pytest.importorskip("pandas")
    rows, columns = TABLES[name]
    table = OBJECTS[name].df()
    assert len(table) == rows and list(table.columns)[: len(columns)] == columns


def test_values_of_tables():
    pandas = pytest.importorskip("pandas")
    found = OBJECTS["explanation"]
    assert found.df().seconds.tolist() == [candidate.seconds for candidate in found.candidates]
    assert found.df().algorithm[0] == found.candidates[0].algorithm
    assert TORUS.df().bandwidth.tolist() == [1e9] * 64
    assert MODEL.df().step_latency[0] == 1e-6 and MODEL.df().cores[0] == 2
    assert [tuple(row) for row in SWING.df().itertuples(index=False)] == SWING.sends()
    assert pandas.DataFrame(found.candidates).seconds.tolist() == found.df().seconds.tolist()


@pytest.mark.parametrize("name", [*TABLES, "simulation", "iteration", "comparison"])
def test_without_pandas_an_error_says_what_to_install(name, monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused(ImportError, "pip install pandas"):
        SHOWN[name].df()


# ------------------------------------------------------------------------------------------------ topologies


def explained(group):
    found = group[0].explain("allreduce", 8)
    for comm in group:
        comm.close()
    return found


TAKERS = {
    "Topology": ringroad.Topology,
    "product": lambda network: ringroad.Topology("ring:3").product(network),
    "algorithms": ringroad.algorithms,
    "supports": lambda network: ringroad.Algorithm("ring").supports(network),
    "build": lambda network: ringroad.Schedule.build("ring", network),
    "cost": lambda network: MODEL.cost(ringroad.Schedule.build("ring", 4), network, SIZE),
    "explain": lambda network: MODEL.explain("allreduce", network, SIZE),
    "compare": lambda network: MODEL.compare("allreduce", network, [8, SIZE]),
    "switch_points": lambda network: MODEL.switch_points("allreduce", network),
    "simulate": lambda network: ringroad.lab.simulate("ring", network, 64).events,
    "best_algorithms": lambda network: viz.best_algorithms([network], [64]),
    "bfb_cost": synthesis.bfb_cost,
    "alltoall_flow": lambda network: synthesis.alltoall_flow(network).seconds,
    "balanced": lambda network: routes.balanced(network).counts,
    "training": lambda network: training.iterate("alexnet", network).seconds,
    "in_process": lambda network: explained(ringroad.Communicator.in_process(4, topology=network)),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_texts_stand_for_topologies(taker, tmp_path):
    take, ring = TAKERS[taker], ringroad.Topology("ring:4")
    path = tmp_path / "ring.json"
    ring.save(path)
    expected = take(ring)
    for network in ("ring:4", 4, str(path)):
        assert take(network) == expected, network


def test_a_topology_of_a_topology():
    assert ringroad.Topology(TORUS) == TORUS
    assert ringroad.Topology(TORUS, bandwidth=2e9) == OTHERS["topology"]
    assert ringroad.Topology(5).spec == "ring:5"
    with pytest.raises(ringroad.TopologyError):
        ringroad.Topology(0)
    with pytest.raises(TypeError):
        ringroad.Topology(2.5)
    with pytest.raises(OSError):
        ringroad.Topology(Path("missing.json"))
