"""How a job stands: asks its processes, and puts together what they say.

Every process answers at the port that its communicators have in any case (`Report` in Rust), also while its calls hang.
"""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringroad import _native
from ringroad._support.files import parse_json
from ringroad._support.text import runs_text

WITHIN = 0.9
"""Seconds that a process has to answer: a job is asked twice, and answers within 2 seconds."""
Answer = tuple[str, dict[str, Any] | None, str, bool]
"""A process's handle, what it says, why it does not answer, and whether it has certainly ended."""
_PART = {"group": str, "name": str, "rank": int, "size": int, "halted": [(int, str)], "standing": dict | None}
_MEMBER = {"host": str, "pid": int, "handle": dict | None}
_REPORT = {"host": str, "pid": int, "communicators": [_PART | {"members": [_MEMBER]}]}
_INNER = re.compile(
    rf"{re.escape(str(Path(__file__).parents[1]))}/|-packages/ringroad/|/lib/python3[^/]*/(?!(site|dist)-packages/)"
)
"""Files of ringroad and of Python. A frame of theirs was called by the program, whose own frame is further out.

The process that answers may have ringroad in another environment, but no clone's name tells its files from the user's.
"""


@dataclass(frozen=True)
class Process:
    """A process of a job.

    Attributes:
        host: The name of its host.
        pid: Its number.
        handle: By which it is asked; None if it does not listen.
        report: What it says, as Rust's `Report` has it; None if it does not answer.
        why: Why it does not answer.
        state: What the kernel of its host says: "T" if it is stopped, "X" if it has ended, "" if that is not known.
    """

    host: str
    pid: int
    handle: str | None = None
    report: dict[str, Any] | None = None
    why: str = ""
    state: str = ""

    @property
    def name(self) -> str:
        return f"{self.host}, pid {self.pid}"

    @property
    def trouble(self) -> str:
        """Why it does not answer, in one word: "", "stopped", "ended" or "silent"."""
        if self.state in ("T", "t"):
            return "stopped"
        if self.state == "X":
            return "ended"
        return "" if self.report is not None else "silent"

    @property
    def frames(self) -> list[tuple[str, int, str]]:
        """The frames of its main thread, (file, line, function), the innermost first; empty if they are not known."""
        stacks = (self.report or {}).get("stacks") or []
        return [(str(file), int(line), str(name)) for file, line, name in stacks[0][1]] if stacks else []

    @property
    def position(self) -> str:
        """Where its main thread is in the program, or in brackets why that is not known."""
        frames = [frame for frame in self.frames if not _INNER.search(frame[0])] or self.frames
        if not frames:
            return f"({why})" if (why := (self.report or {}).get("no_stacks")) else ""
        file, line, name = frames[0]
        return f"{file.rpartition('/')[2]}:{line} in {name}"


@dataclass(frozen=True)
class Group:
    """A communicator of a job.

    Attributes:
        key: 16 hexadecimal digits; its `Communicator.rendezvous`.
        name: Its name.
        processes: The process of each rank.
        parts: What the ranks say that have answered and not closed it, as Rust's `Part` has it.
    """

    key: str
    name: str
    processes: list[Process]
    parts: dict[int, dict[str, Any]]

    @property
    def size(self) -> int:
        return len(self.processes)

    def standing(self, rank: int) -> dict[str, Any] | None:
        """How a rank stands, as Rust's `Standing` has it; None if it does not say."""
        return self.parts.get(rank, {}).get("standing")

    def calls(self, rank: int) -> list[dict[str, Any]]:
        """The calls of a rank that are in flight, as Rust's `InFlight` has them."""
        standing = self.standing(rank)
        return list(standing["calls"]) if standing else []

    def who(self, rank: int) -> str:
        return f"rank {rank} ({self.processes[rank].name})"


