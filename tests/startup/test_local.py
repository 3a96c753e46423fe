"""`ringroad.local`: results, errors, deaths, and that it leaves nothing behind."""

import gc
import os
import select
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import ringroad.lab
from helpers import is_running


@pytest.fixture
def cluster():
    with ringroad.local(3, timeout=60) as started:
        yield started


def wait_for_the_end_of(pids, seconds=30):
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ready, _, _ = select.select([descriptor], [], [], seconds)
        os.close(descriptor)
        assert ready, f"process {pid} still runs"


def total(comm, value=1.0):
    return comm.allreduce(np.array([value])).item()


# ------------------------------------------------------------------------------------------------ running


def test_results_come_in_rank_order(clusters):
    assert clusters(4).run(lambda comm, a, *, b: (comm.rank, a, b), 1, b="two") == [(r, 1, "two") for r in range(4)]


def test_a_cost_model_travels(clusters):
    model, name = clusters(1).run(lambda comm: (comm.model, type(comm.model).__module__))[0]
    assert type(model) is ringroad.CostModel and name == "ringroad"


def test_closures_lambdas_and_arrays(clusters):
    offset = np.arange(100_000.0)
    for result in clusters(2).run(lambda comm: comm.allreduce(offset + comm.rank)):
        np.testing.assert_array_equal(result, 2 * offset + 1)


def test_without_standard_streams(tmp_path):
    """As a daemon has it: Python has no sys.stdout then, and the first sockets would get the streams' numbers."""
    program = tmp_path / "daemon.py"
    program.write_text(
        "import pathlib, sys, numpy as np, ringroad\n"
        "def total(comm):\n"
        "    print('to standard output', flush=True)\n"
        "    print('to standard error', file=sys.stderr, flush=True)\n"
        "    return comm.allreduce(np.ones(2)).tolist()\n"
        "with ringroad.local(2, timeout=60, env={'RINGROAD_DEBUG': 'TRACE'}) as cluster:\n"
        "    pathlib.Path(sys.argv[1]).write_text(str(cluster.run(total)))\n"
    )
    for closed in (">&-", ">&- 2>&-", "<&- >&- 2>&-"):
        result = tmp_path / "result"
        command = f'exec "$0" "$1" "$2" {closed}'
        done = subprocess.run(["sh", "-c", command, sys.executable, program, result], timeout=120, check=False)
        assert (done.returncode, result.read_text()) == (0, "[[2.0, 2.0], [2.0, 2.0]]"), closed
        result.unlink()


def test_output_passes_through(capfd):
    with ringroad.local(2, env={"PYTHONUNBUFFERED": ""}) as cluster:  # whole lines
        cluster.run(lambda comm: print(f"here is {comm.rank}"))
        assert sorted(capfd.readouterr().out.splitlines()) == ["here is 0", "here is 1"]


def test_environment_topology_and_algorithm():
    topology = ringroad.Topology("torus:2x2", bandwidth=1e9, latency=1e-3)
    with ringroad.local(4, topology=topology, algorithm="ring", timeout=33, env={"COLOUR": "green"}) as cluster:
        facts = cluster.run(
            lambda comm: (comm.topology, comm.algorithm_for("allreduce", 8), comm.timeout, os.environ["COLOUR"])
        )
    assert facts == [("torus:2x2", "ring", 33.0, "green")] * 4


