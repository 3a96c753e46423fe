"""Tensors of a device go by way of the host, long ones in chunks. CPU tensors stand for tensors of a device."""

import pytest
from ringroad.torch.staging import cut


@pytest.mark.parametrize("most", range(1, 9))
def test_cuts(most):
    """The chunks of one call are never the first chunks of another, so ranks that disagree notice it before the call
    ends.
    """
    cuts = [tuple(cut(elements, most)) for elements in range(1, 200)]
    beginnings = {lengths[:count] for lengths in cuts for count in range(1, len(lengths))}
    assert len(set(cuts)) == len(cuts) and not beginnings & set(cuts)
    for elements, lengths in enumerate(cuts, 1):
        assert min(lengths) > 0 and sum(lengths) == elements + (len(lengths) > 1)


def test_whole_tensors(ranks):
    ranks.run("staging.check_whole", 3)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_chunks(ranks, size):
    ranks.run("staging.check_chunks", size)


def test_order(ranks):
    ranks.run("staging.check_order", 3)


def test_modes(ranks):
    ranks.run("staging.check_modes", 2)


def test_graphs(ranks):
    ranks.run("staging.check_graphs", 2)


def test_checks_for_a_gpu(ranks):
    """`make test SET=gpu`, as far as it needs none."""
    ranks.run("staging.check_on_a_gpu", 2)


def test_different_calls(ranks):
    ranks.run("staging.check_different_calls", 3)


def test_an_abort_between_chunks(ranks):
    ranks.run("staging.check_abort", 3)


def test_local_error(ranks):
    ranks.run("staging.check_local_error", 3)


def test_a_death_between_chunks(ranks):
    for text in ranks.run("staging.check_death", 3)[::2]:
        assert "PeerError" in text and "rank 1 " in text, text


def test_deadline(ranks):
    ranks.run("staging.check_deadline", 2)
