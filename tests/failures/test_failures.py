"""Ranks that make different calls, do not come, or die: all ranks soon learn what happened, and who caused it."""

import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import ringroad
from helpers import PROGRAMS, TRANSPORTS, failure_of, launch

LONG = 60.0  # the clusters' time limit; a test that reaches it has failed


def failures_of(cluster, function, *args):
    """The errors that the function raises on each rank. The cluster's next run makes new communicators."""
    with pytest.raises(ringroad.WorkerError) as caught:
        cluster.run(function, *args)
    assert len(caught.value.failures) == cluster.size, str(caught.value)
    return {failure.rank: failure.exception for failure in caught.value.failures}


# ------------------------------------------------------------------------------------------------ mismatches

F4 = np.float32


@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_calls_that_differ(clusters, transport):
    """Rust's tests have everything in which calls can differ, over all transports."""

    def work(comm):
        comm.allreduce(np.ones(3))
        comm.allreduce(np.ones(9 if comm.rank != 1 else 10**6, F4))
        comm.barrier()  # a rank that only sends may learn of it late

    for rank, error in failures_of(clusters(3, transport), work).items():
        assert isinstance(error, ringroad.MismatchError), f"rank {rank}: {error!r}"
        text = str(error)
        assert "of 9 float32" in text and "of 1000000 float32" in text, f"rank {rank}: {text}"
        assert all(f"rank {r}" in text for r in range(3)), f"rank {rank}: {text}"


# (what rank 0 sends, what rank 1 receives into, from which rank, what all are told)
MISFITS = [
    (np.ones(12), np.ones(11), 0, "is for 88 bytes, but the message from rank 0 has 96 bytes"),
    (np.ones(11), np.ones(10), None, "is for 80 bytes, but the message from rank 0 has 88 bytes"),
    (np.ones(10), np.ones(20, F4), 0, "is for 80 bytes, but the message from rank 0 has 80 bytes of float64"),
    (np.ones(400_000), np.ones(300_000), 0, "is for 2400000 bytes, but the message from rank 0 has 3200000 bytes"),
]


@pytest.mark.parametrize(
    ("transport", "number"), [("memory", 0), ("memory", 1), ("memory", 2), ("memory", 3), ("shm", 1), ("tcp", 3)]
)
def test_message_of_another_size(clusters, transport, number):
    sent, out, source, words = MISFITS[number]

    def work(comm):
        if comm.rank == 0:
            comm.send(sent, 1, 7)
        if comm.rank == 1:
            comm.recv(out, source, 7)
        comm.barrier()

    errors = failures_of(clusters(3, transport), work)
    assert isinstance(errors[1], ringroad.MismatchError)
    for error in errors.values():
        assert isinstance(error, ringroad.MismatchError | ringroad.AbortedError)
        assert words in str(error) and "tag 7" in str(error)


# ------------------------------------------------------------------------------------------------ connections


@pytest.mark.parametrize(
    ("transport", "call"),
    [("own", "send"), ("own", "recv"), ("own", "recv_any"), ("tcp", "send"), ("tcp", "send long")],
)
def test_process_that_cannot_connect(clusters, tmp_path, transport, call):
    """It gives up by itself, and blames nobody else."""

    def work(comm, directory, call):
        store = ringroad.FileStore(directory)  # around a ring, ranks 1 and 3 have nothing to send to each other
        with ringroad.Communicator(store, comm.rank, 4, algorithm="ring", timeout=20) as ring:
            if ring.rank == 2 and call == "send long":
                ring.recv(np.ones(400_000), 1)
            if ring.rank != 1:
                return ring.barrier()
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
            try:
                if call == "send":
                    ring.send(np.ones(3), 3)
                elif call == "send long":  # for which UCX makes a second connection to its neighbour
                    ring.send(np.ones(400_000), 2)
                else:
                    ring.recv(np.ones(3), 3 if call == "recv" else None)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    errors = failures_of(clusters(4, transport), work, str(tmp_path), call)
    for rank, error in errors.items():
        assert isinstance(error, ringroad.TransportError if rank == 1 else ringroad.AbortedError), repr(error)
        assert "raise the limit of open files" in str(error) and "rank 1" in str(error), error


# ------------------------------------------------------------------------------------------------ deadlines


def test_failed_communicator_says_why(clusters):
    def work(comm):
        if comm.rank == 0:
            with pytest.raises(ringroad.TimeoutError):
                comm.recv(np.empty(4), 1, timeout=0.2)
        comm.allreduce(np.ones(3))

    errors = failures_of(clusters(2), work)
    assert isinstance(errors[0], ringroad.AbortedError) and "recv of 4 float64" in str(errors[0])


# ------------------------------------------------------------------------------------------------ signal handlers


def test_a_handler_makes_no_call_while_another_one_waits():
    """Ranks would mistake one for the other. The call that waits is as before, and later calls of handlers work."""
    a, b = ringroad.Communicator.in_process(2)
    out, refused, may_end = np.zeros(3), [], threading.Event()
    calls = [
        lambda: a.allreduce(np.ones(1), timeout=5),
        lambda: a.barrier(async_op=True),
        lambda: a.recv(out, 1, timeout=5),
        lambda: a.probe(1, timeout=5),
        lambda: a.split(0, timeout=5),
    ]

    def handler(*_):
        refused.extend(failure_of(call) for call in calls)
        may_end.set()

    def other():
        time.sleep(0.5)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2)
        assert may_end.wait(30)
        b.send(np.ones(3), 0)
        return b.allreduce(np.ones(1))

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(other)
            a.recv(out, 1, timeout=30)
            signal.signal(signal.SIGUSR2, lambda *_: refused.append(a.allreduce(np.ones(1)).item()))
            signal.raise_signal(signal.SIGUSR2)
            assert sent.result() == 2
    finally:
        signal.signal(signal.SIGUSR2, before)
        a.close()
        b.close()
    assert out.tolist() == [1, 1, 1] and refused.pop() == 2 and len(refused) == len(calls)
    for kind, text in refused:
        assert kind == "RuntimeError" and "set a flag in the handler" in text, (kind, text)


