"""A job that hangs is asked why: staged in words, and in processes."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
from helpers import PROGRAMS, check_fits, free_port, long, within
from ringroad._native import Config
from ringroad._status import asking, flight, hangs, text
from ringroad._support.processes import Processes
from ringroad.cli import status
from ringroad.start import signals

HUNG = PROGRAMS / "hung.py"

# ------------------------------------------------------------------------------------------------ staged in words


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/me/ringroad/train.py", True),
        ("/home/me/ringroad/python/train.py", True),
        ("/opt/lib/python3.12/site-packages/mine/train.py", True),
        ("/usr/lib/python3/dist-packages/mine/train.py", True),
        (asking.__file__, False),
        ("/elsewhere/lib/python3.12/site-packages/ringroad/_api/calls.py", False),
        ("/usr/lib/python3.11/threading.py", False),
    ],
)
def test_whose_frame_it_is(file, own):
    stacks = [["MainThread", [[file, 3, "inner"], ["/home/me/outer.py", 7, "outer"]]]]
    process = asking.Process("host", 100, report={"stacks": stacks})
    assert process.position == (f"{file.rpartition('/')[2]}:3 in inner" if own else "outer.py:7 in outer")


def call(number=0, kind="allreduce", elements=10, *, peer=None, tag=None, waits=(), sends=(), step=0, since=3.0):
    """A call as Rust's `InFlight` has it."""
    text = f"{kind} of {elements} float32" + ("" if peer is None else f" rank {peer} (tag {tag})")
    return {
        "number": number, "digest": hash((kind, elements)), "text": text, "kind": kind, "dtype": "float32",
        "elements": elements, "uneven": False, "op": None, "root": None, "peer": peer, "tag": tag, "algorithm": "ring",
        "since": since, "timeout": 300.0, "step": step, "waits_for": list(waits), "sends_to": list(sends),
        "any": kind == "recv" and peer is None,
    }  # fmt: skip


def send(to, tag=0):
    return call(0, "send", peer=to, tag=tag, sends=[to])


def recv(source, tag=0):
    return call(0, "recv", peer=source, tag=tag, waits=[source] if source is not None else [])


def connection(peer, sent_again, stream=0, sent=1 << 30):
    """A connection as Rust's `Connection` has it."""
    return {
        "peer": peer, "address": f"10.0.0.{peer}:4711", "device": "eth0", "stream": stream, "sent": sent,
        "received": 5_000_000, "sent_again": sent_again, "round_trip": 2.5e-4, "rate": 1.25e9,
    }  # fmt: skip


