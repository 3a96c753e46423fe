"""The command line: its output and its errors."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields

import pages
import pytest
import ringroad
from ringroad import cli
from ringroad._support.text import bytes_text, seconds_text
from ringroad.cli import tune
from ringroad.measure.bench.collectives import collective

COMMANDS = list(pages.all_commands())


@pytest.fixture
def refuse(capsys):
    """`refuse("schedule", ...)`: the single line on standard error of a command that is refused."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.main(arguments)
        out, err = capsys.readouterr()
        assert (end.value.code, out) == (2, "")
        return err

    return run


# ------------------------------------------------------------------------------------------------ schedule


def test_schedule_with_steps(ask):
    out = ask("schedule", "ring", "--topology", "ring:3", "--collective", "reduce_scatter", "--show")
    head, effort, steps = out.partition("  effort")[0], *out.partition("  effort")[2].split("\n\n")
    assert (
        head
        == """\
ring: reduce_scatter on ring:3
  ranks             3
  steps             2
  ports             1
  chunks            3
  slots             1
  sent per rank     0.6667 of the message
  most loaded link  0.6667 of the message
  verified          yes
  rank 0's plan     6 operations for one element per rank
"""
    )
    assert re.fullmatch(r" +build .*s, verify .*s, lower .*s; .*B of memory", effort)
    assert (
        steps
        == """\
ring: reduce_scatter over 3 ranks, 3 chunks
step 0: 0→1 +[2] | 1→2 +[0] | 2→0 +[1]
step 1: 0→1 +[1] | 1→2 +[2] | 2→0 +[0]
"""
    )


def test_schedule_as_json(ask, tmp_path):
    file = tmp_path / "schedule.json"
    arguments = ["schedule", "binomial", "--topology", "switch:5", "--collective", "broadcast", "--root", "3", "--json"]
    report = json.loads(ask(*arguments))
    effort = report.pop("effort")
    assert set(effort["seconds"]) == {"build", "verify", "lower"} and effort["bytes"] >= 0
    assert report == {
        "algorithm": "binomial",
        "collective": "broadcast",
        "root": 3,
        "topology": "switch:5",
        "ranks": 5,
        "steps": 3,
        "ports": ringroad.Schedule.build("binomial", 5, "broadcast", 3).ports,
        "chunks": 1,
        "slots": 1,
        "sent": 3.0,
        "held_for_others": 0.0,
        "max_link_load": 3.0,
        "operations": 2,
        "verified": True,
        "files": [],
    }
    shown = json.loads(ask(*arguments, "--show", "--save", str(file)))
    shown.pop("effort")
    schedule = ringroad.Schedule.build("binomial", 5, "broadcast", 3)
    assert shown == report | {"schedule": json.loads(schedule.to_json()), "files": [str(file)]}
    assert ringroad.Schedule.from_json(file.read_text()) == schedule


# ------------------------------------------------------------------------------------------------ cost, explain

MODEL = ["--step-latency", "1e-6", "--hop-latency", "0", "--bandwidth", "1e9"]


def test_cost(ask):
    assert (
        ask("explain", "allreduce", "--algorithm", "ring", "--topology", "ring:8", "--bytes", "1MiB", *MODEL)
        == """\
ring: allreduce of 1 MiB on ring:8
  time                        1.85 ms
  fixed                       14 us
  per byte                    1.75 ns
  steps                       14
  hops                        14
  link load, step by step     1.75 of the message
  link load, whole schedule   1.75 of the message
  latency deficiency, Lambda  4.6667
  bandwidth deficiency, Psi   1.7500
  congestion deficiency, Xi   1.0000
  worst link, Psi Xi          1.7500
"""
    )


def test_cost_as_json(ask):
    swing = ["--algorithm", "swing", "--topology", "ring:8"]
    report = json.loads(ask("explain", "allreduce", *swing, "--bytes", "8", "--bytes", "16", *MODEL, "--json"))
    assert [size["bytes"] for size in report["sizes"]] == [8, 16]
    report |= report.pop("sizes")[0]
    assert report["seconds"] == pytest.approx(6e-6 + report["link_load"] * 8 / 1e9)
    assert set(report) == {
        "algorithm", "collective", "topology", "bytes", "seconds", "fixed", "per_byte", "steps", "hops",
        "link_load", "max_link_load",
        "latency_deficiency", "bandwidth_deficiency", "congestion_deficiency", "worst_link",
    }  # fmt: skip


