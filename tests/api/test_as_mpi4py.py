"""What programs that are ported from mpi4py rely on: its tutorial, numbers, shapes, the order of arrays, and names."""

import threading

import numpy as np
import pytest
import ringroad
from helpers import check_tutorial, failure_of, in_threads
from programs import mpi4py_tutorial
from ringroad import ANY, PROC_NULL

LONG = 300_000


def test_the_tutorial(clusters):
    check_tutorial(clusters(4).run(mpi4py_tutorial.everything))


# ------------------------------------------------------------------------------------------------ objects


def asynchronous_objects(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for thing in (None, {"n": comm.rank}, b"x" * LONG, "y" * (4 << 20)):
        works = [comm.recv_object(left, tag, async_op=True) for tag in (5, ANY)]
        sent = [comm.send_object((thing, tag), right, tag, async_op=True) for tag in (5, 6)]
        first, second = ringroad.waitall(works)
        assert first[1] == 5 and second[1] == 6 and type(first[0]) is type(second[0]) is type(thing)
        assert works[0].result() is first and (works[1].message.source, works[1].message.tag) == (left, 6)
        assert ringroad.waitall(sent) == [None, None]
        both = comm.sendrecv_object(thing, right, left, async_op=True)
        assert type(both.result()) is type(thing)
        comm.barrier()
    assert comm.recv_object(PROC_NULL, async_op=True).result() is None
    work = comm.recv(None, left, async_op=True)
    assert not work.is_completed() or comm.size == 1
    comm.barrier()
    comm.send(np.arange(5, dtype=np.int16), right)
    assert work.result().tolist() == list(range(5)) and work.result().dtype == np.int16
    assert (work.message.count, work.message.dtype) == (5, np.int16)
    return True


@pytest.mark.parametrize("ranks", [1, 3])
def test_asynchronous_objects(ranks):
    assert all(in_threads(ranks, asynchronous_objects, timeout=60))


def test_a_long_object_is_received_while_its_rank_makes_no_call():
    sent = threading.Event()

    def pass_on(comm):
        if comm.rank == 0:
            comm.send_object("x" * (8 << 20), 1)
            return sent.set()
        work = comm.recv_object(0, async_op=True)
        return sent.wait(60) and len(work.result())

    assert in_threads(2, pass_on, timeout=60) == [None, 8 << 20]


def objects_of_threads(comm, each=100):
    """Two threads of rank 0 send, and two of rank 1 receive, objects with one tag. Returns what came."""
    got, errors = [], []

    def act(number):
        try:
            for index in range(each):
                if comm.rank == 0:
                    comm.send_object((number, index, "x" * (index % 50)), 1, 7)
                else:
                    got.append(comm.recv_object(0, 7))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    comm.barrier()
    assert all(text == "x" * (index % 50) for _, index, text in got)
    return sorted(thing[:2] for thing in got)


def test_objects_of_several_threads(clusters):
    expected = [(number, index) for number in range(2) for index in range(100)]
    assert clusters(2).run(objects_of_threads) == [[], expected]


# ------------------------------------------------------------------------------------------------ numbers


def numbers(comm):
    n, me = comm.size, comm.rank
    assert comm.allreduce(True) == n and comm.allreduce(True).dtype == np.int64
    assert comm.allreduce([True, me == 0]).tolist() == [n, 1]
    assert comm.reduce_scatter([True] * n).tolist() == [n]
    assert comm.allreduce_coalesced([True, [me == 0]])[0] == n
    assert comm.scan(True) == me + 1 and (comm.exscan(True) is None if me == 0 else comm.exscan(True) == me)
    assert comm.allreduce(np.bool_(True)).dtype == np.bool_
    assert comm.allreduce(True, op=np.logical_and).item() is True
    # A number is the same to other ranks whatever its type is.
    for number in (me, np.int64(me), np.array(me)):
        mixed = [me, np.int64(me), np.array(me)][me % 3]
        assert comm.allreduce(number) == comm.allreduce(mixed) == n * (n - 1) // 2
    assert comm.allreduce(me + 1, op="product") == np.prod(np.arange(1, n + 1))
    assert comm.allreduce(2**62 * (me > 0), op="product") == 0
    assert comm.allreduce(-(2**62) if me == 0 else 2**62 if me == 1 else 0) == (0 if n > 1 else -(2**62))
    out = np.array([7])
    work = comm.allreduce(me, out, async_op=True)
    assert work.result() is out and out[0] == n * (n - 1) // 2
    x = np.array(me)
    assert comm.allreduce(x, x) is x and x == n * (n - 1) // 2
    call = comm.prepare("allreduce", x) if me % 2 else None
    assert (call.run() if call else comm.allreduce(x)) == n * x
    assert (comm.reduce(me, root=n - 1) is None) == (me < n - 1)
    return True


def test_numbers():
    assert all(in_threads(4, numbers, timeout=60)) and all(in_threads(1, numbers, timeout=60))


BEYOND = {
    "a sum": lambda c: c.allreduce(2**62),
    "a sum of NumPy's": lambda c: c.allreduce(np.int64(2**62)),
    "a negative sum": lambda c: c.allreduce(-(2**62) - 1),
    "a number that int64 cannot hold": lambda c: c.allreduce(2**63 if c.rank == 1 else 0),
    "a number that nothing can hold": lambda c: c.allreduce(-(2**200) if c.rank == 1 else 0),
    "a product": lambda c: c.allreduce(2**31 * (-1) ** c.rank, op="product"),
    "a product of many": lambda c: c.allreduce(2**62, op="product"),
    "a waiting sum": lambda c: c.allreduce(2**62, async_op=True).result(),
    "a sum at the root": lambda c: (c.reduce(2**62), 0 if c.rank == 0 else 1 // 0),
    "a scan": lambda c: (c.scan(2**62), 0 if c.rank else 1 // 0),
    "an exscan": lambda c: (c.exscan(2**62), 0 if c.rank > 1 else 1 // 0),
}


@pytest.mark.parametrize("call", BEYOND)
def test_numbers_beyond_int64(call):
    """All ranks that get the result learn it, and can go on."""

    def work(comm):
        kind, text = failure_of(lambda: BEYOND[call](comm))
        assert kind == "ZeroDivisionError" or (kind == "OverflowError" and "does not fit int64" in text), (kind, text)
        return kind, comm.allreduce(1).item()

    kinds = in_threads(4, work, timeout=60)
    assert [number for _, number in kinds] == [4] * 4
    learn = {"a sum at the root": 1, "a scan": 3, "an exscan": 2}.get(call, 4)
    assert sum(kind == "OverflowError" for kind, _ in kinds) == learn


# ------------------------------------------------------------------------------------------------ shapes


def shapes(comm):
    n, me = comm.size, comm.rank
    whole = np.arange(n * 4).reshape(n, 4)
    for out in (np.empty(4, int), np.empty((1, 4), int), np.empty((2, 2), int), np.empty((4, 2), int)[:, 0]):
        assert comm.scatter(whole if me == 0 else None, out) is out
        assert out.ravel().tolist() == whole[me].tolist()
    for shape in ((n, 4), (n * 4,), (2, n, 2)):
        out = np.empty(shape, int)
        assert comm.gather(whole[me], out if me == 0 else None) is (out if me == 0 else None)
        assert me or np.array_equal(out.ravel(), whole.ravel())
        assert comm.allgather(whole[me], out) is out and np.array_equal(out.ravel(), whole.ravel())
    out = np.empty((2, 2), int)
    assert comm.reduce_scatter(whole, out).ravel().tolist() == (n * whole[me]).tolist()
    assert comm.allreduce(whole, flat := np.empty(n * 4, int)) is flat and flat[-1] == n * (4 * n - 1)
    # Counts are numbers of elements for arrays of other shapes, as in MPI.
    counts = [2 * (r + 1) for r in range(n)]
    mine = np.full((me + 1, 2), me)
    expected = [r for r in range(n) for _ in range(counts[r])]
    assert comm.allgather(mine, np.empty((sum(counts) // 2, 2), int), counts=counts).ravel().tolist() == expected
    assert comm.gather(mine, None, counts=counts) is None or me == 0
    part = comm.scatter(np.array(expected) if me == 0 else None, np.empty((me + 1, 2), int), counts=counts)
    assert np.array_equal(part, mine)
    rows = [r + 1 for r in range(n)]
    part = comm.scatter(np.repeat(np.arange(n), rows)[:, None] * [1, 1] if me == 0 else None, mine.ravel(), counts=rows)
    assert part.tolist() == [me] * (2 * me + 2)
    assert failure_of(lambda: comm.allgather(whole[me], np.empty((n, 3), int)))[0] == "ValueError"
    comm.barrier()
    return True


@pytest.mark.parametrize("ranks", [1, 3])
def test_shapes(ranks):
    assert all(in_threads(ranks, shapes, timeout=60))


ORDERS = {
    "all in Fortran's order": lambda array, rank: np.asfortranarray(array),
    "in different orders": lambda array, rank: np.asfortranarray(array) if rank % 2 else array,
    "strided": lambda array, rank: np.repeat(array, 2, axis=1)[:, ::2],
}


def orders(comm, order):
    n, me = comm.size, comm.rank
    base = np.arange(12.0).reshape(3, 4)

    def like(array):
        return ORDERS[order](array.copy(), me)

    x = like(base + me)
    total = n * base + n * (n - 1) / 2
    assert comm.allreduce(x, x) is x and np.array_equal(x, total)
    x = like(base + me)
    assert comm.allreduce(x, out := like(base), async_op=True).result() is out and np.array_equal(out, total)
    assert np.array_equal(x, base + me)
    x = like(base * (me == n - 1))
    assert comm.broadcast(x, root=n - 1) is x and np.array_equal(x, base)
    x = like(base + me)
    comm.reduce(x, out := like(base))
    assert np.array_equal(out, total if me == 0 else base)
    assert np.array_equal(comm.scan(x, out), (me + 1) * base + me * (me + 1) / 2)
    gathered = np.asfortranarray(np.empty((3 * n, 4)))
    comm.allgather(x, gathered)
    assert all(np.array_equal(gathered[3 * r : 3 * r + 3], base + r) for r in range(n))
    work = comm.allreduce(x, out := like(base), async_op=True)
    while not work.is_completed():
        pass
    assert np.array_equal(out, total), "who asks whether the call is complete finds its result"
    return True


@pytest.mark.parametrize("order", ORDERS)
def test_orders(order):
    assert all(in_threads(3, lambda comm: orders(comm, order), timeout=60))


def test_exscan_refuses_what_all_ranks_refuse():
    """Rank 0 gets no result, and would wait for the others."""

    def work(comm):
        found = [failure_of(lambda out=out: comm.exscan(np.ones(3), out))[0] for out in (np.ones(3, int), np.ones(2))]
        assert comm.exscan(np.ones(3), np.ones(3)) is None or comm.rank
        return found

    assert in_threads(2, work, timeout=20) == [["ValueError"] * 2] * 2


# ------------------------------------------------------------------------------------------------ names


NAMES = {
    "Allreduce": "allreduce",
    "bcast": "broadcast_object",
    "Get_rank": "rank",
    "Get_size": "size",
    "Iallgather": "allgather(..., async_op=True)",
    "Ibarrier": "barrier(..., async_op=True)",
    "isend": "send_object(..., async_op=True)",
    "Igatherv": "gather(..., counts=counts, async_op=True)",
    "Bcast_init": 'prepare("broadcast", ...)',
    "Reduce_scatter": "reduce_scatter",
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name, refused):
    (alone,) = ringroad.Communicator.in_process(1)
    with refused(AttributeError, f"'{name}'", NAMES[name]):
        getattr(alone, name)


def test_names_of_others(refused):
    (alone,) = ringroad.Communicator.in_process(1)
    with refused(AttributeError, "coordinates_of"):
        alone.cart((1, 1)).Get_coords(0)
    with refused(AttributeError, "wait"):
        alone.barrier(async_op=True).Wait()
    with refused(AttributeError, "'nonsense'"):
        alone.nonsense()
    assert not hasattr(alone, "__len__") and not hasattr(alone, "Isend_something_else")