def test_runs_of_two_threads_take_turns(clusters):
    results = []
    threads = [threading.Thread(target=lambda: results.append(clusters(3).run(total))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [[3.0] * 3] * 4


def test_a_script_needs_no_guard():
    """It does not need a file either: the workers do not import the parent's main module."""
    code = """
import ringroad, numpy as np
class Point:
    def __init__(self, x): self.x = x
def f(comm, p): return Point(comm.allreduce(np.array([p.x])).item())
with ringroad.local(2) as cluster:
    a, b = cluster.run(f, Point(2.0))
assert type(a) is Point and a.x == b.x == 4.0
print("done")
"""
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("done\n", "")


# ------------------------------------------------------------------------------------------------ errors


def test_exception_on_one_rank(clusters):
    def work(comm):
        if comm.rank == 2:
            raise KeyError("lost")
        total(comm)  # does not wait for rank 2

    cluster = clusters(4)
    pids = cluster.pids
    with pytest.raises(ringroad.WorkerError) as caught:
        cluster.run(work)
    error = caught.value
    assert isinstance(error.__cause__, KeyError) and error.__cause__.args == ("lost",)
    assert [failure.rank for failure in error.failures] == [2, 0, 1, 3]
    assert all(isinstance(f.exception, ringroad.AbortedError) for f in error.failures[1:])
    text = str(error)
    assert text.startswith("4 of 4 ranks failed\nrank 2:\n  Traceback")
    assert "in work" in text and "KeyError: 'lost'" in text and "_worker.py" not in text
    assert cluster.run(total) == [4.0] * 4 and cluster.pids == pids, "the same workers go on"


def test_same_exception_everywhere_is_shown_once(clusters):
    with pytest.raises(ringroad.WorkerError, match="ranks 0, 1, 2:") as caught:
        clusters(3).run(lambda comm: 1 // 0)
    assert str(caught.value).count("Traceback") == 1
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_exception_that_cannot_be_pickled(clusters):
    def work(comm):
        class Odd(Exception):
            def __init__(self, a, b):
                super().__init__(f"{a} and {b}")

        raise Odd(1, threading.Lock())

    with pytest.raises(ringroad.WorkerError, match="Odd: 1 and <unlocked") as caught:
        clusters(2).run(work)
    assert caught.value.__cause__ is None


def test_result_that_cannot_be_pickled(clusters):
    with pytest.raises(ringroad.WorkerError, match="pickle"):
        clusters(2).run(lambda comm: threading.Lock())
    assert clusters(2).run(total) == [2.0] * 2


def test_exit_is_an_error(clusters):
    with pytest.raises(ringroad.WorkerError, match="SystemExit: 3"):
        clusters(2).run(lambda comm: sys.exit(3))


def test_communicator_that_failed_is_replaced(clusters):
    def work(comm):
        comm.abort("no reason")
        total(comm)

    for _ in range(2):
        with pytest.raises(ringroad.WorkerError, match="no reason"):
            clusters(3).run(work)
        assert clusters(3).run(total) == [3.0] * 3


def test_workers_that_cannot_start(refused):
    with pytest.raises(ringroad.WorkerError, match="RINGROAD_UCX_LIBRARY") as caught:
        ringroad.local(2, env={"RINGROAD_TRANSPORT": "ucx", "RINGROAD_UCX_LIBRARY": "/nonexistent/libucp.so.0"})
    assert isinstance(caught.value.__cause__, ringroad.TransportError)
    with pytest.raises(ringroad.WorkerError, match="exited with status 1"):
        ringroad.local(2, env={"PYTHONMALLOC": "nonsense"})
    with refused(ValueError, 1000000):
        ringroad.local(1_000_000)
    with refused(ValueError, 1024):
        ringroad.local(0)


# ------------------------------------------------------------------------------------------------ death


def test_death_of_a_worker(cluster):
    def work(comm):
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        total(comm)

    pids = cluster.pids
    with pytest.raises(ringroad.WorkerError) as caught:
        cluster.run(work)
    assert f"process {pids[1]} was killed by SIGKILL (exit status -9)" in str(caught.value)
    assert {failure.rank: failure.pid for failure in caught.value.failures} == dict(enumerate(pids))
    wait_for_the_end_of(pids)
    assert cluster.run(total) == [3.0] * 3, "with new workers"
    assert not set(pids) & set(cluster.pids)


def test_death_while_others_are_busy(cluster, monkeypatch):
    """The others are not waited for much longer."""
    monkeypatch.setattr("ringroad.start.local._GRACE_SECONDS", 0.5)

    def work(comm):
        if comm.rank == 0:
            os._exit(7)
        threading.Event().wait()

    pids = cluster.pids
    with pytest.raises(ringroad.WorkerError, match=rf"process {pids[0]} exited with status 7") as caught:
        cluster.run(work)
    assert f"process {pids[2]} did not answer and is stopped" in str(caught.value)
    wait_for_the_end_of(pids)


def test_worker_that_does_not_answer(cluster, monkeypatch):
    """Once another worker has failed, the one that does not answer is stopped."""
    monkeypatch.setattr("ringroad.start.local._FAILURE_SECONDS", 0.5)

    def work(comm):
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        comm.allreduce(np.ones(3), timeout=0.5)

    pids = cluster.pids
    with pytest.raises(ringroad.WorkerError, match=f"process {pids[1]} did not answer") as caught:
        cluster.run(work)
    assert isinstance(caught.value.failures[0].exception, ringroad.TimeoutError)
    wait_for_the_end_of(pids)
    assert cluster.run(total) == [3.0] * 3


def test_death_between_runs(cluster):
    os.kill(cluster.pids[2], signal.SIGKILL)
    wait_for_the_end_of(cluster.pids[2:])
    with pytest.raises(ringroad.WorkerError, match=r"rank 2:\n.*SIGKILL"):
        cluster.run(total)
    assert cluster.run(total) == [3.0] * 3


def test_interrupt(cluster):
    def work(comm):
        if comm.rank == 0:
            os.kill(os.getppid(), signal.SIGINT)
        threading.Event().wait()

    pids = cluster.pids
    # A shell that starts the tests in the background may have made them ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.run(work)
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for_the_end_of(pids)
    assert cluster.run(total) == [3.0] * 3


# ------------------------------------------------------------------------------------------------ the end


def test_close(refused):
    with ringroad.local(2) as cluster:
        pids, directory = cluster.pids, cluster._team.directory
        assert all(map(is_running, pids)) and len(set(pids)) == 2
        assert repr(cluster) == "<LocalCluster of 2 workers>"
    assert not any(map(is_running, pids)) and not os.path.exists(directory)
    cluster.close()
    assert repr(cluster) == "<LocalCluster of 2 workers, closed>" and cluster.pids == []
    with refused(RuntimeError):
        cluster.run(total)


def test_workers_end_by_themselves():
    """Their exit status shows it: they are not killed and do not crash at exit."""
    with ringroad.local(2) as cluster:
        cluster.run(total)
        processes = [worker.process for worker in cluster._team.workers]
    assert [process.returncode for process in processes] == [0, 0]


def test_garbage_collection():
    cluster = ringroad.local(2)
    pids = cluster.pids
    del cluster
    gc.collect()
    wait_for_the_end_of(pids)


PARENT = """
import os, threading, ringroad
cluster = ringroad.local(2)
print(*cluster.pids, flush=True)
{}
"""


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "os.kill(os.getpid(), 9)",
        "raise ValueError",
        "cluster.run(lambda comm: (os.kill(os.getppid(), 9), threading.Event().wait()))",
    ],
)
def test_end_of_the_parent(ending):
    """The workers end however the parent ends, and whatever they are doing."""
    command = [sys.executable, "-c", PARENT.format(ending)]
    parent = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
    pids = [int(pid) for pid in parent.stdout.split()]
    assert len(pids) == 2
    wait_for_the_end_of(pids)
