"""Groups whose members come and go: random histories of starts, kills, pauses and cuts, and faults at chosen points."""

import json
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import ringroad
from elastic_history import LIMIT, Event, History, live, live_all
from faults.hosts import Hosts
from helpers import FULL, PROGRAMS, ROOT, free_port, long
from hypothesis import given, settings
from hypothesis import strategies as st
from ringroad._native import Notes, TcpStore
from ringroad._objects import allgather_bytes, allgather_json
from ringroad._support.files import parse_json
from ringroad.start.doors import _JOB, Doors, View, _standing
from ringroad.start.membership import _invitation, _key
from ringroad.start.state import Arrays, Progress

pytestmark = pytest.mark.timeout(4 * LIMIT)


def draw(random: Random, cuts: bool) -> tuple[int, list[Event]]:
    """How many processes found the group, and what happens to it."""
    count = random.randint(2 if cuts else 1, 6)
    events = [Event(3 * random.random(), "start") for _ in range(random.choice([0, 1, 1, 2, 3]))]
    events += [Event(3 * random.random(), "kill", random.randrange(6)) for _ in range(random.choice([0, 1, 1, 2, 3]))]
    for _ in range(random.choice([0, 0, 1, 2])):
        length = random.choice([0.1, 1.0, 2.0, 4.0, 8.0, 12.0]) * (0.8 + 0.4 * random.random())
        events.append(Event(3 * random.random(), "stop", random.randrange(6), length))
    if cuts:
        how = random.choice(["cut drop", "cut drop one way"])
        events.append(Event(3 * random.random(), how, random.randrange(2), random.choice([1.0, 4.0, 12.0, 20.0])))
    if random.random() < 0.3:  # several at once
        at = 3 * random.random()
        events += [
            Event(at + 0.02 * random.random(), random.choice(["start", "kill"]), random.randrange(6)) for _ in "12"
        ]
    return count, [*sorted(events, key=lambda event: event.at), Event(3.0, "none")]


def draw_restarts(random: Random) -> tuple[int, list[Event], dict[int, str], None, str]:
    """As `draw`, under a supervisor, and with more that is lost. Founders may be alone."""
    count, events = draw(random, cuts=False)
    count = random.choice([1, 1, 2, count])
    events += [Event(3 * random.random(), "kill", random.randrange(6)) for _ in "12"]
    if random.random() < 0.5:  # the first process ends while all others are stopped
        at, length = 4 * random.random(), random.choice([1.0, 4.0, 8.0])
        events += [Event(0.0, "start"), Event(at, "stop others", 0, length), Event(at + 0.1, "kill")]
    events = [*sorted(events, key=lambda event: event.at), Event(3.0, "none")]
    return count, events, {}, None, random.choice(["plain", "plain", "record"])


@pytest.mark.parametrize("seeds", [range(seed, seed + 5) for seed in range(0, 200, 5)] if FULL else [(2000,)])
def test_histories_with_a_supervisor(seeds: Sequence[int], tmp_path: Path) -> None:
    live_all(History(tmp_path / f"seed-{seed}", *draw_restarts(Random(seed))) for seed in seeds)


@pytest.mark.parametrize("seeds", [range(seed, seed + 5) for seed in range(0, 200, 5)] if FULL else [(1, 3, 5)])
def test_histories(seeds: Sequence[int], tmp_path: Path) -> None:
    live_all(History(tmp_path / f"seed-{seed}", *draw(Random(seed), cuts=False)) for seed in seeds)


JOIN, KILL = Event(0.1, "start"), Event(0.1, "kill", 2)
BOTH = ("_make", "change", "_agree", "_use", "introduce")
POINTS = [
    *((0, JOIN, f"Membership.{name}") for name in ("admit", "_is_asking", *BOTH)),
    *((1, JOIN, f"Membership.{name}") for name in ("admit", *BOTH)),
    *((who, KILL, f"Membership.{name}") for who in (0, 1) for name in BOTH),
    *((who, event, "Progress.level") for who in (0, 1) for event in (JOIN, KILL)),
    *((who, KILL, "ElasticGroup._recover") for who in (0, 1)),
    *((who, JOIN, f"Progress.{name}") for who in (0, 1) for name in ("has", "commit")),
    *((who, JOIN, "ElasticGroup._look") for who in (0, 1)),
    *((3, JOIN, f"Membership.{name}") for name in ("_ask", "_accept", "_make", "_use", "introduce")),
    *((3, JOIN, f"Progress.{name}") for name in ("level", "_spoil")),
]
"""Which process falls, while which event is dealt with, and at which point: of three members, the second does not lead,
and the third is the one that is killed; the fourth process is the newcomer."""
WAYS = ["before kill", "before stop", "after kill", "after stop"]


