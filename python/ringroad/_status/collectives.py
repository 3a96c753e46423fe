"""Collective calls that do not go on: made differently, not made by all, or without the messages that they need."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ringroad._status.asking import Group, Job
from ringroad._status.cause import Cause, pending, place_of
from ringroad._status.waiting import dependencies, lacking
from ringroad._support.text import about_bytes, ranks_text, seconds_text


def different(group: Group) -> Iterator[Cause]:
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
        called = "; ".join(f"{ranks_text(ranks)}: {call['text']}" for ranks, call in text.items())
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


def missing(group: Group, job: Job, patience: float) -> Iterator[Cause]:
    """Ranks that have not made a call for which others wait, and wait for nothing themselves."""
    if not (stuck := _stuck(group, patience)):
        return
    number, inside = stuck
    waiting = {edge.source for edge in dependencies(job, patience)}
    late = [rank for rank in lacking(group, number) if place_of(group.processes[rank]) not in waiting]
    call = next(iter(inside.values()))
    since = max(one["since"] for one in inside.values())
    for position, ranks in _by_position(group, late):
        have, others = ("has" if len(some) == 1 else "have" for some in (ranks, inside))
        text = (
            f"{_described(group, ranks)} {have} not made call number {number} of {group.name!r} ({call['text']}), "
            f"in which {ranks_text(inside)} {others} been waiting for {seconds_text(since)}"
        )
        yield Cause("missing", group.name, ranks, text + (f"; Python is at {position}" if position else ""))


def _by_position(group: Group, ranks: list[int]) -> Iterator[tuple[str, list[int]]]:
    """Ranks by where their main threads are."""

    def position(rank: int) -> str:
        return group.processes[rank].position

    for place, some in groupby(sorted(ranks, key=position), position):
        yield place, sorted(some)


def _described(group: Group, ranks: list[int]) -> str:
    return group.who(ranks[0]) if len(ranks) == 1 else ranks_text(ranks)


def stalled(group: Group, patience: float) -> Iterator[Cause]:
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
    verb = "has" if len(inside) == 1 else "have"
    what = f"call number {number} of {group.name!r} ({call['text']})"
    where = f"{ranks_text(inside)} {verb} been in {what} for {seconds_text(since)}"
    if not pairs:
        ranks = sorted(rank for rank, step in steps.items() if step == first)
        text = f"{where}, at step {first}, for which all messages are there: {ranks_text(ranks)} compute"
        return (
            yield Cause("slow", group.name, ranks, f"{text}, such as a function that reduces, or have too few cores")
        )
    host = [process.host for process in group.processes]
    remote = [pair for pair in pairs if host[pair[0]] != host[pair[1]]]
    if not remote:
        ranks = sorted({b for _, b in pairs} if len(inside) < group.size else {rank for pair in pairs for rank in pair})
        text = f"{where}, at step {first}, and all ranks are or were in it: the ranks are slow, or have too few cores"
        return (yield Cause("slow", group.name, ranks, text))
    shown = ", ".join(f"rank {a} (host {host[a]}) to {b} ({host[b]})" for a, b in remote[:8])
    text = f"{where}, and messages of step {first} do not arrive: of {shown}. The network between is cut or slow"
    yield Cause(
        "network", group.name, sorted({r for pair in remote for r in pair}), text + _retransmitted(group, remote)
    )


def _retransmitted(group: Group, pairs: list[tuple[int, int]]) -> str:
    """What these ranks had to send to each other again, or if that is not known, their hosts to all others."""
    lossy = [
        f"rank {a} retransmitted {about_bytes(one['sent_again'])} of {about_bytes(one['sent'])} to rank {b}"
        for a, b in pairs
        for one in (group.standing(a) or {}).get("connections", [])
        if one["peer"] == b and one["sent_again"]
    ]
    senders = {p.host: p.report["segments"] for a, _ in pairs if (p := group.processes[a]).report}
    lossy = lossy or [
        f"host {host} retransmitted {again} of {sent} tcp segments"
        for host, (sent, again) in ((host, found) for host, found in senders.items() if found)
        if again
    ]
    return f" ({'; '.join(lossy)})" if lossy else ""
