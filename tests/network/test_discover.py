"""What ranks find out about a network that nobody names to them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import ringroad
from helpers import are_measured, needs_testbed
from ringroad._discovery import DiscoveredLink, Discovery
from ringroad.doctor import comparison, pairs
from ringroad.doctor.roster import RankInfo, Roster

RATE = 100e6 / 8


@pytest.fixture
def permitted():
    needs_testbed()


def cables(found, first=0):
    """The links between nodes from `first` on."""
    return {(link.source, link.target) for link in found.links if min(link.source, link.target) >= first}


def of_topology(spec, order):
    """The links of a network on which rank r is at the place order[r]."""
    rank = {place: rank for rank, place in enumerate(order)}
    return {(rank[a], rank[b]) for a, b, *_ in ringroad.Topology(spec).links}


def looked(comm):
    found = ringroad.discover(comm, budget=0.5)
    total = comm.allreduce(np.arange(9.0) + comm.rank)
    return found, comm.size, total.tolist()


@pytest.mark.parametrize(("spec", "order"), [("mesh:3x2", [3, 0, 5, 1, 4, 2])])
def test_the_graph_is_found_in_whatever_order_its_ranks_are_placed(permitted, spec, order):
    with ringroad.testbed.emulate(spec, rate="100Mbit", tell="nothing", order=order) as bed:
        everybody = bed.run(looked)
    found, ranks, total = everybody[0]
    assert all(other == found for other, _, _ in everybody), "all ranks have the same result"
    assert ranks == len(order) and total == [sum(range(ranks)) + ranks * place for place in range(9)]
    assert cables(found) == of_topology(spec, order) and found.topology.ranks == ranks
    # Each route is one that the emulated network takes: a shortest path.
    assert found.topology.diameter == ringroad.Topology(spec).diameter
    # The machine may be too busy to fill its cables, but it cannot fill them more.
    assert all(0 < link.bandwidth < 1.1 * RATE for link in found.links)
    assert are_measured(found)


def test_hosts_behind_a_switch_without_an_address(permitted):
    with ringroad.testbed.emulate("switch:3", rate="100Mbit", tell="nothing", bridges=True, hosts=[1, 2, 1]) as bed:
        for _ in range(3):  # a busy machine disturbs measurements
            found, ranks, total = bed.run(looked)[0]
            assert ranks == 4 and total == [6 + 4.0 * place for place in range(9)]
            if found.topology.hosts == [0, 1, 1, 2]:
                break
        else:
            raise AssertionError(found)


def test_the_command_writes_what_rank_0_found(permitted, tmp_path):
    file, saved = tmp_path / "found.json", tmp_path / "network.json"
    command = [sys.executable, "-m", "ringroad"]
    testbed = [*command, "testbed", "ring:4", "--rate", "100Mbit", "--tell", "nothing", "--"]
    discover = [*command, "discover", "--budget", "300ms", "--json", str(file), "--save", str(saved)]
    ended = subprocess.run([*testbed, *discover], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "Mbit/s" in ended.stdout and "measured" in ended.stdout
    written = json.loads(file.read_text())
    assert written["ranks"] == 4 and {"topology", "positions", "how"} < set(written)
    assert {(a, b) for a, b, _, _ in written["links"]} == of_topology("ring:4", range(4))
    assert all(rate > 0 and seconds > 0 for _, _, rate, seconds in written["links"])
    assert ringroad.Topology(str(saved)).ranks == 4


def doctor_says(view):
    """The finding of a job's ranks that have this view of their network."""
    infos = {rank: RankInfo(rank, f"host{rank}", 1, "", {}, {}) for rank in range(4)}
    (finding,) = comparison.network(Roster(4, infos), {0: pairs.PairFindings(**pairs._network(view))})
    return finding.verdict, finding.found, finding.remedy


def views(bed):
    first, *others = bed.run(lambda comm: comm.network)
    assert all(other.mismatch == first.mismatch for other in others), "all ranks have the same"
    return first


