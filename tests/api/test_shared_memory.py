"""Arrays in memory that the other ranks of the host read in place."""

import os

import ml_dtypes
import numpy as np
import pytest
import ringroad
from helpers import launch


def check_empty(comm, dtype, count):
    total = comm.size * (comm.size + 1) // 2
    send, out = comm.empty((2, count), dtype), comm.empty((2, count), dtype)
    assert send.shape == (2, count) and send.dtype == dtype and send.flags.writeable and send.flags.c_contiguous
    plain = np.full((2, count), comm.rank + 1, dtype)
    for source, target in [(send, out), (send, np.empty_like(plain)), (plain, out)]:
        send[:] = comm.rank + 1
        assert (comm.allreduce(source, out=target) == total).all()
        assert (source == comm.rank + 1).all()
    assert comm.allreduce(send, out=send) is send and (send == total).all()
    blocks = comm.empty((comm.size, count), dtype)
    for index in range(comm.size):
        blocks[index] = comm.rank + index
    own = comm.reduce_scatter(blocks, out=comm.empty((1, count), dtype))
    assert (own == sum(rank + comm.rank for rank in range(comm.size))).all()
    gathered = comm.allgather(own, out=blocks)
    assert all((gathered[i] == sum(rank + i for rank in range(comm.size))).all() for i in range(comm.size))


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("int16"), np.dtype(ml_dtypes.bfloat16)], ids=str)
@pytest.mark.parametrize("count", [0, 1, 1000, 70_001, 1_200_000])
def test_empty(clusters, count, dtype):
    clusters(3).run(check_empty, dtype, count)


def test_empty_without_shared_memory(clusters):
    clusters(2, "shm").run(check_empty, np.dtype("float32"), 1000)


def test_memory_outlives_its_communicator(clusters, tmp_path):
    def work(comm, directory):
        with ringroad.Communicator(ringroad.FileStore(directory), comm.rank, comm.size) as short:
            array = short.empty(100_000, np.float32)
            array[:] = 1
            short.allreduce(array, out=array)
        assert (array == comm.size).all()
        array[:] = 3
        return float(comm.allreduce(array)[-1])

    assert clusters(3).run(work, str(tmp_path)) == [9.0] * 3


def test_shapes_that_make_no_sense(clusters):
    def work(comm):
        for shape in [-1, (2, -3)]:
            with pytest.raises(ValueError):
                comm.empty(shape)
        with pytest.raises(TypeError):
            comm.empty(3, "nonsense")
        with pytest.raises((ValueError, ringroad.TransportError, MemoryError)):
            comm.empty(1 << 60, np.uint8)
        return comm.empty(3).dtype == np.float64

    assert all(clusters(2).run(work))


"""From this length on, messages whose memory is not from `empty` are sent in parts."""


def test_forked_children_get_no_memory(clusters):
    def work(comm):
        import os

        pid = os.fork()
        if pid == 0:
            try:
                comm.empty(10)
            except ringroad.AbortedError as error:
                os._exit(0 if "forked" in str(error) else 2)
            os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert clusters(2).run(work) == [0, 0]


