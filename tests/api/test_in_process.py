"""Communicators of threads, without processes and without UCX."""

import threading

import ml_dtypes
import numpy as np
import pytest
import ringroad
from helpers import FULL, cases, check_cases, in_threads
from ringroad._oracle import COLLECTIVES


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7] if FULL else [1, 4])
def test_matches_numpy(ranks, collective):
    many = list(cases(collective, ranks, sizes=[0, 1, 2, ranks, ranks + 1, 500]))
    in_threads(ranks, lambda comm: check_cases(comm, many), timeout=60)


def test_messages():
    def work(comm):
        out = np.empty(3, ml_dtypes.bfloat16)
        if comm.rank == 0:
            comm.send(np.arange(3).astype(ml_dtypes.bfloat16), 1, tag=7)
            return comm.recv(out, 1).tolist()
        comm.recv(out, 0, tag=7)
        comm.send(out * out, 0)
        return out.tolist()

    assert in_threads(2, work, timeout=60) == [[0, 1, 4], [0, 1, 2]]


def test_communicators_are_released_from_many_threads():
    """Several threads use and release several communicators at once."""
    groups = [ringroad.Communicator.in_process(3, timeout=60) for _ in range(4)]
    totals = []

    def work(comm, value):
        for _ in range(50):
            value = comm.allreduce(np.array([value]))[0] / 3
        totals.append(value)

    threads = [
        threading.Thread(target=work, args=(comm, float(index))) for index, group in enumerate(groups) for comm in group
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(totals) == [0.0] * 3 + [1.0] * 3 + [2.0] * 3 + [3.0] * 3


def test_context_manager_closes():
    (comm,) = ringroad.Communicator.in_process(1)
    with comm as same:
        assert same is comm and comm.allreduce(np.ones(2)).tolist() == [1.0, 1.0]
    comm.close()
    with pytest.raises(ringroad.AbortedError):
        comm.allreduce(np.ones(2))


def test_abort_releases_the_others():
    def work(comm):
        if comm.rank == 2:
            comm.abort("enough")
            return "aborted"
        with pytest.raises(ringroad.AbortedError) as caught:
            comm.allreduce(np.ones(100_000))
        assert "enough" in str(caught.value)
        with pytest.raises(ringroad.AbortedError):
            comm.barrier()
        return "released"

    assert in_threads(3, work, timeout=60) == ["released", "released", "aborted"]


def test_wait_with_a_timeout_of_its_own():
    """It raises, and the call continues."""
    entered = threading.Event()

    def work(comm):
        if comm.rank == 1:
            assert entered.wait(60)
            return comm.allreduce(np.ones(2)).tolist()
        call = comm.allreduce(np.ones(2), async_op=True)
        with pytest.raises(TimeoutError):
            call.wait(0.01)
        entered.set()
        return call.result().tolist()

    assert in_threads(2, work, timeout=60) == [[2.0, 2.0]] * 2
