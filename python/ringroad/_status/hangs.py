"""Why a job stands still, from what its processes say (`ringroad._status`)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Literal, NamedTuple

from ringroad._status.asking import Group, Job, Process
from ringroad._support.text import runs_text, seconds_text

PATIENCE = 0.4
"""Calls that are younger (in seconds) are no hang."""

_HEARSAY = re.compile(r" \(as rank \d+ \(.*\) says\)$")
"""By whom a rank has learned of a failure."""
Kind = Literal[
    "ended",
    "stopped",
    "silent",
    "failed",
    "left",
    "busy",
    "other call",
    "other size",
    "missing",
    "deadlock",
    "tag",
    "slow",
    "network",
]


Place = tuple[str, int]
"""A process: its host, and its number."""


class Cause(NamedTuple):
    """Why ranks wait.

    Attributes:
        kind: What kind of cause it is.
        group: The name of the communicator.
        ranks: Whose fault it is, as far as that can be told.
        text: The cause in words, and what to do.
    """

    kind: Kind
    group: str
    ranks: list[int]
    text: str


def causes(job: Job, patience: float = PATIENCE) -> list[Cause]:
    """Why calls of a job hang that have taken longer than `patience`, the plainest causes first; empty if none do."""
    found: list[Cause] = []
    seen: set[Place] = set()
    for group in job.groups:
        found += [*_absent(group, seen, patience), *_failed(group), *_different(group)]
        seen.update(map(_place, group.processes))
    for group in job.groups:
        found += _tags(group, patience)
    found += _deadlock(job, patience) if not found else []
    for group in job.groups:
        known = {rank for cause in found for rank in cause.ranks if cause.group == group.name}
        found += [cause for cause in _missing(group, job, patience) if not known.issuperset(cause.ranks)]
        found += _unmatched(group, job, patience) if not found else []
    found += [cause for group in job.groups for cause in _stalled(group, patience)] if not found else []
    return found


def ranks_named(ranks: Iterable[int]) -> str:
    """`rank 3`, or `ranks 1, 4-7`."""
    some = list(ranks)
    return f"rank{'s' * (len(some) > 1)} {runs_text(some)}"


def pending(group: Group, rank: int, patience: float) -> list[dict[str, Any]]:
    """The calls of a rank that have taken so long."""
    return [call for call in group.calls(rank) if (call["since"] or 0) >= patience]


# ------------------------------------------------------------------------------------------------ absent ranks


def _absent(group: Group, seen: set[Place], patience: float) -> Iterator[Cause]:
    """Processes that have ended, are stopped, or do not answer, unless they have been seen in another communicator."""
    hosts = {p.host for p in group.processes if p.report is not None or p.trouble == "stopped"}
    silent: dict[str, list[int]] = {}
    for rank, process in enumerate(group.processes):
        who = f"{process.name} ({group.name!r}: rank {rank})"
        if process.trouble and _place(process) in seen:
            continue
        if process.trouble == "ended":
            yield Cause("ended", group.name, [rank], f"process {who} has ended")
        elif process.trouble == "stopped":
            how = f"kill -CONT {process.pid}" if process.state == "T" else "its debugger"
            yield Cause("stopped", group.name, [rank], f"process {who} is stopped; it goes on by {how}")
        elif process.trouble == "silent" and process.handle is None:
            yield Cause("silent", group.name, [rank], f"process {who} cannot be asked: {process.why}")
        elif process.trouble == "silent":
            silent.setdefault(process.host, []).append(rank)
        elif rank not in group.parts:
            if any(pending(group, other, patience) for other in group.parts):
                text = f"process {who} runs, but has closed or dropped the communicator"
                yield Cause("left", group.name, [rank], text)
        elif group.standing(rank) is None:
            text = f"process {who} computes for long, or has no core: its engine is not to be had"
            yield Cause("busy", group.name, [rank], text)
    for host, ranks in silent.items():
        why = group.processes[ranks[0]].why
        text = (
            f"{ranks_named(ranks)} of {group.name!r} on host {host}: {why}, though its host can be reached"
            if host in hosts
            else f"host {host} does not answer, with {ranks_named(ranks)} of {group.name!r}: the network between is "
            f"cut, the host is down, or its ranks are stopped ({why})"
        )
        yield Cause("silent", group.name, ranks, text)


def _failed(group: Group) -> Iterator[Cause]:
    """Ranks whose communicator has failed."""
    reasons: dict[str, list[int]] = {}
    for rank in group.parts:
        if reason := (group.standing(rank) or {}).get("failure"):
            reasons.setdefault(_HEARSAY.sub("", reason), []).append(rank)
    for reason, ranks in reasons.items():
        yield Cause("failed", group.name, ranks, f"{group.name!r} has failed on {ranks_named(ranks)}: {reason}")


# ------------------------------------------------------------------------------------------------ collective calls


def _different(group: Group) -> Iterator[Cause]:
    """The first call that ranks have made differently."""
    made: dict[int, dict[int, dict[str, Any]]] = {}
    for rank in sorted(group.parts):
        for call in (group.standing(rank) or {}).get("recent", []):
            made.setdefault(call["number"], {})[rank] = call
    for number in sorted(made):
        kinds: dict[int, list[int]] = {}
        for rank, call in made[number].items():
            kinds.setdefault(call["digest"], []).append(rank)
        if len(kinds) == 1:
            continue
        by_size = sorted(kinds.values(), key=len, reverse=True)
        text = {tuple(ranks): made[number][ranks[0]] for ranks in by_size}
        called = "; ".join(f"{ranks_named(ranks)}: {call['text']}" for ranks, call in text.items())
        same = len({call["kind"] for call in text.values()}) == 1
        odd = (
            [rank for ranks in by_size[1:] for rank in ranks]
            if len(by_size[0]) > len(by_size[1])
            else list(made[number])
        )
        yield Cause(
            "other size" if same else "other call",
            group.name,
            sorted(odd),
            f"ranks of {group.name!r} make different calls as number {number}: {called}. All ranks must make the same "
            "calls in the same order",
        )
        return


def _stuck(group: Group, patience: float) -> tuple[int, dict[int, dict[str, Any]]] | None:
    """The first collective call that hangs, by number, and the ranks that are in it."""
    calls = [
        (call["number"], rank, call)
        for rank in group.parts
        for call in pending(group, rank, patience)
        if call["number"]
    ]
    if not calls:
        return None
    first = min(number for number, _, _ in calls)
    return first, {rank: call for number, rank, call in calls if number == first}


def _lacking(group: Group, number: int) -> list[int]:
    """The ranks that say that they have not made a call."""
    return [rank for rank in sorted(group.parts) if (s := group.standing(rank)) is not None and s["called"] < number]


def _missing(group: Group, job: Job, patience: float) -> Iterator[Cause]:
    """Ranks that have not made a call for which others wait, and wait for nothing themselves."""
    if not (stuck := _stuck(group, patience)):
        return
    number, inside = stuck
    waiting = {edge.source for edge in _dependencies(job, patience)}
    late = [rank for rank in _lacking(group, number) if _place(group.processes[rank]) not in waiting]
    call = next(iter(inside.values()))
    since = max(one["since"] for one in inside.values())
    for position, ranks in _by_position(group, late):
        have, wait = ("has" if len(ranks) == 1 else "have"), ("waits" if len(inside) == 1 else "wait")
        text = (
            f"{_described(group, ranks)} {have} not made call number {number} of {group.name!r} ({call['text']}), "
            f"in which {ranks_named(inside)} {wait} since {seconds_text(since)}"
        )
        yield Cause("missing", group.name, ranks, text + (f"; Python is at {position}" if position else ""))


def _by_position(group: Group, ranks: list[int]) -> Iterator[tuple[str, list[int]]]:
    """Ranks by where their main threads are."""

    def position(rank: int) -> str:
        return group.processes[rank].position

    for place, some in groupby(sorted(ranks, key=position), position):
        yield place, sorted(some)


def _described(group: Group, ranks: list[int]) -> str:
    return group.who(ranks[0]) if len(ranks) == 1 else ranks_named(ranks)


def _stalled(group: Group, patience: float) -> Iterator[Cause]:
    """A call that all ranks have made, with equal arguments, but whose messages do not arrive."""
    if not (stuck := _stuck(group, patience)):
        return
    number, inside = stuck
    steps = {rank: call["step"] for rank, call in inside.items() if call["step"] is not None}
    if not steps:
        return
    first = min(steps.values())
    pairs = [(peer, rank) for rank, step in steps.items() if step == first for peer in inside[rank]["waits_for"]] or [
        (rank, peer) for rank, step in steps.items() if step == first for peer in inside[rank]["sends_to"]
    ]
    since, call = max(call["since"] for call in inside.values()), next(iter(inside.values()))
    verb = "is" if len(inside) == 1 else "are"
    what = f"call number {number} of {group.name!r} ({call['text']})"
    where = f"{ranks_named(inside)} {verb} since {seconds_text(since)} in {what}"
    if not pairs:
        ranks = sorted(rank for rank, step in steps.items() if step == first)
        text = f"{where}, at step {first}, for which all messages are there: {ranks_named(ranks)} compute"
        return (
            yield Cause("slow", group.name, ranks, f"{text}, such as a function that reduces, or have too few cores")
        )
    host = [process.host for process in group.processes]
    far = [pair for pair in pairs if host[pair[0]] != host[pair[1]]]
    if not far:
        ranks = sorted({b for _, b in pairs} if len(inside) < group.size else {rank for pair in pairs for rank in pair})
        text = f"{where}, at step {first}, and all ranks are or were in it: the ranks are slow, or have too few cores"
        return (yield Cause("slow", group.name, ranks, text))
    shown = ", ".join(f"rank {a} (host {host[a]}) to {b} ({host[b]})" for a, b in far[:8])
    text = f"{where}, and messages of step {first} do not arrive: of {shown}. The network between is cut or slow"
    yield Cause("network", group.name, sorted({r for pair in far for r in pair}), text + _retransmitted(group, far))


def _retransmitted(group: Group, pairs: list[tuple[int, int]]) -> str:
    """How many segments the hosts of these ranks had to send again."""
    senders = {p.host: p.report["segments"] for a, _ in pairs if (p := group.processes[a]).report}
    lossy = [
        f"host {host} has sent {again} of {sent} tcp segments again"
        for host, (sent, again) in ((host, found) for host, found in senders.items() if found)
        if again
    ]
    return f" ({'; '.join(lossy)})" if lossy else ""


# ------------------------------------------------------------------------------------------------ who waits for whom


def _place(process: Process) -> Place:
    return process.host, process.pid


class Edge(NamedTuple):
    """That a process waits for something that another one has not begun, and for what."""

    source: Place
    target: Place
    group: Group
    text: str


def _dependencies(job: Job, patience: float) -> list[Edge]:
    """Who waits for whom to begin something. Messages under way, between ranks in the same call, do not count."""
    edges: list[Edge] = []
    for group in job.groups:
        for rank in sorted(group.parts):
            for call in pending(group, rank, patience):
                awaited = _lacking(group, call["number"]) if call["number"] else _unmet(group, rank, call)
                own = _place(group.processes[rank])
                if not call["number"] and not group.parts[rank]["waiting"]:
                    continue  # it was begun with async_op=True, and the rank does something else meanwhile
                verb = {"send": "sends to", "recv": "waits for a message of", "probe": "waits for a message of"}.get(
                    call["kind"]
                )
                edges += [
                    Edge(own, _place(group.processes[peer]), group, _edge(group, rank, peer, call, verb))
                    for peer in awaited
                    if not call["any"]
                ]
    return edges


def _edge(group: Group, rank: int, peer: int, call: dict[str, Any], verb: str | None) -> str:
    if verb:
        return f"rank {rank} {verb} rank {peer} (tag {call['tag']})"
    where = f"call number {call['number']} of {group.name!r} ({call['text']})"
    return f"rank {rank} is in {where}, which rank {peer} has not made"


def _unmet(group: Group, rank: int, call: dict[str, Any]) -> list[int]:
    """The peer of a message, unless it has begun its part."""
    peer = call["peer"]
    if peer is None or group.standing(peer) is None:
        return []
    tags = (call["tag"], None)
    fits = any(c["peer"] in (rank, None) and (c["tag"] in tags or tags[0] is None) for c in _others(group, peer, call))
    return [] if fits else [peer]


def _others(group: Group, peer: int, call: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of a rank that might be the other side of a message."""
    others = ("recv", "probe") if call["kind"] == "send" else ("send",)
    return [one for one in group.calls(peer) if one["kind"] in others]