@dataclass(frozen=True)
class Job:
    """A job, as its processes say that it stands.

    Attributes:
        groups: Its communicators, the largest first.
        others: Processes of which no communicator is known: they still meet, or cannot be asked.
        seconds: How long it took to ask.
        time: When it was asked, by time.monotonic.
    """

    groups: list[Group]
    others: list[Process] = field(default_factory=list)
    seconds: float = 0.0
    time: float = 0.0

    @property
    def key(self) -> str:
        return self.groups[0].key if self.groups else ""

    @property
    def processes(self) -> list[Process]:
        """All its processes, each once."""
        every = (process for group in self.groups for process in group.processes)
        return list({(process.host, process.pid): process for process in every}.values())

    def to_dict(self) -> dict[str, Any]:
        """Everything that is known, without what would let a reader connect."""
        return {
            "job": self.key,
            "seconds": self.seconds,
            "communicators": [
                {
                    "name": group.name,
                    "rendezvous": group.key,
                    "ranks": [
                        {"rank": rank, "host": process.host, "pid": process.pid, "trouble": process.trouble or None}
                        | {"standing": group.standing(rank)}
                        for rank, process in enumerate(group.processes)
                    ],
                }
                for group in self.groups
            ],
            "processes": [
                {name: getattr(process, name) for name in ("host", "pid", "why", "position")}
                | {name: (process.report or {}).get(name) for name in ("segments", "stacks", "no_stacks")}
                for process in [*self.processes, *self.others]
            ],
        }


# ------------------------------------------------------------------------------------------------ asking


def here(key: str | None = None) -> Job:
    """The job of which processes of this user run on this host.

    Args:
        key: Which one, if there are several: the beginning of its key, or a process's number.

    Raises:
        ValueError: There is none, or several fit. The message lists them.
    """
    begun = time.monotonic()
    seen = _native.processes_here()
    handles = [handle for _, _, handle in seen if handle]
    heard = _native.ask_status(handles, False, WITHIN)
    answers = [_read(text, why) for text, why, _ in heard]
    reports, refused = [report for report, _ in answers if report], [why for _, why in answers if why]
    host = reports[0]["host"] if reports else "this host"
    mute = [Process(host, pid, state=state, why="it does not answer") for pid, state, handle in seen if not handle]
    jobs = _jobs(reports)
    found = {name: pids for name, pids in jobs.items() if key is None or name.startswith(key) or key in map(str, pids)}
    if not found:
        raise ValueError(_nothing(key, jobs, reports, mute, refused))
    if len(found) > 1:
        listed = "; ".join(f"{name} (pids {runs_text(pids)})" for name, pids in found.items())
        raise ValueError(f"{len(found)} jobs run here, choose one with --job KEY: {listed}")
    (pids,) = found.values()
    first = next(handle for pid, _, handle in seen if handle and pid in pids)
    waiting = [r for r in reports if not r["communicators"]] if len(jobs) == 1 else []
    others = [Process(r["host"], r["pid"], report=r) for r in waiting] + mute
    return _all_of([first], [], others, begun)


def at(host: str, port: int, job: str) -> Job:
    """The job whose store a process serves at a port. `job` tells it from others, as for `TcpStore`.

    Raises:
        ValueError: It does not answer. The message says why.
    """
    begun = time.monotonic()
    report = parse_json(_native.ask_status_at(host, [port], job, WITHIN), f"what {host}:{port} says", _REPORT)
    return _all_of([], [report], [], begun)


def of_this_process() -> Job:
    """The job of this process."""
    begun = time.monotonic()
    return _all_of([], [json.loads(_native.own_status())], [], begun)


def _read(text: str | None, why: str | None) -> tuple[dict[str, Any] | None, str]:
    """What a process says, and why it does not."""
    try:
        return parse_json(text, "what it says", _REPORT) if text else None, why or ""
    except ValueError as error:
        return None, str(error)


def _jobs(reports: Iterable[dict[str, Any]]) -> dict[str, list[int]]:
    """The processes of each job among these: those that share communicators. The key is the largest communicator's."""
    jobs: list[tuple[dict[str, int], list[int]]] = []
    for report in reports:
        sizes = {part["group"]: part["size"] for part in report["communicators"]}
        same = [job for job in jobs if job[0].keys() & sizes.keys()]
        jobs = [job for job in jobs if job not in same]
        if sizes:
            pids = [report["pid"], *(pid for job in same for pid in job[1])]
            jobs.append(({key: size for one in [sizes, *(job[0] for job in same)] for key, size in one.items()}, pids))
    return {max(sorted(sizes), key=lambda key: sizes[key]): sorted(pids) for sizes, pids in jobs}


def _nothing(
    key: str | None, jobs: dict[str, list[int]], reports: list[Any], mute: list[Process], refused: list[str]
) -> str:
    """Why no job has been found."""
    if jobs:
        others = f"; other processes refuse: {refused[0]}" if refused else ""
        return f"no job here begins with {key!r}: there are {', '.join(jobs)}{others}"
    stopped = [process.pid for process in mute if process.trouble == "stopped"]
    if stopped:
        return f"all ranks here are stopped (pids {runs_text(stopped)}): ask on another host, or kill -CONT them"
    if refused:
        return refused[0]
    if reports:
        return (
            f"processes {runs_text([r['pid'] for r in reports])} have no communicator yet: they still wait for others"
        )
    return "no job of this user runs on this host; run this on one of its hosts, or name its store: tcp://host:port"


