"""Reductions of one's own: NumPy's ufuncs, functions of two arrays, extremes with their places."""

import functools
import itertools

import numpy as np
import pytest
import ringroad
from helpers import OWN, TRANSPORTS, in_threads

AFFINE = np.dtype([("scale", "f8"), ("shift", "f4")])
PLACED = np.dtype([("value", "f8"), ("index", "i4")])


def steps(a, b):
    """Neither commutative nor associative."""
    return a * np.float32(0.75) - b


def compose(a, b):
    """Maps x -> scale * x + shift, one after the other: associative up to rounding, but not commutative."""
    found = np.empty_like(a)
    found["scale"] = a["scale"] * b["scale"]
    found["shift"] = a["shift"] * b["scale"] + b["shift"]
    return found


def rank_of(one):
    """By what minloc chooses: NaN first, then the value, then the index."""
    value = float(one[0])
    return (value == value, value if value == value else 0.0, int(one[1]))


def least(a, b):
    """What minloc means, one element at a time."""
    return min(a, b, key=rank_of)


def given(rank, count, dtype):
    random = np.random.default_rng([rank, count])
    found = np.zeros(count, dtype)
    if found.dtype.names is None:
        found[:] = random.integers(-50, 50, count)
        return found
    for name in found.dtype.names:
        found[name] = random.integers(-2, 3, count)
    if dtype == PLACED:
        found["value"][random.random(count) < 0.1] = np.nan
    return found


OPS = [
    (steps, "f4"),
    (steps, "f8"),
    (np.subtract, "i4"),
    (np.subtract, "c16"),
    (np.arctan2, "f2"),
    (compose, AFFINE),
    (ringroad.Op(lambda a, b: a, name="first"), "M8[s]"),
]
"""None of them is commutative. The results are those of NumPy, in the order of the ranks."""
COUNTS = [0, 1, 7, 1000]


def made(comm, name, op, vectors, place="new", **options):
    """The result of a call by this rank, and what NumPy's fold in the order of the ranks gives."""
    combine = op.function if isinstance(op, ringroad.Op) else op
    send, out = vectors[comm.rank].copy(), None
    before = {"scan": comm.rank + 1, "exscan": comm.rank}.get(name, comm.size)
    expected = functools.reduce(combine, vectors[:before]) if before else None
    if name == "reduce":
        options["root"] = comm.size - 1
        expected = expected if comm.rank == comm.size - 1 else None
    if name == "reduce_scatter":
        counts = options.setdefault("counts", [(3 * rank) % 5 for rank in range(comm.size)])
        start = sum(counts[: comm.rank])
        expected = expected[start : start + counts[comm.rank]]
    if place == "in place" and name != "reduce_scatter":
        out = send
    return getattr(comm, name)(send, out, op=op, **options), expected


def check(comm, ops, counts):
    for (op, dtype), count, name in itertools.product(
        ops, counts, ["allreduce", "reduce", "reduce_scatter", "scan", "exscan"]
    ):
        if name == "reduce_scatter":
            count = sum((3 * rank) % 5 for rank in range(comm.size))
        vectors = [given(rank, count, dtype) for rank in range(comm.size)]
        for place in ("new", "in place"):
            got, expected = made(comm, name, op, vectors, place)
            if expected is None:
                assert got is None or name == "exscan"
            else:
                same = got.dtype == expected.dtype and got.tobytes() == expected.tobytes()
                assert same, (op, dtype, count, name, place, got, expected)


@pytest.mark.parametrize("ranks", range(1, 10))
def test_fold_in_the_order_of_the_ranks(ranks):
    some = OPS if ranks in (3, 8) else OPS[ranks % 3 :: 3]
    in_threads(ranks, lambda comm: check(comm, some, COUNTS), timeout=60)


@pytest.mark.parametrize("transport", TRANSPORTS | OWN)
def test_between_processes(clusters, transport):
    clusters(3, transport).run(check, OPS[::3], [7, 70_000])


def locate(comm, name, counts):
    for count, dtype in itertools.product(counts, [PLACED, np.dtype([("v", "i2"), ("i", "u8")])]):
        vectors = [given(rank, count, dtype) for rank in range(comm.size)]
        if name == "maxloc":
            negated = [vector.copy() for vector in vectors]
            for vector in negated:
                vector[dtype.names[0]] *= -1
            vectors, back = negated, -1
        else:
            back = 1
        got = comm.allreduce(vectors[comm.rank], op=name)
        for index in range(count):
            candidates = [(back * vector[index][0], vector[index][1]) for vector in vectors]
            expected = min(candidates, key=rank_of)
            assert got[index][1] == expected[1], (candidates, got[index])
            np.testing.assert_equal(back * got[index][0], expected[0])


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 9])
def test_places_of_extremes(ranks):
    def work(comm):
        locate(comm, "minloc", [0, 1, 40])
        locate(comm, "maxloc", [40])
        return comm.scan(given(comm.rank, 40, PLACED), op="minloc").tobytes()

    found = in_threads(ranks, work, timeout=60)
    vectors = [given(rank, 40, PLACED) for rank in range(ranks)]
    for rank, bits in enumerate(found):
        expected = [functools.reduce(least, [vector[i] for vector in vectors[: rank + 1]]) for i in range(40)]
        got = np.frombuffer(bits, PLACED)
        np.testing.assert_equal(got["value"], [one["value"] for one in expected])
        np.testing.assert_equal(got["index"], [one["index"] for one in expected])