PINNED = """
import json, os
cores = sorted(os.sched_getaffinity(0))
rank = int(os.environ["RANK"])
os.sched_setaffinity(0, {cores[rank % 2]} if {pinned} else cores[:2])
import ringroad
with ringroad.init() as comm:
    print(json.dumps(comm.explain("allreduce", 1 << 20).model.cores))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize(
    ("ranks", "pinned", "env", "cores"),
    [
        (2, True, {}, None),
        (2, False, {}, None),
        (3, True, {}, 2),
        (3, False, {}, 2),
        # If bandwidths or places are given, ranks do not count as sharing cores.
        (3, False, {"RINGROAD_COST": "bandwidth=1GB/s"}, None),
        (3, False, {"RINGROAD_TOPOLOGY": "ring:3"}, None),
    ],
)
def test_who_shares_cores(tmp_path, ranks, pinned, env, cores):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "RINGROAD_PROFILE": "none"} | env
    ended = launch(PINNED.replace("{pinned}", str(pinned)), ranks, env=env)
    assert [process.json() for process in ended] == [cores] * ranks


def memory_of_segments():
    """The bytes of memory in this process's segments."""
    links = {f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")}
    files = [link for link in links if os.path.lexists(link) and "memfd:ringroad" in os.readlink(link)]
    return sum(os.stat(file).st_blocks * 512 for file in files)


def test_memory_that_is_let_go_of_is_given_back(clusters):
    def work(comm):
        before, size = memory_of_segments(), 400 << 20
        found = []
        for _ in range(2):
            large = comm.empty(size, np.uint8)
            large[:] = 1
            assert (comm.allreduce(large, out=large) == comm.size).all()
            comm.barrier()
            assert memory_of_segments() >= before + size
            del large
            found.append(memory_of_segments() - before)
        # The memory that calls of this length need stays for later calls.
        return max(found) <= 320 << 20 or found

    assert clusters(2).run(work) == [True] * 2


def test_memory_of_late_messages_is_given_back(clusters):
    def work(comm):
        before, count, array = memory_of_segments(), 150, np.ones(1 << 20, np.uint8)
        works = [comm.send(array, 1, async_op=True) for _ in range(count) if comm.rank == 0]
        comm.barrier()
        if comm.rank == 0:
            assert memory_of_segments() >= count * array.nbytes
        else:
            for _ in range(count):
                comm.recv(array, 0)
        for one in works:
            one.wait()
        # A sender looks now and then, in its calls, what the receiver has read.
        for _ in range(300):
            comm.barrier()
        return memory_of_segments() - before <= 80 << 20 or memory_of_segments() - before

    assert clusters(2).run(work) == [True] * 2


def test_a_forked_child_takes_nothing_from_its_parent(clusters):
    def work(comm):
        array = comm.empty(200 << 20, np.uint8)
        array[:] = 7
        child = os.fork()
        if child == 0:
            del array
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        return bool((array == 7).all())

    assert clusters(2).run(work) == [True] * 2


def test_a_limit_of_address_space_is_an_error_and_no_end(clusters):
    def work(comm):
        import re
        import resource
        from pathlib import Path

        def fill():
            arrays = []
            for _ in range(100):
                try:
                    arrays.append(comm.empty(100 << 20, np.uint8))
                except MemoryError as error:
                    assert str(100 << 20) in str(error), error
                    return arrays
                arrays[-1][:] = 1
            return arrays

        taken = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (taken + (350 << 20), limits[1]))
        try:
            with pytest.raises(MemoryError, match=str(2 << 30)):
                comm.empty(2 << 30, np.uint8)
            first = len(fill())
            # All arrays were dropped, so their memory is available again.
            again = len(fill())
            total = comm.allreduce(np.ones(100_000))
            assert (total == comm.size).all()
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
        assert len(comm.empty(200 << 20, np.uint8)) == 200 << 20
        return (1 <= first < 100 and again >= first) or (first, again)

    assert clusters(2).run(work) == [True] * 2


def test_groups_of_one_job_take_few_descriptors_and_little_address_space(clusters, tmp_path):
    def work(comm, directory):
        import re
        from pathlib import Path

        def taken():
            status = Path("/proc/self/status").read_text()
            return len(os.listdir("/proc/self/fd")), int(re.search(r"VmSize:\s+(\d+)", status)[1]) << 10

        before, groups, kept = taken(), 10, []
        for number in range(groups):
            store = ringroad.FileStore(directory)
            group = ringroad.Communicator(store, comm.rank, comm.size, name=f"group {number}")
            assert group.allreduce(np.ones(10))[0] == comm.size
            kept.append(group)
        descriptors, space = (after - first for first, after in zip(before, taken(), strict=True))
        comm.barrier()
        while kept:
            kept.pop().close()
        # A pipe to each other rank and this rank's own descriptors; at most 128 MiB of each segment.
        fits = descriptors <= groups * (comm.size - 1 + 5) and space <= groups * comm.size * (128 << 20)
        return fits or (descriptors, space)

    assert clusters(4).run(work, str(tmp_path)) == [True] * 4
