"""Local clusters that all tests share: starting processes is what takes the time."""

from collections.abc import Callable, Iterator

import pytest
import ringroad
from helpers import TRANSPORTS

Clusters = Callable[..., ringroad.LocalCluster]


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """`clusters(n, transport="shm")`: the cluster of `n` workers over shared memory or tcp, started when first used."""
    started: dict[tuple[int, str], ringroad.LocalCluster] = {}

    def cluster(n: int, transport: str = "shm") -> ringroad.LocalCluster:
        if (n, transport) not in started:
            started[n, transport] = ringroad.local(n, env=TRANSPORTS[transport], timeout=60)
        return started[n, transport]

    yield cluster
    for one in started.values():
        one.close()