@dataclass
class Stage:
    """A job of processes, two on each host unless `alone`, and what the ranks of its communicators do."""

    size: int = 4
    alone: bool = False
    does: dict[str, dict[int, list[dict]]] = field(default_factory=dict)
    """For each communicator, the calls in flight of each rank."""
    made: dict[str, dict[int, int]] = field(default_factory=dict)
    """The number of the last call, where it is not that of the calls in flight."""
    members: dict[str, list[int]] = field(default_factory=dict)
    """The processes of communicators that do not have all."""
    recent: dict[int, list[dict]] = field(default_factory=dict)
    silent: tuple[int, ...] = ()
    stopped: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    busy: tuple[int, ...] = ()
    works: tuple[int, ...] = ()
    """Ranks that only have asynchronous calls in flight."""
    failed: dict[int, str] = field(default_factory=dict)
    connections: dict[int, list[dict]] = field(default_factory=dict)
    deaf: tuple[int, ...] = ()
    """Processes whose GIL is not available."""

    def host(self, process):
        return f"host{process if self.alone else process // 2}"

    def member(self, process):
        return {"host": self.host(process), "pid": 100 + process, "handle": {"token": [process]}}

    def part(self, name, rank, process):
        calls = self.does.get(name, {}).get(rank, [])
        made = self.made.get(name, {}).get(rank, max((one["number"] for one in calls), default=7))
        recent = [call(number) for number in range(1, made + 1)]
        recent = self.recent.get(rank, recent) if name == "world" else recent
        places = self.members.get(name, range(self.size))
        halted = [
            [other, state]
            for state, who in (("T", self.stopped), ("X", self.ended))
            for other, place in enumerate(places)
            if place in who and place != process and self.host(place) == self.host(process)
        ]
        standing = {
            "called": made, "ended": made - sum(one["number"] > 0 for one in calls), "calls": calls, "recent": recent,
            "failure": self.failed.get(rank), "closed": False, "lost": [], "transport": "shared memory",
            "connections": self.connections.get(rank, []),
        }  # fmt: skip
        return {
            "name": name, "group": name, "rank": rank, "size": len(places), "members": [], "halted": halted,
            "standing": None if rank in self.busy else standing, "changes": [], "stragglers": [],
            "waiting": int(rank not in self.works),
        }  # fmt: skip

    def report(self, process):
        names = ["world", *self.members]
        ranks = {name: list(self.members.get(name, range(self.size))) for name in names}
        parts = [self.part(name, ranks[name].index(process), process) for name in names if process in ranks[name]]
        stacks = [["MainThread", [[asking.__file__, 1, "wait"], ["/home/train.py", 12, "step"]]]]
        deaf = process in self.deaf
        return {
            "host": self.host(process), "pid": 100 + process, "segments": [1000 * process + 1000, 10 * process],
            "communicators": [] if process in self.left else parts,
            "stacks": None if deaf else stacks, "no_stacks": "a thread keeps the GIL" if deaf else None,
        }  # fmt: skip

    def job(self):
        names = ["world", *self.members]
        members = {name: [self.member(p) for p in self.members.get(name, range(self.size))] for name in names}
        mute = {p: "it has ended, or a firewall refuses" for p in (*self.silent, *self.stopped)}
        mute |= dict.fromkeys(self.ended, "process p has ended")
        answers = [
            (
                json.dumps(self.member(p)["handle"]),
                None if p in mute else self.report(p),
                mute.get(p, ""),
                p in self.ended,
            )
            for p in range(self.size)
        ]
        return asking.join(members, answers)


def all_in(*ranks, number=8, **others):
    return {"world": {rank: [call(number, **others)] for rank in ranks}}


def then(*calls):
    """What a rank has called that has made these calls after the first seven."""
    return [*(call(number) for number in range(1, 8)), *calls]


