"""Messages between two ranks: what sends, receives and probes do, and random programs that mpi4py runs, too."""

import re
import signal
import threading
import time

import ml_dtypes
import numpy as np
import pytest
import ringroad
from helpers import FULL, OWN, TRANSPORTS, by_mpi4py, failure_of, in_threads, within
from programs import random_messages
from ringroad import ANY, PROC_NULL

LONG = 600_000
"""So many doubles are more than a send copies."""


def sendrecv(comm):
    """Around the ring, in place and not, long and short; and along a line, whose ends have nobody beside them."""
    me, size = comm.rank, comm.size
    right, left = (me + 1) % size, (me - 1) % size
    ended = []
    for count in (1, 1000, LONG):
        x = np.full(count, float(me))
        out = np.empty(count)
        assert comm.sendrecv(x, right, out, left) is out and (out == left).all() and (x == me).all()
        assert comm.sendrecv(x, right, x, left, 5) is x and (x == left).all()
        new = comm.sendrecv(x, right)
        assert new.shape == x.shape and (new == (me - 2) % size).all()
    x = np.arange(8.0) + 10 * me
    comm.sendrecv(x[:5], right, x[3:], left)  # they overlap
    assert x.tolist() == [10 * me, 10 * me + 1, 10 * me + 2, *(10.0 * left + np.arange(5))]
    assert comm.sendrecv(me, right, np.empty(1, int), left, me, recv_tag=left) == left
    halo = np.full((4, 4), -1)
    up, down = (me - 1 if me > 0 else PROC_NULL), (me + 1 if me < size - 1 else PROC_NULL)
    border = comm.sendrecv(np.full(4, me), down, halo[:, 0], up)
    assert border.tolist() == halo[:, 0].tolist() == [me - 1] * 4 and (halo[:, 1:] == -1).all()
    assert (comm.sendrecv(x, down, None, up) is None) == (me == 0)
    assert comm.sendrecv_object({"from": me}, right, left) == {"from": left}
    assert comm.sendrecv_object(me, down, up, 3, recv_tag=ANY) == (me - 1 if me else None)
    for count in (3, LONG):
        works = [comm.sendrecv(np.full(count, me), right, np.empty(count, int), left, async_op=True) for _ in range(2)]
        works[0].on_complete(lambda error: ended.append(error))
        assert all((work.result() == left).all() and work.message.count == count for work in works)
        assert comm.sendrecv(np.empty(count), PROC_NULL, None, PROC_NULL, async_op=True).result() is None
    assert within(60, lambda: ended == [None] * 2)
    assert failure_of(lambda: comm.sendrecv(x, size, x, left))[0] == "ValueError"
    assert failure_of(lambda: comm.sendrecv(x, right, x, size, async_op=True))[0] == "ValueError"
    assert failure_of(lambda: comm.sendrecv(x, right, x, size))[0] == "ValueError"
    assert failure_of(lambda: comm.sendrecv_object(1, size, left))[0] == "ValueError"
    comm.barrier()
    return True


def nobody(comm):
    """Messages to and from nobody end at once, and change nothing."""
    out = np.arange(3)
    assert comm.send(out, PROC_NULL, 5) is None and comm.send(np.zeros(LONG), PROC_NULL) is None
    assert comm.recv(out, PROC_NULL) is out and comm.recv(out, PROC_NULL, ANY) is out and out.tolist() == [0, 1, 2]
    work = comm.recv(out, PROC_NULL, async_op=True)
    assert work.result() is out and work.source == PROC_NULL
    assert (work.message.source, work.message.count) == (PROC_NULL, 0)
    assert comm.probe(PROC_NULL).count == comm.iprobe(PROC_NULL, ANY).count == 0
    assert comm.send_object(1, PROC_NULL) is None and comm.recv_object(PROC_NULL) is None
    assert comm.recv(out, np.array([PROC_NULL], np.int32)[0]) is out
    return True


