"""Schedules of the user's own: run by name, by object and from files, compared with NumPy, and compared by cost."""

import json

import numpy as np
import pytest
import ringroad

RANKS = 4


@pytest.fixture(scope="module")
def schedule():
    """An allreduce over 4 ranks, which differs from the catalogue's by its name at least."""
    ring = json.loads(ringroad.Schedule.build("ring", RANKS).to_json())
    return ringroad.Schedule.from_json(json.dumps(ring | {"name": "mine"}))


@pytest.fixture(scope="module")
def file(schedule, tmp_path_factory):
    path = tmp_path_factory.mktemp("schedules") / "mine.json"
    path.write_text(schedule.to_json())
    return path


def check(comm, algorithm, in_place):
    for dtype, op, expected in (("float32", "sum", 10.0), ("int64", "max", 4), ("float64", "avg", 2.5)):
        for elements in (1, 7, 5000):
            send = np.full(elements, comm.rank + 1, dtype)
            out = comm.allreduce(send, send if in_place else None, op=op, algorithm=algorithm)
            assert out.dtype == dtype and (out == expected).all()
    return comm.prepare("allreduce", np.ones(3), algorithm=algorithm).algorithm


def test_msccl(clusters, schedule, tmp_path):
    file = tmp_path / "mine.xml"
    ringroad.lab.formats.write(schedule, file)
    assert clusters(RANKS).run(check, file, False)[0].startswith("given:")


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_calls_run_it(clusters, schedule, file, transport, in_place):
    names = [
        clusters(RANKS, transport).run(check, given, in_place) for given in (schedule, file, str(file), f"file:{file}")
    ]
    assert {name for some in names for name in some} == {names[0][0]} and names[0][0].startswith("given:")


def test_it_is_chosen_where_settings_name_it(schedule, file):
    name = ringroad.CostModel().explain("allreduce", RANKS, 8, schedules=[schedule]).candidates
    (name,) = [one.algorithm for one in name if one.algorithm.startswith("given:")]
    chosen = lambda comm: (check(comm, None, False), comm.algorithm_for("allreduce", 64))  # noqa: E731
    for settings in ({"RINGROAD_ALGO": f"allreduce:file:{file}"}, {"RINGROAD_SCHEDULES": str(file.parent)}):
        with ringroad.local(RANKS, env=settings) as cluster:
            found = cluster.run(chosen)
            candidates = cluster.run(lambda comm: [one.algorithm for one in comm.explain("allreduce", 64).candidates])
        assert name in candidates[0]
        if "RINGROAD_ALGO" in settings:
            assert found == [(name, name)] * RANKS


def test_it_competes_offline(ask, schedule, file, refused):
    model = ringroad.CostModel()
    alone = {one.algorithm for one in model.explain("allreduce", RANKS, 1 << 20).candidates}
    rows = model.explain("allreduce", RANKS, 1 << 20, schedules=[file]).candidates
    both = {one.algorithm: one.seconds for one in rows}
    (name,) = both.keys() - alone
    assert both[name] == both["ring"] and model.cost(schedule, RANKS, 1 << 20).seconds == pytest.approx(both["ring"])
    report = json.loads(
        ask("explain", "allreduce", "--topology", "ring:4", "--bytes", "1MiB", "--schedule", str(file), "--json")
    )
    assert name in {one["algorithm"] for one in report["sizes"][0]["candidates"]}
    with refused(ringroad.ScheduleError, "allreduce", "4 ranks"):
        model.switch_points("allreduce", 5, schedules=[file])


def test_wrong_ones_are_refused_by_all_ranks(schedule, tmp_path):
    lost = json.loads(schedule.to_json())
    lost["steps"].pop()
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(lost))

    def refuse(comm, algorithm, match):
        with pytest.raises(ringroad.ScheduleError, match=match):
            comm.allreduce(np.ones(3), algorithm=algorithm)
        return float(comm.allreduce(np.ones(1))[0])  # the communicator can still be used

    with ringroad.local(RANKS) as cluster:
        assert cluster.run(refuse, wrong, r"wrong\.json.*lacks the contribution") == [4.0] * RANKS
        assert cluster.run(refuse, ringroad.Schedule.from_json(json.dumps(lost)), "lacks") == [4.0] * RANKS
        other = ringroad.Schedule.build("ring", 5)
        assert cluster.run(refuse, other, "over 5 ranks") == [4.0] * RANKS
        assert cluster.run(refuse, tmp_path / "missing.json", "missing.json cannot be used") == [4.0] * RANKS
    with pytest.raises(ringroad.WorkerError, match=r"wrong\.json.*lacks"):
        ringroad.local(RANKS, env={"RINGROAD_SCHEDULES": str(tmp_path)})