STAGED = {
    "a rank is missing": (Stage(does=all_in(0, 1, 3)), "missing", [2], "rank 2 (host1, pid 102) has not made call"),
    "several are missing": (Stage(does=all_in(0)), "missing", [1, 2, 3], "ranks 1-3 have not made"),
    "where it is instead": (Stage(does=all_in(0, 1, 3)), "missing", [2], "Python is at train.py:12 in step"),
    "it keeps the GIL": (Stage(does=all_in(0, 1, 3), deaf=(2,)), "missing", [2], "a thread keeps the GIL"),
    "it is far behind": (Stage(does=all_in(0, 1, 3), made={"world": {2: 3}}), "missing", [2], "call number 8"),
    "it is stopped": (Stage(does=all_in(0, 1, 3), stopped=(2,)), "stopped", [2], "kill -CONT 102"),
    "it is stopped in the call": (Stage(does=all_in(0, 1, 2, 3), stopped=(2,)), "stopped", [2], "is stopped"),
    "it is alone and stopped": (Stage(does=all_in(0, 1, 3), alone=True, silent=(2,)), "silent", [2], "stopped"),
    "it does not answer": (Stage(does=all_in(0, 1, 3), silent=(2,)), "silent", [2], "though its host can be reached"),
    "a host is cut off": (Stage(does=all_in(0, 1), silent=(2, 3)), "silent", [2, 3], "host host1 does not answer"),
    "its process has ended": (Stage(does=all_in(0, 1, 3), ended=(2,)), "ended", [2], "has ended"),
    "it has ended elsewhere": (Stage(does=all_in(0, 1, 3), alone=True, ended=(2,)), "ended", [2], "has ended"),
    "it has closed the communicator": (Stage(does=all_in(0, 1, 3), left=(2,)), "left", [2], "closed or dropped"),
    "it computes under the lock": (Stage(does=all_in(0, 1, 3), busy=(2,)), "busy", [2], "computing for long"),
    "the communicator has failed": (Stage(failed={0: "timed out"}), "failed", [0], "has failed on rank 0: timed out"),
    "another collective": (
        Stage(does=all_in(0, 1, 3), recent={2: then(call(8, "barrier"))}, made={"world": {2: 8}}),
        "other call", [2], "ranks 0-1, 3: allreduce of 10 float32; rank 2: barrier",
    ),
    "another size": (
        Stage(does=all_in(0, 1, 3), recent={2: then(call(8, elements=11))}, made={"world": {2: 8}}),
        "other size", [2], "rank 2: allreduce of 11",
    ),
    "another size of two": (
        Stage(2, does=all_in(0, 1), recent={1: then(call(8, elements=11))}), "other size", [0, 1], "different calls",
    ),
    "all send": (
        Stage(does={"world": {rank: [send((rank + 1) % 4)] for rank in range(4)}}),
        "deadlock", [0, 1, 2, 3], "all of them send: rank 1 sends to rank 2",
    ),
    "two send to each other": (
        Stage(does={"world": {0: [send(1)], 1: [send(0)], 2: [call(8)], 3: [call(8)]}}), "deadlock", [0, 1], "sendrecv",
    ),
    "all receive": (
        Stage(does={"world": {rank: [recv((rank + 1) % 4)] for rank in range(4)}}),
        "deadlock", [0, 1, 2, 3], "waits for a message of",
    ),
    "communicators in different orders": (
        Stage(does={"world": {0: [call(8)]}, "half": {1: [call(3)]}}, members={"half": [0, 1]}, made={"half": {0: 2}}),
        "deadlock", [0, 1], "of 'half'",
    ),
    "a collective and a message": (
        Stage(does={"world": {0: [call(8)], 1: [recv(0)], 2: [call(8)]}}), "deadlock", [0, 1], "call number 8",
    ),
    "another tag": (Stage(does={"world": {2: [recv(3, 5)], 3: [send(2, 6)]}}), "tag", [2, 3], "sends to it with tag 6"),
    "nobody sends": (Stage(does={"world": {1: [recv(0)]}}), "missing", [0], "rank 0 (host0, pid 100) has not begun"),
    "nobody receives": (Stage(does={"world": {1: [send(3)]}}), "missing", [3], "has not begun its part of send"),
    "nobody sends to any": (Stage(does={"world": {1: [recv(None)]}}), "missing", [], "for a message"),
    "a missing rank waits": (
        Stage(does={"world": {0: [call(8)], 1: [call(8)], 2: [recv(3)]}}), "missing", [3], "rank 3 (host1, pid 103)",
    ),
    "a cable is cut": (
        Stage(does={"world": {
            0: [call(8, waits=[3], step=1)], 1: [call(8, waits=[0], step=2)],
            2: [call(8, waits=[1])], 3: [call(8, waits=[2], step=1)],
        }}),
        "network", [1, 2], "rank 1 (host host0) to 2 (host1)",
    ),
    "the last rank gets nothing": (
        Stage(does={"world": {3: [call(8, waits=[1])]}}, made={"world": dict.fromkeys(range(3), 8)}),
        "network", [1, 3], "retransmitted 10 of 2000 tcp segments",
    ),
    "a connection loses": (
        Stage(does={"world": {3: [call(8, waits=[1])]}}, made={"world": dict.fromkeys(range(3), 8)},
              connections={1: [connection(2, 0), connection(3, 3 << 20)]}),
        "network", [1, 3], "rank 1 retransmitted 3 MiB of 1 GiB to rank 3",
    ),
    "all are slow": (
        Stage(2, does={"world": {0: [call(8, waits=[1])], 1: [call(8, waits=[0])]}}), "slow", [0, 1], "too few cores",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAGED)
def test_the_cause_is_named(name):
    stage, kind, ranks, words = STAGED[name]
    job = stage.job()
    first, *others = hangs.causes(job)
    assert (first.kind, first.ranks) == (kind, ranks), first
    assert words in first.text, first.text
    assert {cause.kind for cause in others} <= {"missing"}
    told = "\n".join(text.lines(job))
    assert first.text in told
    assert all(str(process.pid) in told for process in job.processes)
    assert "handle" not in json.dumps(job.to_dict()) and "token" not in json.dumps(job.to_dict())


def test_nothing_hangs():
    ring = {"world": {rank: [send((rank + 1) % 4)] for rank in range(4)}}
    assert all(cause.kind == "missing" for cause in hangs.causes(Stage(does=ring, works=(1,)).job()))
    for stage in (Stage(), Stage(does=all_in(0, 1, 3, since=0.1)), Stage(does={"world": {0: [send(1)], 1: [recv(0)]}})):
        assert hangs.causes(stage.job()) == []
        assert "no call hangs" in text.lines(stage.job())[1]


def test_many_ranks_share_rows():
    job = Stage(1000, does=all_in(*range(999), waits=[999]), stopped=(999,)).job()
    group = job.groups[0]
    job = asking.Job([asking.Group(group.key, group.name, group.processes, group.parts)])
    assert len(text.rows(group)) == 501  # of 500 hosts; on the last one a rank does something else
    assert text.rows(group, group, 1.0)[0][-1] == "0.0"


def test_connections():
    """Those first that had to send most again; since an earlier look, with the mean rate."""
    stage = Stage(alone=True, connections={0: [connection(1, 0), connection(2, 7)], 1: [connection(3, 9, 1)]})
    now, before = stage.job().groups[0], Stage(connections={0: [connection(2, 0, 0, (1 << 30) - 25_000_000)]}).job()
    worst, next_one, last = text.links(now, before.groups[0], 2.0)
    assert worst == ["1", "3", "eth0 (1)", "1 GiB", "4.77 MiB", "9 B", "250 us", "10 Gbit/s"]
    assert next_one[:2] + next_one[-1:] == ["0", "2", "100 Mbit/s"] and last[:2] == ["0", "1"]


def test_narrow_terminals(capsys, monkeypatch):
    """As the other commands (tests/cli/test_cli_width.py)."""
    lossy = {rank: [connection((rank + 1) % 4, 7 << rank)] for rank in range(4)}
    job = Stage(does=all_in(0, 1, 3, waits=[2]), connections=lossy).job()
    check_fits(capsys, monkeypatch, lambda: status._print(job, replace(job, time=job.time - 2), True, True))


def test_jobs_are_told_apart():
    def report(pid, **sizes):
        return {"pid": pid, "communicators": [{"group": group, "size": size} for group, size in sizes.items()]}

    reports = [report(1, a=4, b=2), report(2, c=2), report(3, b=2), report(4, a=4), report(5)]
    assert asking._jobs(reports) == {"a": [1, 3, 4], "c": [2]}


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"host": "a", "pid": Infinity}', '{"communicators": [{}]}'])
def test_what_is_no_report_is_why_a_process_does_not_answer(text):
    report, why = asking._read(text, None)
    assert report is None
    assert why.startswith("what it says")


