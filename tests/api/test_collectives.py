"""Every collective against NumPy, over shared memory and over tcp."""

import numpy as np
import pytest
import ringroad
from helpers import (
    FULL,
    TRANSPORTS,
    by_every_algorithm,
    cases,
    check_async,
    check_cases,
    check_ring,
    check_rows,
    launch,
    permutations,
)
from ringroad._oracle import COLLECTIVES, UNEVEN

# Rust's tests have all numbers of ranks over all transports.
GRID = [("memory", 2), ("memory", 5), ("shm", 3), ("tcp", 3)]
EVERYWHERE = [(transport, ranks) for transport in TRANSPORTS for ranks in (2, 3, 5, 8)]


def replicated(collective: str) -> bool:
    """Whether all ranks end with the same data."""
    return collective in ("allreduce", "allgather", "broadcast")


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(("transport", "ranks"), EVERYWHERE if FULL else GRID)
def test_matches_numpy(clusters, transport, ranks, collective):
    digests = clusters(ranks, transport).run(check_cases, list(cases(collective, ranks)))
    if replicated(collective):
        assert all(digest == digests[0] for digest in digests), "the ranks' results differ in their bits"


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_group_of_one(clusters, collective):
    clusters(1).run(check_cases, list(cases(collective, 1, sizes=[0, 1, 1000])))


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("collective", UNEVEN)
def test_uneven_blocks(clusters, ranks, collective):
    many = by_every_algorithm(collective, f"hosts:1x{ranks}", [0, 1, 5, 1000], blocks="uneven")
    clusters(ranks).run(check_cases, many)


def test_uneven_rows(clusters):
    clusters(3).run(check_rows, [5, 0, 3])


@pytest.mark.parametrize(("transport", "ranks"), [("memory", 2), ("shm", 3), ("tcp", 3)])
def test_async_calls_in_flight(clusters, ranks, transport):
    counts = [5, 70_000, 0, 1]
    orders = permutations(len(counts)) if transport != "tcp" else [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]]
    for order in orders[:: 5 if transport != "tcp" else 1]:
        digests = clusters(ranks, transport).run(check_async, order, counts)
        assert all(digest == digests[0] for digest in digests)


def test_async_kinds_mixed(clusters):
    def work(comm):
        vectors = [np.full(1000, comm.rank + 1.0, np.float32) for _ in range(3)]
        works = [
            comm.allreduce(vectors[0], async_op=True),
            comm.broadcast(vectors[1], 1, async_op=True),
            comm.allgather(vectors[2][:2], async_op=True),
            comm.barrier(async_op=True),
        ]
        assert works[3].wait() is True
        assert works[1].result() is vectors[1]
        return works[0].result()[0], vectors[1][-1], list(works[2].result())

    ranks = 3
    for total, copied, gathered in clusters(ranks).run(work):
        assert (total, copied, gathered) == (6.0, 2.0, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0])


def test_callbacks(clusters):
    def work(comm):
        import threading

        called = threading.Event()
        errors = []

        def callback(error):
            errors.append(error)
            called.set()

        first = comm.allreduce(np.ones(10_000), async_op=True)
        first.on_complete(callback)
        assert called.wait(60), "nobody called back although nobody waits"
        called.clear()
        first.on_complete(callback)
        assert called.is_set(), "a finished call calls back at once"
        return errors

    assert clusters(3).run(work) == [[None, None]] * 3


CALLBACK_AT_EXIT = """
import time, ringroad

def callback(error):
    for _ in range(10):
        time.sleep(0.05)  # an interpreter that is ending would stop the thread here
    print("done")

a, b = ringroad.Communicator.in_process(2)
work = a.barrier(async_op=True)
work.on_complete(callback)
b.barrier()
work.wait()
del a, b, work
"""


def test_the_process_ends_after_the_callbacks():
    """Even if their communicators are gone."""
    (ended,) = launch(CALLBACK_AT_EXIT, 1)
    assert (ended.status, ended.out) == (0, "done\n"), ended.err


def test_work_that_nobody_waits_for(clusters):
    """The call of a dropped Work completes; its memory stays alive until then."""

    def work(comm):
        for round in range(20):
            comm.allreduce(np.full(20_000, float(round)), async_op=True)
        return comm.allreduce(np.ones(3))

    for result in clusters(3).run(work):
        assert list(result) == [3.0] * 3