@pytest.mark.parametrize(
    "falls",
    [[(*point, way) for way in WAYS] for point in POINTS]
    if FULL
    else [
        [
            (0, JOIN, "Membership._agree", "after kill"),
            (1, KILL, "Progress.level", "before kill"),
            (3, JOIN, "Progress._spoil", "after kill"),
        ]
    ],
    ids=lambda falls: "-".join(f"{who}-{event.what}-{point}" for who, event, point, _ in falls[:1]),
)
def test_falls(falls: list[tuple[int, Event, str, str]], tmp_path: Path) -> None:
    """A process is killed or stopped at the most awkward moment, while another one joins or is lost."""
    live_all(
        History(tmp_path / f"{who}-{event.what}-{point}-{way.replace(' ', '-')}", 3, [event], {who: f"{point} {way}"})
        for who, event, point, way in falls
    )


ADDRESS, STATE = "tcp://127.0.0.1:4000", {"sum": np.zeros(1)}


@pytest.mark.parametrize(
    ("address", "state", "options", "error", "names"),
    [
        (None, STATE, {}, TypeError, ["address"]),
        ("udp://127.0.0.1:4000", STATE, {}, ValueError, ["tcp://host:port"]),
        (ADDRESS, [np.zeros(1)], {}, TypeError, ["state", "list"]),
        (ADDRESS, {"sum": [0.0]}, {}, TypeError, ["sum", "list"]),
        (ADDRESS, STATE, {"minimum": 1.5}, TypeError, ["minimum", 1.5]),
        (ADDRESS, STATE, {"timeout": 0}, ValueError, ["timeout"]),
        (ADDRESS, STATE, {"timeout": "30"}, TypeError, ["timeout", "'30'"]),
        (ADDRESS, STATE, {"patience": float("nan")}, ValueError, ["patience"]),
    ],
)
def test_odd_arguments(address: Any, state: Any, options: Any, error: type, names: list[Any], refused: Any) -> None:
    with refused(error, *names):
        ringroad.elastic(address, state, **options)


def test_a_group_that_was_left(refused: Any) -> None:
    with ringroad.elastic(f"tcp://127.0.0.1:{free_port()}", STATE, minimum=1) as group:
        pass
    for call in (group.update, lambda: group.run(lambda comm: 1, lambda result: None)):
        with refused(RuntimeError):
            call()


def test_nobody_founds_a_group_with_those_that_do_not_come() -> None:
    host, port = "127.0.0.1", int(free_port())
    with ThreadPoolExecutor(1) as pool:
        founder = pool.submit(
            ringroad.elastic, f"tcp://{host}:{port}", {"sum": np.zeros(1)}, minimum=2, timeout=0.5, patience=4
        )
        notes, ghost, text = Notes(), ringroad.handle(), None
        while not text and not founder.done():
            with suppress(ringroad.RingroadError):
                text = TcpStore(host, port, 1, job=_JOB, timeout=0.2).get("view")
        view = View.read(text)
        notes.keep(f"elastic/asks/{_key(ghost)}", b"yes")
        notes.leave(view.members[0], f"elastic/ask/{view.group}/ghost", ghost.encode())
        with pytest.raises(ringroad.TimeoutError) as caught:
            founder.result()
        assert "no group has taken in this process" in str(caught.value) and str(port) in str(caught.value)
        assert notes.kept(f"elastic/invitation/{_key(ghost)}/"), "it was invited"


