"""Topologies, schedules and costs, without communication."""

import json
import subprocess
import sys

import pytest
import ringroad
from ringroad.lab.synthesis import bfb_cost


def test_everything_is_exported():
    assert set(ringroad.__all__) == {name for name in ringroad.__all__ if hasattr(ringroad, name)}
    assert issubclass(ringroad.TimeoutError, TimeoutError) and issubclass(ringroad.TimeoutError, ringroad.RingroadError)
    assert issubclass(ringroad.PeerError, ConnectionError)
    for error in (ringroad.ConfigError, ringroad.ScheduleError, ringroad.TopologyError):
        assert issubclass(error, ValueError) and issubclass(error, ringroad.RingroadError)


def test_import_loads_neither_torch_nor_ucx():
    code = (
        "import sys, ringroad; maps = open('/proc/self/maps').read(); "
        "print('torch' in sys.modules, 'numpy' in sys.modules, 'typer' in sys.modules, 'libucp' in maps)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out.split() == ["False"] * 4


def test_topology(refused):
    torus = ringroad.Topology("torus:4x3", bandwidth=1e9, latency=1e-6)
    assert (torus.spec, torus.ranks, torus.nodes, torus.dimensions) == ("torus:4x3", 12, 12, (4, 3))
    assert len(torus.links) == 12 * 4
    assert {link[2:] for link in torus.links} == {(1e9, 1e-6)}
    assert ringroad.Topology("switch:5").nodes == 6
    for wrong in ("thorus:4", "ring:0", "ring:", "torus:4x"):
        with refused(ringroad.TopologyError, wrong):
            ringroad.Topology(wrong)
    with refused(ringroad.TopologyError):
        ringroad.Topology("ring:4", bandwidth=-1)


def test_catalogue():
    algorithms = {algorithm.name: algorithm for algorithm in ringroad.algorithms()}
    ring = algorithms["ring"]
    assert "allreduce" in ring.collectives and ring.ports(8) == 1 and ring.bit_identical(8)
    assert ring.cost_line(8) == (14, 1.75)
    assert ring.parameter is None and ring.requirement() == "any number of ranks"
    assert ring.requirement("broadcast") is None and not ring.supports(8, "broadcast")
    assert ring == ringroad.Algorithm("RING") and ring in {ringroad.Algorithm("ring")}
    assert not algorithms["swing-latency"].bit_identical(8)
    for algorithm in algorithms.values():
        assert algorithm.summary and algorithm.source and algorithm.requirement(algorithm.collectives[0])


def test_schedule_is_a_value():
    ring = ringroad.Schedule.build("ring", 4)
    assert (ring.name, ring.collective, ring.root, ring.ranks, ring.steps, ring.ports) == (
        "ring",
        "allreduce",
        None,
        4,
        6,
        1,
    )
    assert ring == ringroad.Schedule.build("ring", 4) != ringroad.Schedule.build("ring", 5)
    assert ringroad.Schedule.from_json(ring.to_json()) == ring
    assert json.loads(ring.to_json())["format_version"] == 3
    assert len(str(ring).strip().splitlines()) == 1 + ring.steps
    assert {(step, kind) for step, _, _, _, kind, *_ in ring.sends()} == {
        (step, "reduce" if step < 3 else "copy") for step in range(6)
    }
    assert ring.symmetric and ring.slots == 1 and ring.locals() == []
    written = ring.expand()
    assert not written.symmetric and written.sends() == ring.sends() and str(written) == str(ring)
    assert ringroad.Schedule.build("binomial", 4, "broadcast", 3).root == 3


def test_a_printed_schedule_is_at_most_a_screen():
    wide, *rows = str(ringroad.Schedule.build("direct", "ring:64")).splitlines()
    assert wide.startswith("direct: allreduce over 64 ranks") and all(row.endswith(" ...") for row in rows)
    long = str(ringroad.Schedule.build("ring", 64)).splitlines()
    assert len(long) == 23 and all(len(line) <= 100 for line in [*long, *rows])
    assert long[-1] == "... and 105 more steps; sends() and locals() return everything"


def test_schedules_are_compared_by_what_is_sent():
    for algorithm in ("ring", "swing", "bfb"):
        written = ringroad.Schedule.build(algorithm, "torus:4x4")
        again = ringroad.Schedule.from_msccl(written.to_msccl())
        assert written == again == written.expand() and hash(written) == hash(again)
    ring, two = ringroad.Schedule.build("ring", 4), ringroad.Schedule.build("ring", 4, "allgather")
    other = json.loads(ring.expand().to_json())
    other["steps"][0]["sends"][0]["port"] = 5
    assert ring != two and ring != ringroad.Schedule.from_json(json.dumps(other))


def test_a_wrong_schedule_is_refused(refused):
    value = json.loads(ringroad.Schedule.build("ring", 4).expand().to_json())
    value["steps"][2]["sends"].pop()
    with refused(ringroad.ScheduleError):
        ringroad.Schedule.from_json(json.dumps(value)).verify()
    with pytest.raises(ringroad.ScheduleError):
        ringroad.Schedule.from_json("{}")
    with refused(ringroad.ScheduleError, "ring"):
        ringroad.Schedule.build("rong", 4)
    with refused(ringroad.ScheduleError, "ring"):
        ringroad.Schedule.build("hamiltonian-rings", 8)
    with refused(ringroad.ScheduleError):
        ringroad.Schedule.build("ring:3", 8)
    with refused(ValueError, "allreduce"):
        ringroad.Schedule.build("ring", 4, "allredduce")


def test_cost_is_the_formula():
    topology = ringroad.Topology("ring:8")
    model = ringroad.CostModel(step_latency=1e-6, hop_latency=2e-6, bandwidth=1e9)
    assert (model.step_latency, model.hop_latency, model.bandwidth, model.reduce_cost) == (1e-6, 2e-6, 1e9, 0.0)
    cost = model.cost(ringroad.Schedule.build("ring", 8), topology, 8_000_000)
    assert (cost.steps, cost.hops, cost.link_load, cost.max_link_load) == (14, 14, 1.75, 1.75)
    assert cost.seconds == pytest.approx(14 * 1e-6 + 14 * 2e-6 + 1.75 * 8e6 / 1e9)


def predicted(row):
    return row.seconds if row.free_seconds is None else row.free_seconds


def test_explain_and_switch_points_agree():
    topology, model = ringroad.Topology("ring:9"), ringroad.CostModel()
    for bit_identical in (True, False):
        points = model.switch_points("allreduce", topology, bit_identical)
        assert points[0][0] == 0
        for start, algorithm in points:
            found = model.explain("allreduce", topology, start, bit_identical=bit_identical)
            rows = found.candidates
            assert next(row.algorithm for row in rows if row.bit_identical or not bit_identical) == algorithm
            assert found.algorithm == algorithm
            assert [row.ratio for row in rows] == sorted(row.ratio for row in rows) and rows[0].ratio == 1.0
            # Among candidates within 1 %, the cheapest counts as the fastest.
            assert all(predicted(row) == pytest.approx(row.ratio * predicted(rows[0]), rel=0.02) for row in rows)


def test_formats_are_those_that_calls_can_have():
    def wires(collective, dtype="float32"):
        return [row.wire for row in ringroad.CostModel().formats(collective, "ring:4", 1 << 20, dtype=dtype)]

    assert wires("gather") == wires("scan") == wires("allreduce", "int32") == ["exact"]
    assert set(wires("broadcast")) == {"f16", "bf16", "int8", "fp8", "int4", "exact"}


def test_many_sizes_at_once():
    """Many sizes at once give the same bits as one after the other, and a cost is a straight line."""
    network, model = ringroad.Topology("torus:4x4"), ringroad.CostModel()
    sizes = [0, 32, 1 << 20]
    found = model.compare("allreduce", network, sizes)
    for size, explained in zip(sizes, found.sizes, strict=True):
        assert explained == model.explain("allreduce", network, size)
        assert all(c.seconds == c.fixed + c.per_byte * size for c in explained.candidates)
    assert model.compare("allreduce", network, []).sizes == []
    for data, bit_identical in (("floats", True), ("integers", False)):
        points = [(one.from_bytes, one.algorithm) for one in found.switch_points[data]]
        assert points == model.switch_points("allreduce", network, bit_identical)


def test_choices_are_explained():
    topology, model = ringroad.Topology("torus:8x8"), ringroad.CostModel(step_latency=1e-6, bandwidth=1e10)
    found = model.explain("allreduce", topology, 1 << 20)
    rows = [row for row in found.candidates if row.bit_identical]
    assert (found.algorithm, found.runner_up) == (rows[0].algorithm, rows[1].algorithm) and found.model == model
    assert len(rows) < len(found.candidates)
    assert (found.collective, found.bytes, found.topology, found.origin) == ("allreduce", 1 << 20, "torus:8x8", "model")
    assert found.margin == pytest.approx(predicted(rows[1]) / predicted(rows[0]) - 1)
    assert set(found.terms) == {"steps", "messages", "incast", "hops", "bytes", "reduction"}
    assert sum(found.terms.values()) == pytest.approx(rows[0].seconds)
    assert sum(found.runner_up_terms.values()) == pytest.approx(rows[1].seconds)
    for term, factor in found.factors.items():
        changed = [
            sum(seconds * (factor if name == term else 1) for name, seconds in terms.items())
            for terms in (found.terms, found.runner_up_terms)
        ]
        assert changed[0] == pytest.approx(changed[1])
    first, last = found.range
    for size in (first, last):
        if size is not None:
            assert model.explain("allreduce", topology, size).algorithm == found.algorithm
    assert model.explain("allreduce", topology, first - 1).algorithm != found.algorithm
    text = str(found)
    assert text.startswith(
        f"allreduce of 1 MiB on torus:8x8: {found.algorithm}\n  the fastest by the cost model, from "
    )
    assert f"{found.runner_up} would be the faster one" in text and "starting a step took" in text
    tie = model.explain("allreduce", ringroad.Topology("switch:8"), 1 << 20)
    assert tie.margin == 0 and "which the catalogue has later, takes as long" in str(tie)
    # With a single candidate there is nothing to compare.
    alone = model.explain("broadcast", ringroad.Topology("ring:1"), 8)
    assert alone.candidates and (alone.margin is None) == (alone.runner_up is None)


def test_communicators_explain_what_they_run():
    group = ringroad.Communicator.in_process(4, topology="ring:4", algorithm="allreduce:ring,swing;^binomial")
    for size in (8, 1 << 24):
        found = group[0].explain("allreduce", size)
        assert found.algorithm == group[0].algorithm_for("allreduce", size)
        assert {row.algorithm for row in found.candidates} == {"ring", "swing"} and found.topology == "ring:4"
    assert "binomial" not in {row.algorithm for row in group[0].explain("broadcast", 8).candidates}
    assert group[0].profile is None and group[0].model.step_latency > 0
    for comm in group:
        comm.close()


def test_exact_costs(refused):
    assert bfb_cost("petersen", "allreduce") == (4, 2 * bfb_cost("petersen").bandwidth)
    assert bfb_cost("petersen").bandwidth * 10 == 9
    with refused(ringroad.ScheduleError):
        bfb_cost("switch:4")
    with refused(ringroad.ScheduleError, "reduce_scatter"):
        bfb_cost("ring:4", "broadcast")


def test_blocks_that_differ_in_length_have_a_cost(refused):
    network, model = ringroad.Topology("petersen"), ringroad.CostModel()
    schedule = ringroad.Schedule.build("bfb", network, "allgather")
    equal = model.cost(schedule, network, 1 << 20)
    assert model.cost(schedule, network, 1 << 20, blocks=[4] * 10).link_load == pytest.approx(equal.link_load)
    uneven = model.cost(schedule, network, 1 << 20, blocks=[9] + [1] * 9)
    # Half of the vector belongs to rank 0, and every rank receives it over a single link.
    assert uneven.link_load > 0.5 > equal.link_load
    with refused(ringroad.ScheduleError):
        model.cost(schedule, network, 1 << 20, blocks=[1, 2])
