"""Whether ranks hold the same bits: what differs, where, and repair from the majority."""

import random

import numpy as np
import pytest
import ringroad
from helpers import TRANSPORTS, failure_of, in_threads
from ringroad import _native, _replicas
from ringroad._oracle import DTYPES, dtype_of
from ringroad._replicas import ReplicaPart

STRANGE = ["S5", "U3", "datetime64[ns]", "m8[s]", ">i4", "longdouble", [("a", "i1"), ("b", "f8", (2,))], "V3"]


def zoo():
    """Arrays of every dtype and of other kinds, the same on all ranks: empty, of no dimension, strided."""
    rng = np.random.default_rng(5)
    kinds = [*map(dtype_of, DTYPES), *map(np.dtype, STRANGE)]
    arrays = [np.frombuffer(rng.bytes(24 * kind.itemsize), kind).copy().reshape(4, 6) for kind in kinds]
    arrays += [np.zeros(0), np.zeros((3, 0), "f4"), np.array(2.5), np.empty(4, "V0")]
    grids = [np.arange(600).reshape(10, 60) for _ in range(4)]
    strided = [grids[0][::2], grids[1][:, ::-7], grids[2].T[3:9], np.asfortranarray(grids[3])]
    return [*arrays, *strided, np.arange(100_003)]


def spoil(array, seed):
    """Flips one bit of one element, wherever it lies in memory."""
    place = (slice(at, at + 1) for at in map(random.Random(seed).randrange, array.shape))
    array[(..., *place)].reshape(-1).view(np.uint8)[seed % array.itemsize] ^= 1 << seed % 8


def check_zoo(comm):
    """Every array in turn is spoiled on one rank, found, and repaired."""
    arrays, kept = zoo(), zoo()
    found = comm.check_replicas(arrays)
    assert found.same and not found.repaired and not found.differences
    assert (found.arrays, found.bytes) == (len(arrays), sum(array.nbytes for array in arrays))
    assert str(found) == f"all {len(arrays)} arrays are the same on all ranks"
    for index, array in enumerate(arrays):
        if array.nbytes == 0:
            continue
        bad = index % comm.size
        if comm.rank == bad:
            spoil(array, index)
            assert array.tobytes() != kept[index].tobytes(), array.dtype
        good = [rank for rank in range(comm.size) if rank != bad]
        found = comm.check_replicas(arrays)
        (difference,) = found.differences
        assert difference.groups == [good, [bad]] and difference.name == f"arrays[{index}]"
        assert (difference.majority, difference.minority) == (good, [bad]) and not (found.same or found.repaired)
        assert str(found) == f"1 of {len(arrays)} arrays differ\n  arrays[{index}]: rank {bad} differs from the others"
        found = comm.check_replicas(arrays, repair=True)
        assert found.differences == [difference] and found.repaired
        assert all(left.tobytes() == right.tobytes() for left, right in zip(arrays, kept, strict=True))
    return True


@pytest.mark.parametrize("ranks", [3, 4])
def test_every_kind_of_array(ranks):
    assert all(in_threads(ranks, check_zoo, timeout=60))


