"""The chosen algorithm is about the fastest of all, where ranks do not wait for each other."""

import sys

import pytest
from helpers import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from choice import MODEL, case, networks

NETWORKS = networks()


@pytest.mark.parametrize(
    ("network", "collective", "size"),
    [
        ("hypercube:3", "allreduce", 1 << 20),
        ("torus:3x3", "broadcast", 4 << 10),
        ("torus:3x3", "allgather", 64 << 10),
        ("ring of 8 with a slow link", "allgather", 1 << 20),
        ("wheel of 6", "reduce_scatter", 64 << 10),
        ("hosts:1,2,3", "allreduce", 1 << 20),
        ("two racks with a thin uplink", "allgather", 64 << 10),
        ("ring:5", "alltoall", 64 << 10),
    ],
)
def test_nothing_is_much_faster(network, collective, size):
    found = case(network, NETWORKS[network], collective, size)
    assert found.loss <= 0.05, found


def test_both_times_are_shown():
    found = MODEL.explain("broadcast", NETWORKS["torus:3x3"], 4 << 10)
    chosen = next(row for row in found.candidates if row.algorithm == found.algorithm)
    assert chosen is found.candidates[0]
    assert chosen.free_seconds < chosen.seconds, "the steps of a pipeline overlap"
    text = str(found)
    assert "the fastest by simulation" in text and "simulated" in text
    assert any(row.free_seconds is None for row in found.candidates)