def lengths(comm):
    """Receives that are longer than the message, by name, from any rank and with any tag; also into strided arrays."""
    me, size = comm.rank, comm.size
    for count in (0, 1, 1000, LONG):
        for peer, tag in ((0, 7), (None, 7), (0, ANY), (ANY, ANY))[2 * (count == LONG) :]:
            everybody = [*range(size)] * 2 if me == 0 else []
            sends = [comm.send(np.arange(count), to, 7, async_op=True) for to in everybody]
            whole, strided = np.full(count + 3, -1), np.full((count + 3, 2), -1)[:, 0]
            work = comm.recv(whole, peer, tag, async_op=True)
            got, message = work.result(), work.message
            assert (message.source, message.tag, message.count, message.dtype) == (0, 7, count, whole.dtype)
            assert got.base is whole and work.source == 0
            assert comm.recv(strided, peer, tag).tolist() == got.tolist() == list(range(count))
            for out in (whole, strided):
                assert np.array_equal(out[:count], got) and (out[count:] == -1).all()
            ringroad.waitall(sends)
            comm.barrier()
    for count in (0, 3, LONG):
        sent = comm.send(np.arange(count, dtype=np.int16), right := (me + 1) % size, 4, async_op=True)
        got = comm.recv(None, (me - 1) % size, 4) if count else comm.recv(tag=ANY)
        assert got.dtype == np.int16 and got.tolist() == np.arange(count, dtype=np.int16).tolist() and sent.wait()
        comm.barrier()
    comm.send(np.ones(2, [("a", "i4"), ("b", "f8")]), right)
    assert comm.recv().view([("a", "i4"), ("b", "f8")])["b"].tolist() == [1, 1]
    assert comm.recv(peer=PROC_NULL) is None
    comm.barrier()
    whole = np.empty((2, 3), np.float32).T
    comm.send(np.arange(6, dtype=np.float32), me)
    assert comm.recv(whole, me) is whole and whole.tolist() == [[0, 1], [2, 3], [4, 5]]
    return True


def oneself(comm):
    """Short messages to oneself wait to be received; a long one is sent when it is."""
    me = comm.rank
    comm.send(np.array([1.0]), me, 1)
    comm.send(np.array([2.0]), me, 1)
    late = comm.recv(np.empty(1), me, 9, async_op=True)
    assert [comm.recv(np.empty(1), me, 1).item(), comm.recv(np.empty(1), None, ANY).item()] == [1.0, 2.0]
    long = comm.send(np.arange(float(LONG)), me, 2, async_op=True)
    assert not long.is_completed()
    assert comm.probe(me, 2).count == LONG
    assert comm.recv(np.empty(LONG), me, 2)[-1] == LONG - 1 and long.wait()
    comm.send(3.0, me, 9)
    assert late.result() == [3.0]
    comm.send_object("self", me)
    assert comm.recv_object() == "self"
    waiting = comm.recv(np.empty(1), ANY, ANY, async_op=True)
    received = []
    thread = threading.Thread(target=lambda: received.append(waiting.result().item()))
    thread.start()
    time.sleep(0.01)
    comm.send(4.0, me, 77)
    thread.join(60)
    assert received == [4.0] and waiting.message.tag == 77
    comm.barrier()
    return True


def probes(comm):
    """The cases of mpi4py's tests of Probe and Iprobe."""
    me, size = comm.rank, comm.size
    assert comm.iprobe(tag=ANY) is None
    comm.barrier()
    right, left = (me + 1) % size, (me - 1) % size
    sent = comm.send(np.arange(4, dtype=np.int16), right, 6, async_op=True)
    message = comm.probe(left, 6)
    assert (message.source, message.tag, message.count, message.dtype) == (left, 6, 4, np.int16)
    assert comm.probe(left, ANY) == comm.probe(None, 6) == comm.probe(tag=ANY) == comm.iprobe(left, 6) == message
    assert comm.iprobe(left, 5) is None and repr(message) == f"<Message of 4 int16 from rank {left} (tag 6)>"
    assert comm.recv(np.empty(message.count, message.dtype), message.source, message.tag).tolist() == [0, 1, 2, 3]
    sent.wait()
    assert comm.iprobe(tag=ANY) is None
    comm.barrier()
    sent = [comm.send(np.full(tag, tag), right, tag, async_op=True) for tag in (3, 1, 2)]
    order = []
    for _ in range(3):
        message = comm.probe(tag=ANY)
        order.append(message.tag)
        assert (
            comm.recv(np.empty(message.count, int), message.source, message.tag).tolist() == [message.tag] * message.tag
        )
    assert order == [3, 1, 2], "any tag takes messages in the order in which they were sent"
    assert ringroad.waitall(sent) == [None] * 3
    for value in (failure_of(lambda: comm.probe(size)), failure_of(lambda: comm.iprobe(tag=1 << 28))):
        assert value[0] == "ValueError"
    comm.barrier()
    return True


