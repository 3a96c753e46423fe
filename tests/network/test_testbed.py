"""Emulated networks: what is built for a topology, what goes over its cables, and that nothing is left behind."""

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import ringroad
from helpers import is_running, long, needs_testbed
from ringroad.testbed import leftovers, namespaces
from ringroad.testbed.network import EmulatedNetwork
from ringroad.testbed.placing import placed
from ringroad.testbed.wiring import Wiring

RATE = "200Mbit"
TOLD = ["RINGROAD_TOPOLOGY", "RINGROAD_NET_DEVICES", "GLOO_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include"]


@pytest.fixture(scope="module", autouse=True)
def permitted():
    needs_testbed()


def wired(spec, counts=None, order=None):
    return Wiring.of(*placed(ringroad.Topology(spec), counts, order, memory=2.0))


def total(comm, count, algorithm=None):
    summed = comm.allreduce(np.arange(count, dtype=np.float32) + comm.rank, algorithm=algorithm)
    expected = np.arange(count, dtype=np.float32) * comm.size + comm.size * (comm.size - 1) / 2
    return str(comm.transport), bool((summed == expected).all())


# ------------------------------------------------------------------------------------------------ wiring


@pytest.mark.parametrize(
    ("spec", "names", "cables"),
    [
        ("ring:4", 4, 4),
        ("ring:2", 2, 1),
        ("torus:3x3", 9, 18),
        ("hypercube:3", 8, 12),
        ("hosts:2x4", 3, 2),
        ("hosts:1,2,3", 4, 3),
        ("switch:4", 5, 4),
        ("fattree:2x2", 7, 6),
        ("kautz:2:1", 6, 9),
        ("petersen", 10, 15),
        ("without(torus:3x3, 0-1)", 9, 17),
    ],
)
def test_a_topology_becomes_hosts_switches_and_cables(spec, names, cables):
    topology = ringroad.Topology(spec)
    wiring = wired(topology)
    assert (len(wiring.names), len(wiring.cables)) == (names, cables)
    assert wiring.hosts == len(set(topology.hosts))
    joined = {pair for cable in wiring.cables for pair in (cable.ends, cable.ends[::-1])}
    for source in range(wiring.hosts):
        for target in range(wiring.hosts):
            node, hops = source, 0
            while node != target:
                following = wiring.exceptions.get((node, source, target), wiring.next_node.get((node, target)))
                assert (node, following) in joined
                node, hops = following, hops + 1
                assert hops <= topology.diameter


def test_capacities_are_those_of_all_parallel_links():
    (cable,) = wired("ring:2").cables
    assert cable.capacities == (2.0, 2.0)
    directed = wired("kautz:2:1").cables
    assert sum(capacity > 0 for cable in directed for capacity in cable.capacities) == 12


def test_every_cable_has_the_rate_of_its_link(monkeypatch):
    links = [
        (a, b, bandwidth, 1.0, 0.0, 0.0) for a, b, bandwidth in [(0, 1, 8e9), (1, 0, 8e9), (1, 2, 2e9), (2, 1, 2e9)]
    ]
    graph = ringroad.Topology._from_links("uneven", 3, 3, links, [])
    monkeypatch.setenv("RINGROAD_ALGO", "allreduce:bfb")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "mine")

    def seen(comm):
        right = total(comm, 1000)[1]
        return (
            right,
            comm.algorithm_for("allreduce", 4000),
            os.environ["GLOO_SOCKET_IFNAME"],
            os.environ["RINGROAD_ALGO"],
        )

    with (
        pytest.warns(UserWarning, match="GLOO_SOCKET_IFNAME=mine from the environment stays"),
        ringroad.testbed.emulate(graph, rate=RATE, timeout=60, env={"RINGROAD_ALGO": "allreduce:trees"}) as bed,
    ):
        rates = []
        for near, far in ((0, 1), (1, 0), (1, 2), (2, 1)):
            (queue,) = json.loads(bed.network._hosts[near].read("tc", "-json", "qdisc", "show", "dev", f"to{far}"))
            rates.append(queue["options"]["rate"])
        assert rates == [25_000_000, 25_000_000, 6_250_000, 6_250_000]
        fast, slow = (bed.network.topology._links()[at][2] for at in (0, 3))
        assert fast == 4 * slow
        for right, algorithm, device, chosen in bed.run(seen):
            assert right and algorithm.startswith("trees") and (device, chosen) == ("mine", "allreduce:trees")


