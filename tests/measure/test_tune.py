"""Profiles: `ringroad tune` measures and stores them, communicators use them. The tests do not examine times."""

import json
import os
import re
import subprocess
import sys
import types

import pytest
import ringroad
from ringroad import cli
from ringroad.measure import calibrate, tuning
from ringroad.measure import candidates as candidates_of

# Settings that leave no choice, or that give costs which nothing has.
RESTRICTIONS = {
    "RINGROAD_ALGO": "ring",
    "RINGROAD_TUNER_FILE": "/nonexistent/rules",
    "RINGROAD_DETERMINISTIC": "size-invariant",
    "RINGROAD_SEGMENT": "64",
    "RINGROAD_COST": "bandwidth=1",
}
FEW = ["--sizes", "64,4K,1M", "--collectives", "allreduce,broadcast", "--budget", "2"]


def seen(comm):
    """What a worker knows of profiles."""
    found = comm.explain("allreduce", 64)
    return comm.profile, found.algorithm, found.origin, comm.model.step_latency


def test_what_is_measured_is_used(ask, tmp_path):
    file, rules = tmp_path / "profile.json", tmp_path / "rules.csv"
    report = json.loads(ask("tune", "--ranks", "3", *FEW, "--output", str(file), "--csv", str(rules), "--json"))
    profile = ringroad.measure.Profile.read(str(file))
    assert report["file"] == str(file) and profile.topology == "hosts:1x3" and "shared memory" in profile.place
    sizes = {(row["collective"], row["bytes"]) for row in report["sizes"]}
    # Each size is a whole number of floats or bytes where necessary. On a busy machine the budget may end before.
    wanted = {(collective, size) for collective in ("allreduce", "broadcast") for size in (64, 4096, 1 << 20)}
    assert ("allreduce", 64) in sizes and sizes <= wanted
    assert sizes == wanted or any("is not measured" in warning for warning in report["warnings"])
    assert report["error"]["measurements"] == len(profile.measurements) >= 2 * len(sizes)
    # For a measured size, the chosen algorithm is as good as the best one, except for noise.
    assert all(row["chosen_ratio"] <= 1.03 + 1e-9 for row in report["sizes"])
    first = profile.rules[0]
    assert first[:2] == ("allreduce", 64) and profile.explain("allreduce", 64).algorithm == first[3]
    with ringroad.local(3, env={"RINGROAD_PROFILE": str(file)}) as cluster:
        assert cluster.run(seen) == [(str(file), first[3], "measured", profile.model.step_latency)] * 3
        outside = cluster.run(lambda comm: comm.explain("allgather", 64).origin)
        assert outside == ["model"] * 3
    with ringroad.local(3, env={"RINGROAD_TUNER_FILE": str(rules)}) as cluster:
        name, algorithm, origin, _ = cluster.run(seen)[0]
        assert (name, algorithm, origin) == (None, first[3], "rules")


