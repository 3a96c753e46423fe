"""Schedules in other programs' formats: functions and commands."""

import json

import numpy as np
import pytest
import ringroad
from ringroad.lab import formats


@pytest.fixture
def swing():
    return ringroad.Schedule.build("swing", "torus:2x4")


def test_read_what_was_written(swing, tmp_path):
    for name in ("swing.json", "swing.xml"):
        assert formats.write(swing, tmp_path / name) == [tmp_path / name]
        read = formats.read(tmp_path / name)
        assert read == swing
    # The contents say the format, whatever the name is.
    assert formats.write(swing, tmp_path / "swing.txt", format="msccl") == [tmp_path / "swing.txt"]
    assert formats.read(tmp_path / "swing.txt") == swing


def test_formats_that_are_only_written(swing, tmp_path):
    files = formats.write(swing, tmp_path / "swing.et", bytes=1 << 16)
    assert [file.name for file in files] == [f"swing.{rank}.et" for rank in range(8)]
    assert [file.read_bytes() for file in files] == swing.to_chakra(1 << 16)
    (plan,) = formats.write(swing, tmp_path / "swing.mscclpp.json")
    assert json.loads(plan.read_text())["collective"] == "allreduce"
    slow = ringroad.CostModel(reduce_cost=1e-6)
    (fast_goal,) = formats.write(swing, tmp_path / "fast.goal", bytes=64)
    (slow_goal,) = formats.write(swing, tmp_path / "slow.goal", bytes=64, model=slow)
    assert fast_goal.read_text().startswith("num_ranks 8\n")
    assert "calc 0" in fast_goal.read_text() and "calc 8000" in slow_goal.read_text()


def test_wrong_formats(swing, tmp_path, refused):
    with refused(ValueError, "swing.doc"):
        formats.write(swing, tmp_path / "swing.doc")
    with refused(ValueError, "pdf"):
        formats.write(swing, tmp_path / "swing.json", format="pdf")
    gather = ringroad.Schedule.build("binomial", 4, "gather")
    with refused(ringroad.ScheduleError, "gather"):
        formats.write(gather, tmp_path / "gather.xml")
    (tmp_path / "empty.xml").write_text("<algo/>")
    with refused(ringroad.ScheduleError, "empty.xml", "line 1", "ngpus"):
        formats.read(tmp_path / "empty.xml")
    (tmp_path / "bytes.xml").write_bytes(b"<\xff")
    with refused(ringroad.ScheduleError, "bytes.xml"):
        formats.read(tmp_path / "bytes.xml")


def test_imported_schedules_are_simulated(swing):
    """The same schedule from a file takes the same time."""
    read = ringroad.Schedule.from_msccl(swing.to_msccl())
    times = [ringroad.lab.simulate(one, "torus:2x4", 1 << 20).seconds for one in (swing, read)]
    assert np.isclose(*times)


# ------------------------------------------------------------------------------------------------ commands


def test_schedules_are_converted(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ask("schedule", "ring", "--topology", "ring:4", "--format", "msccl", "-o", "ring.xml")
    lines = [line.split() for line in ask("schedule", "ring.xml", "-o", "ring.json").splitlines()]
    assert lines[0] == ["ring.xml:", "allreduce"] and ["steps", "6"] in lines and ["verified", "yes"] in lines
    assert ["written", "ring.json"] in lines and "most" not in {line[0] for line in lines}
    assert formats.read("ring.json") == ringroad.Schedule.build("ring", 4)
    report = json.loads(ask("schedule", "ring.json", "-o", "ring.et", "--bytes", "4KiB", "--json"))
    assert report["verified"] and report["files"] == [f"ring.{rank}.et" for rank in range(4)]
    assert json.loads(ask("schedule", "ring.json", "--topology", "ring:4", "--json"))["max_link_load"] == 1.5


def test_networks_are_converted(ask, tmp_path, monkeypatch):
    pytest.importorskip("networkx")
    monkeypatch.chdir(tmp_path)
    ringroad.Topology("petersen").save("petersen.json")
    ask("topology", "petersen.json", "--save", "petersen.graphml")
    assert json.loads(ask("topology", "petersen.graphml", "--save", "again.json", "--json"))["ranks"] == 10
    assert ringroad.Topology("again.json").ranks == 10


def test_rules_of_the_model(ask, tmp_path):
    file = tmp_path / "rules.csv"
    ask("explain", "allreduce", "--topology", "torus:4x4", "--bytes", "8", "--csv", str(file))
    head, *rules = file.read_text().splitlines()
    model, network = ringroad.CostModel(), ringroad.Topology("torus:4x4")
    assert head.startswith("collective,minbytes,maxbytes,algorithm")
    points = model.switch_points("allreduce", network)
    assert [(int(rule.split(",")[1]), rule.split(",")[3]) for rule in rules] == points
    assert all(rule.split(",")[6:8] == ["16", "16"] for rule in rules)