@pytest.mark.parametrize("spec", ["ring:257", "ring:1"])
def test_a_network_of_another_size_is_refused(spec, refused):
    with refused(ringroad.TopologyError, 256):
        wired(spec)


def test_hosts_may_have_unequal_numbers_of_ranks_in_any_order():
    order = [5, 0, 3, 1, 2, 4]
    wiring = wired("switch:3", [1, 2, 3], order)
    assert wiring.host_of_rank == [2, 0, 2, 1, 1, 2]
    assert [wiring.ranks_of(host) for host in range(3)] == [[1], [3, 4], [0, 2, 5]]
    assert (wiring.names, len(wiring.cables)) == (["host0", "host1", "host2", "switch0"], 3)
    told = wiring.topology
    assert (told.ranks, told.nodes) == (6, 10)
    hops = [[told.route(a, b)[0] for b in range(6)] for a in range(6)]
    assert all(hops[a][b] == (2 if wiring.host_of(a) == wiring.host_of(b) else 4) for a, b in combinations(range(6), 2))


def test_ranks_of_a_graph_run_in_the_places_of_others():
    order = [2, 0, 3, 1]
    ends = {cable.ends for cable in wired("ring:4", order=order).cables}
    assert ends == {(a, b) for a, b in combinations(range(4), 2) if (order[a] - order[b]) % 2}


@pytest.mark.parametrize(
    ("counts", "order", "name"),
    [([1, 2], None, "3 hosts"), ([1, 0, 2], None, "from 1"), ([1, 2, 1], [0, 1, 2], "0 to 3")],
)
def test_ranks_without_a_place_are_refused(counts, order, name, refused):
    with refused(ringroad.TopologyError, name):
        wired("ring:3", counts, order)


# ------------------------------------------------------------------------------------------------ running


def test_what_neighbours_send_goes_over_their_cable_and_is_counted():
    count = 300_000
    with ringroad.testbed.emulate("ring:3", rate=RATE, timeout=60) as bed:
        before = [bed.carried(rank, (rank + step) % 3) for rank in range(3) for step in (1, 2)]
        for transport, right in bed.run(total, count, "ring"):
            assert right
            assert "tcp" in transport and "posix" not in transport, transport
        after = [bed.carried(rank, (rank + step) % 3) for rank in range(3) for step in (1, 2)]
    sent = np.subtract(after, before).reshape(3, 2)
    # A ring sends two thirds of the vector upwards twice, and only acknowledgements downwards.
    share = 4 * 4 * count / 3
    assert (sent[:, 0] > share).all() and (sent[:, 0] < 1.2 * share).all(), sent / share
    assert (sent[:, 1] < 0.1 * share).all(), sent / share


def test_ranks_of_a_host_share_memory_and_hosts_a_cable(refused):
    with ringroad.testbed.emulate("hosts:2x2", rate=RATE, timeout=60) as bed:
        for transport, right in bed.run(total, 100_000):
            assert right
            assert transport.startswith("shared memory (with 1 of 3 ranks)") and ", tcp (" in transport, transport
        assert bed.network.topology.spec == "hosts:2x2"
        with refused(ringroad.testbed.TestbedError, "rank 0", "host0", "rank 2", "host1"):
            bed.carried(0, 2)  # there is a switch between them


@pytest.mark.parametrize("spec", ["kautz:2:1", "fattree:2x2", pytest.param("petersen", marks=long)])
def test_any_topology_runs(spec):
    with ringroad.testbed.emulate(spec, rate=RATE, timeout=60) as bed:
        assert all(right for _, right in bed.run(total, 5000))


