"""Jobs that lose ranks and continue, and groups of any processes, without a store."""

import json
import re

import pytest
import ringroad
from helpers import TRANSPORTS, launch, long

# Some ranks die during calls. The others report who is left, regroup, add up, and regroup again without the first rank.
LOSING = """
import os, signal, time
import numpy as np
import ringroad

victims = [int(rank) for rank in os.environ["VICTIMS"].split(",")]
comm = ringroad.init(timeout=30)
for _ in range(20):
    comm.allreduce(np.ones(1000))
if comm.rank in victims:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        comm.allreduce(np.ones(1000))
except ringroad.PeerError as error:
    assert any(f"rank {victim} " in str(error) for victim in victims), error
left = [rank for rank in range(comm.size) if rank not in victims]
assert comm.survivors() == left
assert comm.agree(True) and not comm.agree(comm.rank != left[-1])
start = time.monotonic()
smaller = comm.shrink()
seconds = time.monotonic() - start
assert (smaller.rank, smaller.size) == (left.index(comm.rank), len(left))
assert smaller.topology == ringroad.Topology("ring:5").induced(left).spec
assert smaller.allreduce(np.full(1000, comm.rank))[0] == sum(left)
smaller.barrier()
if smaller.rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
last = smaller.shrink()
assert last.size == len(left) - 1 and last.timeout == 30
last.barrier()
print(seconds)
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("victims", [[0], [1, 3]])
def test_ranks_that_are_left_go_on(transport, victims, tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "VICTIMS": ",".join(map(str, victims))} | TRANSPORTS[transport]
    ended = launch(LOSING, 5, env=env | {"RINGROAD_TOPOLOGY": "ring:5"})
    left = [rank for rank in range(5) if rank not in victims]
    for rank in left[1:]:
        assert ended[rank].status == 0, ended[rank].err
        assert float(ended[rank].out) < 10


# Rank 0 dies while rank 1 waits for rank 2 in its store. Then rank 2 ends by an exception while its call is in flight.
ENDING = """
import os, signal, threading
import numpy as np
import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
if comm.rank < 2:
    if comm.rank == 0:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    try:
        ringroad.regroup(comm.handles)
    except ringroad.PeerError as error:
        print("rank 0 " in str(error))
comm = comm.shrink()
comm.barrier()
if comm.rank == 1:
    work = comm.allreduce(np.ones(1000), async_op=True)
    raise ValueError("for the test")
while comm.size > 1:
    try:
        comm.allreduce(np.ones(1000))
    except ringroad.PeerError as error:
        print("rank 1 " in str(error))
        comm = comm.shrink()
"""


def test_every_loss_is_a_peer_error(tmp_path):
    ended = launch(ENDING, 3, env={"RINGROAD_STORE": f"file://{tmp_path}"})
    assert (ended[1].status, ended[1].out) == (0, "True\nTrue\n"), ended[1].err
    assert "ValueError: for the test" in ended[2].err


# One rank runs but does not come. Another one was stopped for so long that the others consider it dead.
LATE = """
import os, signal, threading, time
import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
if comm.rank == 2:
    time.sleep(3)
else:
    try:
        comm.survivors(timeout=1)
        raise SystemExit("came to an end without rank 2")
    except ringroad.TimeoutError as error:
        assert "rank 2 " in str(error) or comm.rank == 1, error
print("done")
"""


def test_a_rank_that_does_not_come(tmp_path):
    for ended in launch(LATE, 3, env={"RINGROAD_STORE": f"file://{tmp_path}"}):
        assert ended.out == "done\n", ended.err


STOPPED = """
import os, signal, subprocess, sys, time
from pathlib import Path
import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
end = Path(os.environ["END"])
if comm.rank == 0:
    code = "import os, signal, sys, time; time.sleep(9); os.kill(int(sys.argv[1]), signal.SIGCONT)"
    subprocess.Popen([sys.executable, "-c", code, str(os.getpid())])
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        comm.survivors()
    except ringroad.AbortedError as error:
        print(error)
    end.touch()
