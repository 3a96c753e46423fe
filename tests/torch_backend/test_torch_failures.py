"""Errors are raised on every rank, and name the rank that caused them."""

import pytest
from marks import lacking


def test_timeouts(ranks):
    for texts in ranks.run("failures.check_timeouts", 3)[:2]:
        assert len(texts) == 3 and all("rank 2 " in text for text in texts), texts


def test_mismatch(ranks):
    for text in ranks.run("failures.check_mismatch", 3):
        assert "allreduce" in text and "4" in text and "5" in text, text


def test_different_calls(ranks):
    words = {"dtype": "float64", "op": "max", "root": "broadcast", "collective": "allgather", "order": "barrier"}
    for texts in ranks.run("failures.check_different_calls", 3):
        for name, word in words.items():
            assert word in texts[name], texts[name]


def test_a_new_group_after_an_abort(ranks):
    losses = ranks.run("failures.check_abort", 3)
    assert losses[0] == losses[1] == losses[2]


def test_a_verdict_is_stored_before_rank_0_goes_on():
    """torch's TCPStore has a value only once its server has read it, which the next question waits for."""
    barrier = pytest.importorskip("ringroad.torch.monitored_barrier")
    sent, stored = {}, {"1": b"here"}

    class Lazy:
        set = sent.__setitem__

        def check(self, keys):
            stored.update(sent)
            return keys[0] in stored

    barrier.monitored_barrier(Lazy(), 0, 2, 60.0, False, list)
    assert stored["verdict"] == "all here"


@lacking((2, 14), "monitored_barrier is for gloo alone")
def test_monitored_barrier(ranks):
    texts = ranks.run("failures.check_monitored_barrier", 3)
    assert "Rank 2 failed to pass monitoredBarrier" in texts[0] and texts[2] == ""
    assert "Rank 1 successfully reached monitoredBarrier" in texts[1] and "Rank 2" in texts[1]


@lacking((2, 14), "monitored_barrier is for gloo alone")
@pytest.mark.parametrize("dead", [0, 2])
def test_monitored_barrier_without(ranks, dead):
    texts = ranks.run("failures.check_monitored_barrier_without", 3, dead)
    assert texts[dead] is None
    for text in filter(None, texts):
        assert f"Rank {dead} " in text and "its process has ended" in text, texts


def test_a_rank_that_dies(ranks):
    for text in ranks.run("failures.check_death", 4)[::2]:
        assert "PeerError" in text and "rank 1 " in text, text
