"""`ringroad doctor`: what ranks show together, the command here, and in jobs whose ranks come or do not."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest
import ringroad
from doctor_findings import check
from helpers import PROGRAMS, free_port, in_threads, launch, long, needs_testbed
from ringroad.cli import doctor as command
from ringroad.doctor import Check, Finding, comparison, job
from ringroad.doctor.job import _PART
from ringroad.doctor.pairs import PairFindings, _measure_pairs, pairs_of
from ringroad.doctor.roster import _INFO, RankInfo, Roster, read
from ringroad.testbed.network import EmulatedNetwork

WIDTH = 80


@pytest.fixture(autouse=True)
def _bare(bare):
    """No launcher's variables disturb."""


# ------------------------------------------------------------------------------------------------ ranks


def info(rank, host="a", versions=None, settings=None):
    return RankInfo(rank, host, 100 + rank, "n", versions or {"numpy": "2.4"}, settings or {})


def roster(*infos, size=None):
    return Roster(size or len(infos), {one.rank: one for one in infos})


@pytest.mark.parametrize(
    "text", ["", pytest.param("[" * 100_000, id="deep"), "[]", '{"rank": Infinity}', '{"rank": 0, "host": 5}']
)
def test_what_is_no_report_in_the_store(text, refused):
    for shape in (_INFO, _PART):
        with refused(ringroad.StoreError, "rank 1"):
            read("rank 1", text, shape)


def test_ranks_that_came():
    check(comparison.came(roster(info(0), info(1, "b")), 9), "ok", "2 of 2 came, on 2 hosts")
    check(
        comparison.came(roster(info(0), info(2), size=4), 9),
        "failure",
        "ranks 1, 3 did not come within 9 s",
        "--timeout",
    )


def test_versions_that_differ():
    (same,) = comparison.same_versions(roster(info(0), info(1)))
    check(same, "ok")
    (differ,) = comparison.same_versions(
        roster(info(0), info(1, "b", {"numpy": "2.5"}), info(2, "b", {"numpy": "2.5"}))
    )
    words = "numpy is 2.4 on rank 0 (host a, process 100); 2.5 on rank 1 (host b, process 101) and 1 more"
    check(differ, "warning", words)
    (worse,) = comparison.same_versions(
        roster(info(0, versions={"ringroad": "1"}), info(1, versions={"ringroad": "2"}))
    )
    check(worse, "failure", "ringroad is 1 on rank 0")


def test_settings_that_differ(bare):
    (same,) = comparison.same_settings(roster(info(0), info(1)))
    check(same, "ok")
    (differ,) = comparison.same_settings(roster(info(0), info(1, "b", settings={"RINGROAD_TRANSPORT": "no-cma"})))
    check(differ, "warning", "RINGROAD_TRANSPORT is no-cma on rank 1 (host b, process 101); unset on rank 0")
    bare.setenv("RINGROAD_SECRET", "hunter2")
    bare.setenv("RINGROAD_HOST", "own")
    own = RankInfo.own(0)
    assert own.settings["RINGROAD_SECRET"] == "set" and "RINGROAD_HOST" not in own.settings


def test_ranks_that_cannot_be_reached():
    together = roster(info(0), info(1, "b"), info(2, "b"))
    parts = {0: PairFindings(transport="shared memory"), 1: PairFindings(transport="shared memory")}
    (silent,) = comparison.connected(together, parts)
    check(silent, "failure", "rank 2 (host b, process 102) came but no longer answers", "On b see", "--pid 102")
    broken = PairFindings(error="connection refused")
    (refused,) = comparison.connected(together, {0: broken, 1: broken, 2: broken})
    check(refused, "failure", "rank 0 (host a, process 100) and 2 more: connection refused", "RINGROAD_NET_DEVICES")
    (well,) = comparison.connected(together, {**parts, 2: PairFindings(transport="shared memory")})
    check(well, "ok", "shared memory")
    assert list(comparison.connected(roster(info(0)), {})) == []


def test_ranks_of_a_host_that_do_not_share_memory():
    together = roster(info(0), info(1), info(2))
    shares = PairFindings(sharing=1, hosts=["a", "a", "a"])
    (apart,) = comparison.local(together, {0: shares})
    check(apart, "warning", "rank 0 (host a, process 100) shares memory with 1 of 2", "--pid=host")
    assert list(comparison.local(together, {0: PairFindings(sharing=2, hosts=["a"] * 3)})) == []
    two_hosts = PairFindings(sharing=1, hosts=["a", "a", "b"])
    assert list(comparison.local(together, {0: two_hosts})) == []