def test_a_slow_cable_carries_less_until_it_is_restored(refused):
    def rate(bed):
        (queue,) = json.loads(bed.network._hosts[0].read("tc", "-json", "qdisc", "show", "dev", "to1"))
        return queue["options"]["rate"]

    with ringroad.testbed.emulate("ring:3", rate=RATE, timeout=60) as bed:
        built = rate(bed)
        bed.slow(0, 1, factor=4)
        assert rate(bed) == built / 4
        assert all(right for _, right in bed.run(total, 1000))
        bed.restore()
        assert rate(bed) == built
        with refused(ValueError, 0.5):
            bed.slow(0, 1, factor=0.5)


def test_a_cut_cable_is_an_error_that_names_a_peer_and_mended_it_works_again():
    with ringroad.testbed.emulate("ring:3", rate=RATE, timeout=20) as bed:
        assert all(right for _, right in bed.run(total, 1000))
        bed.cut(0, 1)
        with pytest.raises(ringroad.WorkerError) as caught:
            bed.run(total, 1000)
        assert "rank 0" in str(caught.value) and "rank 1" in str(caught.value)
        assert re.search(r"to rank \d at 10\.[\d.:]+ by device host gets no answer", str(caught.value))
        assert all(isinstance(failure.exception, ringroad.RingroadError) for failure in caught.value.failures)
        bed.restore()
        assert all(right for _, right in bed.run(total, 1000))


RACKS = [(0, 6, 8e9), (1, 6, 8e9), (2, 6, 8e9), (3, 7, 8e9), (4, 7, 8e9), (5, 7, 2e9), (6, 7, 4e9)]


def racks():
    """Two racks of three hosts, an uplink of half the rate between them, and one host with a quarter."""
    links = [(*ends, rate, 1.0, 0.0, 0.0) for a, b, rate in RACKS for ends in ((a, b), (b, a))]
    return ringroad.Topology._from_links("racks", 6, 8, links, [])


def test_hosts_behind_bridges_see_each_other_in_one_hop_at_the_rates_of_their_cables():
    def direct(comm):
        """The ranks from which this one hears although packets may take one hop only."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
            mine.bind(("", 7000))
            mine.settimeout(20)
            mine.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
            comm.barrier()
            for rank in range(comm.size):
                if rank != comm.rank:
                    mine.sendto(bytes([comm.rank]), (f"host{rank}", 7000))
            return {mine.recv(1)[0] for _ in range(comm.size - 1)}

    with ringroad.testbed.emulate(racks(), rate=RATE, timeout=60, tell="nothing", bridges=True) as bed:
        assert bed.run(direct) == [{*range(6)} - {rank} for rank in range(6)]
        assert all(right for _, right in bed.run(total, 10_000))
        before = bed.carried("switch0", "switch1"), bed.carried("switch1", "host3")
        assert all(right for _, right in bed.run(total, 100_000, "ring"))
        assert bed.carried("switch0", "switch1") - before[0] > 4 * 100_000
        assert bed.carried("switch1", "host3") - before[1] > 4 * 100_000
        for near, device, rate in ((6, "to0", 25e6), (0, "host", 25e6), (5, "host", 6.25e6), (7, "to6", 12.5e6)):
            (queue,) = json.loads(bed.network._hosts[near].read("tc", "-json", "qdisc", "show", "dev", device))
            assert queue["options"]["rate"] == rate


def test_a_cut_cable_between_bridges_parts_the_racks():
    with ringroad.testbed.emulate("fattree:2x1", rate=RATE, timeout=2, bridges=True) as bed:
        bed.run(total, 1000)
        bed.cut("switch0", "switch2")
        with pytest.raises(ringroad.WorkerError):
            bed.run(total, 1000)
        with pytest.raises(ringroad.TopologyError):
            bed.reroute()
        bed.restore()
        assert all(right for _, right in bed.run(total, 1000))


@pytest.mark.parametrize(
    ("links", "names"),
    [
        ([(0, 2), (1, 3), (2, 3), (2, 4), (3, 4)], []),
        ([(0, 2), (1, 2), (0, 3)], ["host0", "2 cables"]),
        ([(0, 1)], ["host0"]),
    ],
)
def test_what_bridges_cannot_join_is_refused(links, names, refused):
    links = [(*ends, 1e9, 1.0, 0.0, 0.0) for a, b in links for ends in ((a, b), (b, a))]
    nodes = max(max(link[:2]) for link in links) + 1
    with refused(ringroad.TopologyError, *names):
        ringroad.testbed.emulate(ringroad.Topology._from_links("odd", 2, nodes, links, []), rate=RATE, bridges=True)


def test_all_packets_find_a_route_while_routes_change():
    """The other ones would be looked for on the device that has a host's address, and connections would break."""
    with EmulatedNetwork(ringroad.Topology("ring:4"), 25e6) as network:
        network.load(0, 2, 1e7)
        network.load(2, 0, 1e7)
        while not all(network.carried(1, host) + network.carried(3, host) for host in (0, 2)):
            pass
        for _ in range(3):
            network.cut(0, 1)
            network.reroute()
            network._fabric.follow(network.wiring)
        assert [host.read("ip", "neighbour", "show", "dev", "host") for host in network._hosts] == [""] * 4


