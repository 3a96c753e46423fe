"""Random programs in legal orders end with the right results. `tools/check_changes.py programs` runs many more."""

import pytest
import ringroad
from helpers import FULL, needs_testbed
from programs.legal_orders import play

LIMIT = 60.0


def check(cluster, programs, sleeps):
    played = cluster.run(play, [str(seed) for seed in range(programs)], LIMIT, sleeps)
    assert [text for rank in played for text in rank.wrong] == []
    assert [rank.done for rank in played] == [programs] * cluster.size


@pytest.mark.parametrize("ranks", [2, 3, 4] if FULL else [3])
def test_on_a_host(clusters, ranks):
    check(clusters(ranks), 100 if FULL else 20, sleeps=False)


def test_while_a_cable_changes():
    """The ranks measure the network again: because of the cable, and since ranks that sleep come late to calls."""
    needs_testbed()
    env = {"RINGROAD_BUDGET": "discovery=500ms,adaptation=200ms"}
    with ringroad.testbed.emulate("ring:4", rate="100Mbit", tell="nothing", timeout=LIMIT, env=env) as bed:
        bed.at(2, "slow 0 1 8")
        bed.at(5, "restore")
        check(bed, 200 if FULL else 10, sleeps=True)