def test_nobody_founds_a_second_group_and_nonsense_is_no_view(refused: Any) -> None:
    address = ("127.0.0.1", int(free_port()))
    with ThreadPoolExecutor(1) as pool:
        founder = pool.submit(ringroad.elastic, "tcp://{}:{}".format(*address), STATE, minimum=1, patience=8)
        notes, member = Notes(), ringroad.handle()
        door: Any = None
        text = None
        while not text and not founder.done():
            with suppress(ringroad.RingroadError):
                door = door or TcpStore(*address, 1, job=_JOB, timeout=0.2)
                text = door.get("view")
        for nonsense in (b"[]", b'{"group": 1}', b"\xff", b'{"group": "", "epoch": 1, "members": [], "doors": [""]}'):
            assert View.read(nonsense) is None
        view = View(0, 5, "the group", ("no handle", member), ())
        notes.keep(_standing("the group"), view.text())
        door.set("view", view.text())
        with refused(ringroad.TimeoutError, address[1]):
            founder.result()
        assert View.read(door.get("view")) == view
        assert notes.kept("elastic/ask/the group/"), "it has asked the member"


def test_notes_that_make_no_sense_are_ignored() -> None:
    assert [_invitation(note) for note in (b"", b"[1, 2]", b'[1, 1, ["a", "b"]]')] == [None, None, (1, 1, ["a", "b"])]
    with ringroad.elastic(f"tcp://127.0.0.1:{free_port()}", {"sum": np.zeros(1)}, minimum=1) as group:
        group.update()
        for number, note in enumerate((b"no handle", b"\xff")):
            Notes().keep(f"elastic/ask/{group._members._group}/{number}", note)
        group.run(lambda comm: 1, lambda result: None)
        assert not group.update()
        assert not group._members.asks()


def test_who_leaves_takes_the_view_from_all_doors() -> None:
    address = ("127.0.0.1", int(free_port()))
    other, member = Doors([address], Notes()), Doors([address], Notes())
    member._served.clear()  # as in another process
    member._end.set()
    view = View(0, 3, "a group")
    member.show(view)
    assert member._read(address) is None
    member._write(address, view.text())
    assert other.look() == [view]
    member.close()
    assert not other.look()
    other.close()


def test_doors_of_ones_own_heed_the_allowed_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    first = int(free_port())
    monkeypatch.setenv("RINGROAD_TCP_PORTS", f"{first}-{first + 1}")
    doors = Doors([("192.0.2.1", 1)], Notes())  # another host's
    assert {int(one.rpartition(":")[2]) for one in doors.own()} <= {first, first + 1}
    assert len(doors.own()) == 1
    doors.close()


def group_at(address: tuple[str, int], steps: int, **options: Any) -> tuple[Any, np.ndarray]:
    """A group of one process that has done some steps, and its state."""
    state = np.zeros(1)
    options = {"minimum": 1, "timeout": 5, "patience": 30} | options
    group = ringroad.elastic("tcp://{}:{}".format(*address), {"sum": state}, **options)
    for _ in range(steps):
        step(group, state)
    return group, state


def step(group: Any, state: np.ndarray) -> None:
    group.update()
    group.run(lambda comm: comm.allreduce(np.ones(1)) / comm.size, lambda one: np.add(state, one, out=state))


def until(good: Callable[[], Any]) -> None:
    end = time.monotonic() + 30
    while not good():
        assert time.monotonic() < end
        time.sleep(0.02)


def two_groups(steps: Sequence[int], **options: Any) -> list[tuple[Any, np.ndarray]]:
    """As if the second one had been founded at the first one's address, while the first one was stopped."""
    places = [("127.0.0.1", int(free_port())) for _ in steps]
    groups = [group_at(place, one, **options) for place, one in zip(places, steps, strict=True)]
    groups[1][0]._members._doors._listed.append(places[0])
    return groups


def test_of_two_groups_the_one_that_is_ahead_goes_on(refused: Any) -> None:
    (first, ahead), (second, behind) = two_groups((5, 2))
    names = [one._members._group for one in (first, second)]
    until(lambda: second._members._doors.rival)
    with pytest.raises(ringroad.MismatchError, match=f"{names[1]} at step 2 .*127.0.0.1.*{names[0]} at step 5 .*127"):
        step(second, behind)
    with refused(RuntimeError):
        second.update()
    first._members._doors._rival = View(99, 1, "has ended", ("no handle",))
    step(first, ahead)
    assert (ahead[0], behind[0]) == (6, 2)
    first._end()


