"""Making a communicator: interrupted, with ranks that die or give up, repeated, without memory."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import ringroad
from helpers import PROGRAMS, free_port, launch

# Far longer than anything here takes: a test that reaches it waited in vain.
LIMIT = 60

STORES = {
    "ours": ["ringroad.FileStore(place)", "ringroad.MemoryStore()", "Plain()"],
    "torch": [
        "torch().FileStore(place + '.torch', -1)",
        "torch().TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)",
        "torch().PrefixStore('part', torch().HashStore())",
    ],
}


@pytest.mark.parametrize("whose", STORES)
def test_interruption(tmp_path, whose):
    """The exception of a signal handler is raised unchanged, at once. Afterwards ranks meet over the same store."""
    if whose == "torch":
        pytest.importorskip("torch")
    command = [sys.executable, PROGRAMS / "interrupted.py", str(tmp_path / "place"), *STORES[whose]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 6 * len(STORES[whose])
    for as_raised, error, seconds in found:
        assert as_raised, error
        assert seconds < LIMIT / 2, error


def test_interruption_of_the_first_barrier():
    """A rank that waits in vain for another one in the first barrier is interrupted, too, and the other one learns of
    it.
    """
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, PROGRAMS / "interrupted_barrier.py"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0 and "it was interrupted" in done.stdout, done
    assert time.monotonic() - start < LIMIT / 2


def test_the_end_of_a_program_whose_threads_wait_for_other_ranks():
    """Python would dispose of these threads within the library, which would end the process by a signal."""
    command = [sys.executable, PROGRAMS / "ending_while_ranks_meet.py", free_port()]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 0, done


def test_a_late_first_barrier_names_the_timeout():
    """Not what was left of it when all had come."""
    ended = threading.Event()

    class Slow(dict):
        set = dict.__setitem__

        def get(self, key):
            value = super().get(key)
            if value is not None and "/choices/" in key and threading.current_thread() is late:
                ended.wait(LIMIT)
            return value

    def come():
        with pytest.raises(ringroad.RingroadError):
            ringroad.Communicator(store, 1, 2, timeout=LIMIT)

    store, late = Slow(), threading.Thread(target=come)
    late.start()
    with pytest.raises(ringroad.TimeoutError, match=r"timed out after 0\.700 s.*barrier"):
        ringroad.Communicator(store, 0, 2, timeout=0.7)
    ended.set()
    late.join()


@pytest.mark.parametrize("size", [4, 24])
def test_a_rank_reads_as_many_values_in_a_large_job(size):
    """Rank 0 alone reads what each rank says. Endpoints do not count: a rank that waits long looks for some."""
    values = {}

    class Counted:
        def __init__(self):
            self.read = set()

        def set(self, key, value):
            values[key] = value

        def get(self, key):
            self.read |= {key} if "/endpoint/" not in key else set()
            return values.get(key)

    stores = [Counted() for _ in range(size)]

    def make(rank):
        with ringroad.Communicator(stores[rank], rank, size, timeout=LIMIT) as comm:
            assert comm.allreduce(1) == size

    with ThreadPoolExecutor(size) as pool:
        list(pool.map(make, range(size)))
    assert max(len(store.read) for store in stores[1:]) <= 12
    assert len(stores[0].read) <= 12 * size


def test_interruption_of_a_rendezvous():
    """Also while a rank looks for rank 0 at MASTER_ADDR, or waits there for the other ranks."""
    env = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2"}
    command = [sys.executable, PROGRAMS / "interrupted_rendezvous.py", free_port(), free_port()]
    done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stderr == "", done
    assert all(float(seconds) < LIMIT / 2 for seconds in done.stdout.split())
    assert len(done.stdout.split()) == 2


# ------------------------------------------------------------------------------------------------ death

KILLED = PROGRAMS / "killed_in_rendezvous.py"


@pytest.mark.parametrize(
    ("kind", "transport"),
    [(kind, transport) for kind in ("endpoint", "digest", "barrier") for transport in ("auto", "ucx")]
    + [("near", "auto"), ("network", "ucx")],
)
def test_death_while_ranks_meet(tmp_path, kind, transport):
    """A rank that dies is named at once, even while another one is late."""
    for absent in (1, 9) if kind == "endpoint" else (9,):
        (tmp_path / str(absent)).mkdir()
        env = {"KIND": kind, "PLACE": str(tmp_path / str(absent)), "ABSENT": str(absent)}
        ended = launch(KILLED, 3, env=env | {"RINGROAD_TRANSPORT": transport})
        assert ended[2].status == -signal.SIGKILL, ended[2].err
        for process in (ended[rank] for rank in (0, 1) if rank != absent):
            name, text, seconds = process.json()
            assert name == "PeerError", text
            assert "rank 2 (" in text and f"pid {ended[2].pid}" in text, text
            assert seconds < LIMIT / 2, text


def test_a_rank_that_gives_up_tells_the_others(tmp_path):
    code = """