def several(comm):
    me, size = comm.rank, comm.size
    right, left = (me + 1) % size, (me - 1) % size
    receives = [comm.recv(np.empty(2), left, tag, async_op=True) for tag in range(4)]
    assert ringroad.testsome(receives) == []
    assert failure_of(lambda: ringroad.waitany(receives, 0.01))[0] == "TimeoutError"
    assert failure_of(lambda: ringroad.waitall(receives, 0.01))[0] == "TimeoutError"
    comm.barrier()
    comm.send(np.array([2.0, me]), right, 2)
    assert ringroad.waitany(receives) == 2 and receives[2].result().tolist() == [2.0, left]
    comm.barrier()
    for tag in (0, 1, 3):
        comm.send(np.array([float(tag), me]), right, tag)
    assert [got.tolist() for got in ringroad.waitall(iter(receives))] == [[tag, left] for tag in range(4)]
    assert ringroad.testsome(receives) == [0, 1, 2, 3] and ringroad.waitany(receives) == 0
    assert ringroad.testsome([]) == ringroad.waitall([]) == []
    assert failure_of(lambda: ringroad.waitany([]))[0] == "ValueError"
    assert failure_of(lambda: ringroad.waitall([1]))[0] == "TypeError"
    filled = np.zeros((3, 2))
    strided = comm.recv(filled[:, 1], left, 8, async_op=True)
    comm.send(np.arange(3.0), right, 8)
    assert ringroad.waitany([strided]) == 0 and filled.tolist() == [[0, 0], [0, 1], [0, 2]]
    comm.barrier()
    return True


EVERYTHING = [sendrecv, nobody, lengths, oneself, probes, several]


@pytest.mark.parametrize("ranks", [1, 2, 3] if FULL else [1, 3])
@pytest.mark.parametrize("check", EVERYTHING, ids=lambda check: check.__name__)
def test_in_threads(ranks, check):
    assert all(in_threads(ranks, check, timeout=60))


@pytest.mark.parametrize("transport", TRANSPORTS | OWN)
def test_between_processes(clusters, transport):
    for check in EVERYTHING:
        assert all(clusters(3, transport).run(check)), check.__name__


def test_a_signal_ends_the_wait_for_many():
    """Not only for the first of them."""

    def interrupt(*_):
        raise InterruptedError

    (alone,) = ringroad.Communicator.in_process(1, timeout=30)
    receives = [alone.recv(np.empty(1), 0, tag, async_op=True) for tag in range(2)]
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert failure_of(lambda: ringroad.waitall(receives))[0] == "InterruptedError"
        assert ringroad.testsome(receives) == []
    finally:
        signal.signal(signal.SIGALRM, before)


def test_calls_of_several_communicators_are_waited_for():
    """The end of a call of another communicator wakes the waiting thread, which is asleep meanwhile."""
    (a, b), (c, d) = (ringroad.Communicator.in_process(2, timeout=60) for _ in range(2))
    works = [a.recv(np.empty(1), 1, async_op=True), c.recv(np.empty(1), 1, async_op=True)]
    begun = time.process_time()
    timer = threading.Timer(0.4, lambda: d.send(1.0, 0))
    timer.start()
    assert ringroad.waitany(works) == 1
    assert time.process_time() - begun < 0.35, "waiting has kept the core busy"
    b.send(1.0, 0)
    ringroad.waitall(works)


PAIR = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])


def test_records():
    """A receive of bytes takes messages of all types that are moved as bytes."""

    def work(comm):
        peer, record = 1 - comm.rank, PAIR.view(np.recarray)
        sent = [comm.send(array, peer, async_op=True) for array in (PAIR, PAIR, PAIR, record)]
        came = comm.recv(None, peer)
        assert came.dtype == np.uint8 and came.tobytes() == PAIR.tobytes()
        message = comm.probe(peer)
        for source in (peer, ANY):
            assert comm.recv(np.empty(message.count, message.dtype), source).tobytes() == PAIR.tobytes()
        last = comm.recv(np.zeros(3, PAIR.dtype), peer, async_op=True)
        assert last.result().tolist() == PAIR.tolist()
        assert (last.message.count, last.message.dtype) == (PAIR.nbytes, message.dtype)
        ringroad.waitall(sent)

    in_threads(2, work, timeout=60)