def test_how_hosts_are_connected():
    apart, together = roster(info(0), info(1, host="b")), roster(info(0), info(1))
    spec = "switch:2, links of 10 Gbit/s"
    assumed, found = PairFindings(network=spec, origin="assumed"), PairFindings(network=spec, origin="found")
    (unknown,) = comparison.network(apart, {0: assumed, 1: assumed})
    check(unknown, "note", f"unknown; assuming {spec}", "UDP")
    (known,) = comparison.network(apart, {0: found})
    check(known, "ok", f"{spec}, as discovered")
    assert list(comparison.network(together, {0: assumed})) == []
    wrong = PairFindings(
        network=spec, origin="given", differences=[f"link {number}" for number in range(8)], spec="ring:2"
    )
    (named,) = comparison.network(apart, {0: wrong})
    words = [
        f"RINGROAD_TOPOLOGY names {spec}, but link 0; link 1",
        "link 5; 2 more differences",
        "Set RINGROAD_TOPOLOGY=ring:2",
    ]
    check(named, "warning", *words)
    assert "link 6" not in named.found
    (nameless,) = comparison.network(apart, {0: PairFindings(network=spec, origin="given", differences=["hosts"])})
    check(nameless, "warning", "but hosts", "RINGROAD_TOPOLOGY=auto", "network.json")
    assert list(comparison.network(apart, {0: PairFindings(error="connection refused")})) == []


def pair(a, b, latency=1e-6, bandwidth=4e9, over="shared memory"):
    return {"ranks": [a, b], "over": over, "latency": latency, "bandwidth": bandwidth}


def test_pairs():
    even = [pair(0, 1), pair(0, 2), pair(1, 2)]
    (found,) = comparison.paired({0: PairFindings(pairs=even, planned=3, tried=3)})
    check(found, "ok", "3 pairs over shared memory: 1 us, 4 GB/s (median)")
    for over, verdict, word in [("UCX (tcp)", "warning", "cables"), ("shared memory", "note", "cores")]:
        slow = [pair(0, 3, bandwidth=0.5e9), pair(1, 3, latency=3e-4), pair(2, 3, latency=1e-4)]
        slow = [one | {"over": over} for one in [*even, *slow]]
        (found,) = comparison.paired({0: PairFindings(pairs=slow, planned=6, tried=6)})
        check(found, verdict, "2 of 6 pairs", "2 of them with rank 3", "the slowest is 0-3: 1 us, 500 MB/s", word)
    mixed = {0: PairFindings(pairs=even), 1: PairFindings(pairs=[pair(1, 3, 1e-4, 1e8, "UCX (tcp)")])}
    assert [one.verdict for one in comparison.paired(mixed)] == ["ok", "ok"]
    late, _ = comparison.paired({0: PairFindings(pairs=even, planned=2016, tried=3)})
    check(late, "note", "only 3 of 2016 pairs", "--timeout")


def test_lost_packets():
    few, many = PairFindings(again=[(1, 0.01)]), PairFindings(again=[(0, 0.03), (2, 0.125)])
    assert list(comparison.sent_again({0: few})) == []
    (found,) = comparison.sent_again({0: few, 1: many})
    check(
        found, "warning", "rank 1 retransmitted 12.5% of its bytes to rank 2", "lost on 1 further connection", "cables"
    )


def test_no_time_for_pairs():
    """The ranks agree to stop, and say how many pairs were tried."""
    found = [[], []]
    with_deadline = lambda comm: _measure_pairs(comm, [0, 1], time.monotonic() + 60, found[comm.rank])  # noqa: E731
    assert in_threads(2, with_deadline) == [(1, 1), (1, 1)]
    assert [len(some) for some in found] == [1, 0] and found[0][0]["ranks"] == [0, 1]
    assert in_threads(2, lambda comm: _measure_pairs(comm, [0, 1], time.monotonic(), [])) == [(1, 0), (1, 0)]


def test_which_pairs_are_measured():
    assert pairs_of(3) == [(0, 1), (0, 2), (1, 2)]
    assert len(pairs_of(64)) == 64 * 63 // 2
    many = pairs_of(65)
    assert len(many) == 65 and many[:2] == [(0, 1), (1, 2)] and many[-1] == (0, 64)


class Board(dict):
    def published_text(self, kind, rank):
        return self.get((kind, rank))


def test_other_hosts_report_what_is_not_ok():
    findings = [Finding("memory", "ok", "enough"), Finding("/dev/shm", "note", "small", "--shm-size")]
    told = {1: findings, 3: findings[1:]}
    board = Board({("machine", rank): json.dumps([one.to_json() for one in those]) for rank, those in told.items()})
    together = roster(info(0), info(1, "b"), info(2, "c"), info(3, "d"), info(4, "e"))
    parts = dict.fromkeys(range(4), PairFindings())  # nobody waits for rank 4, which has fallen silent
    silent, small = job._others(board, together, parts, 0.1)
    check(silent, "failure", "rank 2 (host c, process 102) did not end its checks", "--alone on c")
    assert silent.host == "c" and small == Finding("/dev/shm", "note", "small", "--shm-size", "b, d")
    assert [command._hosts(names) for names in ("", "b", "b, d, e")] == ["", "b: ", "b and 2 more: "]


