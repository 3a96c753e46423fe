"""The measurements of `benchmarks/goals`: the plain program, waiting for caches, verdicts, records and pictures."""

import itertools
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import ringroad
from goals import plot, reference, summary, verdict
from goals.runner import runner
from helpers import ROOT
from ringroad.measure import facts
from ringroad.measure.bench import launch
from ringroad.measure.bench import runner as bench_runner
from ringroad.measure.bench.collectives import COLLECTIVES, IN
from ringroad.measure.bench.data import BenchCase
from test_bench import options

GOALS = ROOT / "benchmarks" / "goals"

needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
"""Skips tests that compile the reference program. Users who install the wheel need not have cargo."""


def goals(*arguments, status=0):
    """The standard output, or the standard error if the command fails."""
    command = [sys.executable, GOALS, *arguments]
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=170)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


@needs_cargo
def test_reference(tmp_path):
    file = tmp_path / "r.jsonl"
    arguments = ("--sizes", "8,1000,300K", "--ranks", "3", "--budget", "1", "--reference", "--launches", "2")
    assert "(c) at most" in goals(*arguments, "--json", str(file))
    machine, team, *rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert machine["kind"] == "machine" and machine["versions"]["numpy"] and team["kind"] == "team"
    rows = [row for row in rows if row["kind"] == "measurement"]
    assert {row["peer"] for row in rows} == {"ringroad", "reference"}
    assert {row["cache"] for row in rows} <= {"shared", "separate", "mixed", "single"}
    assert all(len(row["cache_by_round"]) == len(row["by_round"]) for row in rows)
    assert {label for row in rows for label in row["cache_by_round"]} <= {"shared", "separate", "mixed", "single"}


@pytest.mark.parametrize("labels", [["separate"], ["shared", "separate", "separate", "shared", "separate"], ["shared"]])
def test_it_waits_for_caches(monkeypatch, labels):
    """Only rounds count that begin and end with CPUs whose caches are as requested."""
    looks = itertools.cycle(labels)
    monkeypatch.setattr(facts, "caches", lambda: facts.Caches(next(looks), 1.0))
    monkeypatch.setattr(bench_runner, "_PAUSE", 0.01)
    budget = 30.0 if "separate" in labels else 2.0  # the run ends after ten counted rounds, or when this is spent
    rows = list(runner(options(budget=budget), cache="separate").run())
    measured = [row for row in rows if row["kind"] == "measurement"]
    assert {row["cache"] for row in measured} <= {"separate"}
    assert all(row["cache_by_round"] == ["separate"] * row["rounds"] and 3 <= row["rounds"] <= 10 for row in measured)
    assert all(len(row["by_round"]) == row["rounds"] for row in measured)
    sizes = [8, 4096] if "separate" in labels else []
    assert [row["size"] for row in measured if row["place"] == IN] == sizes
    refusals = [row["text"] for row in rows if row["kind"] == "refusal"]
    assert refusals == (
        [] if sizes else [f"{size} B, numpy: only 0 rounds while caches were separate" for size in (8, 4096)]
    )


@needs_cargo
def test_reference_is_right():
    """Lengths at which shares and windows are uneven."""
    with reference.Reference(reference.build(), 3, 4 << 20) as plain:
        for count in (1, 2, 1021, 70_000, 200_003, 1_000_003):
            case = BenchCase(COLLECTIVES["allreduce"], 3, count, "float32", "sum", 0)
            for place in case.collective.places:
                plain.tune(case, place)
                times, wrong = plain.burst(case, place, 7)
                assert (times.shape, wrong) == ((3, 7), 0)


def test_refusals(refused):
    assert "expected shared or separate" in goals("--sizes", "8", "--cache", "fra", status=2)
    with refused(ValueError, "--testbed"):
        runner(options(testbed=ringroad.Topology("ring:3"), rate=1e6), plain=True)
    with refused(launch.BenchError, "float32"):
        runner(options(dtype="float64"), plain=True)


def test_cargo_is_for_the_reference(monkeypatch, refused):
    monkeypatch.setattr(reference.shutil, "which", lambda name: None)
    runner(options(), cache="shared")
    with refused(launch.BenchError, "cargo"):
        runner(options(), plain=True)


