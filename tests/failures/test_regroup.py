"""Jobs that lose ranks and continue, and groups of any processes, without a store."""

import json
import os

import pytest
import ringroad
from helpers import PROGRAMS, TRANSPORTS, launch, long

LOSING = PROGRAMS / "losing_ranks.py"


@pytest.mark.parametrize(("transport", "victims"), [("memory", [0]), ("shm", [1, 3]), ("tcp", [0])])
def test_ranks_that_are_left_go_on(transport, victims, tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "VICTIMS": ",".join(map(str, victims))} | TRANSPORTS[transport]
    ended = launch(LOSING, 5, env=env | {"RINGROAD_TOPOLOGY": "ring:5"})
    left = [rank for rank in range(5) if rank not in victims]
    for rank in left[1:]:
        assert ended[rank].status == 0, ended[rank].err
        assert float(ended[rank].out) < 10


ENDING = PROGRAMS / "ending_in_a_call.py"


def test_every_loss_is_a_peer_error(tmp_path):
    ended = launch(ENDING, 3, env={"RINGROAD_STORE": f"file://{tmp_path}"})
    assert (ended[1].status, ended[1].out) == (0, "True\nTrue\n"), ended[1].err
    assert "ValueError: for the test" in ended[2].err


LATE = PROGRAMS / "late_rank.py"


def test_a_rank_that_does_not_come(tmp_path):
    for ended in launch(LATE, 3, env={"RINGROAD_STORE": f"file://{tmp_path}/store", "PLACE": str(tmp_path)}):
        assert ended.out == "done\n", ended.err


CLOSING = PROGRAMS / "closing_early.py"


def test_nobody_waits_for_who_has_closed(tmp_path):
    for ended in launch(CLOSING, 3, env={"RINGROAD_STORE": f"file://{tmp_path}/store", "PLACE": str(tmp_path)}):
        assert ended.out == "done\n", ended.err


STOPPED = PROGRAMS / "taken_for_dead.py"


@long
def test_a_rank_that_was_taken_for_dead_hears_so(tmp_path):
    ended = launch(STOPPED, 3, env={"RINGROAD_STORE": f"file://{tmp_path}/store", "PLACE": str(tmp_path)})
    assert [rank.out for rank in ended[1:]] == ["[1, 2]\n"] * 2, [rank.err for rank in ended]
    assert "declared rank 0 " in ended[0].out and "without it" in ended[0].out, ended[0].err


SHORT = PROGRAMS / "short_deadlines.py"

LEAVING = PROGRAMS / "leaving_early.py"


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


ORPHAN = PROGRAMS / "orphan.py"


@long
def test_a_rank_that_was_stopped_does_not_go_on_alone(tmp_path):
    ended = launch(ORPHAN, 3, env={"RINGROAD_STORE": f"file://{tmp_path}/store"})
    assert [rank.out for rank in ended[:2]] == ["2\n"] * 2, [rank.err for rank in ended]
    assert "was stopped for seconds" in ended[2].out, ended[2].err


SLEPT = PROGRAMS / "slept.py"


@long
def test_ranks_that_have_all_slept_go_on_later(tmp_path):
    ended = launch(SLEPT, 3, env={"RINGROAD_STORE": f"file://{tmp_path}/store"})
    assert [rank.out for rank in ended[:2]] == ["2\n"] * 2, [rank.err for rank in ended]


STRANGERS = PROGRAMS / "exchanged_handles.py"


def test_groups_of_processes_that_exchange_handles(tmp_path):
    for ended in launch(STRANGERS, 4, env={"PLACE": str(tmp_path), "RINGROAD_SECRET": "among us"}):
        assert ended.status == 0, ended.err


def test_handles_that_make_no_sense(refused):
    own = ringroad.handle()
    gone = launch("import ringroad; print(ringroad.handle())", 1)[0].out.strip()
    for handles in [
        [own, "nonsense"],
        [own, "x" * 10**6],
        [own, own],
        [gone],
        [],
        [json.dumps(json.loads(own) | {"started": 1})],  # another process had this number
    ]:
        with refused(ValueError):
            ringroad.regroup(handles)
    with refused(ValueError):
        ringroad.regroup([own, gone, gone])
    with pytest.raises(ValueError) as caught:
        ringroad.regroup([own, json.dumps(json.loads(own) | {"ringroad": 99})])
    assert "version" in str(caught.value)
    reused = json.dumps(json.loads(gone) | {"pid": os.getppid(), "started": 1})
    for handles in ([own, gone], [gone, own], [own, reused]):
        with pytest.raises(ringroad.PeerError, match=r"rank \d of the new group: process \d+ on host .* has ended"):
            ringroad.regroup(handles, timeout=10)
    other = json.loads(own) | {"instance": 5, "token": [0] * 16}
    with refused(ringroad.PeerError):
        ringroad.regroup([own, json.dumps(other)], own=own, timeout=10)
    assert ringroad.regroup([own]).size == 1


DIFFERENT = PROGRAMS / "different_handles.py"


def test_different_lists_of_handles_are_shown(tmp_path):
    for ended in launch(DIFFERENT, 2, env={"PLACE": str(tmp_path)}):
        assert "The lists of handles differ: another rank waits for process" in ended.out, ended


def test_threads_of_one_process_have_nobody_to_regroup(refused):
    comm = ringroad.Communicator.in_process(2)[0]
    assert comm.handles == [None, None]
    with refused(ValueError):
        comm.shrink()


INTERRUPTED = PROGRAMS / "interrupted_regroup.py"


def test_interrupts_come_out():
    for ended in launch(INTERRUPTED, 2):
        assert ended.out == "interrupted\n", ended.err