# ------------------------------------------------------------------------------------------------ delay


def exchange(comm):
    """The least time in which a packet of rank 0 has gone to rank 1 and back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.bind(("", 7000))
        mine.settimeout(20)
        comm.barrier()
        times = []
        for _ in range(5 if comm.rank < 2 else 0):
            start = time.perf_counter()
            if comm.rank == 0:
                mine.sendto(b"x", ("host1", 7000))
            _, back = mine.recvfrom(1)
            if comm.rank == 1:
                mine.sendto(b"x", back)
            times.append(time.perf_counter() - start)
        comm.barrier()
        return min(times, default=0.0)


@pytest.mark.parametrize(("spec", "hops", "bridges"), [("ring:2", 1, False), ("switch:2", 2, True)])
def test_packets_are_on_a_cable_for_its_delay(spec, hops, bridges):
    with ringroad.testbed.emulate(spec, rate=RATE, timeout=60, delay="10ms", bridges=bridges) as bed:
        assert all(right for _, right in bed.run(total, 100_000))
        assert bed.run(exchange)[0] > 2 * hops * 0.01
        assert bed.network.topology._links()[0][4] > 0.01
        relay = bed.network._fabric.relay._processes.all[0]
    assert not is_running(relay.pid)


@pytest.mark.parametrize(("spec", "counts"), [("hosts:2x2", None), ("switch:2", [2, 2])])
def test_memory_has_no_delay(spec, counts):
    with EmulatedNetwork(ringroad.Topology(spec), 25e6, hosts=counts, delay=0.01) as network:
        links = network.topology._links()
    assert {min(source, target) < 4: latency for source, target, _, _, latency, _ in links} == {
        True: 20e-6,
        False: 0.01002,
    }
    assert network.topology.per_host == (1 if counts else 2)


def test_delays_may_be_those_of_the_links():
    links = [(0, 1, 1e9, 1.0, 0.003, 0.002), (1, 0, 1e9, 1.0, 0.0, 0.0), (1, 2, 1e9, 1.0, 1e-6, 0.0)]
    graph = ringroad.Topology._from_links("slow", 3, 3, [*links, (2, 1, *links[2][2:])], [])
    assert [cable.seconds for cable in Wiring.of(graph, [0, 1, 2]).delayed("stated").cables] == [0.005, 0.0]
    with ringroad.testbed.emulate(graph, rate=RATE, timeout=60, delay="stated") as bed:
        assert bed.network._fabric.relay._cables == [0.005]
        assert bed.run(exchange)[0] > 2 * 0.005


# ------------------------------------------------------------------------------------------------ others, and events


@pytest.mark.parametrize("bridges", [False, True])
def test_others_send_at_a_rate_until_they_end(bridges, refused):
    def awaited(bed, count):
        """Waits until the cable has carried so many bytes more. The seconds that took."""
        start, end = time.monotonic(), bed.carried("host1", "switch0") + count
        while bed.carried("host1", "switch0") < end:
            assert time.monotonic() < start + 60, "nothing is sent"
        return time.monotonic() - start

    with ringroad.testbed.emulate("switch:3", rate=RATE, timeout=60, bridges=bridges) as bed:
        bed.load(1, 2, "80Mbit")
        awaited(bed, 100_000)
        assert awaited(bed, 2_000_000) > 0.1  # at this rate it takes 0.2 s
        assert all(right for _, right in bed.run(total, 10_000))
        (load,) = bed.network._loads.values()
        (sender,) = load._processes.all
        bed.load(1, 2, 0)
        assert not is_running(sender.pid)
        bed.load("host1", "host0", 1e6)
        (load,) = bed.network._loads.values()
        (sender,) = load._processes.all
        for a, b in ((0, 0), (0, "switch0")):
            with refused(ringroad.testbed.TestbedError):
                bed.load(a, b, 1e6)
    assert not is_running(sender.pid)


def test_events_happen_while_functions_run():
    def see(comm, wanted):
        """Waits until the cable from rank 0 to rank 1 has this rate."""
        end = time.monotonic() + 60
        while comm.rank == 0 and time.monotonic() < end:
            (queue,) = json.loads(subprocess.check_output(["tc", "-json", "qdisc", "show", "dev", "to1"]))
            if queue["options"]["rate"] == wanted:
                break
        return time.monotonic() < end

    with ringroad.testbed.emulate("ring:3", rate=RATE, timeout=60) as bed:
        bed.at(0.2, "slow host0 1 4")
        assert all(bed.run(see, 6_250_000))
        bed.at(0.2, "restore")
        assert all(bed.run(see, 25_000_000))
        bed.at(1000, "cut 0 1")  # the testbed ends before
        wrong = {"slow 0 1": ValueError, "slow 0 9 4": ValueError, "load 0 0 1Mbit": ringroad.testbed.TestbedError}
        for event, error in wrong.items():
            with pytest.raises(error):
                bed.at(1, event)
        bed.cut(0, 1)
        bed.cut(1, 2)
        with pytest.warns(UserWarning, match="reroute failed"):
            bed.at(0, "reroute")
            bed._timers[-1].join()


# ------------------------------------------------------------------------------------------------ the command


def run_testbed(*arguments, **how):
    command = [sys.executable, "-m", "ringroad", "testbed", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **how)


def test_a_command_runs_on_every_rank():
    code = "import ringroad, numpy, os; c = ringroad.init(); "
    code += "line = f'{c.rank} {os.uname().nodename} {c.topology} {c.allreduce(numpy.ones(1))[0]:g}\\n'; "
    code += "os.write(1, line.encode())"
    ended = run_testbed("ring:3", "--rate", RATE, "--", sys.executable, "-c", code)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == [f"{rank} host{rank} ring:3 3" for rank in range(3)]


@pytest.mark.parametrize(
    ("tell", "told"), [("nothing", None), pytest.param("graph", 12.5e9, marks=long), ("all", 25e6)]
)
def test_ranks_are_told_of_their_network_what_shall_be_told(tell, told):
    code = "import os, ringroad, numpy; c = ringroad.init(timeout=60); right = c.allreduce(numpy.ones(1))[0] == 4; "
    code += f"names = {{'RINGROAD_STORE', *{TOLD}}} & {{*os.environ}}; "
    code += "links = [ringroad.Topology(os.environ['RINGROAD_TOPOLOGY'])._links()[0][2]] if names else None; "
    code += "os.write(1, repr((c.rank, os.environ['LOCAL_RANK'], bool(right), links)).encode() + b'\\n')"
    ended = run_testbed("hosts:2x2", "--rate", RATE, "--tell", tell, "--", sys.executable, "-c", code)
    assert ended.returncode == 0, ended.stderr
    lines = [ast.literal_eval(line) for line in sorted(ended.stdout.splitlines())]
    assert [line[:3] for line in lines] == [(rank, str(rank % 2), True) for rank in range(4)]
    for *_, links in lines:
        assert links is None if told is None else links == [pytest.approx(told, rel=0.01)]


def test_ranks_know_their_number_on_a_host():
    code = "echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname)"
    arguments = ["switch:3", "--hosts", "1,2,3", "--order", "5,0,3,1,2,4", "--rate", RATE]
    ended = run_testbed(*arguments, "--", "sh", "-c", code)
    lines = ["0 0/3 host2", "1 0/1 host0", "2 1/3 host2", "3 0/2 host1", "4 1/2 host1", "5 2/3 host2"]
    assert sorted(ended.stdout.splitlines()) == lines, ended.stderr
    show = ["sh", "-c", "echo $RANK $(hostname)"]
    runs = [run_testbed("hosts:5x2", "--shuffle", seed, "--rate", RATE, "--", *show) for seed in "001"]
    places = [sorted(run.stdout.splitlines()) for run in runs]
    assert len(places[0]) == 10 and places[0] == places[1] != places[2]


def test_untold_workers_meet_at_the_address_of_rank_0():
    with ringroad.testbed.emulate("ring:3", rate=RATE, timeout=60, tell="nothing") as bed:
        assert bed.run(lambda comm: [name for name in TOLD if name in os.environ]) == [[]] * 3
        assert all(right for _, right in bed.run(total, 1000))
        with pytest.raises(ringroad.WorkerError, match="by design"):
            bed.run(lambda comm: comm.abort("by design") or comm.barrier())
        assert all(right for _, right in bed.run(total, 1000))  # they have met again


def test_a_rank_that_fails_ends_the_others(tmp_path):
    code = f"echo $$ > {tmp_path}/$RANK; [ $RANK = 1 ] && exit 7; sleep 1000; true"
    ended = run_testbed("ring:3", "--rate", RATE, "--", "sh", "-c", code)
    assert ended.returncode == 7
    assert not any(is_running(int(path.read_text())) for path in tmp_path.iterdir())


def test_once_runs_on_the_first_host_and_reaches_the_others():
    code = "hostname; cat $OMPI_MCA_orte_default_hostfile; $OMPI_MCA_plm_rsh_agent host2 hostname"
    ended = run_testbed("ring:3", "--rate", RATE, "--once", "--", "sh", "-c", code)
    assert ended.stdout.split() == ["host0", "host0", "slots=1", "host1", "slots=1", "host2", "slots=1", "host2"]


def test_a_command_may_have_a_script(tmp_path):
    """The first rank ends when it sees the last event."""
    (tmp_path / "script").write_text("# a cable\n0.1s slow 0 1 4  # ages\n\n200ms restore\n")
    show = "tc -json qdisc show dev to1"
    code = f"[ $RANK = 0 ] || exit 0; until {show} | grep -q :12500000,; do :; done"
    script = ["--events", str(tmp_path / "script"), "--at", "0.3 slow 0 1 2", "--at", "1000 cut 0 1"]
    ended = run_testbed("ring:3", "--rate", RATE, *script, "--", "sh", "-c", code)
    lines = ["after 0.1 s: slow 0 1 4", "after 0.2 s: restore", "after 0.3 s: slow 0 1 2"]
    assert (ended.returncode, ended.stderr.splitlines()) == (0, [f"ringroad: {line}" for line in lines])


def run_until_killed(code, folder, *options):
    """Runs shell code on two ranks. Kills the testbed when both have written a file; what they have written."""
    command = [sys.executable, "-m", "ringroad", "testbed", "ring:2", "--rate", RATE, *options, "--", "sh", "-c", code]
    with subprocess.Popen(command) as process:
        while len([path for path in folder.iterdir() if path.read_text()]) < 2:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    return [path.read_text().strip() for path in folder.iterdir()]


def test_a_killed_testbed_leaves_nothing(tmp_path):
    """No rank, no relay and no sender: all of them have the same mark."""
    seen = "cat /sys/class/net/to*/statistics/?x_bytes | sort -n | tail -n 1"
    code = f"until [ $({seen}) -gt 30000 ]; do :; done; echo $_RINGROAD_TESTBED > {tmp_path}/$RANK; exec sleep 1000"
    options = ["--delay", "1ms", "--at", "0 load 0 1 10Mbit"]
    made = {text.encode() for text in run_until_killed(code, tmp_path, *options)}

    def left():
        found = set()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                found |= {mark for mark in made if mark in path.read_bytes()}
            except OSError:
                continue
        return found

    for _ in range(100_000):
        if not left():
            return
    pytest.fail(f"still there: {left()}")


def test_what_a_killed_testbed_left_ends_with_the_next_one(tmp_path):
    """Ranks end with their testbed. Processes that they have started end when another testbed starts."""
    code = f"sleep 1000 & echo $! > {tmp_path}/$RANK; wait"
    mine = subprocess.Popen(["sleep", "1000"], env=leftovers.mark())
    left = [int(text) for text in run_until_killed(code, tmp_path)]
    assert all(is_running(pid) for pid in left)
    assert run_testbed("ring:2", "--rate", RATE, "--", "true").returncode == 0
    assert not any(is_running(pid) for pid in left)
    assert is_running(mine.pid)  # it belongs to a process that has not ended
    mine.kill()
    mine.wait()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ring:260", "--rate", RATE, "--", "true"), "from 2 to 256 ranks"),
        (("ring:3", "--rate", "fast", "--", "true"), "not a bandwidth"),
        (("ring:3", "--rate", "1e3", "--", "true"), "too little"),
        (("ring:3", "--rate", RATE, "--tell", "much", "--", "true"), "nothing"),
        (("ring:3", "--rate", RATE, "--hosts", "1,two,3", "--", "true"), "not a list of whole numbers"),
        (("ring:3", "--rate", RATE, "--order", "0,1", "--", "true"), "from 0 to 2 once"),
        (("ring:3", "--rate", RATE, "--at", "3s slow 0 1", "--", "true"), "slow A B FACTOR"),
        (("ring:4", "--rate", RATE, "--at", "3s slow 0 2 4", "--", "true"), "no cable leads from rank 0"),
        (("ring:3", "--rate", RATE, "--at", "slow 0 1 4", "--", "true"), "not a time"),
        (("ring:3", "--rate", RATE, "--delay", "1us", "--", "true"), "from 0.0001 to 10"),
    ],
)
def test_what_makes_no_sense_is_said(arguments, text):
    ended = run_testbed(*arguments)
    assert ended.returncode == 2 and text in ended.stderr


def test_without_root_it_says_what_is_missing(monkeypatch, refused):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with refused(ringroad.testbed.TestbedError, "unshare --user --map-root-user"):
        namespaces.require()


def test_a_user_who_may_have_a_user_namespace_needs_no_root():
    """The command starts itself again in a user namespace."""
    user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    options = ["ring:2", "--rate", RATE, "--delay", "1ms"]
    command = [*user, sys.executable, "-m", "ringroad", "testbed", *options, "--", "hostname"]
    tried = subprocess.run([*user, "unshare", "--user", "--map-root-user", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"users may have no user namespaces here: {tried.stderr}")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert sorted(ended.stdout.split()) == ["host0", "host1"], ended.stderr


def test_packets_are_led_around_a_cut_cable_until_it_is_restored():
    with ringroad.testbed.emulate("ring:4", rate=RATE, timeout=5) as bed:
        bed.run(total, 1000)
        bed.cut(0, 1)
        bed.reroute()
        before = bed.carried(0, 3)
        assert all(right for _, right in bed.run(total, 100_000, "ring"))
        assert bed.carried(0, 3) - before > 4 * 100_000  # the bytes that rank 0 sends to rank 1
        bed.restore()
        before = bed.carried(0, 1)
        assert all(right for _, right in bed.run(total, 100_000, "ring"))
        assert bed.carried(0, 1) - before > 4 * 100_000
        bed.cut(0, 1)
        bed.cut(2, 3)
        with pytest.raises(ringroad.TopologyError):
            bed.reroute()