def test_a_group_without_a_step_joins_the_other() -> None:
    (first, state), (second, other) = two_groups((3, 0))
    until(lambda: second._members._doors.rival)

    def join_and_step() -> None:
        while second.size == 1:  # a member that is slow to answer decides nothing
            second.update()
        for _ in "123":
            step(second, other)

    with ThreadPoolExecutor(1) as pool:
        joined = pool.submit(join_and_step)
        while not first.update() and not joined.done():
            first.run(lambda comm: 1, lambda _: np.add(state, 1, out=state))
        for _ in "123":
            step(first, state)
        joined.result()
    assert (first.size, second.step, other[0]) == (2, first.step, state[0])
    second._end()
    first._end()


def test_who_has_a_state_does_not_give_it_up_for_less() -> None:
    (first, state), (second, behind) = two_groups((5, 1))
    old = first._members._group
    first._members.leave(holds=True)  # as if the others had gone on without it
    until(lambda: View.read(first._members._doors._served[first._members._doors._listed[0]].get("view")))
    first._join()
    assert (first.step, state[0]) == (5, 5)
    assert first._members._group not in (old, second._members._group)
    until(lambda: second._members._doors.rival)
    with pytest.raises(ringroad.MismatchError, match="there are two elastic groups"):
        step(second, behind)
    first._members.leave(holds=True)
    third = group_at(("127.0.0.1", int(free_port())), 9)[0]
    third._members._doors._listed.append(first._members._doors._listed[0])
    until(lambda: first._members._doors.look())
    with pytest.raises(ringroad.MismatchError, match=r"at step 5 .* at step 9"):
        first._join()
    assert state[0] == 5
    first._end()
    third._end()


def test_a_record_keeps_its_process_from_founding(tmp_path: Path, refused: Any) -> None:
    place, record = ("127.0.0.1", int(free_port())), tmp_path / "record"
    group, _ = group_at(place, 1, record=record)
    assert record.stat().st_mode & 0o777 == 0o600
    name = group._members._group
    group._end()  # with an error
    assert View.read(record.read_bytes()).group == name
    with pytest.raises(ringroad.TimeoutError, match=f"looked for group {name} .*{record} says so: delete it"):
        group_at(place, 0, record=record, patience=1)
    record.unlink()
    with group_at(place, 1, record=record)[0]:
        assert record.exists()
    assert not record.exists()
    record.write_text("mine")
    with refused(ValueError, record):
        group_at(place, 0, record=record)
    assert record.read_text() == "mine"
    assert [one.name for one in tmp_path.iterdir()] == ["record"]


@pytest.mark.parametrize("failing", [[0, 1], [0], [1]])
def test_who_cannot_apply_a_result_leaves(failing: list[int]) -> None:
    """If all fail, all see their own error, and nobody waits. Others go on."""
    command = [sys.executable, PROGRAMS / "elastic_apply.py", f"tcp://127.0.0.1:{free_port()}", json.dumps(failing)]
    members = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in "12"]
    for member in members:
        seen = json.loads(member.communicate(timeout=60)[0])
        assert "this process has left the elastic group" in seen["after"]
        if seen["rank"] in failing:
            assert (seen["step"], seen["state"]) == (2, [3, 2])
            assert seen["error"] == f"error of rank {seen['rank']}"
            assert "apply failed in step 3 of the elastic group: the state is half changed" in seen["note"]
        else:
            assert (seen["step"], seen["state"], seen["error"]) == (6, [6, 6], "")


HOSTILE = [
    b'{"step": 0, "group": "x", "epoch": Infinity, "members": [], "doors": []}',
    b"[" * 100_000,
    b'{"step": 1e999, "group": "x", "epoch": 1, "members": [], "doors": []}',
    b'{"step": 9999999, "group": "x", "epoch": 9999999, "members": [], "doors": ["192.0.2.200:1"]}',
    b'{"step": 9999999, "group": "x", "epoch": 1, "members": ["x", "\\ud800"], "doors": []}',
]