else:
    print(comm.survivors())
    while comm.rank == 1 and not end.exists():  # who has decided must be there to say so
        time.sleep(0.05)
"""


@long
def test_a_rank_that_was_taken_for_dead_hears_so(tmp_path):
    ended = launch(STOPPED, 3, env={"RINGROAD_STORE": f"file://{tmp_path}/store", "END": f"{tmp_path}/end"})
    assert [rank.out for rank in ended[1:]] == ["[1, 2]\n"] * 2, [rank.err for rank in ended]
    assert "taken rank 0 " in ended[0].out and "without it" in ended[0].out, ended[0].err


# The caller's deadline proves nobody dead. Calls whose time was too short are made again, until all have the answer.
SHORT = """
import os, time
import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
def insist(call, limit=1e-6):
    while True:
        try:
            return call(timeout=limit)
        except ringroad.TimeoutError:
            limit = min(4 * limit + 1e-4 * (comm.rank + 1), 20)
assert insist(comm.survivors) == [0, 1, 2]
assert insist(lambda timeout: comm.agree(True, timeout=timeout)) is True
if comm.rank == 0:
    time.sleep(1)  # late: nobody goes on without it
smaller = insist(comm.shrink)
assert smaller.size == 3, smaller
smaller.barrier()
print("done")
"""

# A leader ends as soon as it has decided; another rank comes late. Then a rank ends before it has joined the others.
LEAVING = """
import os, time
import numpy as np
import ringroad

comm = ringroad.init(timeout=30)
comm.barrier()
if comm.rank == 3:
    time.sleep(0.3)
assert comm.survivors() == [0, 1, 2, 3]
if comm.rank == 0:
    os._exit(0)
if comm.rank == 3:
    assert comm.agree(True)  # the first step of shrink
    time.sleep(0.3)
    os._exit(0)
start = time.monotonic()
smaller = comm.shrink(timeout=25)
assert time.monotonic() - start < 15
assert (smaller.size, smaller.allreduce(np.ones(1))[0]) == (2, 2.0)
try:
    smaller.shrink(quorum=3)
except ValueError as error:
    assert "there are only 2 ranks" in str(error)
smaller.barrier()
if smaller.rank == 0:
    os._exit(0)
try:
    smaller.shrink(quorum="majority")
except ringroad.AbortedError as error:
    assert "fewer than the quorum of 2" in str(error), error
print("done")
"""


@pytest.mark.parametrize(("program", "size", "done"), [(SHORT, 3, [0, 1, 2]), (LEAVING, 4, [2])])
def test_agreements_end_well(program, size, done, tmp_path):
    ended = launch(program, size, env={"RINGROAD_STORE": f"file://{tmp_path}"})
    for rank in done:
        assert ended[rank].out == "done\n", ended[rank].err


def test_one_rank_shrinks_alone():
    with ringroad.init(rank=0, size=1) as comm:
        comm.abort("interrupted, say")
        with comm.shrink() as again:
            assert again.size == 1


# The others end their job while a rank is stopped; it must not go on alone.
ORPHAN = """
import os, signal, subprocess, sys
import ringroad

comm = ringroad.init(timeout=40)
comm.barrier()
if comm.rank == 2:
    code = "import os, signal, sys, time; time.sleep(11); os.kill(int(sys.argv[1]), signal.SIGCONT)"
    subprocess.Popen([sys.executable, "-c", code, str(os.getpid())])
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    print(comm.shrink().size)
except ringroad.AbortedError as error:
    print(error)
"""


@long
def test_a_rank_that_was_stopped_does_not_go_on_alone(tmp_path):
    ended = launch(ORPHAN, 3, env={"RINGROAD_STORE": f"file://{tmp_path}/store"})
    assert [rank.out for rank in ended[:2]] == ["2\n"] * 2, [rank.err for rank in ended]
    assert "was stopped for seconds" in ended[2].out, ended[2].err


# Processes without numbers from a launcher exchange their handles in files.
STRANGERS = """
import os, sys, time
from pathlib import Path
import numpy as np
import ringroad