def test_an_array_that_goes_within_another_call():
    """A finalizer that runs when an array is freed may use the communicator, whichever call frees the array."""

    def work(comm):
        import weakref

        gone = []
        for _ in range(500):
            if comm.rank == 0:
                array = np.empty(4)
                weakref.finalize(array, lambda: gone.append(comm.transport))
                work = comm.recv(array, 1, 5, async_op=True)
                del work, array
                comm.send(np.zeros(1), 1, 1)
                comm.recv(np.zeros(1), 1, 2)
            else:
                comm.recv(np.zeros(1), 0, 1)
                comm.send(np.ones(4), 0, 5)
                comm.send(np.zeros(1), 0, 2)
        comm.barrier()
        return len(gone)

    with ringroad.local(2, timeout=20) as cluster:
        assert cluster.run(work)[0] > 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_send_and_receive(clusters, transport):
    for count, dtype in [(0, "float32"), (1, "int8"), (1000, "bfloat16"), (100_000, "float64")]:
        clusters(3, transport).run(check_ring, count, dtype)


def test_shapes(clusters):
    """Blocks lie along the first axis; results keep the other axes."""

    def work(comm):
        n, me = comm.size, comm.rank
        matrix = np.arange(n * 2 * 3, dtype=np.int64).reshape(n * 2, 3) + me
        shapes = {
            "allreduce": comm.allreduce(matrix).shape,
            "reduce_scatter": comm.reduce_scatter(matrix).shape,
            "allgather": comm.allgather(matrix).shape,
            "alltoall": comm.alltoall(matrix).shape,
            "scalar allreduce": comm.allreduce(np.array(1.0)).shape,
            "scalar allgather": comm.allgather(np.array(float(me))).tolist(),
            "gather": (comm.gather(matrix, root=1) if me == 1 else np.array(comm.gather(matrix, root=1) is None)).shape,
            "scatter": comm.scatter(matrix if me == 0 else None, None if me == 0 else np.empty_like(matrix[:2])).shape,
        }
        return shapes

    results = clusters(3).run(work)
    for rank, shapes in enumerate(results):
        assert shapes == {
            "allreduce": (6, 3),
            "reduce_scatter": (2, 3),
            "allgather": (18, 3),
            "alltoall": (6, 3),
            "scalar allreduce": (),
            "scalar allgather": [0.0, 1.0, 2.0],
            "gather": (18, 3) if rank == 1 else (),
            "scatter": (2, 3),
        }


def test_bfloat16_is_rounded_not_truncated(clusters):
    def work(comm):
        import ml_dtypes

        send = np.array([1 + 2**-7, 256.0, -0.0], ml_dtypes.bfloat16)
        return comm.allreduce(send).astype(np.float32).tolist()

    assert clusters(2).run(work) == [[2 + 2**-6, 512.0, -0.0]] * 2


def test_environment_chooses_the_algorithm():
    def work(comm):
        work = comm.allreduce(np.ones(10), async_op=True)
        other = comm.allreduce(np.ones(10), algorithm="bidirectional-ring", async_op=True)
        work.wait(), other.wait()
        chosen = comm.algorithm_for("allreduce", 1 << 20), comm.algorithm_for("broadcast", 8)
        return work.algorithm, other.algorithm, *chosen, comm.switch_points("allreduce")

    with ringroad.local(3, env={"RINGROAD_ALGO": "allreduce:ring;broadcast:scatter-allgather"}) as cluster:
        expected = ("ring", "bidirectional-ring", "ring", "scatter-allgather", [(0, "ring")])
        assert cluster.run(work) == [expected] * 3


def test_topology_chooses_the_algorithm():
    def work(comm):
        return (
            comm.topology,
            comm.switch_points(),
            comm.algorithm_for("allreduce", 8),
            comm.algorithm_for("allreduce", 1 << 30),
        )

    with ringroad.local(4, topology="ring:4") as cluster:
        topology, points, small, large = cluster.run(work)[0]
    assert topology == "ring:4"
    assert points[0][0] == 0 and points[0][1] == small and points[-1][1] == large
    assert [start for start, _ in points] == sorted({start for start, _ in points})


def test_properties(clusters):
    def describe(comm):
        return comm.rank, comm.size, comm.timeout, str(comm.transport), comm.hosts

    for transport, begin, word in [
        ("memory", "shared memory", ""),
        ("shm", "ucx 1.", "posix"),
        ("tcp", "ucx 1.", "tcp"),
    ]:
        for rank, (own, size, timeout, carrier, hosts) in enumerate(clusters(3, transport).run(describe)):
            assert (own, size, timeout) == (rank, 3, 60.0)
            assert carrier.startswith(begin) and word in carrier, carrier
            assert len(hosts) == 3
