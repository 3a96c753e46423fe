"""Random programs of collectives give what the oracle says, by ringroad and by mpi4py; wrong ones an error on all ranks."""

import pytest
from helpers import FULL, OWN, TRANSPORTS, by_mpi4py, in_threads
from programs import random_collectives

SEEDS = range(300 if FULL else 6)
SECONDS = 1700 if FULL else 170


def run_programs(comm, seeds):
    library = random_collectives.OfRingroad(comm)
    return [text for seed in seeds for text in random_collectives.run(str(seed), library)]


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(
    ("transport", "ranks", "network"),
    [
        ("memory", 1, ""),
        ("memory", 5, ""),
        ("memory", 4, "hosts:2x2"),
        *((transport, 3, "") for transport in TRANSPORTS | OWN),
    ],
)
def test_random_programs(clusters, transport, ranks, network):
    assert clusters(ranks, transport, network).run(run_programs, SEEDS) == [[]] * ranks


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_random_programs_by_mpi4py(ranks):
    assert by_mpi4py("random_collectives_mpi", ranks, SEEDS, SECONDS) == [[]] * ranks
