"""Communicators that are split off others: in processes and in threads."""

import threading

import numpy as np
import pytest
import ringroad
from helpers import PROGRAMS, TRANSPORTS, failure_of, in_threads, launch


def halves(comm):
    """Splits by parity in reverse order, leaving out the last rank, splits again, and duplicates."""
    color = None if comm.rank == comm.size - 1 else comm.rank % 2
    made = comm.split(color, key=-comm.rank)
    members = [rank for rank in range(comm.size - 1) if rank % 2 == comm.rank % 2][::-1]
    if color is None:
        assert made is None
    else:
        assert (made.rank, made.size) == (members.index(comm.rank), len(members))
        assert made.timeout == comm.timeout and made.name == f"{comm.name}.0.{color}"
        assert made.allgather(comm.rank).tolist() == members
        assert made.allreduce(np.full(70_000, comm.rank))[-1] == sum(members)
        alone = made.split(made.rank, topology="ring:1")
        assert (alone.size, alone.topology, alone.allreduce(3).item()) == (1, "ring:1", 3)
        twin = made.dup()
        made.close()
        assert twin.allgather(comm.rank).tolist() == members
    together = comm.split(7)
    assert (together.rank, together.size, together.topology) == (comm.rank, comm.size, comm.topology)
    assert together.allreduce(1).item() == comm.size
    return comm.allreduce(1).item()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_processes(transport):
    with ringroad.local(5, env=TRANSPORTS[transport], timeout=60) as cluster:
        assert cluster.run(halves) == [5] * 5


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_threads(ranks):
    assert in_threads(ranks, halves, timeout=60) == [ranks] * ranks


def test_topologies():
    """New communicators have the part of the topology on which they stand, or what the caller says."""

    def work(comm):
        dup, reverse = comm.dup(), comm.split(0, -comm.rank)
        row, column = comm.split(comm.rank // 3, topology="mesh:3"), comm.split(comm.rank % 3)
        ends = comm.split(comm.rank // 3).split(0 if comm.rank % 3 else None)
        assert ends is None or (ends.topology, ends.allreduce(1).item()) == ("mesh:2", 2)
        assert (column.topology, column.allreduce(1).item()) == ("ring:2", 2)
        wrong = failure_of(lambda: comm.split(comm.rank // 3, topology="ring:4" if comm.rank < 3 else "ring:3"))
        return dup.topology, reverse.topology, row.topology, wrong[0]

    results = in_threads(6, work, topology="torus:2x3", timeout=60)
    assert {result[:3] for result in results} == {("torus:2x3", "torus:2x3@5,4,3,2,1,0", "mesh:3")}
    assert [result[3] for result in results] == ["TopologyError"] * 3 + ["nothing"] * 3


def test_algorithms_that_parts_lack(capfd):
    """A part of the ranks chooses freely where it cannot use what was named for all; what it can use stays."""

    def work(comm):
        part = comm.split(0 if comm.rank < 3 else None)
        return part and [part.algorithm_for(call, 1 << 20) for call in ("allreduce", "broadcast")]

    wishes = "allreduce:recursive-doubling-multiport;broadcast:binomial"
    chosen, *_, nobody = in_threads(4, work, algorithm=wishes, timeout=60)
    assert chosen[0] != "recursive-doubling-multiport" and chosen[1] == "binomial" and nobody is None
    assert "a part of the ranks chooses among all algorithms, since recursive-doubling-multi" in capfd.readouterr().err


def independent(comm):
    """The failure of a new communicator, and that of the old one, leave the others as they are."""
    half = comm.split(comm.rank % 2)
    if half.rank == 0 and comm.rank == 0:
        half.abort("enough")
    elif comm.rank % 2 == 0:
        assert failure_of(lambda: half.allreduce(1))[0] == "AbortedError"
    assert comm.allreduce(1).item() == comm.size
    if comm.rank % 2 == 1:
        assert half.allreduce(1).item() == half.size
    comm.barrier()
    if comm.rank == 0:
        comm.abort("the end")
    else:
        assert failure_of(comm.barrier)[0] == "AbortedError"
    if comm.rank % 2 == 1:
        assert half.allreduce(1).item() == half.size
    return failure_of(lambda: comm.split(0))[0]


def test_failures_are_independent():
    assert in_threads(4, independent, timeout=60) == ["AbortedError"] * 4
    with ringroad.local(4, timeout=60) as cluster:
        assert cluster.run(independent) == ["AbortedError"] * 4


def test_ranks_that_do_not_come():
    """A split has a deadline, and is no match for another call."""

    given_up = threading.Barrier(3)

    def late(comm):
        failure = "late" if comm.rank == 1 else failure_of(lambda: comm.split(0, timeout=0.2))[0]
        given_up.wait(60)
        return failure

    def other(comm):
        return failure_of((lambda: comm.split(0)) if comm.rank else comm.barrier)[0]

    assert in_threads(3, late, timeout=60) == ["TimeoutError", "late", "TimeoutError"]
    assert in_threads(3, other, timeout=60) == ["MismatchError"] * 3


LOSING = PROGRAMS / "split_and_shrink.py"


@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_a_rank_that_dies(transport, tmp_path):
    ended = launch(LOSING, 5, env={"RINGROAD_STORE": f"file://{tmp_path}"} | TRANSPORTS[transport])
    assert [rank.out for rank in ended[1:]] == ["done\n"] * 4, [rank.err for rank in ended]