# ------------------------------------------------------------------------------------------------ rendezvous


def test_ranks_that_do_not_come(clusters, tmp_path):
    def work(comm, directory, rank):
        ringroad.Communicator(ringroad.FileStore(directory), rank, 4, timeout=0.5)

    for rank, missing in [(0, "ranks 1-3 did not come"), (1, "rank 0 did not come")]:
        (error,) = failures_of(clusters(1), work, str(tmp_path / str(rank)), rank).values()
        assert isinstance(error, ringroad.TimeoutError)
        assert missing in str(error)


class DeafStore:
    """A store that never answers, with the interface of torch's stores."""

    def set(self, key, value):
        pass

    def get(self, key):
        self.wait([key])

    def wait(self, keys, timeout=None):
        raise RuntimeError(f"wait timeout after {timeout}, keys: {keys}")

    def check(self, keys):
        return False


class BrokenStore(DeafStore):
    def set(self, key, value):
        raise OSError("the disk is full")


def test_store_that_never_answers(clusters):
    def work(comm, store):
        ringroad.Communicator(store, 0, 2, timeout=0.5)

    (error,) = failures_of(clusters(1), work, DeafStore()).values()
    assert isinstance(error, ringroad.TimeoutError | ringroad.StoreError), repr(error)
    (error,) = failures_of(clusters(1), work, BrokenStore()).values()
    assert isinstance(error, ringroad.StoreError) and "the disk is full" in str(error)


def test_no_ucx(tmp_path):
    missing = str(tmp_path / "libucp.so.0")
    env = {"RINGROAD_UCX_LIBRARY": missing, "RINGROAD_STORE": f"file://{tmp_path}/store"}
    env |= {"RINGROAD_TRANSPORT": "ucx", "RINGROAD_TIMEOUT": "5"}
    for ended in launch("import ringroad; ringroad.init()", 2, env=env):
        assert ended.status == 1
        last = ended.err.strip().splitlines()[-1]
        assert "TransportError" in last and missing in last


def test_one_host_needs_no_ucx(tmp_path):
    env = {"RINGROAD_UCX_LIBRARY": str(tmp_path / "libucp.so.0"), "RINGROAD_STORE": f"file://{tmp_path}/store"}
    for ended in launch("import ringroad; ringroad.init().barrier()", 3, env=env):
        assert ended.status == 0, ended.err


# ------------------------------------------------------------------------------------------------ death

VICTIM = PROGRAMS / "victim.py"


@pytest.mark.parametrize(("transport", "count"), [("memory", 10), ("shm", 300_000), ("tcp", 10)])
def test_death_of_a_rank(tmp_path, count, transport):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "CALL": "allreduce", "COUNT": str(count)} | TRANSPORTS[transport]
    ended = launch(VICTIM, 4, env=env)
    assert ended[2].status == -signal.SIGKILL
    for rank in (0, 1, 3):
        report = ended[rank].json()  # exit status 0: nothing crashes at exit
        assert report["type"] == "PeerError", report
        assert "rank 2" in report["text"], report
        assert report["seconds"] < 5, report


# ------------------------------------------------------------------------------------------------ leaving


@pytest.mark.parametrize("transport", ["memory", "shm"])
def test_nothing_is_taken_of_a_rank_that_has_given_up(clusters, transport, tmp_path):
    def work(comm, sign):
        comm.barrier()
        if comm.rank == 1:
            for work in [comm.send(np.ones(100), 0, tag, async_op=True) for tag in range(20)]:
                work.wait()
            comm.abort("enough")
            sign.touch()
        while not sign.exists():
            time.sleep(0.01)
        comm.recv(np.empty(100), 1, 0) if comm.rank == 0 else comm.barrier()

    for error in failures_of(clusters(2, transport), work, tmp_path / "gone").values():
        assert isinstance(error, ringroad.AbortedError) and "enough" in str(error), repr(error)


class Watched:
    """A store that three ranks share. Rank 2 fails there once the others wait for it; rank 1 does not read why."""

    def __init__(self, values, rank):
        self.values, self.rank = values, rank

    def set(self, key, value):
        self.values[key] = bytes(value)

    def get(self, key):
        if self.rank == 2 and "/choices/" in key:
            raise OSError("the disk is full")
        return None if self.rank == 1 and key.endswith("/end") else self.values.get(key)


def test_who_is_lost_while_ranks_connect_is_lost_to_all():
    """Also to those who hear of it from another rank."""
    values = {}

    def connect(rank):
        with pytest.raises(ringroad.RingroadError) as error:
            ringroad.Communicator(Watched(values, rank), rank, 3, timeout=20)
        return error.value

    with ThreadPoolExecutor(3) as pool:
        errors = list(pool.map(connect, range(3)))
    assert [type(error) for error in errors] == [ringroad.PeerError, ringroad.PeerError, ringroad.StoreError], errors
    assert all("rank 2" in str(error) and "the disk is full" in str(error) for error in errors[:2]), errors
