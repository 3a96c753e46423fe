"""Processes that wait for something that others have not begun: cycles, and messages without another side."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ringroad._status.asking import Group, Job
from ringroad._status.cause import Cause, ProcessId, pending, place_of
from ringroad._support.text import ranks_text, runs_text, seconds_text


def lacking(group: Group, number: int) -> list[int]:
    """The ranks that say that they have not made a call."""
    return [rank for rank in sorted(group.parts) if (s := group.standing(rank)) is not None and s["called"] < number]


class Edge(NamedTuple):
    """That a process waits for something that another one has not begun, and for what."""

    source: ProcessId
    target: ProcessId
    group: Group
    text: str


def dependencies(job: Job, patience: float) -> list[Edge]:
    """Which ranks wait for others to begin something. Messages between ranks in the same call do not count."""
    edges: list[Edge] = []
    for group in job.groups:
        for rank in sorted(group.parts):
            for call in pending(group, rank, patience):
                awaited = lacking(group, call["number"]) if call["number"] else _unmet(group, rank, call)
                own = place_of(group.processes[rank])
                if not call["number"] and not group.parts[rank]["waiting"]:
                    continue  # it was begun with async_op=True, and the rank does something else meanwhile
                verb = {"send": "sends to", "recv": "waits for a message of", "probe": "waits for a message of"}.get(
                    call["kind"]
                )
                edges += [
                    Edge(own, place_of(group.processes[peer]), group, _edge(group, rank, peer, call, verb))
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


def tags(group: Group, patience: float) -> Iterator[Cause]:
    """Sends and receives of two ranks that would fit, but for their tags."""
    for rank in sorted(group.parts):
        for call in (call for call in pending(group, rank, patience) if call["kind"] == "recv"):
            for peer in _unmet(group, rank, call):
                if sent := [other for other in _others(group, peer, call) if other["peer"] == rank]:
                    tags = runs_text(other["tag"] for other in sent)
                    text = f"{group.who(rank)} is in {call['text']}, but rank {peer} sends to it with tag {tags}"
                    yield Cause("tag", group.name, sorted((rank, peer)), text)


def deadlock(job: Job, patience: float) -> list[Cause]:
    """Processes that wait for each other in a cycle."""
    edges: dict[ProcessId, dict[ProcessId, Edge]] = {}
    for edge in dependencies(job, patience):
        edges.setdefault(edge.source, {}).setdefault(edge.target, edge)
    cycle = _cycle(edges)
    if not cycle:
        return []
    found = [edges[a][b] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
    group = max((edge.group for edge in found), key=lambda group: group.size)
    ranks = [rank for rank, process in enumerate(group.processes) if place_of(process) in cycle]
    sends = all(" sends to " in edge.text for edge in found)
    who = "each other" if len(cycle) > 1 else "itself"
    what = "all of them send" if sends else "each waits for what the next one has not begun"
    advice = "; use async_op=True, or sendrecv" if sends else ""
    shown = "; ".join(edge.text for edge in found[:8]) + ("; ..." if len(found) > 8 else "")
    verb = "wait" if len(ranks) > 1 else "waits"
    text = f"{ranks_text(ranks)} of {group.name!r} {verb} for {who}, {what}: {shown}{advice}"
    return [Cause("deadlock", group.name, ranks, text)]


def _cycle(edges: Mapping[ProcessId, Iterable[ProcessId]]) -> list[ProcessId]:
    """A shortest cycle of places that wait for the next one; empty if there is none."""
    best: list[ProcessId] = []
    for start in edges:
        before: dict[ProcessId, ProcessId] = {}
        queue = [start]
        for place in queue:
            for target in edges.get(place, ()):
                if target not in before:
                    before[target] = place
                    queue.append(target)
        if start in before:
            cycle = [start]
            while (place := before[cycle[-1]]) != start:
                cycle.append(place)
            best = min(best or cycle, cycle, key=len)
    return best[::-1]


def unmatched(group: Group, job: Job, patience: float) -> Iterator[Cause]:
    """Messages whose other side has not begun, of ranks that wait for nothing else."""
    waiting = {edge.source for edge in dependencies(job, patience)}
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
                if place_of(group.processes[peer]) not in waiting:
                    text = (
                        f"{group.who(peer)} has not begun its part of {call['text']}, in which rank {rank} is {since}"
                    )
                    yield Cause("missing", group.name, [peer], text + (f"; Python is at {place}" if place else ""))
