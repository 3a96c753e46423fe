"""Several hosts with several ranks each, on an emulated network of two."""

from collections.abc import Callable, Iterator

import pytest
from helpers import launch, needs_testbed
from ringroad import Topology
from ringroad.emulation.network import DEVICE, EmulatedNetwork

Host = Callable[[int], tuple[list[str], dict[str, str]]]

CHECK = """
import json, ringroad
import numpy as np

with ringroad.init(timeout=60) as comm:
    n, rank = comm.size, comm.rank
    algorithms = [None, "ring", "direct"]
    if comm.topology.startswith("hosts:"):
        algorithms += ["hierarchical", "hierarchical-latency"]
    for count in (0, 1, 7, 1000, 100_003):
        base = (np.arange(count) % 50).astype(np.float32)
        total = base * n + n * (n - 1) / 2
        for algorithm in algorithms:
            assert (comm.allreduce(base + rank, algorithm=algorithm) == total).all(), (count, algorithm)
        own = slice(rank * count, (rank + 1) * count)
        whole = np.tile(base, n)
        assert (comm.reduce_scatter(whole + rank) == (whole * n + n * (n - 1) / 2)[own]).all()
        gathered = comm.allgather(base + rank).reshape(n, count)
        assert all((gathered[r] == base + r).all() for r in range(n))
        for root in range(n):
            vector = base + 10 if rank == root else np.zeros_like(base)
            assert (comm.broadcast(vector, root=root) == base + 10).all()
            summed = comm.reduce(base + rank, root=root)
            assert rank != root or (summed == total).all()
        swapped = comm.alltoall(np.repeat(np.arange(n, dtype=np.float32) + 100 * rank, count))
        assert (swapped == np.repeat(100 * np.arange(n, dtype=np.float32) + rank, count)).all()
        comm.barrier()
    chosen = {comm.algorithm_for("allreduce", 1 << k) for k in range(3, 28)}
    print(json.dumps([comm.topology, comm.transport, sorted(chosen)]))
"""


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[EmulatedNetwork]:
    """Two hosts that are joined by one cable."""
    needs_testbed()
    with EmulatedNetwork(Topology("ring:2"), 1.25e9) as network:
        yield network


def on(network: EmulatedNetwork, per_host: list[int]) -> Host:
    """Puts `per_host` ranks on each host, one host after the other."""
    hosts = [host for host, ranks in enumerate(per_host) for _ in range(ranks)]
    return lambda rank: (network.command(hosts[rank], []), {})


@pytest.mark.parametrize("per_host", [[2, 2], [3, 1]])
def test_shared_memory_within_and_ucx_between(two_hosts, tmp_path, per_host):
    env = {"RINGROAD_STORE": f"file://{tmp_path}/store", "UCX_NET_DEVICES": DEVICE, "UCX_TLS": "tcp,self"}
    for ended in launch(CHECK, 4, env=env, host=on(two_hosts, per_host)):
        topology, transport, chosen = ended.json()
        assert "shared memory (with" in transport or per_host == [3, 1], transport
        assert "ucx" in transport and "tcp" in transport, transport
        if per_host == [2, 2]:
            assert topology == "hosts:2x2"
            assert any(name.startswith("hierarchical") for name in chosen), chosen
        else:
            assert topology == "switch:4"


STORE = """
import os, time
from pathlib import Path
import ringroad

class Store:
    host = os.environ["SERVED_BY"]

    def set(self, key, value):
        place = Path(os.environ["FOLDER"], key.replace("/", "+"))
        place.with_suffix(f".{os.getpid()}").write_bytes(value)
        place.with_suffix(f".{os.getpid()}").rename(place)

    def get(self, key):
        place = Path(os.environ["FOLDER"], key.replace("/", "+"))
        return place.read_bytes() if place.exists() else None

class Prefix(Store):
    host = property()
    underlying_store = Store()

with ringroad.init(Prefix(), timeout=20) as comm:
    comm.barrier()
    print('"' + comm.transport + '"')
"""


@pytest.mark.parametrize("served_by, devices", [("10.77.0.1", [DEVICE]), ("127.0.0.1", [DEVICE, "lo", "to{other}"])])
def test_the_way_to_the_store_is_listened_on(two_hosts, tmp_path, served_by, devices):
    """The loopback interface reaches no other host. If the store seems to be there, UCX chooses the interface."""
    env = {"FOLDER": str(tmp_path), "SERVED_BY": served_by, "UCX_TLS": "tcp,self"}
    for rank, ended in enumerate(launch(STORE, 2, env=env, host=on(two_hosts, [1, 1]))):
        transport = ended.json()
        # The cable's device at either end has the other host's number.
        names = ", ".join(devices).format(other=1 - rank)
        assert transport.endswith(f"; devices {names})"), transport


def test_death_is_seen_across_hosts(two_hosts, tmp_path):
    code = """
import os, signal, time
import numpy as np
import ringroad

comm = ringroad.init(timeout=30)
data = np.ones(100_000, np.float32)
for call in range(1_000_000):
    if comm.rank == 3 and call == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.allreduce(data)
    except ringroad.PeerError as error:
        print(time.monotonic())
        assert "rank 3" in str(error), error
        break
"""
    env = {"RINGROAD_STORE": f"file://{tmp_path}/store", "UCX_NET_DEVICES": DEVICE}
    ended = launch(code, 4, env=env, host=on(two_hosts, [2, 2]))
    assert [e.status for e in ended] == [0, 0, 0, -9], [e.err for e in ended]