def test_explain(ask):
    arguments = ["explain", "scatter", "--topology", "ring:8", "--bytes", "64MiB", *MODEL]
    assert (
        ask(*arguments)
        == """\
scatter of 64 MiB on ring:8: direct
algorithm     time  simulated  vs best  steps  hops  link load  bit-identical
direct     29.4 ms    29.4 ms    1.00x      1     4     0.4375  yes
binomial   41.9 ms          -    1.43x      3     7      0.625  yes
  the fastest by simulation, for all sizes
  binomial takes 42.9 % longer by the cost model:
                     direct  binomial
    bytes on links  29.4 ms   41.9 ms
    starting steps     1 us      3 us
    together        29.4 ms   41.9 ms
    simulated       29.4 ms         -
  no size, latency or bandwidth makes binomial the faster one

link load: the load of the busiest link, summed over the steps, as a fraction of the message
bit-identical: whether all ranks end with the same bits; if not, it is not chosen for floats

chosen for all data
from  algorithm
 0 B  direct
"""
    )


def test_explain_says_what_would_change_the_choice(ask):
    links = ["--step-latency", "1e-6", "--hop-latency", "1e-7", "--bandwidth", "1e9"]
    out = ask("explain", "allreduce", "--topology", "torus:8x8", "--bytes", "100K", *links)
    for words in ("would be the faster one\n    ", " instead of 1 us\n", " instead of 1 GB/s\n", "    up to "):
        assert words in out
    assert " times as fast\n" in ask("explain", "allreduce", "--topology", "torus:8x8", "--bytes", "1M")


def test_explain_compares(ask):
    """The candidates are in order of their times, and the chosen one changes with the size."""
    report = json.loads(ask("explain", "broadcast", "--topology", "ring:8", *MODEL, "--json"))
    for size in report["sizes"]:
        ratios = [candidate["ratio"] for candidate in size["candidates"]]
        assert ratios == sorted(ratios) and ratios[0] == 1 and len(ratios) > 3
    points = report["switch_points"]["floats"]
    assert points[0] == {"from_bytes": 0, "algorithm": "direct", "origin": "model"}
    assert len(points) > 2 and points == report["switch_points"]["integers"]


def test_explain_marks_what_is_not_bit_identical(ask):
    out = ask("explain", "allreduce", "--topology", "ring:9", "--bytes", "8", "--all")
    assert "trivance-latency" in out and "not chosen for floats" in out
    assert "chosen for floats\n" in out and "chosen for integers\n" in out
    few = ask("explain", "allreduce", "--topology", "ring:9", "--bytes", "8")
    assert "slower ones (--all)" in few and len(few.splitlines()) < len(out.splitlines()) + 1


def test_explain_as_json(ask):
    report = json.loads(ask("explain", "allreduce", "--topology", "torus:4x4", "--json"))
    assert [row["bytes"] for row in report["sizes"]] == [8, 1 << 10, 1 << 15, 1 << 20, 1 << 26]
    for row in report["sizes"]:
        assert row["candidates"][0]["ratio"] == 1.0
        assert set(row["candidates"][0]) == {field.name for field in fields(ringroad.Candidate)}
        assert row["algorithm"] in {candidate["algorithm"] for candidate in row["candidates"]}
        assert row["range"][0] <= row["bytes"] and row["runner_up"] and row["margin"] >= 0
        assert set(row["terms"]) == set(row["runner_up_terms"]) >= set(row["factors"])
        assert ringroad.CostModel(**row["model"]) == ringroad.CostModel()
    assert report["switch_points"]["floats"][0]["from_bytes"] == 0


# ------------------------------------------------------------------------------------------------ lists