place, number = Path(os.environ["PLACE"]), int(os.environ["RANK"])
own = ringroad.handle()
(place / f"{number}.tmp").write_text(own)
(place / f"{number}.tmp").rename(place / str(number))
while any(not (place / str(other)).exists() for other in range(4)):
    time.sleep(0.01)
handles = [(place / str(other)).read_text() for other in range(4)]
with ringroad.regroup(handles, timeout=30) as comm:
    assert (comm.rank, comm.size) == (number, 4)
    assert comm.allreduce(np.ones(3)).tolist() == [4.0] * 3
    assert comm.handles != handles and len(comm.handles) == 4
half = handles[:2] if number < 2 else handles[2:]
with ringroad.regroup(half[::-1], uuid=7) as comm:
    assert (comm.rank, comm.size) == (1 - number % 2, 2)
    assert comm.allreduce(np.ones(3)).tolist() == [2.0] * 3
with ringroad.regroup(set(handles), uuid=1) as comm:
    assert sorted(comm.allgather(np.array([number])).tolist()) == [0, 1, 2, 3]
with ringroad.regroup([own]) as comm:
    assert comm.size == 1
"""


def test_groups_of_processes_that_exchange_handles(tmp_path):
    for ended in launch(STRANGERS, 4, env={"PLACE": str(tmp_path), "RINGROAD_SECRET": "among us"}):
        assert ended.status == 0, ended.err


def test_handles_that_make_no_sense():
    own = ringroad.handle()
    gone = launch("import ringroad; print(ringroad.handle())", 1)[0].out.strip()
    for handles, text in [
        ([own, "nonsense"], '"nonsense" is not a handle'),
        ([own, "x" * 10**6], "it is too long"),
        ([own, json.dumps(json.loads(own) | {"ringroad": 99})], "another version"),
        ([own, own], "several of these handles"),
        ([gone], "none of these handles is this process's own"),
        ([], "none of these handles"),
    ]:
        with pytest.raises(ValueError, match=re.escape(text)):
            ringroad.regroup(handles)
    with pytest.raises(ValueError, match="two handles of"):
        ringroad.regroup([own, gone, gone])
    for handles in ([own, gone], [gone, own]):
        with pytest.raises(ringroad.PeerError, match=r"rank \d of the new group: process \d+ on host .* has ended"):
            ringroad.regroup(handles, timeout=10)
    other = json.loads(own) | {"instance": 5, "token": [0] * 16}
    with pytest.raises(ringroad.PeerError, match="another process, or has another secret"):
        ringroad.regroup([own, json.dumps(other)], own=own, timeout=10)
    assert ringroad.regroup([own]).size == 1


# Two processes that pass different lists.
DIFFERENT = """
import os, time
from pathlib import Path
import ringroad

place, number = Path(os.environ["PLACE"]), int(os.environ["RANK"])
(place / f"{number}.tmp").write_text(ringroad.handle())
(place / f"{number}.tmp").rename(place / str(number))
while any(not (place / str(other)).exists() for other in range(2)):
    time.sleep(0.01)
handles = [(place / str(other)).read_text() for other in (number, 1 - number)]
try:
    ringroad.regroup(handles, timeout=2)
except ringroad.TimeoutError as error:
    print(error)
"""


def test_different_lists_of_handles_are_shown(tmp_path):
    for ended in launch(DIFFERENT, 2, env={"PLACE": str(tmp_path)}):
        assert "The lists of handles differ: another rank waits for process" in ended.out, ended


def test_threads_of_one_process_have_nobody_to_regroup():
    comm = ringroad.Communicator.in_process(2)[0]
    assert comm.handles == [None, None]
    with pytest.raises(ValueError, match="threads of one process"):
        comm.shrink()


# Ctrl-C while a rank waits for the others.
INTERRUPTED = """
import os, signal, threading
import ringroad

handle = ringroad.handle()
other = ringroad.handle()
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    ringroad.regroup([handle, other], own=os.environ["RANK"] == "0" and handle or other, timeout=50)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupts_come_out():
    for ended in launch(INTERRUPTED, 2):
        assert ended.out == "interrupted\n", ended.err