# ------------------------------------------------------------------------------------------------ the command


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environ = os.environ | (env or {})
    words = [sys.executable, "-m", "ringroad", "doctor", *arguments]
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=150)


def by_name(report) -> dict[str, dict[str, str]]:
    return {one["name"]: one for one in report["findings"]}


def test_this_machine():
    done = run("--json")
    assert (done.returncode, done.stderr) == (0, ""), done
    report = json.loads(done.stdout)
    found = by_name(report)
    expected = {"settings", "interfaces", "hostname", "CMA", "memfd", "pidfd", "shared clock", "/dev/shm", "memory"}
    expected |= {"cores", "open files", "locked memory", "address space", "clock source", "shared memory", "UCX"}
    assert expected | {"ringroad", "numpy", "torch", "rendezvous"} <= set(found)
    assert found["shared memory"]["verdict"] == "ok" and "B/s" in found["shared memory"]["found"]
    assert report["verdict"] in ("ok", "note", "warning") and report["pairs"] == []
    assert report["ranks"][0]["host"] == socket.gethostname()
    assert all(bool(one["remedy"]) == (one["verdict"] != "ok") for one in report["findings"])


def test_a_failure_is_the_exit_status():
    env = {"RINGROAD_UCX_LIBRARY": "/nonexistent/a-long-name-without-a-space/which-does-not-fit-a-line/libucp.so.0"}
    done = run(env=env)
    assert (done.returncode, done.stderr) == (1, ""), done
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= WIDTH, done.stdout
    assert lines[-1] == "ranks cannot communicate until the failures are corrected"
    assert any(line.startswith("settings") and " failure " in line for line in lines)
    assert any("-> Correct or unset RINGROAD_UCX_LIBRARY" in line for line in lines)


def test_the_table_has_80_columns(capsys):
    pairs = [pair(a, b, over="UCX (cma, posix, sysv, tcp)") for a in range(4) for b in range(a + 1, 4)]
    pairs.append(pair(0, 9, bandwidth=1e6))
    findings = [
        Finding("rendezvous", "ok", "short"),
        Finding("clock", "warning", "word " * 60, "/a/path/without/spaces" * 9),
        Finding("settings", "note", "text", "remedy", host="a-host-with-a-long-name.of-a-domain.example.com"),
    ]
    command._print(job.Report(findings, [], pairs), "warning")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "a-host-with-a-long-name.of-a-domain.example.com: settings" in lines
    shown = lines[lines.index("slowest of 7 pairs") + 1 :]
    assert shown[0].startswith("  0-9: 1 us, 1 MB/s") and lines[-1].startswith("communication works, but")


COMMAND = "from ringroad.cli import main; main({!r})"


def test_a_job(tmp_path):
    code = COMMAND.format(["doctor", "--json"])
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "MASTER_ADDR": "127.0.0.1"}
    # What the first examination left in the store does not disturb the second.
    for settings in ([{}, {}], [{}, {"RINGROAD_TRANSPORT": "no-cma"}]):
        first, second = launch(code, 2, env=env, timeout=150, host=lambda rank, settings=settings: ([], settings[rank]))
        assert (second.status, second.out, second.err) == (0, "", ""), second
        report = first.json()
        found = by_name(report)
        assert report["verdict"] != "failure"
        assert [one["pid"] for one in report["ranks"]] == [first.pid, second.pid]
        assert found["ranks"]["found"] == "2 of 2 came, on 1 host"
        (only,) = report["pairs"]
        assert only["ranks"] == [0, 1] and only["over"] == "shared memory"
        assert 0 < only["latency"] < 1 and only["bandwidth"] > 1e6
        assert "127.0.0.1" in found["rendezvous"]["found"]
        assert found["same versions"]["verdict"] == "ok"
        if not settings[1]:
            assert found["same settings"]["verdict"] == "ok"
    words = "RINGROAD_TRANSPORT is no-cma on rank 1", "unset on rank 0"
    check(Finding(**found["same settings"]), "warning", *words)