def test_algorithms(ask):
    out = ask("explain")
    for algorithm in ringroad.algorithms():
        assert algorithm.name in out and algorithm.summary in out
    entries = json.loads(ask("explain", "--json"))
    ring = next(e for e in entries if (e["algorithm"], e["collective"]) == ("ring", "allreduce"))
    assert (ring["steps"], ring["sent"], ring["ports"], ring["bit_identical"]) == (14, 1.75, 1, True)
    assert ring["needs"] == "any number of ranks" and "JPDC" in ring["source"]
    on_torus = ask("explain", "reduce_scatter", "--list", "--topology", "torus:3x3")
    lines = [line.split() for line in on_torus.splitlines()]
    assert ["trivance", "reduce_scatter", "2", "0.8889", "4", "yes", "any", "number", "of", "ranks"] in lines
    assert not any(line[1:2] == ["allreduce"] for line in lines) and "binomial" not in on_torus
    assert "generalized:0" in on_torus and "generalized:1" not in on_torus


def test_info(ask, monkeypatch):
    monkeypatch.setenv("RINGROAD_TIMEOUT", "77")
    monkeypatch.setenv("RINGROAD_TIMEOUTT", "1")
    monkeypatch.setenv("UCX_TLS", "tcp,self")
    out = ask("info")
    for words in ("ringroad", "numpy", "UCX_TLS  tcp,self", "lo", "127.0.0.1", "cores", "/dev/shm", "RINGROAD_ALGO"):
        assert words in out
    assert "warning: there is no variable RINGROAD_TIMEOUTT; did you mean RINGROAD_TIMEOUT?" in out
    report = json.loads(ask("info", "--json"))
    assert report["versions"]["ringroad"] == ringroad.__version__
    assert report["host"]["cores"] == len(os.sched_getaffinity(0))
    rows = {row["variable"]: row for row in report["settings"]}
    timeout = rows["RINGROAD_TIMEOUT"]
    assert (timeout["value"], timeout["unit"], timeout["origin"]) == ("77", "seconds", "environment")
    assert timeout["default"] == "300" and "up to a year" in timeout["values"] and "a collective" in timeout["help"]
    assert rows["RINGROAD_DEBUG"]["values"] == ["WARN", "INFO", "TRACE"] and rows["RINGROAD_ALGO"]["value"] is None
    assert "RINGROAD_TIMEOUT: 77 seconds (from the environment)" in out and "; default: 300" in out
    assert report["host"]["cache_line"] == 64 and report["host"]["distance"] and "caches of cores" in out
    assert "RINGROAD_TRANSPORT: auto (the default)" in out and "values: auto, cma or no-cma" in out


