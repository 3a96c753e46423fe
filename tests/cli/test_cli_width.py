"""Tables on narrow terminals: no name and no number is cut, and no line is longer than the terminal."""

import re

import pytest
import ringroad
from helpers import check_fits
from ringroad import cli
from ringroad._support.text import print_fields, print_table, progress, wrapped
from ringroad.cli import doctor, tune
from ringroad.cli.doctor import Finding, Report
from ringroad.measure import facts
from ringroad.measure.bench import table
from ringroad.measure.bench.collectives import IN, OUT


@pytest.mark.parametrize(
    "command",
    [
        "explain",
        "explain allgather --list --topology torus:3x3",
        "lab alltoall torus:4x4",
        "explain allreduce --algorithm trivance --topology torus:9x9 --bytes 1MiB",
        "explain allreduce --topology torus:8x8 --all",
        "lab find --ranks 64 --degree 4",
        "info",
        "lab routes torus:4x4 --method shortest",
        "lab simulate swing --topology torus:4x4 --bytes 1MiB --fail-link 0:1 --replan --steps",
        "topology",
        "topology hammingmesh:2x2:4x4",
        "lab training",
        "lab training resnet50 --topology torus:4x4 --topology fattree:4x4 --topology hosts:4x4 --timeline",
    ],
)
def test_commands(capsys, monkeypatch, command):
    report = facts.describe()  # it measures, and finds something else each time
    monkeypatch.setattr(facts, "describe", lambda: report)

    def run():
        with pytest.raises(SystemExit):
            cli.main(command.split())

    check_fits(capsys, monkeypatch, run)


def test_tune(capsys, monkeypatch):
    a, _ = ringroad.Communicator.in_process(2)
    names = [name for name in ringroad.measure.candidates(a, "allreduce") if len(name) < 20]
    times = [
        (collective, name, size, 1.2345e-5 + 1e-9 * size * (1 + len(name)))
        for collective in ("allreduce", "broadcast")
        for name in (names if collective == "allreduce" else ringroad.measure.candidates(a, collective))
        for size in (8, 1 << 20, 12345678)
    ]
    profile = ringroad.measure.calibrate(a, times)
    check_fits(capsys, monkeypatch, lambda: tune._print(profile, None, ["times vary from round to round"]))


def test_doctor(capsys, monkeypatch):
    found = "eth0 carries 12345 Mbit/s between the hosts node-1.cluster.example and node-2.cluster.example"
    findings = [Finding("the network of all hosts", "warning", found, f"Choose another one: {found}")]
    pairs = [
        {"ranks": (rank, 1234), "latency": 1e-6, "bandwidth": 1e9 + rank, "over": "shared memory and ucx over tcp"}
        for rank in range(3)
    ]
    check_fits(capsys, monkeypatch, lambda: doctor._print(Report(findings, [], pairs), "warning"))


def row(peer, place, **others):
    """A row of the benchmark with long numbers."""
    times = dict.fromkeys(("time", "p50", "p99", "max"), 1.2345678)
    about = {"size": 134217728, "count": 33554432, "type": "bfloat16", "redop": "product", "root": -1, "wrong": 0}
    rates = {"algbw": 123.4e9, "busbw": 123.4e9, "ratio": 100.25, "cache": "mixed"}
    predicted = {"model": None, "simulated": None, "algorithm": "hierarchical:swing"}
    return {"peer": peer, "place": place, **times, **about, **rates, **predicted, **others}


@pytest.mark.parametrize("predicted", [{}, {"model": 1.2345, "simulated": 1.2345}])
def test_bench(predicted):
    """Columns are left out where they do not fit, and named."""
    rows = [row(peer, place, **predicted) for peer in ("ringroad", "mpi4py-ucx") for place in (OUT, IN)]
    everything = table.chosen(rows, None)
    names = set(table.header("allreduce", "numpy", 4, everything).splitlines()[2].split())
    for columns in (200, 120, 80, 60):
        chosen = table.chosen(rows, columns)
        head = table.header("allreduce", "numpy", 4, chosen).splitlines()
        lines = [line for line in head if "in a wider" not in line] + table.lines(rows, chosen)
        assert max(map(len, lines)) <= columns
        (shown,) = (set(line.split()) for line in head if " peer" in line)
        assert shown | set(chosen.omitted) >= names - {"#"} and not shown & set(chosen.omitted)
        whole = set(table.line(rows[:2], everything).split())
        assert all(set(line.split()) <= whole | {"mpi4py-ucx"} for line in table.lines(rows, chosen))
        assert {"size", "peer", "time"} <= shown
    assert "ratio" not in table.chosen(rows, 80).omitted
    if not predicted:
        assert "busbw" not in table.chosen(rows[:2], 80).omitted  # without peers there is nothing to compare with


def test_layouts(capsys, monkeypatch):
    header, right = ["name", "text", "one", "two", "three"], ["one", "two", "three"]
    cells = [["a", "some longer text", *["1234567"] * 3], ["b", "other text", *["7654321"] * 3]]
    monkeypatch.setenv("COLUMNS", "40")
    print_table(header, cells, right=right)
    assert (
        capsys.readouterr().out
        == """\
name  text                  one      two
a     some longer text  1234567  1234567
b     other text        7654321  7654321

name    three
a     1234567
b     7654321
"""
    )
    print_table(header, [cells[0], ["a", *cells[1][1:]]], right=right)
    assert (
        capsys.readouterr().out
        == """\
name  text                  one      two
    three
a     some longer text  1234567  1234567
  1234567
a     other text        7654321  7654321
  7654321
"""
    )
    print_fields("title", [("name", "one two three four five six seven eight nine"), ("lines", "a\nb")])
    assert (
        capsys.readouterr().out
        == """\
title
  name   one two three four five six
         seven eight nine
  lines  a
         b
"""
    )
    print_table(["name"], [])
    assert capsys.readouterr().out == "name\n"
    assert wrapped("a " + "b" * 50, 40) == ["a", "b" * 50]


def test_progress_is_for_terminals(capsys, monkeypatch):
    progress("1 s left")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress("allreduce, 1 s left")
    assert re.fullmatch(r"\r\x1b\[Kallreduce", capsys.readouterr().err)