@pytest.mark.parametrize("ranks", [4, 6])
def test_every_algorithm_for_commutative_ones(ranks):
    """By every algorithm, on all ranks the same bits if it says so; exact operations give NumPy's result."""
    network = f"hosts:1x{ranks}"
    algorithms = [(one, name) for one in ringroad.algorithms(network) for name in one.collectives]
    reduce = [one for one in algorithms if one[1] in ("allreduce", "reduce_scatter", "reduce", "scan", "exscan")]

    def work(comm):
        bits = []
        for algorithm, name in reduce:
            if not algorithm.supports(network, name):
                continue
            vectors = [given(rank, 40 * ranks, "i8") + 60 for rank in range(ranks)]
            options = {"counts": [40] * ranks} if name == "reduce_scatter" else {}
            got, expected = made(comm, name, np.gcd, vectors, algorithm=algorithm.name, **options)
            assert expected is None or np.array_equal(got, expected), (algorithm, name)
            if name == "allreduce" and algorithm.bit_identical(network):
                vectors = [np.abs(given(rank, 500, "f4")) / 7 for rank in range(ranks)]
                got = comm.allreduce(vectors[comm.rank], op=np.logaddexp, algorithm=algorithm.name)
                np.testing.assert_allclose(got, functools.reduce(np.logaddexp, vectors), rtol=1e-5)
                bits.append(got.tobytes())
        return bits

    first, *others = in_threads(ranks, work, timeout=60)
    assert len(first) > 5 and all(bits == first for bits in others)


def test_algorithms_that_reorder_are_refused(refused):
    network, ordered = "hosts:1x4", {"direct-ordered", "direct-latency", "gather-sum"}

    def work(comm):
        kept = set()
        for algorithm in ringroad.algorithms(network):
            if algorithm.supports(network, "allreduce"):
                vectors = [given(rank, 30, "f8") for rank in range(4)]
                try:
                    got, expected = made(comm, "allreduce", steps, vectors, algorithm=algorithm.name)
                except ringroad.ScheduleError as error:
                    assert "in the order of the ranks" in str(error)
                    continue
                assert got.tobytes() == expected.tobytes(), algorithm
                kept.add(algorithm.name)
        for count in (1, 1000, 1 << 20):
            found = comm.explain("allreduce", 8 * count, dtype="f8", op=steps)
            assert found.algorithm in {one.algorithm for one in found.candidates} <= kept
            assert comm.algorithm_for("allreduce", 8 * count, dtype="float64", op=steps) == found.algorithm
            made_by = comm.allreduce(np.zeros(count), op=steps, async_op=True)
            assert made_by.wait() and made_by.algorithm == found.algorithm
        assert comm.algorithm_for("allreduce", 24, dtype=PLACED, op="minloc") == comm.algorithm_for("allreduce", 24)
        assert comm.explain("allreduce", "1MiB", op=np.hypot).algorithm == comm.algorithm_for("allreduce", 1 << 20)
        assert comm.explain("scan", 8, dtype=AFFINE, op=compose).algorithm
        with refused(TypeError, rank=comm.rank):
            comm.explain("allreduce", 8, op="minloc")
        with refused(ValueError, "mean", rank=comm.rank):
            comm.algorithm_for("allreduce", 8, op="mean")
        return kept

    for kept in in_threads(4, work, timeout=60):
        assert ordered <= kept and "ring" not in kept


def test_asynchronous_and_prepared_calls():
    def work(comm):
        vectors = [given(rank, 5000, "f8") for rank in range(comm.size)]
        mine, expected = vectors[comm.rank].copy(), functools.reduce(steps, vectors)
        works = [comm.allreduce(mine, op=steps, async_op=True) for _ in range(5)]
        assert all(work.result().tobytes() == expected.tobytes() for work in works)
        call = comm.prepare("allreduce", mine, op=steps)
        for _ in range(3):
            assert call.run().tobytes() == expected.tobytes()
        assert comm.allreduce_coalesced([mine, mine], op=steps)[1].tobytes() == expected.tobytes()

    in_threads(3, work, timeout=60)


def test_functions_may_use_communicators():
    """No lock is held while they run."""

    def work(comm):
        other = comm.dup()

        def curious(a, b):
            assert comm.transport and not comm.lost()
            return a - b + 0 * other.size

        vectors = [given(rank, 100, "i8") for rank in range(comm.size)]
        assert np.array_equal(comm.allreduce(vectors[comm.rank], op=curious), functools.reduce(np.subtract, vectors))

    in_threads(3, work, timeout=60)


