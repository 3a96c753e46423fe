"""Calls with invalid arguments are refused at once, with an explanation, and leave the communicator usable."""

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
def test_masked_arrays(comm, call):
    with pytest.raises(TypeError, match=r"is a masked array.*filled"):
        MASK_REFUSED[call](comm)


def test_other_subclasses_are_arrays():
    class Named(np.ndarray):
        pass

    with ringroad.Communicator.in_process(1)[0] as alone:
        assert (alone.allreduce(np.ones(3).view(Named)) == 1).all()


REFUSED = {
    "a set": (lambda c: c.allreduce({1.0, 2.0}), TypeError, "object"),
    "a ragged list": (lambda c: c.allreduce([[1.0], [1.0, 2.0]]), TypeError, "send cannot be made a NumPy array"),
    "a list to write to": (lambda c: c.allreduce(FLOATS, [0.0] * 6), TypeError, "out must be a NumPy array, not list"),
    "a list in place": (lambda c: (lambda x: c.allreduce(x, x))([1.0]), TypeError, "out must be a NumPy array"),
    "a list to broadcast": (lambda c: c.broadcast([1.0]), TypeError, "array must be a NumPy array, not list"),
    "a number to receive into": (lambda c: c.recv(1.0, 1), TypeError, "out must be a NumPy array, not float"),
    "None": (lambda c: c.allreduce(None), TypeError, "None|array"),
    "longdouble": (lambda c: c.allreduce(np.ones(2, np.longdouble)), TypeError, "longdouble|float128"),
    "datetime64": (lambda c: c.allreduce(np.ones(2, "datetime64[s]")), TypeError, "datetime64"),
    "object": (lambda c: c.allreduce(np.array([1, None])), TypeError, "object"),
    "a string": (lambda c: c.allreduce(np.array(["a"])), TypeError, "U1|str"),
    "big-endian": (lambda c: c.allreduce(np.ones(2, ">f4")), TypeError, ">f4"),
    "float8": (lambda c: c.allreduce(np.ones(2, ml_dtypes.float8_e5m2)), TypeError, "float8"),
    "avg of integers": (lambda c: c.allreduce(np.ones(2, int), op="avg"), TypeError, "avg does not support int64"),
    "unknown op": (lambda c: c.allreduce(FLOATS, op="summ"), ValueError, "summ.*did you mean sum.*avg"),
    "factor without premul_sum": (lambda c: c.allreduce(FLOATS, factor=2.0), ValueError, "factor|premul_sum"),
    "unknown algorithm": (lambda c: c.allreduce(FLOATS, algorithm="rong"), ValueError, "did you mean ring"),
    "shared elements in place": (lambda c: c.allreduce(SAME, SAME), ValueError, "out has elements that share memory"),
    "strided, prepared": (lambda c: c.prepare("allreduce", np.ones(4)[::2]), ValueError, "send is not C-contiguous"),
    "a list, prepared": (lambda c: c.prepare("allreduce", [1.0]), TypeError, "send must be a NumPy array"),
    "prepared with a wrong name": (lambda c: c.prepare("allredduce", FLOATS), ValueError, "allreduce"),
    "prepared with a useless op": (lambda c: c.prepare("allgather", FLOATS, op="max"), ValueError, "no op"),
    "wrong counts to gather": (lambda c: c.gather(FLOATS, counts=[6]), ValueError, "counts"),
    "wrong counts to scatter": (lambda c: c.scatter(FLOATS, counts=[3, 4]), ValueError, "7 rows"),
    "objects for too few": (lambda c: c.scatter_object(["one"]), ValueError, "one object for each of 2"),
    "gathered objects at nobody": (lambda c: c.gather_object("one", root=2), ValueError, "root 2"),
    "an object that is none": (lambda c: c.broadcast_object(lambda: 0), Exception, "pickle"),
    "coalesced with too few outputs": (lambda c: c.allreduce_coalesced([FLOATS], []), ValueError, "each of 1, not 0"),
    "coalesced into another type": (
        lambda c: c.allreduce_coalesced([1, 2.0], [np.ones(()), np.ones(())]),
        ValueError,
        "int",
    ),
    "coalesced lists in place": (lambda c: c.broadcast_coalesced([[1.0]]), TypeError, r"arrays\[0\] must be"),
    "a handle that is none": (lambda c: ringroad.waitall([None]), TypeError, "Work as each item of the list, not None"),
    "a callback that is none": (
        lambda c: c.send(FLOATS, 1, async_op=True).on_complete(5),
        TypeError,
        "callback.*not 5",
    ),
    "avg of a scan": (lambda c: c.scan(FLOATS, op="avg"), ValueError, "scan takes no avg"),
    "a negative colour": (lambda c: c.split(-1), ValueError, "color is -1"),
    "a colour that is no number": (lambda c: c.split("red"), TypeError, "color"),
    "strided out, prepared": (lambda c: c.prepare("allreduce", np.ones(2), np.ones(4)[::2]), ValueError, "contiguous"),
    "endless counts": (lambda c: c.gather(FLOATS, counts=range(2**40)), ValueError, r"counts must be 2 whole numbers"),
    "endless counts of pairs": (
        lambda c: c.alltoall(FLOATS, counts=[range(2**40)] * 2),
        ValueError,
        "counts must be 2 by 2",
    ),
    "endless members": (
        lambda c: ringroad.Topology("ring:4").induced(range(2**40)),
        ValueError,
        "at most 67108864 items",
    ),
    "read-only out": (lambda c: c.allreduce(FLOATS, read_only(FLOATS)), ValueError, "read-only|writ"),
    "read-only broadcast": (lambda c: c.broadcast(read_only(FLOATS), 1), ValueError, "read-only|writ"),
    "out of another shape": (lambda c: c.allreduce(FLOATS, np.empty(5, np.float32)), ValueError, r"5.*6|6.*5"),
    "out of another type": (lambda c: c.allreduce(FLOATS, np.empty(6)), (TypeError, ValueError), "float64"),
    "gathered into too little": (lambda c: c.allgather(FLOATS, np.empty(6, np.float32)), ValueError, "12"),
    "blocks of unequal size": (lambda c: c.reduce_scatter(np.ones(7)), ValueError, "7"),
    "blocks of a scalar": (lambda c: c.alltoall(np.array(1.0)), ValueError, "axis|block|dimension"),
    "root out of range": (lambda c: c.broadcast(FLOATS.copy(), 2), ValueError, "root 2"),
    "negative root": (lambda c: c.broadcast(FLOATS.copy(), -1), ValueError, r"not -1\n.*'root'"),
    "negative root, raw": (lambda c: raw(c, "broadcast", root=-1), ValueError, r"not -1\n.*'root'"),
    "negative peer": (lambda c: c.send(FLOATS, -1), ValueError, r"not -1\n.*'peer'"),
    "a peer that is no number": (lambda c: c.send(FLOATS, "1"), TypeError, "peer"),
    "negative elements": (lambda c: raw(c, "allreduce", elements=-1), ValueError, r"not -1\n.*'elements'"),
    "too many elements": (lambda c: raw(c, "allgather", elements=1 << 62), ValueError, "elements"),
    "no input": (lambda c: raw(c, "allreduce", input=0), ValueError, "input is 0x0, .* 24 bytes"),
    "no output": (lambda c: raw(c, "allreduce", output=0), ValueError, "output is 0x0"),
    "nothing to exchange": (
        lambda c: raw(c, "alltoall", input=0, counts=[[1, 1], [1, 1]]),
        ValueError,
        "input is 0x0",
    ),
    "scatter without data at the root": (
        lambda c: c.scatter(None, np.empty(3), root=0),
        (TypeError, ValueError),
        "send",
    ),
    "scatter without out elsewhere": (lambda c: c.scatter(None, root=1), (TypeError, ValueError), "out"),
    "message to no rank": (lambda c: c.send(FLOATS, 2), ValueError, "peer 2"),
    "message to any rank": (
        lambda c: c.send(FLOATS, ringroad.ANY),
        ValueError,
        r"ringroad.PROC_NULL, not -\d+\n.*'peer'",
    ),
    "message with any tag": (lambda c: c.send(FLOATS, 1, ringroad.ANY), ValueError, r"not -\d+\n.*'tag'"),
    "read-only, strided recv": (lambda c: c.recv(read_only(FLOATS[::2]), 1), ValueError, "read-only"),
    "recv into shared elements": (lambda c: c.recv(SAME, 1), ValueError, "out has elements that share memory.*copy"),
    "exchange into shared elements": (
        lambda c: c.sendrecv(FLOATS, 1, as_strided(FLOATS.copy(), (2, 5), (4, 4))),
        ValueError,
        "share memory",
    ),
    "coalesced into shared elements": (lambda c: c.broadcast_coalesced([SAME]), ValueError, r"arrays\[0\].*share"),
    "tag too large": (lambda c: c.send(FLOATS, 1, tag=1 << 28), ValueError, "tag 268435456 is not below 268435456"),
    "negative tag": (lambda c: c.recv(FLOATS.copy(), 1, tag=-1), ValueError, r"not -1\n.*'tag'"),
    "negative timeout": (lambda c: c.allreduce(FLOATS, timeout=-1.0), ValueError, "timeout"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(comm, name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call(comm)


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
def test_elements_that_share_memory(array, shared):
    with pytest.raises(ValueError, match="share") if shared else nullcontext():
        require_distinct(array, "out")


def test_usable_after_refusals():
    (comm,) = ringroad.Communicator.in_process(1, timeout=60)
    with pytest.raises(TypeError):
        comm.allreduce({1.0})
    with pytest.raises(ValueError):
        comm.allreduce(FLOATS, op="summ")
    assert comm.allreduce(FLOATS).tolist() == FLOATS.tolist()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"topology": "ring:4"}, ValueError, "4.*3|3.*4"),
        ({"topology": "rong:3"}, ringroad.TopologyError, "ring"),
        ({"topology": 3.5}, TypeError, "opology|str"),
        ({"algorithm": "rong"}, ValueError, "ring"),
        ({"algorithm": "broadcast:ring"}, ValueError, "ring performs no broadcast"),
        ({"timeout": 0.0}, ValueError, "timeout"),
    ],
)
def test_refused_communicators(options, error, words):
    with pytest.raises(error, match=words):
        ringroad.Communicator.in_process(3, **options)


@pytest.mark.parametrize(("rank", "size"), [(3, 3), (0, 0), (-1, 2)])
def test_refused_places(rank, size):
    with pytest.raises(ValueError):
        ringroad.Communicator(ringroad.MemoryStore(), rank, size)
    with pytest.raises(ValueError):
        ringroad.init(ringroad.MemoryStore(), rank=rank, size=size)


@pytest.mark.parametrize(
    ("method", "value", "words"),
    [
        ("get", "text", "Store.get must return bytes, or None if there is no such key, not 'text'"),
        ("get", 7, "Store.get must return bytes, or None .*, not 7"),
        ("check", None, "Store.check must return True or False, not None"),
    ],
)
def test_stores_that_return_something_else(method, value, words):
    class Store:
        def set(self, key, data):
            pass

        def get(self, key):
            return value

    if method == "check":
        Store.check = lambda self, keys: value
    with pytest.raises(ringroad.StoreError, match=rf"cannot get .* in the store: TypeError: {words}"):
        ringroad.Communicator(Store(), 1, 2, timeout=5)


def test_something_that_is_no_store():
    with pytest.raises(TypeError, match=r"store|set|get"):
        ringroad.Communicator({}, 0, 1)