def test_profiles_are_found_where_they_are_stored(ask, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RINGROAD_CACHE", str(tmp_path))
    out = ask("tune", "--ranks", "2", "--sizes", "8,64", "--collectives", "allreduce", "--budget", "0.2")
    (file,) = (tmp_path / "profiles").iterdir()
    assert re.fullmatch(r"hosts-1x2-shared-memory-[0-9a-f]{8}\.json", file.name) and f"stored as {file}" in out
    for words in ("starting a step", "fitted to ", "by the model alone", "64 B"):
        assert words in out
    with ringroad.local(2) as cluster:
        assert cluster.run(lambda comm: comm.profile) == [str(file)] * 2
    # What others can write is not used, and what ringroad has not written is not replaced, before anything is measured.
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.parent.chmod(0o777)
    with ringroad.local(2) as cluster:
        assert cluster.run(lambda comm: comm.profile) == [None] * 2
    with pytest.raises(SystemExit):
        cli.main(["tune", "--ranks", "2", "--budget", "60"])
    assert "other users may write it; if nobody has, run: chmod go-w" in capsys.readouterr().err
    file.parent.chmod(0o700)
    file.write_text("precious")
    monkeypatch.setenv("RINGROAD_PROFILE", str(file))
    with pytest.raises(SystemExit):
        cli.main(["tune", "--ranks", "2", "--budget", "60"])
    assert "ringroad has not written it" in capsys.readouterr().err and file.read_text() == "precious"
    monkeypatch.delenv("RINGROAD_PROFILE")
    # Nothing is stored if the user does not want that.
    file.unlink()
    ask("tune", "--ranks", "2", "--sizes", "8", "--collectives", "allreduce", "--budget", "0.1", "--dry-run")
    assert not list(file.parent.iterdir())


def test_what_restricts_the_choice_is_not_recorded(ask, tmp_path, monkeypatch):
    for name, value in RESTRICTIONS.items():
        monkeypatch.setenv(name, value)
    file = str(tmp_path / "profile.json")
    few = ["--sizes", "8,4K", "--collectives", "allreduce", "--budget", "0.2"]
    ask("tune", "--ranks", "2", *few, "--output", file, "--json")
    names = {name for _, name, _, _ in ringroad.measure.Profile.read(file).measurements}
    assert {"ring", "recursive-doubling"} <= names


def test_ranks_of_a_launcher_measure_together(tmp_path):
    # Every rank clears the settings that restrict the choice.
    environ = os.environ | {"WORLD_SIZE": "2", "RINGROAD_STORE": f"file://{tmp_path}/store"} | RESTRICTIONS
    (tmp_path / "store").mkdir()
    command = [sys.executable, "-m", "ringroad", "tune", "--sizes", "8", "--collectives", "allreduce"]
    command += ["--budget", "0.1", "--output", str(tmp_path / "profile.json"), "--json"]
    ranks = [
        subprocess.Popen(command, env=environ | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        outs = [process.communicate(timeout=120)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert [process.returncode for process in ranks] == [0, 0]
    assert json.loads(outs[0])["sizes"][0]["bytes"] == 8 and outs[1] == ""
    profile = ringroad.measure.Profile.read(str(tmp_path / "profile.json"))
    assert profile.topology == "hosts:1x2" and len({name for _, name, _, _ in profile.measurements}) > 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--collectives", "barrier"], 'unknown collective "barrier"; expected one of: allreduce'),
        (["--collectives", ","], "name one collective"),
        (["--budget", "0"], "above 0 seconds"),
        (["--ranks", "1", "--dry-run"], "nothing to measure with fewer than two"),
        (["--sizes", "many"], '"many" is not a number of bytes'),
    ],
)
def test_refusals(capsys, arguments, words):
    with pytest.raises(SystemExit) as end:
        cli.main(["tune", "--dry-run", *arguments])
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and words in err and err.count("\n") == 1


def test_every_collective_can_be_measured():
    def measure(comm, options):
        tuning._Clock.left = lambda clock: float("inf")  # no size is left out on a busy machine
        return tuning.measure(comm, options, print)

    options = tuning.TuningOptions(tuning.COLLECTIVES, (6, 4000), 0.5)
    with ringroad.local(3) as cluster:
        measured = cluster.run(measure, options)
        candidates = {
            name: cluster.run(lambda comm, name: candidates_of(comm, name), name)[0] for name in tuning.COLLECTIVES
        }
    assert measured[0] == measured[1] == measured[2], "ranks agree on all times"
    found = [one.times for one in measured]
    for collective in tuning.COLLECTIVES:
        names = [name for c, name, _, seconds in found[0] if c == collective and seconds > 0]
        assert names == candidates[collective] * 2
    blocks = {size for collective, _, size, _ in found[0] if collective == "allgather"}
    assert blocks == {6, 3996}  # one byte or one float more for each rank


def test_profiles_are_values(tmp_path, refused):
    [comm] = ringroad.Communicator.in_process(1)
    with comm, refused(ringroad.ConfigError):
        calibrate(comm, [])
    group = ringroad.Communicator.in_process(4, topology="ring:4")
    times = [
        ("allreduce", name, size, seconds * (1e-6 + 1e-9 * size))
        for name, seconds in (("ring", 1.0), ("swing", 2.0))
        for size in (8, 1024, 1 << 20)
    ]
    profile = calibrate(group[0], times)
    assert profile.rules == [("allreduce", 8, 1 << 20, "ring")] and profile.measurements == times
    assert ringroad.measure.Profile.from_json(profile.to_json()).to_json() == profile.to_json()
    assert profile.to_csv().splitlines()[1] == "allreduce,8,1048576,ring,simple,-1,4,4,-1,-1"
    assert profile.file_name.startswith("ring-4-in-process-") and "ring:4 over in-process" in repr(profile)
    choice = profile.explain("allreduce", 100)
    assert (choice.algorithm, choice.origin, choice.range) == ("ring", "measured", (8, 1 << 20))
    assert (8, "ring") in profile.switch_points() and profile.switch_points("broadcast")[0][0] == 0
    # Six steps against four: the model prefers swing, although the ring was measured to be faster for 8 bytes.
    steps = {"ring": 6, "swing": 4}
    times = [("allreduce", name, 8 << k, n * 1e-6 + (8 << k) * 1e-9) for name, n in steps.items() for k in range(18)]
    against = calibrate(group[0], [("allreduce", "ring", 8, 1e-6), *times[1:]]).explain("allreduce", 8)
    assert (against.algorithm, against.origin) == ("ring", "measured")
    assert against.margin is not None and against.margin < 0 and "the cost model alone would choose" in str(against)
    for wrong in (("allreduce", "rign", 8, 1.0), ("allreduce", "ring", 8, 0.0), ("all", "ring", 8, 1.0)):
        with refused(ValueError):
            calibrate(group[0], [wrong])
    with refused(ringroad.ConfigError):
        ringroad.measure.Profile.from_json("{}")
    with refused(ringroad.ConfigError, tmp_path / "none"):
        ringroad.measure.Profile.read(str(tmp_path / "none"))
    for comm in group:
        comm.close()


def test_the_budget_is_kept_and_what_is_left_out_is_said(monkeypatch):
    """Each rank reads a clock of its own, on which a call takes a second for each 64 KiB."""

    def measure(comm, options):
        clock = types.SimpleNamespace(now=100.0 * comm.rank)
        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(tuning.time, "perf_counter", lambda: clock.now)
        real = tuning._Case.call

        def call(case, algorithm):
            run = real(case, algorithm)

            def slow():
                run()
                clock.now += 1e-3 + case.bytes / 65536 + 0.1 * comm.rank

            return slow

        monkeypatch.setattr(tuning._Case, "call", call)
        start = clock.now
        try:
            measured = tuning.measure(comm, options, str)
        finally:
            monkeypatch.undo()
        return measured, clock.now - start

    options = tuning.TuningOptions(["allreduce", "broadcast"], (8, 4096, 1 << 17), 120.0)
    with ringroad.local(2) as cluster:
        (measured, spent), (other, _) = cluster.run(measure, options)
        assert measured == other and spent < options.budget
        assert {size for _, _, size, _ in measured.times} == {8, 4096}
        left_out = [text for text in measured.warnings if "not measured" in text]
        assert [text.split(" is ")[0] for text in left_out] == [
            "allreduce from 128 KiB on",
            "broadcast from 128 KiB on",
        ]
        assert all("the budget of 120 s is too short" in text for text in left_out)
        text, warnings = cluster.run(tuning.tune, tuning.TuningOptions(["allreduce", "broadcast"], [8, 64], 1e-6))[0]
        assert {(name, size) for name, _, size, _ in ringroad.measure.Profile.from_json(text).measurements} == {
            ("allreduce", 8)
        }
        left_out = [text.split(" is ")[0] for text in warnings if "not measured" in text]
        assert left_out == ["allreduce from 64 B on", "broadcast from 8 B on"]


def test_a_fit_that_is_far_off_is_doubted():
    with ringroad.local(2) as cluster:
        wrong = [("allreduce", name, 8 << k, 10.0 ** -(k % 5)) for name in ("ring", "direct") for k in range(10)]
        right = [("allreduce", "ring", 8 << k, 1e-6 + (8 << k) * 1e-9) for k in range(18)]
        wrong, right = (cluster.run(lambda comm, t: calibrate(comm, t).to_json(), t)[0] for t in (wrong, right))
    (doubt,) = tuning._doubts(ringroad.measure.Profile.from_json(wrong), "hosts:1x2")
    assert "the topology hosts:1x2 is probably not that of this network" in doubt and "%" in doubt
    assert not tuning._doubts(ringroad.measure.Profile.from_json(right), "hosts:1x2")


@pytest.mark.parametrize(
    ("fastest", "second", "noisy"),
    [
        ([1.0, 1.2, 0.8, 1.0, 1.3], [1.05] * 5, True),  # the second may well be the faster one
        ([1.0, 1.2, 0.8, 1.0, 1.3], [2.0] * 5, False),
        ([1.0, 1.01, 0.99, 1.0, 1.0], [1.001] * 5, False),  # the difference is too small to matter
    ],
)
def test_noise_is_what_hides_differences(fastest, second, noisy):
    candidates = [tuning._TunedCandidate(str(times), str, times=times, time=times[0]) for times in (fastest, second)]
    assert tuning._is_noisy(candidates) == noisy
    assert not tuning._is_noisy(candidates[:1])


@pytest.mark.parametrize(("busy", "words"), [(1.5, "other processes keep 1.5 cores busy"), (0.1, None), (None, None)])
def test_a_busy_machine_is_said(busy, words, monkeypatch):
    monkeypatch.setattr(tuning, "busy_cores", lambda: busy)
    [comm] = ringroad.Communicator.in_process(1)
    with comm:
        warnings = tuning._busy(comm)
    assert [warning[: len(words)] for warning in warnings] == [words] if words else warnings == []