def _tags(group: Group, patience: float) -> Iterator[Cause]:
    """Sends and receives of two ranks that would fit, but for their tags."""
    for rank in sorted(group.parts):
        for call in (call for call in pending(group, rank, patience) if call["kind"] == "recv"):
            for peer in _unmet(group, rank, call):
                if sent := [other for other in _others(group, peer, call) if other["peer"] == rank]:
                    tags = runs_text(other["tag"] for other in sent)
                    text = f"{group.who(rank)} is in {call['text']}, but rank {peer} sends to it with tag {tags}"
                    yield Cause("tag", group.name, sorted((rank, peer)), text)


def _deadlock(job: Job, patience: float) -> list[Cause]:
    """Processes that wait for each other in a circle."""
    edges: dict[Place, dict[Place, Edge]] = {}
    for edge in _dependencies(job, patience):
        edges.setdefault(edge.source, {}).setdefault(edge.target, edge)
    circle = _circle(edges)
    if not circle:
        return []
    found = [edges[a][b] for a, b in zip(circle, circle[1:] + circle[:1], strict=True)]
    group = max((edge.group for edge in found), key=lambda group: group.size)
    ranks = [rank for rank, process in enumerate(group.processes) if _place(process) in circle]
    sends = all(" sends to " in edge.text for edge in found)
    who = "each other" if len(circle) > 1 else "itself"
    what = "all of them send" if sends else "each waits for what the next one has not begun"
    advice = "; use async_op=True, or sendrecv" if sends else ""
    shown = "; ".join(edge.text for edge in found[:8]) + ("; ..." if len(found) > 8 else "")
    verb = "wait" if len(ranks) > 1 else "waits"
    text = f"{ranks_named(ranks)} of {group.name!r} {verb} for {who}, {what}: {shown}{advice}"
    return [Cause("deadlock", group.name, ranks, text)]


