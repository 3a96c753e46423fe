"""Calls on Python objects, on numbers, lists and strided arrays, on several arrays, and calls that are prepared."""

import numpy as np
import pytest
import ringroad
from helpers import PROGRAMS, TRANSPORTS, failure_of, in_threads, launch
from ringroad._oracle import DTYPES, dtype_of, values


class Thing:
    """Compares by value."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Thing) and self.value == other.value

    __hash__ = None


class Poison:
    """Cannot be unpickled."""

    def __reduce__(self):
        return (int, ("poison",))


def thing(rank, long=False):
    return {"rank": rank, "text": "x" * rank, "array": np.arange(400_000 if long else rank), "none": None}


def same(left, right):
    return left.keys() == right.keys() and all(np.array_equal(left[key], right[key]) for key in left)


def objects(comm):
    rank, size = comm.rank, comm.size
    for root in {0, size - 1}:
        for long in (False, True):
            mine = thing(rank, long)
            got = comm.broadcast_object(mine if rank == root else None, root)
            assert same(got, thing(root, long)) and (got is mine) == (rank == root)
        gathered = comm.gather_object(thing(rank), root)
        assert gathered is None if rank != root else all(map(same, gathered, map(thing, range(size))))
        assert comm.scatter_object([Thing(r) for r in range(size)] if rank == root else None, root) == Thing(rank)
    assert all(map(same, comm.allgather_object(thing(rank, rank == 0)), [thing(r, r == 0) for r in range(size)]))
    assert comm.alltoall_object([(rank, to) for to in range(size)]) == [(source, rank) for source in range(size)]
    assert comm.allgather_object(None) == [None] * size
    if size > 1:
        after, before = (rank + 1) % size, (rank - 1) % size
        if rank == 0:
            comm.send_object(thing(0, long=True), after, 5)
            assert same(comm.recv_object(before, 5), thing(before, long=True))
            assert sorted(comm.recv_object(tag=6) for _ in range(size - 1)) == list(range(1, size))
        else:
            assert same(comm.recv_object(before, 5), thing(before, long=True))
            comm.send_object(thing(rank, long=True), after, 5)
            comm.send_object(rank, 0, 6)
    error = failure_of(lambda: comm.broadcast_object(Poison() if rank == 0 else None))
    assert error == (("nothing", "") if rank == 0 else ("ValueError", error[1])) and ("poison" in error[1]) == (
        rank > 0
    )
    comm.barrier()
    return True


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_objects(ranks):
    assert all(in_threads(ranks, objects, timeout=60))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_objects_between_processes(clusters, transport):
    assert all(clusters(3, transport).run(objects))


def test_objects_have_one_deadline():
    (comm,) = ringroad.Communicator.in_process(1)
    assert failure_of(lambda: comm.allgather_object(1, timeout=0))[0] == "ValueError"
    a, _b = ringroad.Communicator.in_process(2)
    assert failure_of(lambda: a.allgather_object(1, timeout=0.1))[0] == "TimeoutError"


@pytest.mark.parametrize("odd", ["graph", "shared", "halo", "gather_object"])
def test_different_calls_on_objects(odd):
    """One would unpickle what is meant for another."""
    both = rf"rank 0 [^\n]*allgather_object\)[^\n]*\n *rank 1 [^\n]*{odd}"

    def work(comm):
        calls = {
            "graph": lambda: comm.graph([0]),
            "shared": lambda: comm.shared(3),
            "halo": lambda: comm.cart(2).halo(np.ones(6)),
            "gather_object": lambda: comm.gather_object(1),
        }
        with pytest.raises(ringroad.MismatchError, match=both):
            calls[odd]() if comm.rank else comm.allgather_object(1)

    in_threads(2, work, timeout=20)


ARRAYS = {
    "a message": (lambda c: c.send(np.array([40]), 1), lambda c: c.recv_object(0)),
    "a receive": (lambda c: c.send_object(40, 1), lambda c: c.recv(np.zeros(1, int), 0)),
    "a broadcast": (lambda c: c.broadcast_object(40), lambda c: c.broadcast(np.zeros(1, int))),
    "a scatter": (lambda c: c.scatter_object([1, 2]), lambda c: c.broadcast(np.zeros(2, int))),
    "an allgather": (lambda c: c.allgather_object(1), lambda c: c.allgather(np.zeros(1, int))),
}


@pytest.mark.parametrize("calls", ARRAYS)
def test_arrays_are_no_objects(calls):
    """A call on an array does not take the length of an object for one, nor the other way around."""

    def work(comm):
        kind, text = failure_of(lambda: (ARRAYS[calls][comm.rank](comm), comm.barrier()))
        assert kind in ("MismatchError", "AbortedError") and ("object)" in text or "types must be the same" in text), (
            text
        )

    in_threads(2, work, timeout=20)


def inputs(comm):
    n, me = comm.size, comm.rank
    total = n * (n - 1) // 2
    number = comm.allreduce(me)
    assert (type(number), number.shape, number.dtype, number.item()) == (np.ndarray, (), np.int64, total)
    assert comm.allreduce(float(me), op="max").item() == n - 1
    assert comm.allreduce(np.float32(me)).dtype == np.float32
    assert comm.allreduce(np.equal(me % 2, 0)).dtype == np.bool_
    assert comm.allreduce([[me, 1], [2, 3]]).tolist() == [[total, n], [2 * n, 3 * n]]
    assert comm.allgather(me).tolist() == list(range(n))
    assert comm.allgather((me, 0.5)).tolist() == [x for r in range(n) for x in (r, 0.5)]
    grid = np.arange(n * n * 6, dtype=np.int32).reshape(2 * n, 3 * n) + me
    for strided in (grid[::2], grid[:, ::-3], grid.T, np.asfortranarray(grid)):
        before = strided.copy()
        contiguous = np.ascontiguousarray(strided)
        for call in ("allreduce", "allgather", "reduce", "gather"):
            left, right = getattr(comm, call)(strided), getattr(comm, call)(contiguous)
            assert (left is None and right is None) or (np.array_equal(left, right) and left.flags.c_contiguous)
        if len(strided) % n == 0:
            for call in ("reduce_scatter", "alltoall"):
                assert np.array_equal(getattr(comm, call)(strided), getattr(comm, call)(contiguous))
            out = np.empty((len(strided) // n, *strided.shape[1:]), np.int32)
            assert np.array_equal(comm.scatter(strided if me == 0 else None, out), (strided - me)[: len(out)] + 0) or me
        assert np.array_equal(strided, before), "the input was changed"
    work = comm.allreduce(grid[:, ::2], async_op=True)
    grid[:] = -1  # what was sent is a copy
    assert (work.result() >= 0).all()
    if n > 1:
        sent = comm.send([me, 7], (me + 1) % n, async_op=True)
        assert comm.recv(np.zeros(2, int), (me - 1) % n).tolist() == [(me - 1) % n, 7]
        sent.wait()
    return True


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_inputs_of_all_kinds(ranks):
    assert all(in_threads(ranks, inputs, timeout=60))


def coalesced(comm):
    n, me = comm.size, comm.rank
    shapes = [(), (3,), (2, 0), (4, 5), (20_000,)]
    arrays = [
        values(me, int(np.prod(shape)), dtype_of(dtype), seed=index).reshape(shape)
        for index, (shape, dtype) in enumerate(zip(shapes * 3, DTYPES, strict=True))
    ]
    expected = [comm.allreduce(array, op="sum") for array in arrays]
    before = [array.copy() for array in arrays]

    def close(left, right):
        return np.allclose(np.asarray(left, complex), np.asarray(right, complex), rtol=0.02, atol=0.05)

    results = comm.allreduce_coalesced(iter(arrays))
    for result, right, array, kept in zip(results, expected, arrays, before, strict=True):
        assert result.dtype == right.dtype and result.shape == right.shape and close(result, right)
        assert array.tobytes() == kept.tobytes(), "an input was changed"
    assert comm.allreduce_coalesced(arrays, arrays)[3] is arrays[3]
    assert all(left.tobytes() == right.tobytes() for left, right in zip(arrays, results, strict=True))
    wide = np.zeros((4, 6))
    comm.allreduce_coalesced([np.full((4, 3), me), 2, [1.5]], [wide.astype(int)[:, ::2], np.array(0), np.zeros(1)])
    comm.allreduce_coalesced([np.full((4, 3), float(me))], [wide[:, ::2]], op="max")
    assert wide[:, ::2].tolist() == [[n - 1.0] * 3] * 4 and not wide[:, 1::2].any()
    assert comm.allreduce_coalesced([]) == []
    root = n - 1
    copies = [np.full(shape, me if index % 2 else me + 0.5) for index, shape in enumerate(shapes)]
    assert comm.broadcast_coalesced([*copies, wide[:, 1::2]], root)[1] is copies[1]
    assert all((copy == (root if index % 2 else root + 0.5)).all() for index, copy in enumerate(copies))
    return True


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_coalesced(ranks):
    assert all(in_threads(ranks, coalesced, timeout=60))


@pytest.mark.parametrize("call", ["allreduce_coalesced", "broadcast_coalesced"])
def test_coalesced_arrays_of_other_lengths(call):
    def work(comm):
        arrays = [np.ones(length) for length in [(3, 5), (4, 4)][comm.rank]]
        return failure_of(lambda: (getattr(comm, call)(arrays), comm.barrier()))

    for rank, (kind, text) in enumerate(in_threads(2, work, timeout=60)):
        # The root of a broadcast has sent all when the other rank notices: then its next call fails, maybe at once.
        later = ["AbortedError"] if call == "broadcast_coalesced" and rank == 0 else []
        assert kind in ["MismatchError", *later], (kind, text)
        assert "in arrays of 3, 5" in text and "in arrays of 4, 4" in text, (kind, text)


def test_coalesced_between_processes(clusters):
    assert all(clusters(3).run(coalesced))


def prepared(comm):
    n, me = comm.size, comm.rank
    x, pooled = np.zeros(5000, np.float32), comm.empty(70_000, np.float32)
    calls = [
        comm.prepare("allreduce", x, x, op="avg"),
        comm.prepare("allreduce", pooled, pooled, algorithm="ring"),
        comm.prepare("allgather", x[:3]),
        comm.prepare("broadcast", x, root=n - 1),
        comm.prepare("reduce_scatter", np.ones(n), counts=[1] * n, op="max"),
        comm.prepare("gather", x[:1], root=n - 1),
        comm.prepare("scatter", x[: 2 * n] if me == 0 else None, np.empty(2, np.float32)),
        comm.prepare("alltoall", x[:n], counts=np.ones((n, n), int)),
    ]
    assert calls[1].algorithm == "ring" and "by ring" in repr(calls[1])
    for step in range(4):
        x[:], pooled[:] = me + step, me
        average = (n - 1) / 2 + step
        if me == 0 or step % 2:  # a prepared call is the same to others as a plain one
            works = [call.start() for call in calls[:2]]
        else:
            works = [
                comm.allreduce(x, x, op="avg", async_op=True),
                comm.allreduce(pooled, pooled, algorithm="ring", async_op=True),
            ]
        assert works[0].result() is x and x[-1] == average
        assert works[1].result()[-1] == n * (n - 1) / 2
        x[:] = me + step
        assert calls[2].run().tolist() == [r + step for r in range(n) for _ in range(3)]
        assert calls[2].run() is calls[2].start().result(), "the output is always the same"
        assert calls[3].run() is x and x[0] == n - 1 + step
        assert calls[4].run().tolist() == [1.0]
        assert (calls[5].run() is None) == (me != n - 1)
        assert calls[6].run().tolist() == [n - 1 + step] * 2
        assert calls[7].start().result().tolist() == [n - 1 + step] * n
    comm.barrier()
    comm.close()
    assert failure_of(calls[0].start)[0] == "AbortedError"
    return True


HOSTILE = PROGRAMS / "hostile_threads.py"


def test_threads_and_destructors():
    (ended,) = launch(HOSTILE, 1)
    assert (ended.status, ended.out) == (0, "AbortedError\n"), ended.err


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_prepared_calls(ranks):
    assert all(in_threads(ranks, prepared, timeout=60))


def test_prepared_calls_between_processes():
    with ringroad.local(3, timeout=60) as cluster:
        assert all(cluster.run(prepared))


def test_a_prepared_call_is_not_started_twice_at_once():
    a, b = ringroad.Communicator.in_process(2, timeout=60)
    x = np.ones(3)
    call = a.prepare("allreduce", x)
    work = call.start()
    for again in (call.start, call.run):
        with pytest.raises(ValueError, match=r"allreduce of 3 float64.*has not ended"):
            again()
    b.allreduce(x)
    work.wait()
    work = call.start()
    b.allreduce(x)
    assert work.result().tolist() == [2.0] * 3
