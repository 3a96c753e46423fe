"""Algorithms side by side, and lengths of vectors as texts."""

import inspect
import math

import pytest
import ringroad
from ringroad import lab

NAMES = ["swing", "trivance", "bfb", "generalized:2"]


def test_times_are_the_models():
    model = ringroad.CostModel(step_latency=5e-6)
    found = lab.compare(NAMES, "torus:4x4", ["1KiB", 1 << 20], model=model)
    network = ringroad.Topology("torus:4x4")
    assert found.sizes == [1 << 10, 1 << 20] and list(found.costs) == NAMES
    for name in NAMES:
        schedule = ringroad.Schedule.build(name, network)
        for size in (0, 1, 1 << 10, 1 << 20, 12_345_678):
            assert found.seconds(name, size) == pytest.approx(model.cost(schedule, network, size).seconds, rel=1e-12)
    for size in found.sizes:
        assert found.seconds(found.fastest(size), size) == min(found.seconds(name, size) for name in NAMES)
    assert found.seconds("bfb", "1MiB") == found.seconds("bfb", 1 << 20)


def test_it_shows_itself():
    found = lab.compare(["swing", "bfb"], "torus:4x4", ["1KiB", "4MiB"])
    title, header, *rows = str(found).splitlines()
    assert title == "allreduce on torus:4x4" and header.split() == ["size", "swing", "bfb", "fastest"]
    assert [row.split()[:2] for row in rows] == [["1", "KiB"], ["4", "MiB"]]
    assert repr(found) == "<Comparison of swing, bfb: allreduce on torus:4x4>"
    page = found._repr_html_()
    assert page.count("<tr>") == 3 and "steps" in page and all(f">{name}<" in page for name in found.costs)


def test_schedules_and_other_collectives():
    own = ringroad.Schedule.build("ring", 6, "allgather")
    found = lab.compare([own, "bfb-ring"], 6, collective="allgather")
    assert list(found.costs) == [own.name, "bfb-ring"] and len(found.sizes) == 7
    rooted = lab.compare(["binomial"], 6, [8], collective="broadcast", root=3)
    assert rooted.fastest(8) == "binomial" and rooted.title == "broadcast on ring:6"


def test_what_does_not_fit_has_a_dash(refused):
    found = lab.compare(["hierarchical", "ring", "generalized:99"], 8, "1MiB")
    assert [cell == "-" for cell in found.cells()[0]] == [False, True, False, True, False]
    assert (found.sizes, found.fastest(8), found.seconds("hierarchical", 8)) == ([1 << 20], "ring", math.inf)
    with refused(ringroad.ScheduleError, "hierarchical"):
        lab.compare(["hierarchical"], 8)


def test_table_and_picture(pyplot):
    pytest.importorskip("pandas")
    found = lab.compare(["swing", "bfb"], "torus:4x4", ["1KiB", "4MiB"])
    table = found.df()
    assert list(table.columns) == ["bytes", "swing", "bfb"] and table.bytes.tolist() == found.sizes
    first = list(inspect.signature(lab.viz.curves).parameters)[:6]
    assert first == list(inspect.signature(lab.compare).parameters), "in the same order"
    (axes,) = found.plot().axes
    assert [line.get_label() for line in axes.lines] == ["swing", "bfb"]
    assert list(axes.lines[1].get_ydata()) == table.bfb.tolist()


@pytest.mark.parametrize(
    ("algorithms", "sizes", "kind", "names"),
    [
        ([], [8], ValueError, ["algorithms"]),
        ("swing", [8], TypeError, ["algorithms"]),
        (["swing"], [], ValueError, ["size"]),
        (["swing", "swing"], [8], ValueError, ["swing"]),
        ([ringroad.Schedule.build("ring", 16, "allgather")], [8], ValueError, ["allgather", "allreduce"]),
        (["swong"], [8], ringroad.ScheduleError, ["swong"]),
        (["swing"], ["many"], ValueError, ["many"]),
        (["swing"], [-1], ValueError, []),
        (["swing"], [1.5], TypeError, []),
    ],
)
def test_wrong_arguments(algorithms, sizes, kind, names, refused):
    with refused(kind, *names):
        lab.compare(algorithms, "torus:4x4", sizes)


def test_lengths_as_texts(tmp_path, refused):
    """Wherever the length of a vector is an argument, a text will do."""
    model, network = ringroad.CostModel(), ringroad.Topology("ring:4")
    schedule = ringroad.Schedule.build("ring", network)
    assert model.cost(schedule, network, "1MiB") == model.cost(schedule, network, 1 << 20)
    assert model.explain("allreduce", network, "2KiB").bytes == 2048
    assert [size.bytes for size in model.compare("allreduce", network, ["1K", 8]).sizes] == [1024, 8]
    assert schedule.to_goal("1KiB") == schedule.to_goal(1024)
    assert lab.find(ranks=16, degree=4, bytes="4KiB").bytes == 4096
    lab.formats.write(schedule, tmp_path / "a.goal", bytes="1KiB")
    assert (tmp_path / "a.goal").read_text() == schedule.to_goal(1024)
    assert [one.bytes for one in lab.viz.best_algorithms(["ring:8"], ["1MiB"])] == [1 << 20]
    (comm,) = ringroad.Communicator.in_process(1)
    assert comm.explain("allreduce", "1KiB").bytes == 1024
    assert comm.algorithm_for("allreduce", "1KiB") == comm.algorithm_for("allreduce", 1024)
    for wrong, kind in (("1 parsec", ValueError), (-1, ValueError), (None, TypeError)):
        with refused(kind, wrong):
            model.explain("allreduce", network, wrong)
    with refused(TypeError):
        model.compare("allreduce", network, 8)
