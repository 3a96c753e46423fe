"""Ranks that make different calls, do not come, or die: all ranks soon learn what happened, and who caused it."""

import re
import signal
import time

import numpy as np
import pytest
import ringroad
from helpers import PROGRAMS, TRANSPORTS, launch

LONG = 60.0  # the clusters' time limit; a test that reaches it has failed


def failures_of(cluster, function, *args):
    """The errors that the function raises on each rank. The cluster's next run makes new communicators."""
    with pytest.raises(ringroad.WorkerError) as caught:
        cluster.run(function, *args)
    assert len(caught.value.failures) == cluster.size, str(caught.value)
    return {failure.rank: failure.exception for failure in caught.value.failures}


# ------------------------------------------------------------------------------------------------ mismatches

F4, F8 = np.float32, np.float64

# (the call of all ranks except 1, a word that the message has about it, the call of rank 1, a word about that)
MISMATCHES = {
    "count": (lambda c: c.allreduce(np.ones(10)), "of 10", lambda c: c.allreduce(np.ones(11)), "of 11"),
    "count, large": (lambda c: c.allreduce(np.ones(9)), "of 9", lambda c: c.allreduce(np.ones(10**6)), "of 1000000"),
    "dtype": (lambda c: c.allreduce(np.ones(8, F4)), "float32", lambda c: c.allreduce(np.ones(8, F8)), "float64"),
    "dtype, same bytes": (lambda c: c.allgather(np.ones(8, F4)), "8 f", lambda c: c.allgather(np.ones(4, F8)), "4 f"),
    "op": (lambda c: c.allreduce(np.ones(8)), "sum", lambda c: c.allreduce(np.ones(8), op="max"), "max"),
    "collective": (lambda c: c.allreduce(np.ones(8)), "allreduce", lambda c: c.allgather(np.ones(8)), "allgather"),
    "barrier": (lambda c: c.allreduce(np.ones(8)), "allreduce", lambda c: c.barrier(), "barrier"),
    "root": (lambda c: c.broadcast(np.ones(8), 0), "(root 0)", lambda c: c.broadcast(np.ones(8), 1), "(root 1)"),
    # All ranks wait and none sends, so only the deadline reveals the mistake.
    "root, silent": (
        lambda c: c.reduce(np.ones(8), root=0, timeout=1.0),
        "(root 0)",
        lambda c: c.reduce(np.ones(8), root=1, timeout=1.0),
        "(root 1)",
    ),
    "count to all": (lambda c: c.broadcast(np.ones(10)), "of 10", lambda c: c.broadcast(np.ones(11)), "of 11"),
    "count from all": (lambda c: c.gather(np.ones(10)), "of 10", lambda c: c.gather(np.ones(11)), "of 11"),
    "algorithm": (
        lambda c: c.allreduce(np.ones(8), algorithm="ring"),
        "by ring",
        lambda c: c.allreduce(np.ones(8), algorithm="trivance"),
        "by trivance",
    ),
    "order": (
        lambda c: (c.allreduce(np.ones(8)), c.broadcast(np.ones(8))),
        "allreduce",
        lambda c: (c.broadcast(np.ones(8)), c.allreduce(np.ones(8))),
        "broadcast",
    ),
}


# Rust's tests have all of them over all transports.
@pytest.mark.parametrize(
    ("transport", "what"), [*(("memory", what) for what in MISMATCHES), ("shm", "order"), ("tcp", "count, large")]
)
def test_mismatch(clusters, what, transport):
    def work(comm, most, other):
        comm.allreduce(np.ones(3))
        (other if comm.rank == 1 else most)(comm)
        comm.barrier()  # a rank that only sends may learn of it late

    most, said, other, otherwise = MISMATCHES[what]
    for rank, error in failures_of(clusters(3, transport), work, most, other).items():
        assert isinstance(error, ringroad.MismatchError), f"rank {rank}: {error!r}"
        text = str(error)
        assert said in text and otherwise in text, f"rank {rank}: {text}"
        assert all(f"rank {r}" in text for r in range(3)), f"rank {rank}: {text}"


# (what rank 0 sends, what rank 1 receives into, from which rank, what all are told)
MISFITS = [
    (np.ones(12), np.ones(11), 0, "is for 88 bytes, but the message from rank 0 has 96 bytes"),
    (np.ones(11), np.ones(10), None, "is for 80 bytes, but the message from rank 0 has 88 bytes"),
    (np.ones(10, F8), np.ones(20, F4), 0, "is for 80 bytes, but the message from rank 0 has 80 bytes of float64"),
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


# ------------------------------------------------------------------------------------------------ deadlines


@pytest.mark.parametrize(("transport", "count"), [("memory", 1), ("tcp", 300_000)])
def test_deadline_names_the_missing_rank(clusters, count, transport):
    def work(comm):
        if comm.rank == 2:
            comm.recv(np.empty(1), 0, timeout=60)  # the message never comes: this rank is busy elsewhere
        comm.broadcast(np.ones(count), root=2, timeout=1.0)

    errors = failures_of(clusters(3, transport), work)
    for rank in (0, 1):
        error = errors[rank]
        assert isinstance(error, ringroad.TimeoutError), repr(error)
        assert "timed out after 1.000 s" in str(error) and "broadcast" in str(error)
        # Either directly, or by way of another rank that waits for rank 2.
        assert re.search(r"waiting for rank 2|Not in this call:\s+rank 2", str(error)), error
    assert isinstance(errors[2], ringroad.RingroadError)


def test_deadline_of_a_receive(clusters):
    def work(comm):
        if comm.rank == 0:
            comm.recv(np.empty(4), 1, tag=9, timeout=0.3)
        comm.barrier()

    errors = failures_of(clusters(2), work)
    assert isinstance(errors[0], ringroad.TimeoutError)
    assert "rank 1" in str(errors[0]) and "tag 9" in str(errors[0])


def test_failed_communicator_says_why(clusters):
    def work(comm):
        if comm.rank == 0:
            with pytest.raises(ringroad.TimeoutError):
                comm.recv(np.empty(4), 1, timeout=0.2)
        comm.allreduce(np.ones(3))

    errors = failures_of(clusters(2), work)
    assert isinstance(errors[0], ringroad.AbortedError) and "recv of 4 float64" in str(errors[0])


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


def test_death_while_others_wait_elsewhere(tmp_path):
    """A rank that does not communicate with the dead one still learns of the death."""
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "CALL": "broadcast", "COUNT": "300000"}
    ended = launch(VICTIM, 4, env=env)
    assert ended[2].status == -signal.SIGKILL
    for rank in (0, 1, 3):
        assert "rank 2" in ended[rank].json()["text"]


# ------------------------------------------------------------------------------------------------ leaving


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_who_leaves_early_is_named(clusters, transport):
    """Long before the deadline, although its process is alive."""

    def work(comm):
        comm.barrier()
        if comm.rank == 1:
            comm.close()
        comm.barrier(timeout=20)

    errors = failures_of(clusters(3, transport), work)
    for rank in (0, 2):
        assert isinstance(errors[rank], ringroad.PeerError) and "rank 1" in str(errors[rank]), repr(errors[rank])


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