def test_info_without_ucx():
    environ = os.environ | {"RINGROAD_UCX_LIBRARY": "/nonexistent/libucp.so.0"}
    command = [sys.executable, "-m", "ringroad", "info", "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "/nonexistent/libucp.so.0" in json.loads(done.stdout)["ucx"]["error"]


def test_info_with_a_setting_that_makes_no_sense():
    environ = os.environ | {"RINGROAD_TIMEOUT": "soon"}
    done = subprocess.run(
        [sys.executable, "-m", "ringroad", "info"], env=environ, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 'warning: RINGROAD_TIMEOUT="soon" cannot be used' in done.stdout and "300 seconds" in done.stdout


# ------------------------------------------------------------------------------------------------ errors


def test_closed_output(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as end:
        cli.main(["topology", "ring:4"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "ringroad: standard output is closed\n"


def test_infinity_is_null_in_json(ask):
    assert json.loads(ask("lab", "alltoall", "ring:1", "--json"), parse_constant=pytest.fail)["bounds"]["rank"] is None


@pytest.mark.parametrize(("command", "handler"), [("topology", signal.SIG_DFL), ("info", signal.default_int_handler)])
def test_what_only_computes_ends_at_once(monkeypatch, capsys, command, handler):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(sys, "argv", ["ringroad", command, "--help"])
        with pytest.raises(SystemExit):
            cli.main()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["schedule", "rong", "--topology", "ring:8"], 'unknown algorithm "rong"; did you mean ring?'),
        (["schedule", "ring", "--topology", "rong:8"], 'unknown topology "rong:8"'),
        (["schedule", "ring", "--topology", "ring:8", "--collective", "allredduce"], "allredduce"),
        (["schedule", "hamiltonian-rings", "--topology", "ring:8"], "two dimensions"),
        (["schedule", "binomial", "--topology", "ring:4", "--collective", "reduce", "--root", "4"], "root"),
        (["schedule", "ring", "--topology", "ring:4", "-o", "missing/file.xml"], "missing/file.xml"),
        (["schedule", "ring", "--topology", "ring:4", "-o", "file.doc"], "does not say the format"),
        (["schedule", "ring", "--topology", "ring:4", "--format", "msccl"], "add -o FILE"),
        (["schedule", "missing/file.xml", "-o", "file.json"], "missing/file.xml"),
        (["schedule", "file.xml", "--collective", "allreduce"], "a file, which says them"),
        (
            ["lab", "simulate", "file.xml", "--topology", "ring:8", "--bytes", "8", "--root", "1"],
            "a file, which says them",
        ),
        (["bench", "scan", "--wire", "int8"], "--wire with scan"),
        (["bench", "--wire", "int8", "-d", "int32"], "--wire with -d int32"),
        (["schedule", "ring"], "with --topology"),
        (["explain", "allreduce"], "with --topology"),
        (["explain", "broadcast", "--topology", "ring:8", "--root", "1"], "--root goes with --algorithm"),
        (["explain", "allreduce", "--topology", "ring:8", "--algorithm", "ring", "--all"], "leave --algorithm out"),
        (["explain", "allreduce", "--topology", "ring:8", "--bytes", "many"], '"many" is not a number of bytes'),
        (["explain", "allreduce", "--topology", "ring:8", "--bytes", "99999999999999999999999"], "is too large"),
        (["explain", "foo"], 'unknown collective "foo"; expected one of: allreduce'),
        (
            ["lab", "simulate", "ring", "--topology", "ring:8", "--bytes", "8", "--fail-link", "0:9" + 400 * "9"],
            "--fail-link",
        ),
        (["explain", "allredduce", "--topology", "ring:8"], "allredduce"),
    ],
)
def test_one_line_of_error(refuse, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    err = refuse(*arguments)
    assert err.startswith("ringroad: ") and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        "schedule missing.xml -o list.json",
        "topology missing.json",
        "explain allreduce --bytes 8 --topology missing.json",
        "lab simulate missing.json --bytes 8 --topology ring:4",
        "explain allreduce --topology ring:4 --bytes 8 --schedule missing.json",
        "explain allreduce --topology ring:4 --bytes 8 --profile missing.json",
        "lab alltoall missing.json",
        "lab alltoall ring:4 --demands missing.csv",
        "lab routes missing.json",
        "lab training missing.toml --topology ring:4",
        "lab training alexnet --topology missing.graphml",
        "trace missing",
        "testbed missing.json --rate 1Mbit true",
        "bench --testbed missing.json --rate 1Mbit",
        "tune --dry-run --ranks 2 --topology missing.json",
    ],
)
def test_missing_files(refuse, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ringroad.cli.testbed.reenter", lambda: None)
    monkeypatch.setattr("ringroad.cli.bench.reenter", lambda: None)
    (missing,) = (word for word in command.split() if word.startswith("missing"))
    assert refuse(*command.split()) == f"ringroad: there is no file or directory {missing}\n"


@pytest.mark.parametrize("spelled", ["all_reduce", "All-Reduce", "allreduce"])
def test_collectives_in_any_spelling(ask, spelled):
    network = ["--topology", "ring:4"]
    for command in (
        ["explain", spelled, *network, "--bytes", "8"],
        ["schedule", "ring", *network, "--collective", spelled],
        ["explain", spelled, "--algorithm", "ring", *network, "--bytes", "8"],
        ["lab", "simulate", "ring", *network, "--collective", spelled, "--bytes", "8"],
        ["explain", spelled, "--list", *network],
        ["lab", "find", "--ranks", "4", "--degree", "2", "--collective", spelled],
    ):
        assert "allreduce" in ask(*command), command
    assert collective(spelled).name == "allreduce"  # of bench
    assert tune._collectives(f"{spelled},bcast") == ["allreduce", "broadcast"]


@pytest.mark.parametrize("command", [[], *map(str.split, COMMANDS)], ids=lambda command: " ".join(command))
def test_help(ask, command):
    assert ask(*command, "-h") == ask(*command, "--help") != ""


def test_help_fits_one_screen(ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = ask("--help").splitlines()
    assert len(shown) <= 24 and max(map(len, shown)) <= 80
    assert len(list(pages.command_line().commands)) <= 12
    for panel, names in cli.PANELS.items():
        assert any(panel in line for line in shown)
        assert all(any(line.startswith(f"│ {name} ") for line in shown) for name in names)


def test_wrong_usage(refuse):
    cost = ["explain", "allreduce", "--algorithm", "ring", "--topology", "ring:8", "--bytes", "8"]
    assert "--bandwidth" in (err := refuse(*cost, "--bandwidth", "-1")) and '"-1" is not a bandwidth' in err
    assert "--root" in refuse(*cost, "--root", "-1")
    assert "--topology" in refuse("lab", "simulate", "ring", "--bytes", "8")
    assert "no-such-command" in refuse("no-such-command")


def shell(program, **environ):
    """The output of a Python program, in bytes."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=os.environ | environ, capture_output=True, check=True, timeout=60).stdout


CALL = "import sys; from ringroad.cli import main\ntry:\n    main({!r})\nexcept SystemExit:\n    "


def test_the_version_needs_nothing_else():
    """What is imported takes more time than all else. Help needs the modules of all commands."""
    loaded = shell(CALL.format(["--version"]) + "print(*sys.modules)").split()
    assert b"ringroad._native" in loaded
    assert not {b"numpy", b"ringroad.lab.formats", b"rich"} & {*loaded}
    assert not [module for module in loaded if module.startswith(b"ringroad.cli.")]


def test_names_are_completed():
    program = "from ringroad.cli import app; app(prog_name='ringroad')"
    for line, names in [
        ("ringroad sch", b"schedule"),
        ("ringroad schedule swi", b"swing"),
        ("ringroad lab fi", b"find"),
    ]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_RINGROAD_COMPLETE": "complete_bash"}
        assert names in shell(program, **words).split()


@pytest.mark.parametrize("environ", [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C", "LC_ALL": ""}, {"LC_ALL": "POSIX"}])
def test_terminals_for_ascii(environ):
    if "PYTHONIOENCODING" not in environ:
        environ = environ | {"PYTHONUTF8": "", "PYTHONIOENCODING": ""}
    simulated = shell(
        CALL.format(["lab", "simulate", "ring", "--topology", "ring:4", "--bytes", "8"]) + "pass", **environ
    )
    helped = shell(CALL.format(["explain", "--help"]) + "pass", **environ)
    assert simulated.isascii() and helped.isascii()
    assert b"0->1" in simulated and b"--topology" in helped


def test_as_a_module():
    command = [sys.executable, "-m", "ringroad"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"ringroad {ringroad.__version__}\n"
    done = subprocess.run([*command, "schedule", "rong", "--topology", "ring:8"], capture_output=True, text=True)
    assert done.returncode == 2 and "did you mean ring" in done.stderr and "Traceback" not in done.stderr


# ------------------------------------------------------------------------------------------------ numbers


def test_numbers_with_units():
    assert [bytes_text(n) for n in (0, 8, 1024, 65537, 3 << 20, 5 << 40)] == [
        "0 B", "8 B", "1 KiB", "65537 B", "3 MiB", "5 TiB",
    ]  # fmt: skip
    assert [seconds_text(s) for s in (0.0, 4e-9, 1.2345e-6, 9.996e-4, 0.0123, 1.5, 1234.0)] == [
        "0 ns", "4 ns", "1.23 us", "1 ms", "12.3 ms", "1.5 s", "1234 s",
    ]  # fmt: skip
