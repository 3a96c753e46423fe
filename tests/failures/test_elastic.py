"""Groups whose members come and go: random histories of starts, kills, pauses and cuts, and faults at chosen points."""

import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
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
from helpers import FULL, free_port, long
from ringroad._native import Notes, TcpStore
from ringroad.start.doors import _JOB, Doors, View
from ringroad.start.membership import _invitation, _key

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
    ("address", "state", "options", "error", "words"),
    [
        (None, STATE, {}, TypeError, "address must be a text"),
        ("udp://127.0.0.1:4000", STATE, {}, ValueError, "tcp://host:port"),
        (ADDRESS, [np.zeros(1)], {}, TypeError, "state must be a dict of NumPy arrays, not list"),
        (ADDRESS, {"sum": [0.0]}, {}, TypeError, "sum must be a NumPy array that can be written, not list"),
        (ADDRESS, STATE, {"minimum": 1.5}, TypeError, "minimum must be a whole number, not 1.5"),
        (ADDRESS, STATE, {"timeout": 0}, ValueError, "timeout must be a number of seconds above 0"),
        (ADDRESS, STATE, {"timeout": "30"}, TypeError, "timeout must be a number, not '30'"),
        (ADDRESS, STATE, {"patience": float("nan")}, ValueError, "patience must be a number of seconds above 0"),
    ],
)
def test_odd_arguments(address: Any, state: Any, options: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        ringroad.elastic(address, state, **options)


def test_a_group_that_was_left() -> None:
    with ringroad.elastic(f"tcp://127.0.0.1:{free_port()}", STATE, minimum=1) as group:
        pass
    for call in (group.update, lambda: group.run(lambda comm: 1, lambda result: None)):
        with pytest.raises(RuntimeError, match="has left the elastic group"):
            call()


def test_nobody_founds_a_group_with_those_that_do_not_come() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
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
        with pytest.raises(ringroad.TimeoutError, match="no group has taken in this process"):
            founder.result()
        assert notes.kept(f"elastic/invitation/{_key(ghost)}/"), "it was invited"


def test_nobody_founds_a_second_group_and_nonsense_is_no_view() -> None:
    address = ("127.0.0.1", int(free_port()))
    with ThreadPoolExecutor(1) as pool:
        founder = pool.submit(ringroad.elastic, "tcp://{}:{}".format(*address), STATE, minimum=1, patience=2.5)
        notes, member = Notes(), ringroad.handle()
        door: Any = None
        text = None
        while not text and not founder.done():
            with suppress(ringroad.RingroadError):
                door = door or TcpStore(*address, 1, job=_JOB, timeout=0.2)
                text = door.get("view")
        for nonsense in (b"[]", b'{"group": 1}', b"\xff", b'{"group": "", "epoch": 1, "members": [], "doors": [""]}'):
            assert View.read(nonsense) is None
        view = View("the group", 5, ("no handle", member), ())
        door.set("view", view.text())
        with pytest.raises(ringroad.TimeoutError, match="no group has taken in this process"):
            founder.result()
        assert View.read(door.get("view")) == view
        assert notes.kept("elastic/ask/the group/"), "it has asked the member"


def test_notes_that_make_no_sense_are_ignored() -> None:
    assert [_invitation(note) for note in (b"", b"[1, 2]", b'[1, 2, ["a"]]')] == [None, None, (1, 2, ["a"])]
    with ringroad.elastic(f"tcp://127.0.0.1:{free_port()}", {"sum": np.zeros(1)}, minimum=1) as group:
        group.update()
        for number, note in enumerate((b"no handle", b"\xff")):
            Notes().keep(f"elastic/ask/{group._members._group}/{number}", note)
        group.run(lambda comm: 1, lambda result: None)
        assert not group.update()
        assert not group._members.asks()


def test_who_leaves_takes_the_view_from_all_doors() -> None:
    address = ("127.0.0.1", int(free_port()))
    other, member = Doors([address]), Doors([address])
    member._served.clear()  # as in another process
    member._end.set()
    view = View("a group", 3, (), ())
    member.show(view)
    assert member._read(address) is None
    member._write(address, view.text())
    assert other.look() == view
    member.close()
    assert other.look() is None
    other.close()


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