def links(view):
    return {(link.source, link.target): link for link in view.mismatch.links} if view.mismatch else {}


def differing(topology, slow=frozenset(), **options):
    """The view of ranks whose network differs from its name, at least in these links. Where cores are busy nothing is
    called wrong, or too much, so they look again."""
    for _ in range(8):
        with ringroad.testbed.emulate(topology, tell="nothing", **options) as bed:
            assert bed.run(lambda comm: comm.allreduce(1).item()) == [4] * 4
            view = views(bed)
        if view.mismatch and view.mismatch.spec and slow <= set(links(view)):
            break
    return view


def test_a_wrong_name_is_a_warning(permitted, capfd):
    view = differing("ring:4", rate="100Mbit", env={"RINGROAD_TOPOLOGY": "complete:4"})
    told = capfd.readouterr().err
    assert "the network is not complete:4" in told and "no link leads from rank 0 to rank 2" in told
    assert "set RINGROAD_TOPOLOGY=ring:4" in told
    missing = {(link.source, link.target) for link in view.mismatch.links if link.found == 0}
    assert missing == {(0, 2), (2, 0), (1, 3), (3, 1)} and not view.mismatch.is_reordered
    verdict, found, remedy = doctor_says(view)
    assert verdict == "warning" and "no link leads from rank 1 to rank 3" in found and "=ring:4," in remedy


def test_a_wrong_order_and_a_slow_link_are_told(permitted):
    """The doctor says which setting is right."""
    env = {"RINGROAD_TOPOLOGY": "ring:4,bandwidth=50Mbit/s"}
    view = differing("ring:4", rate="50Mbit", order=[0, 2, 1, 3], env=env)
    assert view.mismatch.is_reordered and view.mismatch.spec.endswith("@0,2,1,3")
    ends = {frozenset(link[:2]) for link in ringroad.Topology(view.mismatch.spec).links}
    assert ends == {frozenset(pair) for pair in [(0, 2), (2, 1), (1, 3), (3, 0)]}
    _, found, remedy = doctor_says(view)
    assert "another order" in found and f"RINGROAD_TOPOLOGY={view.mismatch.spec}" in remedy
    view = differing("ring:4,0-1=15Gbit/s", {(0, 1), (1, 0)}, rate="50Mbit", env=env)
    slow = links(view)
    assert {(0, 1), (1, 0)} <= set(slow) and not view.mismatch.is_reordered
    assert all(link.found < 0.3 * link.named for link in slow.values())
    _, found, remedy = doctor_says(view)
    assert "the link from rank 0 to rank 1 carries" in found and f"RINGROAD_TOPOLOGY={view.mismatch.spec}" in remedy


def test_ranks_of_one_host_have_nothing_to_find(tmp_path):
    with ringroad.local(2) as cluster:
        first, second = cluster.run(lambda comm: ringroad.discover(comm, budget=0))
    assert first == second and first.topology.ranks == 2 and first.topology.hosts == [0, 0]


def test_a_discovery_is_written_in_words():
    topology = ringroad.Topology("ring:3")
    ring = [DiscoveredLink(a, b, RATE, 2e-5, "measured", 0.01) for a, b, *_ in topology.links]
    found = Discovery(topology, "ring:3", [1, 0, 2], ring, ["a note"], {})
    assert repr(found) == "<Discovery ring:3, 6 links of 100 Mbit/s>"
    assert found.lines() == [
        "ring:3 of 3 ranks",
        "ranks are at the positions 1,0,2",
        "the median latency of a link is 20 us",
        "a note",
    ]
    assert found.to_dict()["links"][0] == [*topology.links[0][:2], RATE, 2e-5]


def test_budgets_are_checked(refused):
    with ringroad.Communicator.in_process(1)[0] as comm, refused(ValueError, "budget"):
        ringroad.discover(comm, budget=-1.0)