def test_a_job_on_two_hosts(tmp_path):
    """Rank 0 reports on both. MASTER_ADDR leads nowhere else."""
    needs_testbed()
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "MASTER_ADDR": "127.0.0.1"}
    code = COMMAND.format(["doctor", "--json"])
    with EmulatedNetwork(ringroad.Topology("ring:2"), 1.25e8) as network:
        ranks = launch(code, 3, env=env, timeout=150, host=lambda rank: (network.command(rank // 2, []), {}))
    report = ranks[0].json()
    assert [one.out for one in ranks[1:]] == ["", ""]
    assert by_name(report)["ranks"]["found"] == "3 of 3 came, on 2 hosts"
    ways = {tuple(one["ranks"]): one["over"] for one in report["pairs"]}
    assert ways.pop((0, 1)) == "shared memory"
    assert ways == {(0, 2): "tcp", (1, 2): "tcp"}
    here, there = (one for one in report["findings"] if one["name"] == "rendezvous")
    assert here["verdict"] == there["verdict"] == "warning" and here["host"] == ""
    assert there["host"] == report["ranks"][2]["host"] != report["ranks"][0]["host"]


def without(rank: int, *arguments: str) -> str:
    """The command, but this rank ends at once."""
    leave = f"import os, sys; os.environ['RANK'] == '{rank}' and sys.exit(); "
    return leave + COMMAND.format(["doctor", "--json", "--timeout", "8", *arguments])


@pytest.mark.parametrize("store", ["served", pytest.param("file", marks=long), pytest.param("master", marks=long)])
def test_a_job_without_one_rank(tmp_path, store):
    """The others are examined together, under their own numbers."""
    if store == "master":
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    else:
        env = {"RINGROAD_STORE": f"file://{tmp_path}" if store == "file" else f"tcp://127.0.0.1:{free_port()}"}
    first, _, third = launch(without(1), 3, env=env, timeout=150)
    assert first.status == 1 and third.status == 0 and (third.err == "" or store != "file"), (first, third)
    report = json.loads(first.out)
    check(Finding(**by_name(report)["ranks"]), "failure", "rank 1 did not come within 8 s; 2 of 3 came")
    assert [one["ranks"] for one in report["pairs"]] == [[0, 2]]


def test_a_job_without_rank_0(tmp_path):
    _, second = launch(without(0, "--timeout", "3"), 2, env={"RINGROAD_STORE": f"file://{tmp_path}"}, timeout=150)
    assert second.status == 1 and second.out == ""
    assert f"process {second.pid}): rank 0 did not come within 3 s" in second.err


@pytest.mark.parametrize("hangs", ["never", pytest.param("always", marks=long)])
def test_a_job_whose_rank_dies_or_hangs(tmp_path, hangs):
    """It is named with its host and process, once it has come."""
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "HANGS": hangs}
    first, second = launch(PROGRAMS / "silent_doctor.py", 2, env=env, timeout=150)
    failures = [Finding(**one) for one in json.loads(first.out)["findings"] if one["verdict"] == "failure"]
    who = f"rank 1 (host {socket.gethostname()}, process {second.pid})"
    assert any(one.found.startswith(f"{who} came but no longer answers") for one in failures), failures
    assert first.status == 1 and any("rank 0 (host" in one.found for one in failures), failures


def test_a_job_whose_rank_hangs_in_its_checks(tmp_path):
    """The limit holds for the other hosts' checks, too: all of these together may take minutes."""
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "HANGS": "checks"}
    first, second = launch(PROGRAMS / "silent_doctor.py", 2, env=env, timeout=150)
    found = by_name(json.loads(first.out))["machine"]
    check(Finding(**found), "failure", f"rank 1 (host elsewhere, process {second.pid}) did not end its checks in time")


def test_a_job_without_a_store():
    """Rank 0 reports on its machine, and says what to set."""
    first, second = launch(COMMAND.format(["doctor", "--json"]), 2, timeout=150)
    assert first.status == 1 and "RINGROAD_STORE=file:///shared/directory" in second.err
    check(Finding(**by_name(json.loads(first.out))["ranks"]), "failure", "no store for 2 ranks to meet in")


@long
def test_torchrun():
    pytest.importorskip("torch")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run([*torchrun, "-m", "ringroad", "doctor"], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done
    assert "2 of 2 came, on 1 host" in done.stdout and done.stdout.count("ringroad doctor on") == 1
    assert max(map(len, done.stdout.splitlines())) <= WIDTH


FINE = Finding("x", "ok", "fine")


def test_alone_in_a_job(bare, ask):
    """`--alone` waits for nobody."""
    bare.setenv("RANK", "0")
    bare.setenv("WORLD_SIZE", "8")
    bare.setattr("ringroad.cli.doctor.machine_checks", lambda: [Check("x", lambda: FINE, "stuck")])
    assert json.loads(ask("doctor", "--alone", "--json"))["findings"] == [FINE.to_json()]
