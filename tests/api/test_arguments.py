"""Calls with invalid arguments are refused at once, with an explanation, and leave the communicator usable."""

import pickle
from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest
import ringroad
from numpy.lib.stride_tricks import as_strided
from ringroad._arrays import require_distinct

FLOATS = np.ones(6, np.float32)


@pytest.fixture(scope="module")
def comm():
    """Rank 0 of two. No call in these tests reaches the other rank."""
    comms = ringroad.Communicator.in_process(2, timeout=60)
    yield comms[0]
    for one in comms:
        one.close()


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


OUT = np.zeros(6, np.float32)
SAME = as_strided(np.ones(2, np.float32), (3, 2), (0, 4))


def raw(comm, collective, **changes):
    passed = {"input": FLOATS.ctypes.data, "output": OUT.ctypes.data, "elements": 6} | changes
    return comm._run_raw(collective, dtype="float32", owner=(FLOATS, OUT), timeout=5, **passed)


MASKED = np.ma.masked_array(np.ones(6, np.float32), mask=[0, 1, 0, 0, 0, 0])
MASK_REFUSED = {
    "allreduce": lambda c: c.allreduce(MASKED),
    "allreduce without a mask": lambda c: c.allreduce(np.ma.masked_array(FLOATS)),
    "allreduce to it": lambda c: c.allreduce(FLOATS, MASKED),
    "in place": lambda c: c.allreduce(MASKED, MASKED),
    "reduce_scatter": lambda c: c.reduce_scatter(MASKED),
    "reduce_scatter with counts": lambda c: c.reduce_scatter(MASKED, counts=[3, 3]),
    "allgather": lambda c: c.allgather(MASKED),
    "allgather with counts": lambda c: c.allgather(MASKED, counts=[6, 6]),
    "broadcast": lambda c: c.broadcast(MASKED),
    "reduce": lambda c: c.reduce(MASKED),
    "gather": lambda c: c.gather(MASKED),
    "scatter": lambda c: c.scatter(MASKED),
    "alltoall": lambda c: c.alltoall(MASKED),
    "alltoall with counts": lambda c: c.alltoall(MASKED, counts=[[3, 3], [3, 3]]),
    "send": lambda c: c.send(MASKED, 1),
    "recv": lambda c: c.recv(MASKED, 1),
}


@pytest.mark.parametrize("call", MASK_REFUSED)
def test_masked_arrays(comm, call, refused):
    with refused(TypeError, "filled"):
        MASK_REFUSED[call](comm)


def test_other_subclasses_are_arrays():
    class Named(np.ndarray):
        pass

    with ringroad.Communicator.in_process(1)[0] as alone:
        assert (alone.allreduce(np.ones(3).view(Named)) == 1).all()


