"""Random programs of collectives give what the oracle says, also by mpi4py; wrong ones give all ranks an error."""

import pytest
from helpers import FULL, OWN, TRANSPORTS, by_mpi4py, in_threads
from programs import random_collectives, wrong_collectives

SEEDS = range(300 if FULL else 5)
SECONDS = 1700 if FULL else 170
PLACES = [("memory", 5, ""), ("own", 3, "")]
EVERYWHERE = [
    *((name, 3, "") for name in TRANSPORTS | OWN),
    *(("memory", n, "") for n in (1, 2, 4)),
    ("own", 4, "hosts:2x2"),
]


def run_programs(comm, seeds):
    library = random_collectives.OfRingroad(comm)
    return [text for seed in seeds for text in random_collectives.run(str(seed), library)]


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(("transport", "ranks", "network"), PLACES + EVERYWHERE * FULL)
def test_random_programs(clusters, transport, ranks, network):
    assert clusters(ranks, transport, network).run(run_programs, SEEDS) == [[]] * ranks


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("ranks", [2, 3, 5] if FULL else [3])
def test_random_programs_by_mpi4py(ranks):
    assert by_mpi4py("random_collectives_mpi", ranks, SEEDS, SECONDS) == [[]] * ranks


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("ranks", [2, 3, 5] if FULL else [4])
def test_wrong_programs(ranks):
    """The ranks get the same kind of error, or the mistake changes nothing."""
    kinds = (*wrong_collectives.MISTAKES, "abort", "close", *["late"] * FULL)
    # A mistake that only shows at the deadline is not among the few.
    for seed in SEEDS if FULL else range(7, 20):
        found = in_threads(
            ranks,
            lambda comm, s=seed: wrong_collectives.run_wrong(comm, str(s), kinds),
            timeout=wrong_collectives.SECONDS,
        )
        assert [text for _, _, wrong in found for text in wrong] == []
        what, errors = found[0][0], [error for _, error, _ in found]
        raised = {error.partition(":")[0] for error in errors}
        if what in wrong_collectives.LEAVES:
            expected = wrong_collectives.LEAVES[what][1]
            assert "" not in raised and expected in raised and raised <= {expected, "AbortedError"}, (what, errors)
        elif raised != {""}:
            # A rank that hears between two calls that the others have failed says why.
            assert raised <= {"MismatchError", "AbortedError"}, (what, errors)
            assert all("different calls" in error for error in errors), (what, errors)
