"""Traces of what ranks did."""

import json

import numpy as np
import pytest
import ringroad
from helpers import in_threads
from ringroad.cli import main
from ringroad.lab import viz
from ringroad.measure.traces import Trace


def traced(comm, algorithm="ring", fail=False):
    data = np.full(1000, comm.rank, np.float32)
    with ringroad.measure.trace(comm) as trace:
        for _ in range(3):
            comm.allreduce(data, algorithm=algorithm)
        comm.barrier()
        if comm.rank == 0:
            comm.send(data, 1, tag=5)
        elif comm.rank == 1:
            comm.recv(np.empty_like(data), 0, tag=5)
    comm.barrier()
    return trace


def check(trace, ranks):
    assert trace.ranks == ranks and trace.lost == 0
    kinds = {kind: [event for event in trace.events if event.kind == kind] for kind in ("call", "send", "receive")}
    assert {event.rank for event in kinds["call"]} == set(range(ranks))
    reduced = [event for event in kinds["call"] if event.call == "allreduce of 1000 float32, sum, by ring"]
    assert len(reduced) == 3 * ranks and {event.bytes for event in reduced} == {4000}
    assert all(event.end is not None and 0 <= event.start <= event.end for event in trace.events)
    of_ring = [event for event in kinds["send"] if event.algorithm == "ring"]
    assert len(of_ring) == 3 * ranks * 2 * (ranks - 1)
    assert {event.step for event in of_ring} == set(range(2 * (ranks - 1)))
    assert {event.kind for event in trace.events if event.algorithm == "ring"} == {"call", "send", "receive", "reduce"}
    # A message arrives after it was sent, by one clock.
    sent = {(e.sequence, e.rank, e.peer, e.message): e for e in kinds["send"]}
    for event in kinds["receive"]:
        assert event.end >= sent[event.sequence, event.peer, event.rank, event.message].start
    assert (5,) in {(e.message,) for e in kinds["send"] if e.algorithm == "direct"}
    calls = {call.call: call for call in trace.calls}
    assert calls["allreduce of 1000 float32, sum, by ring"].times == 3
    assert all(0 < call.median <= call.slowest <= trace.seconds for call in calls.values())
    assert len(trace.dividers) == 4 + 2 and "6 calls" in trace.title


def check_chrome(path, ranks):
    records = json.loads(path.read_text())["traceEvents"]
    bars = [record for record in records if record["ph"] == "X"]
    assert {record["pid"] for record in bars} == set(range(ranks)) and min(record["ts"] for record in bars) == 0
    arrows = [sorted(record["id"] for record in records if record["ph"] == phase) for phase in "sf"]
    assert arrows[0] == arrows[1] and len(arrows[0]) > 0
    names = {record["args"]["name"] for record in records if record["ph"] == "M"}
    assert {f"rank {rank}" for rank in range(ranks)} < names


def test_processes_are_traced_together(tmp_path):
    with ringroad.local(2) as cluster:
        traces = cluster.run(traced)
    for trace in traces:
        check(trace, 2)
        trace.save_chrome_trace(tmp_path / "trace.json")
        check_chrome(tmp_path / "trace.json", 2)


def test_threads_are_traced_again_and_again():
    def twice(comm):
        return traced(comm), traced(comm)

    for first, second in in_threads(3, twice):
        check(first, 3)
        check(second, 3)
        assert second.events[0].sequence > first.events[0].sequence


def test_a_trace_ends_with_its_block(refused):
    def one(comm):
        trace = ringroad.measure.trace(comm)
        assert (trace.events, trace.seconds, repr(trace)) == ([], 0, "<Trace, empty>")
        with trace, refused(ValueError, rank=comm.rank), ringroad.measure.trace(comm):
            pass
        with refused(ValueError, rank=comm.rank):
            trace.__enter__()
        with refused(ValueError, rank=comm.rank):
            comm._end_trace()
        with refused(RuntimeError, "enough", rank=comm.rank), ringroad.measure.trace(comm) as interrupted:
            comm.barrier()
            raise RuntimeError("enough")
        return [event.rank for event in interrupted.events if event.kind == "call"]

    assert in_threads(2, one) == [[0], [1]]


def test_pictures(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    (trace, _) = in_threads(2, traced)
    axes, _ = viz.timeline(trace).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1"]
    pandas = pytest.importorskip("pandas")
    assert isinstance(trace.df(), pandas.DataFrame) and len(trace.df()) == len(trace.events)


def test_files_of_a_job(tmp_path, capsys):
    directory = tmp_path / "traces"

    def work(comm):
        for _ in range(3):
            comm.allreduce(np.ones(1000, np.float32), algorithm="ring")
        return len(traced(comm).events)

    with ringroad.local(2, env={"RINGROAD_TRACE": str(directory)}) as cluster:
        assert min(cluster.run(work)) > 0
    files = sorted(directory.iterdir())
    assert [file.name.rpartition("-")[2] for file in files] == ["0.json", "1.json"]
    trace = Trace.read(*files)
    assert {call.call: call.times for call in trace.calls}["allreduce of 1000 float32, sum, by ring"] == 6
    for file in files:
        assert json.loads(file.read_text())["traceEvents"]
    main_in(["trace", str(directory), "--output", str(tmp_path / "all.json")])
    out = capsys.readouterr().out
    assert "allreduce of 1000 float32, sum, by ring" in out and "local: " in out and "of 2 ranks" in out
    check_chrome(tmp_path / "all.json", 2)
    main_in(["trace", str(directory), "--json"])
    assert json.loads(capsys.readouterr().out)["ranks"] == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        main(["trace", str(tmp_path / "empty")])
    assert "has no trace; ranks write them" in capsys.readouterr().err
    (tmp_path / "empty" / "world-0.json").write_text("{}")
    with pytest.raises(SystemExit):
        main(["trace", str(tmp_path / "empty")])
    assert "is not the trace of a rank" in capsys.readouterr().err


def main_in(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
