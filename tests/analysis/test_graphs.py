"""Schedules that are made for a graph, run by 8 processes that share memory and compared with NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import ringroad
from helpers import FULL, Case, cases, check_cases
from ringroad.lab.synthesis import bfb_cost

ONE_WAY = [(r, (r + 1) % 8, 1.0) for r in range(8)] + [(0, 4, 2.0), (4, 0, 1.0), (2, 7, 1.0), (2, 7, 1.0)]


def unequal():
    """One-way links, some of them twice as fast, and two parallel ones."""
    links = [(a, b, 1e9, capacity, 1e-6, 0.0) for a, b, capacity in ONE_WAY]
    return ringroad.Topology._from_links("unequal", 8, 8, links, [])


GRAPHS = {
    "directed-circulant:8:1,3": ["bfb"],
    "cayley:d4:1.0,0.1": ["bfb"],
    "without(hypercube:3, 0-1)": ["bfb", "spanning-trees:5", "weighted-trees:5", "trees:3"],
    "degree(generalized-kautz:2:4, 2)": ["expanded"],
    "unequal": ["bfb", "trees:5", "weighted-trees:3"],
}


def some(collective: str, algorithm: str | None) -> list[Case]:
    """Every third one of the combinations of types, operations, lengths and placements."""
    every = list(cases(collective, 8, sizes=[0, 1, 7, 8, 9, 1000, 20_011]))[::3]
    return [replace(case, algorithm=algorithm) for case in every]


@pytest.mark.parametrize("graph", GRAPHS if FULL else ["without(hypercube:3, 0-1)", "unequal"])
def test_results_are_those_of_numpy_and_replicas_alike(graph):
    topology = unequal() if graph == "unequal" else ringroad.Topology(graph)
    with ringroad.local(8, topology=topology, timeout=60) as cluster:
        for algorithm in [None, *GRAPHS[graph]]:
            digests = cluster.run(check_cases, some("allreduce", algorithm))
            assert all(other == digests[0] for other in digests), f"{algorithm}: replicas differ"
        for algorithm in [name for name in GRAPHS[graph] if name.startswith(("bfb", "expanded", "trees"))]:
            cluster.run(check_cases, some("reduce_scatter", algorithm))
            gathered = cluster.run(check_cases, some("allgather", algorithm))
            assert all(other == gathered[0] for other in gathered)


def test_the_cheapest_is_chosen_and_explained():
    topology = ringroad.Topology("without(hypercube:3, 0-1)", bandwidth=1e9, latency=1e-6)
    with ringroad.local(8, topology=topology, timeout=60) as cluster:
        chosen = cluster.run(lambda comm: comm.explain("allreduce", np.zeros(1 << 18, np.float32).nbytes).algorithm)
        assert set(chosen) == {"bfb"}


@pytest.mark.parametrize("stored", [False, True] if FULL else [True])
def test_the_environment_names_graphs_and_algorithms(tmp_path, stored):
    topology = ringroad.Topology("without(torus:2x4, 0-1)")
    spec = topology.spec
    if stored:
        spec = str(tmp_path / "damaged.json")
        topology.save(spec)
    env = {"RINGROAD_TOPOLOGY": spec, "RINGROAD_ALGO": "allreduce:bfb", "RINGROAD_CACHE": str(tmp_path)}
    with ringroad.local(8, env=env, timeout=60) as cluster:
        digests = cluster.run(check_cases, some("allreduce", None)[::5])
        assert all(other == digests[0] for other in digests)
        chosen = cluster.run(lambda comm: (comm.topology, comm.algorithm_for("allreduce", 8)))
        assert set(chosen) == {(topology.spec, "bfb")}


def test_exact_costs():
    assert bfb_cost("petersen", "allreduce") == (4, 2 * bfb_cost("petersen").bandwidth)
    assert bfb_cost("petersen").bandwidth * 10 == 9
    with pytest.raises(ringroad.ScheduleError, match="through switches only"):
        bfb_cost("switch:4")
    with pytest.raises(ringroad.ScheduleError, match="choose reduce_scatter"):
        bfb_cost("ring:4", "broadcast")


def test_blocks_that_differ_in_length_have_a_cost():
    network, model = ringroad.Topology("petersen"), ringroad.lab.CostModel()
    schedule = ringroad.Schedule.build("bfb", network, "allgather")
    equal = model.cost(schedule, network, 1 << 20)
    assert model.cost(schedule, network, 1 << 20, blocks=[4] * 10).link_load == pytest.approx(equal.link_load)
    uneven = model.cost(schedule, network, 1 << 20, blocks=[9] + [1] * 9)
    # Half of the vector belongs to rank 0, and every rank receives it over a single link.
    assert uneven.link_load > 0.5 > equal.link_load
    with pytest.raises(ringroad.ScheduleError, match="a length for each rank"):
        model.cost(schedule, network, 1 << 20, blocks=[1, 2])