def _circle(edges: Mapping[Place, Iterable[Place]]) -> list[Place]:
    """A shortest circle of places that wait for the next one; empty if there is none."""
    best: list[Place] = []
    for start in edges:
        before: dict[Place, Place] = {}
        queue = [start]
        for place in queue:
            for target in edges.get(place, ()):
                if target not in before:
                    before[target] = place
                    queue.append(target)
        if start in before:
            circle = [start]
            while (place := before[circle[-1]]) != start:
                circle.append(place)
            best = min(best or circle, circle, key=len)
    return best[::-1]


def _unmatched(group: Group, job: Job, patience: float) -> Iterator[Cause]:
    """Messages whose other side has not begun, of ranks that wait for nothing else."""
    waiting = {edge.source for edge in _dependencies(job, patience)}
    for rank in sorted(group.parts):
        for call in pending(group, rank, patience):
            if call["number"]:
                continue
            since = f"since {seconds_text(call['since'])}"
            if call["any"]:
                yield Cause(
                    "missing",
                    group.name,
                    [],
                    f"{group.who(rank)} waits {since} for a message ({call['text']}): none came",
                )
            for peer in _unmet(group, rank, call):
                place = group.processes[peer].position
                if _place(group.processes[peer]) not in waiting:
                    text = (
                        f"{group.who(peer)} has not begun its part of {call['text']}, in which rank {rank} is {since}"
                    )
                    yield Cause("missing", group.name, [peer], text + (f"; Python is at {place}" if place else ""))
