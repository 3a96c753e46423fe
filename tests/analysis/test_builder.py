"""`ringroad.ScheduleBuilder`: what is made by hand verifies, costs, simulates and runs like any other schedule."""

import numpy as np
import pytest
import ringroad
from hypothesis import given, settings
from hypothesis import strategies as st
from ringroad import ScheduleError


def ring(ranks):
    builder = ringroad.ScheduleBuilder("my ring", ranks, chunks=ranks)
    for k in range(ranks - 1):
        step = builder.step()
        for rank in range(ranks):
            step.reduce(rank, (rank + 1) % ranks, (rank - k) % ranks)
    for k in range(ranks - 1):
        step = builder.step()
        for rank in range(ranks):
            step.copy(rank, (rank + 1) % ranks, (rank + 1 - k) % ranks)
    return builder.build()


def all_to_one_with_slots():
    """Rank 0 keeps what it receives apart, and adds it up by local operations."""
    builder = ringroad.ScheduleBuilder("apart", 3, "reduce")
    step = builder.step()
    step.copy(1, 0, 0, into_slot=1)
    step.copy(2, 0, 0, into_slot=2)
    step.reduce(0, 0, 0, from_slot=2, into_slot=1)
    step.reduce(0, 0, 0, from_slot=1)
    return builder.build()


def test_a_ring_by_hand_costs_as_much_as_ours():
    mine, ours = ring(5), ringroad.Schedule.build("ring", 5)
    mine.verify()
    assert (mine.steps, mine.max_sent, mine.ports) == (ours.steps, ours.max_sent, ours.ports)
    model, topology = ringroad.CostModel(), ringroad.Topology("ring:5")
    assert model.cost(mine, topology, 1 << 20) == model.cost(ours, topology, 1 << 20)
    assert (
        ringroad.lab.simulate(mine, "ring:5", "1MiB").seconds == ringroad.lab.simulate(ours, "ring:5", "1MiB").seconds
    )


def sum_of_ranks(comm, schedule):
    return comm.allreduce(np.arange(7) + comm.rank, algorithm=schedule)


def reduced(comm, schedule):
    return comm.reduce(np.arange(7) + comm.rank, algorithm=schedule)


def test_runs():
    with ringroad.local(3) as cluster:
        for result in cluster.run(sum_of_ranks, ring(3)):
            np.testing.assert_array_equal(result, 3 * np.arange(7) + 3)
        apart = all_to_one_with_slots()
        apart.verify()
        assert apart.slots == 3
        np.testing.assert_array_equal(cluster.run(reduced, apart)[0], 3 * np.arange(7) + 3)


def test_ports_lead_to_neighbours():
    builder = ringroad.ScheduleBuilder("ports", "torus:4x4", chunks=1)
    step = builder.step()
    for destination in (4, 12, 1, 3, 5):
        step.reduce(0, destination, 0)
    step.reduce(0, 8, 0, port=3)
    step.reduce(0, 15, 0)
    assert [send[5] for send in builder.build().sends()] == [0, 1, 2, 3, 0, 3, 1]


@pytest.mark.parametrize(
    ("algorithm", "topology"), [("swing", "ring:8"), ("swing", "torus:4x4"), ("bfb", "hyperx:3x3")]
)
def test_ports_are_those_of_our_algorithms(algorithm, topology):
    ours = ringroad.Schedule.build(algorithm, topology)
    builder = ringroad.ScheduleBuilder("again", topology, chunks=ours.chunks)
    steps = [builder.step() for _ in range(ours.steps)]
    for number, source, destination, chunks, action, *_ in ours.sends():
        add = steps[number].copy if action == "copy" else steps[number].reduce
        add(source, destination, chunks)
    model = ringroad.CostModel()
    assert model.cost(builder.build(), topology, 1 << 20) == model.cost(ours, topology, 1 << 20)


@pytest.mark.parametrize("algorithm", ["ring", "swing", "trivance-latency", "direct-ordered"])
def test_sends_and_locals_make_the_schedule_again(algorithm):
    schedule = ringroad.Schedule.build(algorithm, "torus:4x4").expand()
    assert bool(schedule.locals()) == (algorithm not in ("ring", "swing"))
    again = ringroad.Schedule.from_sends(
        schedule.name,
        schedule.ranks,
        schedule.chunks,
        [list(send) for send in schedule.sends()],  # as JSON has them
        schedule.locals(),
        schedule.collective,
    )
    assert again == schedule


def test_a_wrong_schedule_says_where(refused):
    builder = ringroad.ScheduleBuilder("lossy", 3, "allgather")
    builder.step().copy(0, 1, 0)
    with refused(ScheduleError, "rank 0"):
        builder.build().verify()
    builder = ringroad.ScheduleBuilder("doubled", 2)
    for _ in range(2):
        builder.step().reduce(0, 1, 0)
    with refused(ScheduleError, "step 1"):
        builder.build().verify()