# ------------------------------------------------------------------------------------------------ torch's analyser


def analysed(job, folder, capsys):
    """What torch's analyser says of a job."""
    pytest.importorskip("torch.distributed.flight_recorder.components.builder")
    from torch.distributed.flight_recorder import fr_trace

    flight.write(job, folder)
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        said = []
        logger = "torch.distributed.flight_recorder.components.fr_logger.FlightRecorderLogger.info"
        patch.setattr(logger, lambda _self, text, *values: said.append(str(text) % values if values else str(text)))
        fr_trace.main([str(folder), "--allow-incomplete-ranks", "-o", str(folder.parent / "database")])
    return "\n".join(said)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "a rank is missing",
            ["Not all ranks joining collective, sequence number: 8", "missing ranks: {2}", "train.py:12"],
        ),
        ("another collective", ["sequence number: 8 has errors", "COLLECTIVE_TYPE_MISMATCH"]),
        ("another size", ["sequence number: 8 has errors", "SIZE_OR_SYNTAX_MISMATCH"]),
        ("all send", ["collective: nccl:send 0->1"]),
        ("nobody sends", ["missing ranks: {0}", "nccl:recv 1<-0"]),
        ("communicators in different orders", ["group info: half", "missing ranks"]),
        ("it is stopped", ["missed FR dumps from ranks ({2})"]),
    ],
)
def test_torch_reads_it(name, words, tmp_path, capsys):
    said = analysed(STAGED[name][0].job(), tmp_path / "flight", capsys)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    "kind", ["allreduce", "allgather", "reduce_scatter", "gather", "scatter", "alltoall", "reduce", "scan"]
)
@pytest.mark.parametrize("uneven", [False, True])
def test_torch_finds_nothing_wrong(kind, uneven, tmp_path, capsys):
    made = [call(number, kind) | {"uneven": uneven} for number in range(1, 8)]
    assert "mismatch" not in analysed(Stage(recent=dict.fromkeys(range(4), made)).job(), tmp_path / "f", capsys).lower()