@pytest.mark.parametrize(
    ("sent", "out"),
    [
        *((PAIR, PAIR[["b", "a"]]), (">i4", ">f4"), ("U2", "S8"), ("M8[s]", "M8[D]"), (PAIR, "f8"), ("i8", "V1")),
        (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e4m3fnuz)),
    ],
)
def test_messages_of_other_types(sent, out):
    def work(comm):
        array = np.zeros(9, getattr([sent, out][comm.rank], "dtype", [sent, out][comm.rank]))
        return failure_of(lambda: (comm.send(array, 1) if comm.rank == 0 else comm.recv(array, 0), comm.barrier()))

    kind, text = in_threads(2, work, timeout=60)[1]
    assert kind == "MismatchError" and "the types must be the same" in text, (kind, text)


def test_ranks_that_all_send_are_told():
    """No rank receives: the error says so, and what to do."""

    def work(comm):
        right = (comm.rank + 1) % comm.size
        return failure_of(lambda: comm.send(np.zeros(LONG), right, timeout=0.3 if comm.rank == 0 else 60))

    for kind, text in in_threads(3, work, timeout=60):
        assert kind == "TimeoutError"
        assert "All of these are sending, and none receives: use async_op=True or sendrecv" in text
        assert all(f"send of {LONG} float64 to rank {rank} (tag 0)" in text for rank in range(3)), text

    def receive(comm):
        return failure_of(lambda: comm.recv(np.zeros(1), 1 - comm.rank, timeout=0.3 if comm.rank == 0 else 60))

    for kind, text in in_threads(2, receive, timeout=60):
        assert kind == "TimeoutError" and "All of these are receiving, and none sends" in text, text

    def wait(comm):
        if comm.rank == 2:
            return failure_of(comm.barrier)
        return failure_of(lambda: comm.recv(np.zeros(1), comm.rank + 1, timeout=0.3 if comm.rank == 0 else 60))

    (_, text), *others = in_threads(3, wait, timeout=60)
    assert "rank 2 (" in text and "is in call number 1: barrier" in text and "All of these" not in text, text
    assert [kind for kind, _ in others] == ["TimeoutError"] * 2

    has_failed = threading.Event()

    def wait_for_a_late_one(comm):
        if comm.rank == 2:
            assert has_failed.wait(60)
            return failure_of(comm.barrier)
        if comm.rank == 1:
            return failure_of(comm.barrier)
        failure = failure_of(lambda: comm.recv(np.zeros(1), 1, timeout=0.3))
        has_failed.set()
        return failure

    (_, text), *_ = in_threads(3, wait_for_a_late_one, timeout=60)
    assert re.search(r"rank 1 .*is in call number 1: barrier.*\n +rank 2 .*did not answer", text), text


# ------------------------------------------------------------------------------------------------ random programs

SEEDS = range(1000 if FULL else 20)
RANKS = 3
SECONDS = 1700 if FULL else 170


def run_programs(comm):
    library = random_messages.OfRingroad(comm)
    logs = [random_messages.run(seed, comm.size, comm.rank, library) for seed in SEEDS]
    wrong = (random_messages.wrong(seed, comm.size, comm.rank, log) for seed, log in zip(SEEDS, logs, strict=True))
    return logs, [text for text in wrong if text]


@pytest.mark.timeout(SECONDS + 10)
@pytest.mark.parametrize("transport", ["threads", *(TRANSPORTS | OWN)])
def test_random_programs(clusters, transport):
    """Every rank receives what the program says."""
    run = clusters(RANKS, transport).run if transport != "threads" else lambda each: in_threads(RANKS, each, timeout=60)
    for _, wrong in run(run_programs):
        assert wrong == []


@pytest.mark.timeout(SECONDS + 10)
def test_random_programs_by_mpi4py():
    """mpi4py receives the same."""
    theirs = by_mpi4py("random_messages", RANKS, SEEDS, SECONDS)
    for seed, logs in zip(SEEDS, theirs, strict=True):
        for rank, log in enumerate(logs):
            assert random_messages.wrong(seed, RANKS, rank, log) is None
    ours = [logs for logs, _ in in_threads(RANKS, run_programs, timeout=60)]
    assert [[logs[seed] for logs in ours] for seed in SEEDS] == theirs