def test_a_record_is_drawn_by_network(tmp_path):
    pytest.importorskip("matplotlib")
    lines = []
    for testbed, ranks in ((None, 2), ("ring:3", 3)):
        lines.append({"kind": "team", "ranks": ranks, "testbed": testbed})
        for peer, size in itertools.product(("ringroad", "gloo", "ringroad:ring"), (8, 1024)):
            simulated = size / 1e9 if testbed and peer == "ringroad" else None
            about = {"collective": "allreduce", "buffers": "numpy", "place": IN, "calls": 5, "ranks": ranks}
            lines.append(
                {"kind": "measurement", "peer": peer, "size": size, "time": size / 1e8, "simulated": simulated, **about}
            )
    file, picture = tmp_path / "r.jsonl", tmp_path / "r.png"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    places = plot.read(file, "numpy")
    assert list(places) == ["2 ranks on one host", "ring:3"]
    assert all(set(peers) == {"ringroad", "gloo"} and set(peers["gloo"]) == {8, 1024} for peers in places.values())
    plot.draw(file, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_verdict():
    shared = {"collective": "allreduce", "ranks": 2, "type": "float32", "redop": "sum", "place": IN, "wrong": 0}
    shared |= {"buffers": "numpy", "pml": None, "cache": "separate"}
    times = {
        ("ringroad", 8): 3e-6,
        ("gloo", 8): 1.5e-6,
        ("ringroad", 4 << 20): 1e-3,
        ("gloo", 4 << 20): 2e-3,
        ("reference", 4 << 20): 0.9e-3,
    }
    rows = [shared | {"peer": peer, "size": size, "time": time} for (peer, size), time in times.items()]
    for row in rows:
        row |= {"by_round": [row["time"]] * 3, "cache_by_round": ["shared", "mixed", "shared"]}
    chosen = {"algorithm": "ring"}
    fixed = rows[0] | chosen | {"peer": "ringroad:ring", "time": 1.0, "by_round": [1.0] * 3}
    run = [{"kind": "machine"}, *(row | chosen | {"kind": "measurement"} for row in [*rows, fixed])]
    table, short = list(summary.summary(run))[1:]
    assert table["shared"] == {name: shared[name] for name in ("collective", "ranks", "type", "redop", "pml")}
    assert [dict(zip(table["columns"], row, strict=True))["time"] for row in table["rows"]] == list(times.values())
    assert "fastest fixed algorithm" in short["text"] and "FAIL at 1 of 1" in short["text"]

    text = verdict.text(rows)
    assert "(b, separate)" not in text
    assert "(a)" in text and "pass at 2" in text  # 1.5 us slower at 8 bytes is within the allowance
    assert "FAIL at 1 of 1" in text and "gloo 2000 us (2.00)" in text
    assert "(c)" in text and "pass at 1;" in text

    for row in rows:
        fast = row["time"] / (4 if row["peer"] == "ringroad" else 1)
        row |= {
            "by_round": [row["time"], fast, fast, row["time"]],
            "cache_by_round": ["shared", "separate", "separate", "mixed"],
        }
    text = verdict.text(rows)
    assert (
        "(b, separate)" in text
        and "pass at 1; least: 2 ranks 4 MiB numpy in place (separate): 250 us, gloo 2000 us" in text
    )


@pytest.mark.parametrize("size, unit", [(1024, 1e-6), (8, 25e-6)])
@pytest.mark.parametrize(
    "ours, theirs, passes",
    [([1, 1, 10, 10, 10], [1.2, 1.2, 9, 12, 12], True), ([1, 1, 1, 9, 9], [0.9, 0.9, 2, 8, 8], False)],
)
def test_the_verdict_compares_within_rounds(ours, theirs, passes, size, unit):
    """If the machine's speed drifts, the medians of the times suggest the opposite."""
    assert (np.median(ours) <= np.median(theirs)) is not passes
    shared = {"collective": "allreduce", "ranks": 2, "type": "float32", "redop": "sum", "place": IN, "wrong": 0}
    shared |= {"buffers": "numpy", "pml": None, "cache": "shared", "cache_by_round": ["shared"] * 5, "size": size}
    rows = [
        shared | {"peer": peer, "by_round": [unit * time for time in times], "time": unit * np.median(times)}
        for peer, times in (("ringroad", ours), ("gloo", theirs))
    ]
    text = verdict.text(rows)
    assert "(a)" in text and ("pass at 1;" in text) is passes