def _all_of(handles: Sequence[str], reports: list[dict[str, Any]], others: list[Process], begun: float) -> Job:
    """Asks these processes, all that are members of their communicators, and so on."""
    answers: dict[str, Answer] = {}
    members: dict[str, list[dict[str, Any]]] = {}
    wanted = {_token(handle): handle for handle in handles}
    while True:
        told = [*reports, *(report for _, report, *_ in answers.values() if report)]
        members |= {
            part["group"]: part["members"] for report in told for part in report["communicators"] if part["members"]
        }
        new = wanted if not answers and wanted else _unasked(members, told, answers)
        # Few say who the other ranks are: all would say the same.
        unknown = [
            h for h, r, *_ in answers.values() if r and any(p["group"] not in members for p in r["communicators"])
        ]
        ask = new or {_token(handle): handle for handle in unknown[:1]}
        if not ask:
            return join(members, list(answers.values()), reports, others, time.monotonic() - begun)
        heard = _native.ask_status(list(ask.values()), new is wanted or not new, WITHIN)
        for (token, handle), (text, why, has_ended) in zip(ask.items(), heard, strict=True):
            answers[token] = (handle, *_read(text, why), has_ended)


def _unasked(
    members: dict[str, list[dict[str, Any]]], told: Iterable[dict[str, Any]], answers: Mapping[str, Answer]
) -> dict[str, str]:
    """The handles of the ranks that have not been asked and may answer."""
    halted = {(p["group"], rank) for report in told for p in report["communicators"] for rank, _ in p["halted"]}
    handles = {
        _token(member["handle"]): json.dumps(member["handle"])
        for group, ranks in members.items()
        for rank, member in enumerate(ranks)
        if member["handle"] and (group, rank) not in halted
    }
    return {token: handle for token, handle in handles.items() if token not in answers}


def _token(handle: Any) -> str:
    """What tells the server of a handle from others: a process may have several handles."""
    return str((json.loads(handle) if isinstance(handle, str) else handle).get("token"))


def join(
    members: dict[str, list[dict[str, Any]]],
    answers: Sequence[Answer],
    reports: Sequence[dict[str, Any]] = (),
    others: Sequence[Process] = (),
    seconds: float = 0.0,
) -> Job:
    """Puts together what processes have said.

    Args:
        members: The ranks of each communicator, as Rust's `Member` has them, by its key.
        answers: Of each process.
        reports: Of processes whose handles are not known.
        others: Processes of which nothing else is known.
        seconds: How long it took.
    """
    told = {(report["host"], report["pid"]): report for report in reports}
    told |= {(report["host"], report["pid"]): report for _, report, *_ in answers if report}
    reasons = {_token(handle): (why, has_ended) for handle, report, why, has_ended in answers if not report}
    parts: dict[str, dict[int, dict[str, Any]]] = {key: {} for key in members}
    states: dict[tuple[str, int], str] = {}
    for report in told.values():
        for part in report["communicators"]:
            if not (part["standing"] or {}).get("closed"):
                parts.setdefault(part["group"], {})[part["rank"]] = part
            for rank, state in part["halted"] if part["group"] in members else ():
                member = members[part["group"]][rank]
                states[(member["host"], member["pid"])] = state
    states = {(one.host, one.pid): one.state for one in others if not one.report} | states

    def process(member: dict[str, Any]) -> Process:
        place = (member["host"], member["pid"])
        handle = member["handle"] and json.dumps(member["handle"])
        report = told.get(place)
        if report:
            return Process(*place, handle, report)
        why, has_ended = reasons.get(_token(handle), ("", False)) if handle else ("it listens at no port", False)
        return Process(*place, handle, None, why, "X" if has_ended else states.get(place, ""))

    groups = [
        Group(key, next(iter(parts[key].values()))["name"], [process(member) for member in members[key]], parts[key])
        for key in members
        if parts[key]
    ]
    groups.sort(key=lambda group: (-group.size, group.key))  # the first one's key is the job's, as in `_jobs`
    known = {(p.host, p.pid) for group in groups for p in group.processes}
    return Job(groups, [one for one in others if (one.host, one.pid) not in known], seconds, time.monotonic())
