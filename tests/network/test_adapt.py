"""Changes of the network while calls run: emulated cables become slow, are cut, and recover."""

import hashlib
import time

import numpy as np
import pytest
import ringroad
from helpers import FULL, needs_testbed

COUNT = 96 << 10
"""Elements of a call, which then takes some tens of milliseconds."""
ADAPTS = {"RINGROAD_BUDGET": "adaptation=500ms"}
"""Also on a network that is named."""


@pytest.fixture(scope="module", autouse=True)
def permitted():
    needs_testbed()


def call_until(comm, changes, most):
    """Calls until the network has changed so often, or so many times. All ranks call equally often, since all see a
    change before the same call. Returns whether all sums were right, a digest of all results, and the network."""
    array = (np.arange(COUNT) % 1000 + comm.rank).astype(np.float32)
    expected = comm.size * (np.arange(COUNT) % 1000) + comm.size * (comm.size - 1) / 2
    digest, right, calls = hashlib.sha256(), True, 0
    while calls < most and len(comm.network.changes) < changes:
        result = comm.allreduce(array)
        right = right and bool((result == expected).all())
        digest.update(result.tobytes())
        calls += 1
    view = comm.network
    links = [[tuple(link) for link in change.links] for change in view.changes]
    return right, digest.hexdigest(), calls, view.topology.spec, view.origin, view.watched, links


def same_on_all(results):
    right, *rest = zip(*results, strict=True)
    assert all(right)
    for values in rest:
        assert all(value == values[0] for value in values), values
    return results[0][2:]


def test_a_slow_cable_is_noticed_and_its_recovery_too():
    with ringroad.testbed.emulate("ring:4", rate="100Mbit", timeout=120, env=ADAPTS) as bed:
        calls, spec, origin, watched, before = same_on_all(bed.run(call_until, 1000, 30))
        assert (calls, spec.split(",")[0], origin, watched) == (30, "ring:4", "given", True)
        bed.slow(0, 1, factor=5)
        *_, spec, _, _, links = same_on_all(bed.run(call_until, len(before) + 1, 600))
        slowed = {(source, target): now / then for source, target, then, now in links[-1]}
        assert spec == "graph:changed" and {slowed.get((0, 1)), slowed.get((1, 0))} != {None}, links
        assert all(factor < 0.6 for ends, factor in slowed.items() if set(ends) == {0, 1}), slowed
        if not FULL:
            return  # how soon calls show a faster cable depends on how busy this machine is
        bed.restore()
        *_, spec, _, _, again = same_on_all(bed.run(call_until, len(links) + 1, 600))
        mended = {(source, target): now / then for source, target, then, now in again[-1]}
        assert len(again) > len(links) and any(mended.get(ends, 0) > 1.6 for ends in [(0, 1), (1, 0)]), again


def test_a_cable_that_is_routed_around_is_another_network():
    with ringroad.testbed.emulate("ring:4", rate="100Mbit", timeout=120, env=ADAPTS) as bed:
        *_, before = same_on_all(bed.run(call_until, 1000, 30))
        bed.cut(2, 3)
        bed.reroute()
        *_, links = same_on_all(bed.run(call_until, len(before) + 1, 600))
        assert (2, 3, 0.0) in {(source, target, now) for source, target, _, now in links[-1]}, links


def late_calls(comm, most=100):
    """Rank 1 is late, call after call, until all ranks know."""
    array = np.ones(COUNT // 8, np.float32)
    for _ in range(30):
        comm.allreduce(array)
    while most and not comm.network.stragglers:
        if comm.rank == 1:
            time.sleep(0.2)
        comm.allreduce(array)
        most -= 1
    return comm.network


def test_a_rank_that_is_late_is_no_slow_link():
    with ringroad.testbed.emulate("ring:4", rate="100Mbit", timeout=120, env=ADAPTS) as bed:
        views = bed.run(late_calls)
    assert all(view.stragglers == views[0].stragglers for view in views)
    late = views[0].stragglers[-1]
    assert 1 in late.ranks and late.ratio > 1.5 and late.call > 30, late


@pytest.mark.parametrize("setting", [{"RINGROAD_BUDGET": "adaptation=0"}, {"RINGROAD_TOPOLOGY": "off"}])
def test_nothing_is_watched_if_nobody_wants_it(setting):
    with ringroad.testbed.emulate("ring:2", rate="100Mbit", timeout=120, env=setting, tell="nothing") as bed:
        assert not any(bed.run(lambda comm: comm.network.watched))


def test_within_a_host_nothing_is_watched():
    (alone,) = ringroad.Communicator.in_process(1)
    view = alone.network
    assert (view.watched, view.changes, view.topology) == (False, [], ringroad.Topology(alone.topology))