def test_steps_without_messages_are_left_out():
    builder = ringroad.ScheduleBuilder("swap", 2, "allgather")
    builder.step()
    step = builder.step()
    step.copy(0, 1, 0)
    step.copy(1, 0, np.arange(1, 2))
    schedule = builder.build()
    schedule.verify()
    assert schedule.steps == 1


@pytest.mark.parametrize(
    ("arguments", "options", "names"),
    [
        ((0, 4, 0), {}, ["step 0", "copy 0→4", "rank 4", "0 to 3"]),
        ((-1, 2, 0), {}, ["rank -1"]),
        ((0, 1, 4), {}, ["chunk 4", "0 to 3"]),
        ((0, 1, [0, -1]), {}, ["chunk -1"]),
        ((0, 1, []), {}, ["chunks"]),
        ((2, 2, 0), {}, ["slots"]),
        ((0, 1, 0), {"port": -1}, ["port -1"]),
        ((0, 1, 0), {"port": 1.5}, ["port", 1.5]),
        ((0, 1, 0), {"into_slot": -2}, ["slot -2"]),
        ((0, 1, 0), {"into_slot": 1 << 70}, [f"slot {1 << 70}", "0 to 16383"]),
        (("0", 1, 0), {}, ["rank", "'0'"]),
        ((0, 1, 0.5), {}, ["chunk", 0.5]),
        ((0, 1, "2"), {}, ["chunk", "'2'"]),
    ],
)
def test_what_does_not_exist_is_refused_at_once(arguments, options, names, refused):
    builder = ringroad.ScheduleBuilder("mine", 4, chunks=4)
    with refused(ScheduleError, *names):
        builder.step().copy(*arguments, **options)
    builder.step().reduce(0, 1, 0)
    assert builder.build().steps == 1


@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({"collective": "allgather", "chunks": 6}, ScheduleError, ["4 chunks", 6]),
        ({"chunks": 0}, ScheduleError, []),
        ({"chunks": -4}, ValueError, ["-4", "'chunks'"]),
        ({"chunks": 1 << 70}, ValueError, ["'chunks'"]),
        ({"collective": "broadcast", "root": 4}, ScheduleError, ["root 4", "4 ranks"]),
        ({"collective": "broadcast", "root": -1}, ValueError, ["-1", "'root'"]),
        ({"collective": "foo"}, ValueError, ["foo"]),
    ],
)
def test_a_builder_refuses_what_cannot_be(options, error, names, refused):
    with refused(error, *names) as raised:
        ringroad.ScheduleBuilder("mine", 4, **options)
    assert raised.type is error


@pytest.mark.parametrize(
    ("send", "names"),
    [
        ((0, 0, 1, [0], "add", 0, 0, 0), ["copy", "reduce", "add"]),
        ((0, 0, 1, [0], "copy", 0, 0, 1 << 20), ["slot"]),
        ((0, 0, 2, [0], "copy", 0, 0, 0), ["0→2", "2 ranks"]),
        ((0, 0, -1, [0], "copy", 0, 0, 0), ["sends[0]", "step", "source"]),
        ((0, 0, 1, [0], "copy"), ["sends[0]", "step", "source"]),
        ((0, 0, 1, [1 << 64 - 1, 5, 3], "copy", 0, 0, 0), ["sends[0]", "chunk"]),
        ((0, 0, 1, [], "copy", 0, 0, 0), []),
        (7, ["sends[0]", 7]),
    ],
)
def test_messages_are_checked(send, names, refused):
    with refused(ScheduleError, *names):
        ringroad.Schedule.from_sends("mine", 2, 8, [send])


def test_ports_of_ranks_that_do_not_exist_are_refused(refused):
    for pair, rank in (((0, 9), 9), ((-1, 0), -1)):
        with refused(ringroad.TopologyError, f"rank {rank}"):
            ringroad.Topology("ring:9").port_towards(*pair)


@settings(max_examples=100, deadline=None)
@given(
    sends=st.lists(
        st.tuples(
            st.integers(0, 5),
            st.integers(0, 3),
            st.integers(0, 3),
            st.lists(st.integers(0, 4) | st.just(2**64 - 1), max_size=3),
            st.sampled_from(["copy", "reduce"]),
            st.integers(0, 3),
            st.integers(0, 2),
            st.integers(0, 2),
        ),
        max_size=6,
    )
)
def test_any_messages_make_a_schedule_or_an_error(sends):
    try:
        schedule = ringroad.Schedule.from_sends("any", 4, 4, sends)
        assert ringroad.Schedule.from_json(schedule.to_json()) == schedule
        schedule.verify()
    except ScheduleError:
        pass
