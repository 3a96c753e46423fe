"""Ranks that are not there, and communicators that have failed."""

import re
from collections.abc import Iterator

from ringroad._status.asking import Group
from ringroad._status.cause import Cause, ProcessId, pending, place_of
from ringroad._support.text import ranks_text

_HEARSAY = re.compile(r" \(as rank \d+ \(.*\) says\)$")
"""By whom a rank has learned of a failure."""


def absent(group: Group, seen: set[ProcessId], patience: float) -> Iterator[Cause]:
    """Processes that have ended, are stopped, or do not answer, unless they have been seen in another communicator."""
    hosts = {p.host for p in group.processes if p.report is not None or p.trouble == "stopped"}
    silent: dict[str, list[int]] = {}
    for rank, process in enumerate(group.processes):
        who = f"{process.name} ({group.name!r}: rank {rank})"
        if process.trouble and place_of(process) in seen:
            continue
        if process.trouble == "ended":
            yield Cause("ended", group.name, [rank], f"process {who} has ended")
        elif process.trouble == "stopped":
            how = f"kill -CONT {process.pid}" if process.state == "T" else "its debugger"
            yield Cause("stopped", group.name, [rank], f"process {who} is stopped; resume it with {how}")
        elif process.trouble == "silent" and process.handle is None:
            yield Cause("silent", group.name, [rank], f"process {who} cannot be asked: {process.why}")
        elif process.trouble == "silent":
            silent.setdefault(process.host, []).append(rank)
        elif rank not in group.parts:
            if any(pending(group, other, patience) for other in group.parts):
                text = f"process {who} runs, but has closed or dropped the communicator"
                yield Cause("left", group.name, [rank], text)
        elif group.standing(rank) is None:
            text = f"process {who} has been computing for long, or gets no core: its engine does not respond"
            yield Cause("busy", group.name, [rank], text)
    for host, ranks in silent.items():
        why = group.processes[ranks[0]].why
        text = (
            f"{ranks_text(ranks)} of {group.name!r} on host {host}: {why}, though its host can be reached"
            if host in hosts
            else f"host {host} does not answer, with {ranks_text(ranks)} of {group.name!r}: the network between is "
            f"cut, the host is down, or its ranks are stopped ({why})"
        )
        yield Cause("silent", group.name, ranks, text)


def failed(group: Group) -> Iterator[Cause]:
    """Ranks whose communicator has failed."""
    reasons: dict[str, list[int]] = {}
    for rank in group.parts:
        if reason := (group.standing(rank) or {}).get("failure"):
            reasons.setdefault(_HEARSAY.sub("", reason), []).append(rank)
    for reason, ranks in reasons.items():
        yield Cause("failed", group.name, ranks, f"{group.name!r} has failed on {ranks_text(ranks)}: {reason}")
