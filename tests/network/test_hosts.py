"""Several hosts with several ranks each, on an emulated network of two."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helpers import PROGRAMS, free_port, launch, long, needs_testbed
from ringroad import Topology
from ringroad._support.processes import Processes
from ringroad._support.ucx import _ucx_wheel
from ringroad.testbed import namespaces
from ringroad.testbed.fabric import DEVICE
from ringroad.testbed.network import EmulatedNetwork

Host = Callable[[int], tuple[list[str], dict[str, str]]]

CHECK = PROGRAMS / "calls_across_hosts.py"


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


@pytest.mark.parametrize(("per_host", "carrier"), [([2, 2], "tcp"), ([3, 1], "ucx"), ([3, 1], "tcp")])
def test_shared_memory_within_and_the_network_between(two_hosts, tmp_path, per_host, carrier):
    env = {"RINGROAD_STORE": f"file://{tmp_path}/store", "UCX_NET_DEVICES": DEVICE, "UCX_TLS": "tcp,self"}
    env["RINGROAD_TRANSPORT"] = "" if carrier == "tcp" else f"auto,{carrier}"
    for ended in launch(CHECK, 4, env=env, host=on(two_hosts, per_host)):
        topology, transport, chosen = ended.json()
        assert "shared memory (with" in transport or per_host == [3, 1], transport
        assert f"{carrier} " in transport, transport
        if per_host == [2, 2]:
            assert topology == "hosts:2x2"
            assert any(name.startswith("hierarchical") for name in chosen), chosen
        else:
            assert topology == "hosts:3,1"


STORE = PROGRAMS / "store_of_files.py"


@pytest.mark.parametrize("served_by", ["10.77.0.1", "127.0.0.1"])
def test_the_way_to_the_others_is_listened_on(two_hosts, tmp_path, served_by):
    """Wherever the store seems to be: the ranks try by which addresses they reach each other."""
    env = {"FOLDER": str(tmp_path), "SERVED_BY": served_by}
    for ended in launch(STORE, 2, env=env, host=on(two_hosts, [1, 1])):
        assert ended.json().endswith(f"; devices {DEVICE})"), ended.json()


def test_death_is_seen_across_hosts(two_hosts, tmp_path):
    code = PROGRAMS / "death_across_hosts.py"
    env = {"RINGROAD_STORE": f"file://{tmp_path}/store"}
    ended = launch(code, 4, env=env, host=on(two_hosts, [2, 2]))
    assert [e.status for e in ended] == [0, 0, 0, -9], [e.err for e in ended]


SILENT = PROGRAMS / "silent_host.py"


@pytest.mark.parametrize("over", ["tcp", *(pytest.param(ucx, marks=long) for ucx in ("libucp.so.0", "wheel"))])
@pytest.mark.parametrize("what", ["cut", pytest.param("stopped", marks=long)])
def test_a_cut_cable_is_a_loss_and_a_stopped_rank_is_none(two_hosts, tmp_path, what, over):
    """With any version of UCX, too: the host at the far end of a cut cable does not answer, that of a stopped rank
    does."""
    library, begun = _ucx_wheel() if over == "wheel" else over, tmp_path / "begun"
    if library is None:
        pytest.skip("pip has installed no UCX")
    env = {"RINGROAD_STORE": f"file://{tmp_path}/store"}
    if over != "tcp":
        env |= {"RINGROAD_TRANSPORT": "auto,ucx", "RINGROAD_UCX_LIBRARY": library, "UCX_NET_DEVICES": DEVICE}

    def cut() -> None:
        while not begun.exists():
            time.sleep(0.01)
        two_hosts.cut(0, 1)

    if what == "cut":
        threading.Thread(target=cut, daemon=True).start()
    ended = launch(SILENT, 2, env=env | {"BEGUN": str(begun), "WHAT": what}, host=on(two_hosts, [1, 1]), timeout=90)
    two_hosts.restore()
    for rank, (found, seconds) in enumerate(one.json() for one in ended):
        assert (f"rank {1 - rank} " in found) if what == "cut" else found == "none", found
        assert seconds < 30, "it was heard at the limit only"


@long
def test_a_host_that_is_cut_off_is_named(two_hosts, tmp_path):
    """`ringroad status` asks the ranks of the other host, too, and names it before the job itself has noticed."""
    env = os.environ | {"RINGROAD_STORE": f"file://{tmp_path}/store", "WORLD_SIZE": "4", "RINGROAD_TRANSPORT": "tcp"}

    def ask() -> dict[str, Any]:
        command = two_hosts.command(0, [sys.executable, "-m", "ringroad", "status", "--json"])
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

    (tmp_path / "ways").write_text("loop\n")
    with Processes() as processes, open(tmp_path / "log", "w") as log:
        for rank in range(4):
            program = [sys.executable, str(PROGRAMS / "hung.py"), str(tmp_path / "ways")]
            command = two_hosts.command(rank // 2, program)
            processes.start(command, env | {"RANK": str(rank)}, stdout=log, stderr=log)
        while (tmp_path / "log").read_text().count("ready") < 4:
            assert processes.ended() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        told = ask()
        assert told["causes"] == [] and all(one["standing"] for one in told["communicators"][0]["ranks"])
        two_hosts.cut(0, 1)
        try:
            time.sleep(0.5)
            cause = ask()["causes"][0]
        finally:
            two_hosts.restore()
        assert (cause["kind"], cause["ranks"]) == ("silent", [2, 3]) and "does not answer" in cause["text"]


# ------------------------------------------------------------------------------------------------ direct connections

DIRECT = PROGRAMS / "direct_connections.py"


@pytest.fixture(scope="module")
def direct_ring() -> Iterator[list[namespaces.Host]]:
    """Three hosts in a ring. Each has a device for each cable, `plus` and `minus`, and a host route to every address of
    the others, by the cable that leads there. So no device reaches all.
    """
    needs_testbed()
    with contextlib.ExitStack() as stack:
        hosts = [namespaces.Host(f"direct-{number}", "/etc/hosts") for number in range(3)]
        for host in hosts:
            stack.callback(host.close)
        nets = {"plus": 87, "minus": 88}
        for one, host in enumerate(hosts):
            following = hosts[(one + 1) % 3]
            host.ip(["link set lo up", f"link add name plus type veth peer name minus netns {following.path()}"])
            host.write({"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.default.rp_filter": "0"})
        for one, host in enumerate(hosts):
            lines = []
            for device, net in nets.items():
                lines += [f"addr add 10.{net}.0.{one + 1}/32 dev {device}", f"link set {device} up"]
            for device, far in ("plus", (one + 1) % 3), ("minus", (one - 1) % 3):
                source = f"10.{nets[device]}.0.{one + 1}"
                lines += [f"route add 10.{net}.0.{far + 1}/32 dev {device} src {source}" for net in nets.values()]
            host.ip(lines)
            proxies = {f"net.ipv4.conf.{device}.proxy_arp": "1" for device in nets}
            host.write(proxies | {f"net.ipv4.neigh.{device}.proxy_delay": "0" for device in nets})
        yield hosts


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"RINGROAD_TRANSPORT": "auto,tcp"}, ["tcp ("]),
        (
            {
                "RINGROAD_TRANSPORT": "auto,tcp",
                "RINGROAD_NET_DEVICES": "per-port:plus,minus",
                "RINGROAD_TOPOLOGY": "ring:3",
            },
            ["; cabled ports plus, minus)"],
        ),
        (
            {"RINGROAD_NET_DEVICES": "per-port:plus,minus", "RINGROAD_TOPOLOGY": "ring:3"},
            ["; cabled ports plus, minus)"],
        ),
        ({"RINGROAD_NET_DEVICES": "plus"}, ["the best route of rank ", "RINGROAD_TRANSPORT=auto,tcp", "ip route add"]),
    ],
)
def test_devices_that_lead_to_some_hosts_only(direct_ring, tmp_path, env, words):
    """Over UCX the ranks look whether their devices lead to each other. It would crash otherwise."""
    if (wheel := _ucx_wheel()) is None:
        pytest.skip("pip has installed no UCX")
    env = {"RINGROAD_TRANSPORT": "auto,ucx", "RINGROAD_STORE": f"file://{tmp_path}"} | env
    env |= {"RINGROAD_UCX_LIBRARY": wheel, "UCX_TLS": "tcp,self"}
    if "RINGROAD_NET_DEVICES" not in env:
        env["RINGROAD_STORE"] = f"tcp://10.87.0.1:{free_port()}"
    for ended in launch(DIRECT, 3, env=env, host=lambda rank: (direct_ring[rank].enter(), {})):
        text = ended.json()
        assert all(word in text for word in words), text