# ------------------------------------------------------------------------------------------------ in processes


def ask(*options):
    """What `ringroad status` prints."""
    command = [sys.executable, "-m", "ringroad", "status", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Ranks:
    """Four processes that hang as they are told."""

    def __init__(self, processes, folder):
        self.store = f"tcp://127.0.0.1:{free_port()}"
        self.ways, self.log = folder / "ways", folder / "log"
        self.ways.touch()
        environ = os.environ | {"WORLD_SIZE": "4", "RINGROAD_STORE": self.store, "RINGROAD_SIGNAL": "USR1"}
        with open(self.log, "w") as log:
            for rank in range(4):
                command = [sys.executable, str(HUNG), str(self.ways)]
                processes.start(command, environ | {"RANK": str(rank)}, stdout=log, stderr=log)
        self.pids = [process.pid for process in processes.all]
        assert within(60, lambda: self.said().count("ready") == 4), self.said()

    def said(self):
        return self.log.read_text()

    def tell(self, way):
        with open(self.ways, "a") as file:
            file.write(f"{way}\n")

    @contextmanager
    def hang(self, way):
        self.tell(way)
        try:
            yield
        finally:
            for signum in (signal.SIGCONT, signal.SIGUSR2):
                os.kill(self.pids[2], signum)
            self.tell("end")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, Processes() as processes:
        patch.setenv("RINGROAD_SECRET", "word")
        yield Ranks(processes, tmp_path_factory.mktemp("hung"))


MISMATCH = ("failed", [0, 1, 2, 3])
WAYS = {
    "missing": ("missing", [2], "in think"),
    "stopped": ("stopped", [2], "kill -CONT"),
    "gil": ("missing", [2], "a thread keeps the GIL"),
    "all send": ("deadlock", [0, 1, 2, 3], "sendrecv"),
    "other collective": (*MISMATCH, "allgather"),
    "neighbour missing": ("missing", [2], "has not begun its part of"),
    "halves": ("deadlock", [2, 3], "has not made"),
    "most missing": ("missing", [1, 2, 3], "in think"),
    "computes": ("missing", [2], "in compute"),
    "one call fewer": ("missing", [2], "in think"),
    "left": ("failed", None, "closed"),
    "root missing": ("missing", [0], "reduce (root 0) of"),
    "leaf missing": ("missing", [2], "broadcast (root 0) of"),
    "barrier": (*MISMATCH, "barrier"),
    "other size": (*MISMATCH, "999"),
    "other type": (*MISMATCH, "int64"),
    "other operation": (*MISMATCH, "max"),
    "other root": ("failed", None, "root 1"),  # on others, too, that have not ended the call
    "all receive": ("deadlock", [0, 1, 2, 3], "waits for a message of"),
    "sends to itself": ("deadlock", [2], "waits for itself"),
    "tag": ("tag", [2, 3], "tag 6"),
    "nobody sends": ("missing", [3], "has not begun its part of"),
    "nobody receives": ("missing", [3], "has not begun its part of"),
    "nobody sends to any": ("missing", [], "for a message"),
    "nobody sends what is probed": ("missing", [1], "has not begun its part of"),
    "message and collective": ("deadlock", [2, 3], "rank 2 sends to rank 3"),
    "halo missing": ("missing", [2], "in think"),
    "orders": ("deadlock", [0, 1], "has not made"),
    "own operation": ("slow", [0, 1, 2, 3], "all messages are there"),
    "rendezvous": ("missing", [2], "in think"),
    "died": ("ended", [2], "has ended"),
}
"""What is said of the ways in which `programs/hung.py` hangs: the kind of cause, whose fault it is (None: ranks
are told differently, by when they notice), and words."""
SHORTLY = 8


def test_the_command(ranks, tmp_path, monkeypatch):
    with ranks.hang("missing"):
        told = within(30, lambda: [t for t in [json.loads(ask("--json", "--job", ranks.store))] if t["causes"]])[0]
        assert [one["pid"] for one in told["communicators"][0]["ranks"]] == ranks.pids
        text = told["causes"][0]["text"]
        shown = ask("--stacks", "--flight", str(tmp_path / "flight"), "--job", told["job"][:8])
        assert all(word in shown for word in (text[:30], "hung.py", "MainThread", "wrote 4 files")), shown
        os.kill(ranks.pids[1], signal.SIGUSR1)
        assert within(30, lambda: "ringroad:   rank 2 (" in ranks.said()), ranks.said()
        monkeypatch.delenv("RINGROAD_SECRET")
        for job in (str(ranks.pids[0]), ranks.store):
            command = [sys.executable, "-m", "ringroad", "status", "--job", job]
            stranger = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert stranger.returncode == 2 and "RINGROAD_SECRET" in stranger.stderr, stranger.stderr


@pytest.mark.parametrize("way", [*WAYS][:SHORTLY] + [pytest.param(way, marks=long) for way in [*WAYS][SHORTLY:]])
def test_a_running_job(way, ranks):
    kind, guilty, words = WAYS[way]
    found = []

    def is_named():
        job = asking.here(str(ranks.pids[0]))
        assert job.seconds < 30
        found[:] = hangs.causes(job, 0.1)
        return (
            found
            and (found[0].kind, found[0].ranks if guilty is None else guilty) == (kind, found[0].ranks)
            and words in found[0].text
        )

    with ranks.hang(way):
        assert within(20, is_named), found
    if kind != "ended":
        assert within(20, lambda: not asking.here(str(ranks.pids[0])).groups[1:]), "the ranks have gone on"


def test_the_programs_own_handler_stays():
    """A signal is answered if that is asked for, where the program leaves it alone, and never by another thread."""
    asked = Config({"RINGROAD_SIGNAL": "USR1"})
    before = signal.getsignal(signal.SIGUSR1)
    try:
        for handler in (signal.SIG_IGN, lambda *_: None):
            signal.signal(signal.SIGUSR1, handler)
            signals.answer(asked)
            assert signal.getsignal(signal.SIGUSR1) is handler
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        signals.answer(Config.defaults())
        thread = threading.Thread(target=signals.answer, args=[asked])
        thread.start()
        thread.join()
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
        signals.answer(asked)
        assert signal.getsignal(signal.SIGUSR1) is signals._tell
    finally:
        signal.signal(signal.SIGUSR1, before)
