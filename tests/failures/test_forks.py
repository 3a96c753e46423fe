"""Forked children cannot use anything that they inherit. Whatever they do and however they end, their parents' calls
continue.
"""

import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest
import ringroad
from helpers import PROGRAMS, TRANSPORTS, in_child, launch

REFUSED = {
    "allreduce": lambda comm, work: comm.allreduce(np.ones(3)),
    "start": lambda comm, work: comm.allreduce(np.ones(3), async_op=True),
    "barrier": lambda comm, work: comm.barrier(),
    "send": lambda comm, work: comm.send(np.ones(3), 1),
    "receive": lambda comm, work: comm.recv(np.ones(3)),
    "empty": lambda comm, work: comm.empty(3),
    "transport": lambda comm, work: comm.transport,
    "abort": lambda comm, work: comm.abort("by a child"),
    "wait": lambda comm, work: work.wait(),
    "wait a while": lambda comm, work: work.wait(0.5),
    "result": lambda comm, work: work.result(),
}


def asked(work):
    """What a work handle says about its call, also to its callbacks."""
    told = []
    work.on_complete(told.append)
    return work.is_completed(), work.is_success(), type(work.exception()).__name__, [type(one).__name__ for one in told]


HARMLESS = {
    "facts": lambda comm, work: (comm.rank, comm.size, len(comm.topology), comm.algorithm_for("allreduce", 8)),
    "questions": lambda comm, work: asked(work),
    "close": lambda comm, work: comm.close(),
    "exit": lambda comm, work: comm.__exit__(None, None, None),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_children_inherit(clusters, transport):
    def work(comm, refused, harmless):
        from helpers import failure_of, in_child

        said = {}
        if comm.rank == 0:
            out = np.zeros(4)
            pending = comm.recv(out, 1, tag=5, async_op=True)
            ended = comm.send(np.ones(1), 1, tag=6, async_op=True)
            ended.wait()
            for name, action in refused.items():
                said[name] = in_child(lambda action=action: failure_of(lambda: action(comm, pending)))
            said["ended"] = in_child(lambda: failure_of(ended.wait))
            for name, action in harmless.items():
                said[name] = in_child(lambda action=action: action(comm, pending))
            comm.send(np.ones(1), 1, tag=7)
            pending.wait()
            assert (out == 7).all()
        if comm.rank == 1:
            comm.recv(np.zeros(1), 0, tag=6)
            comm.recv(np.zeros(1), 0, tag=7)
            comm.send(np.full(4, 7.0), 0, tag=5)
        assert comm.allreduce(np.ones(1000))[-1] == comm.size
        return said

    said = clusters(3, transport).run(work, REFUSED, HARMLESS)[0]
    for name in [*REFUSED, "ended"]:
        kind, text = said.pop(name)
        assert kind == "AbortedError" and "forked" in text and "spawn" in text, (name, kind, text)
    assert said.pop("facts")[:2] == [0, 3]
    assert said.pop("questions") == [True, False, "AbortedError", ["AbortedError"]]
    assert said == {"close": None, "exit": None}


@pytest.mark.parametrize("transport", ["memory", "shm", "own"])
def test_children_make_their_own(clusters, transport, tmp_path):
    """All children meet, while their parents' calls continue."""

    def work(comm, directory):
        from helpers import in_child

        def child():
            alone = ringroad.Communicator.in_process(1)[0].allreduce(np.ones(3))
            with ringroad.Communicator(ringroad.FileStore(directory), comm.rank, comm.size, timeout=20) as own:
                return [float(alone[0]), float(own.allreduce(np.full(70_000, own.rank + 1.0))[-1])]

        comm.allreduce(np.ones(3))
        found = in_child(child, meanwhile=lambda: [comm.allreduce(np.ones(3)) for _ in range(100)])
        assert comm.allreduce(np.ones(1000))[-1] == comm.size
        return found

    assert clusters(2, transport).run(work, str(tmp_path)) == [[1, 3]] * 2


def test_children_cannot_use_tcp_beside_their_parents(clusters, tmp_path):
    """UCX needs a thread for it that children lack."""

    def work(comm, directory):
        from helpers import failure_of, in_child

        def make():
            return ringroad.Communicator(ringroad.FileStore(directory), comm.rank, comm.size, timeout=20)

        return in_child(lambda: failure_of(make), seconds=15)

    for kind, text in clusters(2, "tcp").run(work, str(tmp_path)):
        assert kind == "TransportError" and "forked" in text and "spawn" in text, (kind, text)


def test_children_of_many_threads():
    """Locks at which the parent's threads wait do not matter to a child."""

    def use(comms):
        received = [(comm, np.zeros(3)) for comm in comms]
        pending = [comm.recv(out, (comm.rank + 1) % comm.size, async_op=True) for comm, out in received]
        for comm in comms:
            comm.send(np.full(3, float(comm.rank)), (comm.rank - 1) % comm.size, async_op=True).wait()
        for work in pending:
            work.wait()
        return [float(out[0]) for _, out in received]

    def child():
        comms = ringroad.Communicator.in_process(8)
        found = use(comms)
        for comm in comms:
            comm.close()
        return found

    with ExitStack() as stack:
        parents = [stack.enter_context(comm) for comm in ringroad.Communicator.in_process(24)]
        assert use(parents) == [*range(1, 24), 0]
        for _ in range(20):
            assert in_child(child) == [*range(1, 8), 0]
        assert use(parents) == [*range(1, 24), 0]


def test_children_start_clusters(clusters):
    def work(comm):
        from helpers import in_child

        def child():
            with ringroad.local(2) as cluster:
                return cluster.run(lambda own: float(own.allreduce(np.ones(1))[0]))

        found = in_child(child) if comm.rank == 0 else None
        comm.barrier()
        return found

    assert clusters(2).run(work) == [[2.0, 2.0], None]


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 4])
def test_children_that_are_forked_off_during_a_start(milliseconds):
    """Threads held locks, and had imported half of what a start needs."""
    command = [sys.executable, PROGRAMS / "forks_while_starting.py", str(milliseconds / 1000)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


ENDINGS = PROGRAMS / "ends_of_children.py"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_ends_of_children(transport, tmp_path):
    ended = launch(ENDINGS, 2, env=TRANSPORTS[transport] | {"RINGROAD_STORE": f"file://{tmp_path}"}, timeout=50)
    assert [process.json() for process in ended] == [1, 1]
