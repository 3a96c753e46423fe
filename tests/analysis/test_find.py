"""Finding networks: the API and the command."""

import json
from fractions import Fraction

import pytest
import ringroad
from ringroad import cli
from ringroad._support.text import parse_bandwidth, parse_seconds


def test_a_thousand_ranks():
    found = ringroad.lab.find(1024, 4, alpha=10e-6, bytes=1 << 20, bandwidth=12.5e9)
    specs = {network.spec: network for network in found.networks}
    optimal = specs["cayley:z64*z16^11:34.1,14.14,23.12,33.7"]
    assert (optimal.steps, optimal.bandwidth_term) == (12, Fraction(1023, 512))
    assert optimal.seconds == pytest.approx(287.6e-6, abs=5e-8)
    assert found.best.seconds <= optimal.seconds
    assert (found.least_steps, found.least_bandwidth_term) == (10, Fraction(1023, 512))
    assert found.least_seconds == pytest.approx(267.6e-6, abs=5e-8)


def test_links_both_ways(refused):
    found = ringroad.lab.find(10, 3, bidirectional=True)
    assert all(network.bidirectional for network in found.networks)
    assert found.best.spec == "petersen"
    with refused(ValueError):
        ringroad.lab.find(7, 3, bidirectional=True)


def test_a_budget_allows_all_degrees_that_its_cables_suffice_for(refused):
    found = ringroad.lab.find(budget=(12, 24), bidirectional=True)
    assert all(network.cables <= 24 for network in found.networks)
    assert found.best.degree == 4 and found.best.steps == 4
    with refused(ValueError):
        ringroad.lab.find(budget=(8, 3))
    for arguments in ({}, {"ranks": 8}, {"ranks": 8, "degree": 2, "budget": (8, 8)}):
        with refused(ValueError):
            ringroad.lab.find(**arguments)


def test_command(ask):
    out = ask("lab", "find", "--ranks", "5", "--degree", "4", "--bandwidth", "80Gbit/s", "--bytes", "10000")
    assert (
        out
        == """\
allreduce of 10000 B over 5 ranks, 80 Gbit/s each, 10 us a step
   steps  bandwidth     time  links  direction  algorithm  network
*      2     1.6000  21.6 us      4  both       bfb        complete:5
       2     1.6000  21.6 us                               (bound)

*: the fastest; bandwidth: time in messages per bandwidth of a rank; bound: no network can do better
"""
    )


def test_dropped_loops_and_expanded_schedules_are_named(ask):
    rows = ask("lab", "find", "--ranks", "13", "--degree", "2", "--bytes", "1KiB").splitlines()
    assert rows[2].split()[-3:] == ["bfb", "generalized-kautz:2:13", "(-)"] and rows[2].startswith("*")
    assert "one link less" in rows[-1]
    assert "one link less" not in ask("lab", "find", "--ranks", "9", "--degree", "2")
    irregular, *others = json.loads(ask("lab", "find", "--ranks", "13", "--degree", "2", "--json"))["networks"]
    assert not irregular["regular"] and all(network["regular"] for network in others)
    assert "expanded" in {network.algorithm for network in ringroad.lab.find(7, 10).networks}


def test_command_as_json(ask, tmp_path):
    pytest.importorskip("matplotlib")
    file = tmp_path / "frontier.png"
    report = json.loads(ask("lab", "find", "--budget", "16:32", "--undirected", "--plot", str(file), "--json"))
    assert file.stat().st_size > 0
    assert report["networks"].count(report["best"]) == 1
    assert all(network["cables"] <= 32 and network["bidirectional"] for network in report["networks"])
    assert report["least_steps"] <= min(network["steps"] for network in report["networks"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ranks", "8"], "give ranks and degree"),
        (["--budget", "8"], "--budget 1024:2048"),
        (["--ranks", "1", "--degree", "2"], "2 to 65536 ranks"),
        (["--ranks", "8", "--degree", "2", "--alpha", "soon"], "10us"),
        (["--ranks", "8", "--degree", "2", "--bandwidth", "fast"], "100Gbit/s"),
        (["--ranks", "8", "--degree", "2", "--collective", "broadcast"], "judged by allreduce"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["lab", "find", *arguments])
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and message in err


def test_units():
    assert parse_seconds("10us") == 10e-6 and parse_seconds("1e-6") == 1e-6 and parse_seconds("2s") == 2
    assert parse_bandwidth("100Gbit/s") == 12.5e9 == parse_bandwidth("12.5GB/s") == parse_bandwidth("12.5e9")