def check_many(comm):
    """Several arrays on several ranks, and what has no majority."""
    assert comm.check_replicas([]).same and comm.check_replicas({}, repair=True).arrays == 0
    assert comm.check_replicas([1, [2.0, 3.0], np.float32(4)]).same
    state = {name: np.arange(5.0) + (comm.rank in ranks) for name, ranks in {"a": [], "b": [0], "c": [2, 4]}.items()}
    found = comm.check_replicas(state, repair=True)
    assert [(one.name, one.groups) for one in found.differences] == [
        ("b", [[1, 2, 3, 4], [0]]),
        ("c", [[0, 1, 3], [2, 4]]),
    ]
    assert all(np.array_equal(array, np.arange(5.0)) for array in state.values())

    pairs = [np.ones(3), np.full(3, comm.rank // 2)]  # 0 0 1 1 2
    pairs[0][0] += comm.rank == 3
    before = [array.copy() for array in pairs]
    found = comm.check_replicas(pairs)
    assert found.differences[1].groups == [[0, 1], [2, 3], [4]]
    assert found.differences[1].majority == [] and found.differences[1].minority == [0, 1, 2, 3, 4]
    kind, text = failure_of(lambda: comm.check_replicas(pairs, repair=True))
    assert kind == "ReplicaError" and "arrays[1]: no majority; the same bits are on ranks 0-1 / ranks 2-3" in text
    assert "arrays[0]" not in text and all(map(np.array_equal, pairs, before)), text

    nan = np.array([0x7FC00000 + (comm.rank == 1), 0x80000000 * (comm.rank == 2)], np.uint32).view(np.float32)
    assert comm.check_replicas([nan[:1], nan[1:]]).differences == [
        ringroad.results.ReplicaDifference("arrays[0]", [[0, 2, 3, 4], [1]]),
        ringroad.results.ReplicaDifference("arrays[1]", [[0, 1, 3, 4], [2]]),
    ]
    return comm.allreduce(1).item()


def test_several_differences():
    assert in_threads(5, check_many, timeout=60) == [5] * 5


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_between_processes(clusters, transport):
    def check(comm):
        arrays = [np.arange(300_000.0), np.full((100, 7), 3, "i2")[:, ::2]]
        arrays[1][4, 2] += comm.rank == 2
        found = comm.check_replicas(arrays, repair=True)
        return found, comm.check_replicas(arrays).same, int(arrays[1][4, 2])

    difference = ringroad.results.ReplicaDifference("arrays[1]", [[0, 1], [2]])
    expected = ringroad.results.ReplicaCheck(2, 2_400_000 + 100 * 4 * 2, [difference], repaired=True)
    assert clusters(3, transport).run(check) == [(expected, True, 3)] * 3


ONES = np.ones(3)
READ_ONLY = np.ones(3)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("usual", "odd", "repair", "words"),
    [
        (
            [ONES, ONES],
            [ONES],
            [False] * 3,
            "array 1 is arrays[1], float64 of shape (3,) on ranks 0, 2; nothing on",
        ),
        ([ONES], [], [False] * 3, "nothing on rank 1"),
        (
            [ONES],
            [np.ones(4)],
            [False] * 3,
            "float64 of shape (3,) on ranks 0, 2; arrays[0], float64 of shape (4,)",
        ),
        ([ONES], [np.ones(3, "f4")], [False] * 3, "float32 of shape (3,) on rank 1"),
        ({"a": ONES}, {"b": ONES}, [False] * 3, "a, float64 of shape (3,) on ranks 0, 2; b, float64"),
        ([ONES], [ONES], [False, True, False], "repair is False on ranks 0, 2; True on rank 1"),
        ([ONES], [np.array([None])], [False] * 3, "rank 1: arrays[0] has dtype object"),
        ([ONES], [np.ma.ones(3)], [False] * 3, "rank 1: arrays[0] is a masked array"),
        ([ONES], [READ_ONLY], [True] * 3, "rank 1: arrays[0] is read-only"),
        (
            [ONES],
            [[1.0, 1.0, 1.0]],
            [True] * 3,
            "rank 1: arrays[0] must be a NumPy array that can be written",
        ),
        ([ONES], ONES, [False] * 3, "rank 1: arrays must be a list"),
        ([ONES], 7, [False] * 3, "rank 1: arrays must be a list, not 7"),
    ],
)
def test_different_arrays(usual, odd, repair, words):
    """All ranks raise the same error, and go on."""

    def check(comm):
        arrays = odd if comm.rank == 1 else usual
        error = failure_of(lambda: comm.check_replicas(arrays, repair=repair[comm.rank]))
        return error, comm.allreduce(1).item()

    errors = in_threads(3, check, timeout=60)
    assert errors == [errors[0]] * 3 and errors[0][1] == 3
    kind, text = errors[0][0]
    assert kind == "ReplicaError" and words in text, text


def test_a_repair_that_does_not_hold():
    """Memory that loses what is written to it, as broken memory may, is not called repaired."""

    def check(comm):
        array = np.full(3, comm.rank == 2)
        lossy = ReplicaPart("weight", "anything", array.nbytes, lambda: array.view(np.uint8).copy(), lambda bits: None)
        return failure_of(lambda: _replicas.check(comm, lambda: [lossy], True, None))

    errors = in_threads(3, check, timeout=60)
    assert errors == [errors[0]] * 3
    assert errors[0][0] == "ReplicaError" and "still differ after the repair of weight" in errors[0][1]


def test_deadlines_and_losses():
    a, b = ringroad.Communicator.in_process(2)
    assert failure_of(lambda: a.check_replicas([], timeout=0))[0] == "ValueError"
    assert failure_of(lambda: a.check_replicas([], timeout=0.1))[0] == "TimeoutError"
    a, b = ringroad.Communicator.in_process(2)
    b.close()
    kind, text = failure_of(lambda: a.check_replicas([]))
    assert kind == "PeerError" and "rank 1" in text


def test_a_digest_is_that_of_the_bytes():
    assert _native.digest(np.frombuffer(b"", np.uint8))[::-1].hex() == "99aa06d3014798d86001c324468d497f"
    assert _native.digest(np.arange(4.0)) == _native.digest(np.arange(4.0).view(np.uint8))
    for wrong, kind in ((np.ones((4, 4))[:, 1], "ValueError"), ([1], "TypeError"), (np.array([None]), "TypeError")):
        assert failure_of(lambda wrong=wrong: _native.digest(wrong))[0] == kind