REFUSED = {
    "a set": (lambda c: c.allreduce({1.0, 2.0}), TypeError, "object"),
    "a ragged list": (lambda c: c.allreduce([[1.0], [1.0, 2.0]]), TypeError, "send"),
    "a list to write to": (lambda c: c.allreduce(FLOATS, [0.0] * 6), TypeError, "out"),
    "a list in place": (lambda c: (lambda x: c.allreduce(x, x))([1.0]), TypeError, "out"),
    "a list to broadcast": (lambda c: c.broadcast([1.0]), TypeError, "array"),
    "a number to receive into": (lambda c: c.recv(1.0, 1), TypeError, "out", "float"),
    "None": (lambda c: c.allreduce(None), TypeError),
    "longdouble": (lambda c: c.allreduce(np.ones(2, np.longdouble)), TypeError),
    "datetime64": (lambda c: c.allreduce(np.ones(2, "datetime64[s]")), TypeError, "datetime64"),
    "object": (lambda c: c.allreduce(np.array([1, None])), TypeError, "object"),
    "a string": (lambda c: c.allreduce(np.array(["a"])), TypeError, "U1"),
    "big-endian": (lambda c: c.allreduce(np.ones(2, ">f4")), TypeError, ">f4"),
    "float8": (lambda c: c.allreduce(np.ones(2, ml_dtypes.float8_e5m2)), TypeError, "float8"),
    "avg of integers": (lambda c: c.allreduce(np.ones(2, int), op="avg"), TypeError, "avg", "int64"),
    "unknown op": (lambda c: c.allreduce(FLOATS, op="summ"), ValueError, "summ", "sum?", "avg"),
    "factor without premul_sum": (lambda c: c.allreduce(FLOATS, factor=2.0), ValueError, "factor"),
    "unknown algorithm": (lambda c: c.allreduce(FLOATS, algorithm="rong"), ValueError, "ring"),
    "shared elements in place": (lambda c: c.allreduce(SAME, SAME), ValueError, "out"),
    "strided, prepared": (lambda c: c.prepare("allreduce", np.ones(4)[::2]), ValueError, "send"),
    "a list, prepared": (lambda c: c.prepare("allreduce", [1.0]), TypeError, "send"),
    "prepared with a wrong name": (lambda c: c.prepare("allredduce", FLOATS), ValueError, "allreduce"),
    "prepared with a useless op": (lambda c: c.prepare("allgather", FLOATS, op="max"), ValueError, "op"),
    "wrong counts to gather": (lambda c: c.gather(FLOATS, counts=[6]), ValueError, "counts"),
    "wrong counts to scatter": (lambda c: c.scatter(FLOATS, counts=[3, 4]), ValueError, "7 rows"),
    "objects for too few": (lambda c: c.scatter_object(["one"]), ValueError, 2),
    "gathered objects at nobody": (lambda c: c.gather_object("one", root=2), ValueError, "root 2"),
    "coalesced with too few outputs": (lambda c: c.allreduce_coalesced([FLOATS], []), ValueError, 1, 0),
    "coalesced into another type": (
        lambda c: c.allreduce_coalesced([1, 2.0], [np.ones(()), np.ones(())]),
        ValueError,
        "int",
    ),
    "coalesced lists in place": (lambda c: c.broadcast_coalesced([[1.0]]), TypeError, "arrays[0]"),
    "a handle that is none": (lambda c: ringroad.waitall([None]), TypeError, "Work", None),
    "a callback that is none": (lambda c: c.send(FLOATS, 1, async_op=True).on_complete(5), TypeError, "callback", 5),
    "avg of a scan": (lambda c: c.scan(FLOATS, op="avg"), ValueError, "scan", "avg"),
    "a negative colour": (lambda c: c.split(-1), ValueError, "color", -1),
    "a colour that is no number": (lambda c: c.split("red"), TypeError, "color"),
    "strided out, prepared": (lambda c: c.prepare("allreduce", np.ones(2), np.ones(4)[::2]), ValueError, "out"),
    "endless counts": (lambda c: c.gather(FLOATS, counts=range(2**40)), ValueError, "counts", 2),
    "endless counts of pairs": (
        lambda c: c.alltoall(FLOATS, counts=[range(2**40)] * 2),
        ValueError,
        "counts",
        "2 by 2",
    ),
    "endless members": (lambda c: ringroad.Topology("ring:4").induced(range(2**40)), ValueError, 67108864),
    "read-only out": (lambda c: c.allreduce(FLOATS, read_only(FLOATS)), ValueError),
    "read-only broadcast": (lambda c: c.broadcast(read_only(FLOATS), 1), ValueError),
    "out of another shape": (lambda c: c.allreduce(FLOATS, np.empty(5, np.float32)), ValueError, 5, 6),
    "out of another type": (lambda c: c.allreduce(FLOATS, np.empty(6)), (TypeError, ValueError), "float64"),
    "gathered into too little": (lambda c: c.allgather(FLOATS, np.empty(6, np.float32)), ValueError, 12),
    "blocks of unequal size": (lambda c: c.reduce_scatter(np.ones(7)), ValueError, 7),
    "blocks of a scalar": (lambda c: c.alltoall(np.array(1.0)), ValueError),
    "root out of range": (lambda c: c.broadcast(FLOATS.copy(), 2), ValueError, "root 2"),
    "negative root": (lambda c: c.broadcast(FLOATS.copy(), -1), ValueError, -1, "'root'"),
    "negative root, raw": (lambda c: raw(c, "broadcast", root=-1), ValueError, -1, "'root'"),
    "negative peer": (lambda c: c.send(FLOATS, -1), ValueError, -1, "'peer'"),
    "a peer that is no number": (lambda c: c.send(FLOATS, "1"), TypeError, "peer"),
    "negative elements": (lambda c: raw(c, "allreduce", elements=-1), ValueError, -1, "'elements'"),
    "too many elements": (lambda c: raw(c, "allgather", elements=1 << 62), ValueError, "elements"),
    "no input": (lambda c: raw(c, "allreduce", input=0), ValueError, "input", "0x0", "24 bytes"),
    "no output": (lambda c: raw(c, "allreduce", output=0), ValueError, "output", "0x0"),
    "nothing to exchange": (lambda c: raw(c, "alltoall", input=0, counts=[[1, 1], [1, 1]]), ValueError, "input", "0x0"),
    "scatter without data at the root": (
        lambda c: c.scatter(None, np.empty(3), root=0),
        (TypeError, ValueError),
        "send",
    ),
    "scatter without out elsewhere": (lambda c: c.scatter(None, root=1), (TypeError, ValueError), "out"),
    "message to no rank": (lambda c: c.send(FLOATS, 2), ValueError, "peer 2"),
    "message to any rank": (lambda c: c.send(FLOATS, ringroad.ANY), ValueError, "ringroad.PROC_NULL", "'peer'"),
    "message with any tag": (lambda c: c.send(FLOATS, 1, ringroad.ANY), ValueError, "'tag'"),
    "read-only, strided recv": (lambda c: c.recv(read_only(FLOATS[::2]), 1), ValueError),
    "recv into shared elements": (lambda c: c.recv(SAME, 1), ValueError, "out"),
    "exchange into shared elements": (
        lambda c: c.sendrecv(FLOATS, 1, as_strided(FLOATS.copy(), (2, 5), (4, 4))),
        ValueError,
        "out",
    ),
    "coalesced into shared elements": (lambda c: c.broadcast_coalesced([SAME]), ValueError, "arrays[0]"),
    "tag too large": (lambda c: c.send(FLOATS, 1, tag=1 << 28), ValueError, "tag 268435456"),
    "negative tag": (lambda c: c.recv(FLOATS.copy(), 1, tag=-1), ValueError, -1, "'tag'"),
    "negative timeout": (lambda c: c.allreduce(FLOATS, timeout=-1.0), ValueError, "timeout"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(comm, name, refused):
    call, error, *names = REFUSED[name]
    with refused(error, *names):
        call(comm)


def test_an_object_that_cannot_be_sent(comm):
    with pytest.raises((AttributeError, pickle.PicklingError)):
        comm.broadcast_object(lambda: 0)


@pytest.mark.parametrize(
    ("array", "shared"),
    [
        (np.ones((3, 4, 5)).T[::-2, 1:3], False),
        (np.diagonal(np.ones((3, 3))), False),
        (np.ones((0, 3))[:, ::2], False),
        (np.ones((3, 1))[:, [0]][::2], False),
        # Axes that interleave: elements 0, 2, 4 and 3, 5, 7; then 0, 2, 4 and 2, 4, 6.
        (as_strided(np.ones(8), (2, 3), (24, 16)), False),
        (as_strided(np.ones(8), (2, 3), (16, 16)), True),
    ],
)
def test_elements_that_share_memory(array, shared, refused):
    with refused(ValueError) if shared else nullcontext():
        require_distinct(array, "out")


def test_usable_after_refusals():
    (comm,) = ringroad.Communicator.in_process(1, timeout=60)
    with pytest.raises(TypeError):
        comm.allreduce({1.0})
    with pytest.raises(ValueError):
        comm.allreduce(FLOATS, op="summ")
    assert comm.allreduce(FLOATS).tolist() == FLOATS.tolist()


@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({"topology": "ring:4"}, ValueError, [4, 3]),
        ({"topology": "rong:3"}, ringroad.TopologyError, ["ring"]),
        ({"topology": 3.5}, TypeError, []),
        ({"algorithm": "rong"}, ValueError, ["ring"]),
        ({"algorithm": "broadcast:ring"}, ValueError, ["ring", "broadcast"]),
        ({"timeout": 0.0}, ValueError, ["timeout"]),
    ],
)
def test_refused_communicators(options, error, names, refused):
    with refused(error, *names):
        ringroad.Communicator.in_process(3, **options)


@pytest.mark.parametrize(("rank", "size"), [(3, 3), (0, 0), (-1, 2)])
def test_refused_places(rank, size):
    with pytest.raises(ValueError):
        ringroad.Communicator(ringroad.MemoryStore(), rank, size)
    with pytest.raises(ValueError):
        ringroad.init(ringroad.MemoryStore(), rank=rank, size=size)


@pytest.mark.parametrize(
    ("method", "value"),
    [("get", "text"), ("get", 7), ("check", None)],
)
def test_stores_that_return_something_else(method, value, refused):
    class Store:
        def set(self, key, data):
            pass

        def get(self, key):
            return value

    if method == "check":
        Store.check = lambda self, keys: value
    with refused(ringroad.StoreError, f"Store.{method}", f"not {value!r}"):
        ringroad.Communicator(Store(), 1, 2, timeout=5)


def test_something_that_is_no_store(refused):
    with refused(TypeError):
        ringroad.Communicator({}, 0, 1)