import os
import ringroad
if os.environ["RANK"] == "1":
    os.environ["RINGROAD_UCX_LIBRARY"] = "/nowhere"
try:
    ringroad.init(timeout=60)
except ringroad.RingroadError as error:
    print(error)
"""
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "RINGROAD_TRANSPORT": "ucx"}
    start = time.monotonic()
    others, one = launch(code, 2, env=env)
    assert time.monotonic() - start < LIMIT / 2
    assert "RINGROAD_UCX_LIBRARY=/nowhere cannot be loaded" in one.out, one
    assert f"pid {one.pid}) gave up: RINGROAD_UCX_LIBRARY=/nowhere" in others.out, others


def test_who_comes_later_hears_why(tmp_path):
    """Rank 0 may start again. If it does not, the error says what happened before."""
    store, errors = ringroad.FileStore(tmp_path), []
    for rank in (0, 1):
        with pytest.raises(ringroad.TimeoutError) as caught:
            ringroad.Communicator(store, rank, 3, timeout=0.5)
        errors.append(str(caught.value))
    assert "ranks 1, 2 did not come" in errors[0]
    assert (
        "rank 0 did not start a new rendezvous within " in errors[1]
        and "s, after rank 0 (" in errors[1]
        and "ranks 1, 2 did not come" in errors[1]
    )


# ------------------------------------------------------------------------------------------------ anew

JOIN = """
import numpy as np
import ringroad
with ringroad.init(timeout=60) as comm:
    print(comm.allreduce(np.ones(1)).item())
"""


@pytest.mark.parametrize("dead", [0, 1])
def test_a_job_whose_predecessor_was_killed(tmp_path, dead):
    """What dead ranks have announced and published does no harm, whichever rank comes first."""
    env = os.environ | {"RINGROAD_STORE": f"file://{tmp_path}", "WORLD_SIZE": "3"}
    start = [subprocess.Popen([sys.executable, "-c", JOIN], env=env | {"RANK": str(r)}) for r in (0, 1)]
    while len(list(tmp_path.glob("key.*endpoint*"))) < 2:
        time.sleep(0.01)
    for process in start if dead else reversed(start):
        process.kill()
        process.wait()
    # Rank 0 comes last: nothing tells when the others wait for it.
    code = f"import os, time\ntime.sleep(0.5 if os.environ['RANK'] == '0' else 0)\n{JOIN}"
    began = time.monotonic()
    for process in launch(code, 3, env={"RINGROAD_STORE": f"file://{tmp_path}"}):
        assert process.status == 0 and process.out.strip() == "3.0", process.err
    assert time.monotonic() - began < LIMIT / 2


# ------------------------------------------------------------------------------------------------ no memory


def test_without_shared_memory_and_ucx(tmp_path):
    """The error says why there is no shared memory, and which limit to raise."""
    code = """
import os, resource
import numpy, ringroad, ringroad._native, ringroad.start.rendezvous  # before memory is short
init = ringroad.init
if os.environ["RANK"] == "1":
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), -1))
init(timeout=60)
"""
    env = {"RINGROAD_TRANSPORT": "auto,ucx", "RINGROAD_UCX_LIBRARY": "/nowhere"}
    for ended in launch(code, 2, env=env | {"RINGROAD_STORE": f"file://{tmp_path}"}):
        assert ended.status == 1
        assert "TransportError" in ended.err and "/nowhere" in ended.err, ended.err
        assert "rank 1 (" in ended.err and "ulimit -v" in ended.err, ended.err
