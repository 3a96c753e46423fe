"""How the members of an elastic group come to the same step and state, in threads of one process."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import ringroad
from ringroad.start.state import Arrays, Progress


def level(members):
    """Levels the members. Returns the errors."""

    def one(comm):
        try:
            members[comm.rank].level(comm, comm.size)
        except ringroad.ReplicaError as error:
            return str(error)

    comms = ringroad.Communicator.in_process(len(members), timeout=60)
    with ThreadPoolExecutor(len(members)) as pool:
        return list(pool.map(one, comms))


def made(holds, length=100_000):
    """Members that hold the same state, or that are new, and their arrays."""
    random = np.random.default_rng(1)
    state = {"long": random.random(length), "same": np.arange(5), "none": np.zeros(0), "short": random.random(3)}
    arrays = [{k: v.copy() if here or k == "same" else np.zeros_like(v) for k, v in state.items()} for here in holds]
    members = [Progress(Arrays(one)) for one in arrays]
    for member, here in zip(members, holds, strict=True):
        member.begin(here)
    return members, arrays


def assert_same(arrays):
    assert len({b"".join(array.tobytes() for array in one.values()) for one in arrays}) == 1


def test_newcomers_and_wrong_bits():
    members, arrays = made([True, True, False, True, False])
    arrays[1]["short"][1] += 1e-9
    assert level(members) == [None] * 5
    assert_same(arrays)
    assert arrays[0]["short"][1] == arrays[1]["short"][1]


def test_no_majority():
    members, arrays = made([True, False, True])
    arrays[0]["short"][1] += 1e-9
    assert all("no majority" in error for error in level(members))


def test_nobody_holds_the_state():
    assert all("none of the members" in error for error in level(made([False, False])[0]))


def test_other_arrays(refused):
    members, _ = made([True, False])
    members[1] = Progress(Arrays({"long": np.zeros(3)}))
    comms = ringroad.Communicator.in_process(2, timeout=60)
    with ThreadPoolExecutor(2) as pool:
        works = [pool.submit(member.level, comm, comm.size) for member, comm in zip(members, comms, strict=True)]
        with refused(ringroad.ReplicaError):
            works[1].result()
        comms[1].close()
        with pytest.raises(ringroad.PeerError):
            works[0].result()


@pytest.mark.parametrize("committed", [True, False])
def test_a_step_counts_if_one_member_has_committed_it(committed):
    members, arrays = made([True, True, True, False])
    for member, own in zip(members[:3], arrays, strict=False):
        member.has(lambda own=own: np.add(own["short"], 1, out=own["short"]))
    if committed:
        members[1].commit()
    assert level(members) == [None] * 4
    assert_same(arrays)
    assert {member.step for member in members} == {int(committed)}
    assert (arrays[0]["short"] > 1).all() == committed