def raising(a, b):
    return a + 1 // (len(a) - len(b))


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (raising, ["ZeroDivisionError", "in raising", "test_own_reductions.py"]),
        (lambda a, b: a[1:], ["returned shape (2,) for two vectors of shape (3,)"]),
        (lambda a, b: a + 0.5j, ["complex128"]),
        (lambda a, b: a.__iadd__(b), ["read-only"]),
    ],
)
def test_what_a_function_raises_fails_all_ranks(op, words):
    def work(comm):
        with pytest.raises(ringroad.AbortedError) as caught:
            comm.allreduce(np.ones(3), op=op, algorithm="direct-latency")
        with pytest.raises(ringroad.AbortedError, match="failed earlier"):
            comm.barrier()
        return str(caught.value)

    for text in in_threads(3, work, timeout=60):
        assert all(word in text for word in [*words, "could not "]), text


def test_one_rank_raises():
    def work(comm):
        def picky(a, b):
            if comm.rank == 1:
                raise KeyError("no such thing")
            return a - b

        with pytest.raises(ringroad.AbortedError) as caught:
            comm.allreduce(np.ones(3), op=picky, algorithm="direct-latency")
            comm.barrier()
        return str(caught.value)

    for text in in_threads(3, work, timeout=60):
        assert "KeyError: 'no such thing'" in text and "rank 1" in text, text


def test_ranks_that_pass_different_functions():
    def work(comm):
        with pytest.raises(ringroad.MismatchError) as caught:
            comm.allreduce(np.ones(3), op=[np.subtract, steps, np.subtract][comm.rank])
        return str(caught.value)

    for text in in_threads(3, work, timeout=20):
        assert "subtract" in text and "steps" in text, text


def test_what_is_refused_before_anything_is_sent(refused):
    def work(comm):
        floats, whole = np.ones(3), np.ones(3, int)
        for wrong, options, error, *names in [
            (whole, {"op": np.hypot}, TypeError, "hypot", "float64"),
            (floats, {"op": np.exp}, TypeError),
            (floats, {"op": "minloc"}, TypeError),
            (floats, {"op": sum}, TypeError, 'op="sum"'),
            (floats, {"op": np.max}, TypeError, 'op="max"'),
            (floats, {"op": 5}, TypeError),
            (floats, {"op": steps, "factor": 2.0}, ValueError, "premul_sum"),
            (floats, {"op": steps, "algorithm": "ring"}, ringroad.ScheduleError, "ring"),
            (np.zeros(3, PLACED), {}, TypeError, "sum"),
            (np.zeros(3, object), {"op": steps}, TypeError, "object"),
            (np.zeros(3, "U2"), {"op": np.add}, TypeError, "add", "<U4", "<U2"),
        ]:
            with refused(error, *names, rank=comm.rank):
                comm.allreduce(wrong, **options)
        with pytest.raises(TypeError) as caught:
            comm.allreduce(floats, op=np.gcd)
        assert "gcd" in str(caught.value)  # in NumPy's words
        for odd in ({"name": 5}, {"commutative": "yes"}):
            with refused(TypeError, "commutative", "name", rank=comm.rank):
                ringroad.Op(np.hypot, **odd)
        with refused(ValueError, "sum", "avg", rank=comm.rank):
            comm.allreduce(floats, op=steps, wire="int8")
        assert comm.allreduce(whole).tolist() == [2, 2, 2]

    in_threads(2, work, timeout=60)


def test_structured_arrays_travel():
    """All calls that reduce nothing move any type but objects."""

    def work(comm):
        mine, other = given(comm.rank, 6, AFFINE), given(1 - comm.rank, 6, AFFINE)
        both = np.concatenate([mine, other][:: 1 - 2 * comm.rank])
        assert np.array_equal(comm.allgather(mine), both)
        assert np.array_equal(comm.broadcast(mine.copy(), 1), both[6:])
        request = comm.send(mine, 1 - comm.rank, async_op=True)
        assert np.array_equal(comm.recv(np.empty_like(mine), 1 - comm.rank), other)
        request.wait()
        request = comm.send(mine, 1 - comm.rank, tag=5, async_op=True)
        found = comm.probe(tag=5)
        assert (found.count, found.dtype) == (mine.nbytes, np.dtype("V1"))
        assert np.array_equal(comm.recv(np.empty_like(mine), tag=5), other)
        request.wait()
        texts = comm.alltoall(np.array([f"{comm.rank}{rank}" for rank in range(2)]))
        assert texts.tolist() == [f"{rank}{comm.rank}" for rank in range(2)]
        with pytest.raises(ringroad.MismatchError) as caught:
            comm.allgather(np.zeros(3, AFFINE) if comm.rank == 0 else np.zeros(3, [("a", "f8"), ("b", "f4")]))
        assert "shift" in str(caught.value)

    in_threads(2, work, timeout=60)