def test_what_strangers_write_at_a_door_ends_nothing() -> None:
    place = ("127.0.0.1", int(free_port()))
    group, state = group_at(place, 2)
    door = TcpStore(*place, 1, job=_JOB, timeout=2)
    for text in HOSTILE:
        door.set("view", text)
        until(lambda: (view := View.read(door.get("view"))) and view.group == group._members._group)
    step(group, state)
    for number in range(100):
        Notes().keep(f"elastic/ask/{group._members._group}/{number}", b"x" * 100_000)
    step(group, state)
    assert group.size == 1
    group._end()


VIEW = View(3, 2, "a group", ("one", "two"), ("127.0.0.1:1",)).text().decode()
ODD = ["Infinity", "NaN", "-1", "1e999", "9" * 5000, "[" * 5000, '"\\ud800"', "null", "true", "{}", "\x00", '"', "\xff"]


@given(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 20), st.sampled_from(ODD) | st.text(max_size=3))))
@settings(deadline=None, derandomize=True, database=None)
def test_readers_of_what_anybody_may_write(changes: list[tuple[int, int, str]]) -> None:
    for text in (VIEW, '[7, 1, ["one", "two"]]', '[5, true, "x", {"a": [0]}]'):
        for place, length, new in changes:
            text = text[:place] + new + text[place + length :]
        for data in (text, text.encode("utf-8", "replace"), text.encode("utf-16")):
            for shape in (object, (int, bool, str, {"a": [int]}), {"step": int}):
                with suppress(ValueError):
                    parse_json(data, "it", shape, 10_000)
            if isinstance(data, bytes):
                view, invitation = View.read(data), _invitation(data)
                assert view is None or View.read(view.text()) == view
                assert invitation is None or all(isinstance(one, str) for one in invitation[2])


class Evil:
    def __reduce__(self) -> Any:
        return pytest.fail, ("code of a stranger has run",)


def test_messages_of_the_protocol_are_no_pickles() -> None:
    for data in (pickle.dumps(Evil()), b'["x"]', b"[" * 100_000, b"x" * 2000):
        comms = ringroad.Communicator.in_process(2, timeout=2)
        with ThreadPoolExecutor(1) as pool:
            victim = pool.submit(allgather_json, comms[0], 5, int, 1000)
            with suppress(ringroad.RingroadError):
                allgather_bytes(comms[1], np.frombuffer(data, np.uint8), None, "allgather_json")
            with pytest.raises(ringroad.MismatchError, match=r"rank 1 says|each may have 1000"):
                victim.result()
    for file in (ROOT / "python/ringroad/start").glob("*.py"):
        assert "_object(" not in file.read_text(), file


def test_what_newcomers_say_of_the_state_is_not_believed() -> None:
    states = [np.full(3, 1.0), np.full(3, 2.0)]
    members = [Progress(Arrays({"sum": state})) for state in states]
    for member, at in zip(members, (4, 1000), strict=True):
        member.begin(holds=True)
        member.step = at
    comms = ringroad.Communicator.in_process(2, timeout=20)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda member, comm: member.level(comm, 1), members, comms))
    assert [member.step for member in members] == [4, 4]
    assert (states[1] == 1).all()


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    try:
        both = Hosts("-elastic")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(str(error))
    yield both
    both.close()


@pytest.mark.skipif(shutil.which("nft") is None, reason="firewalls need nft")
@pytest.mark.parametrize(("how", "length"), [("refuse", 10.0), ("reset", 3.0)] if FULL else [("reset", 3.0)])
def test_refused_connections_prove_nothing(how: str, length: float, hosts: Hosts, tmp_path: Path) -> None:
    """Firewalls refuse what comes from the other half of the members: both halves run, and only one of them goes on."""
    try:
        live(History(tmp_path / how, 4, [Event(0.1, f"cut {how}", 0, length), Event(0.2, "none")], hosts=hosts))
    finally:
        hosts.heal()


@long
@pytest.mark.parametrize("seed", range(1000, 1050 if FULL else 1001))
def test_histories_with_cuts(seed: int, hosts: Hosts, tmp_path: Path) -> None:
    try:
        live(History(tmp_path / f"seed-{seed}", *draw(Random(seed), cuts=True), hosts=hosts))
    finally:
        hosts.heal()
