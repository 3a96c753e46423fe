"""How a job stands, in words: for `ringroad status`, and for the log."""

from collections.abc import Sequence
from typing import Any

from ringroad._status.asking import Group, Job
from ringroad._status.hangs import causes
from ringroad._support.text import about_bytes, bandwidth_text, runs_text, seconds_text

HEADER = ["rank", "process", "calls", "in", "step", "since", "waits for", "Python is at"]
RATE = "calls/s"
LINKS = ["from", "to", "device", "sent", "came", "retransmitted", "round trip", "rate"]
_APART = 16
"""Up to this many ranks have a row each; of more, those that do the same share one."""


def headline(job: Job) -> str:
    """One line about the job."""
    processes = job.processes
    hosts = len({process.host for process in processes})
    silent = sum(process.report is None for process in processes)
    answer = f", {silent} do not answer" if silent else ""
    where = f"{len(processes)} processes on {hosts} host{'s' * (hosts > 1)}"
    return f"job {job.key}: {where}{answer} (asked in {seconds_text(job.seconds)})"


def title(group: Group) -> str:
    """One line about a communicator."""
    over = {standing["transport"] for rank in group.parts if (standing := group.standing(rank))}
    return f"{group.name!r} ({group.key}): {group.size} ranks{', over ' + ' and '.join(sorted(over)) if over else ''}"


def is_idle(group: Group) -> bool:
    """Whether all ranks answer, and none is in a call."""
    standings = [group.standing(rank) for rank in range(group.size)]
    return all(s is not None and not s["calls"] and not s["failure"] for s in standings)


def rows(group: Group, before: Group | None = None, seconds: float = 0.0) -> list[list[str]]:
    """The rows of a table of the ranks with the columns `HEADER`; with `before`, what was known so many seconds ago, a
    further one for the rate of their calls.
    """
    found: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for rank in range(group.size):
        for call in _calls(group, rank):
            process = group.processes[rank]
            alone = f"{process.host} {process.pid}" if group.size <= _APART else process.host
            key = (alone, _numbers(group, rank), call["text"], str(call["step"] or 0), process.position)
            found.setdefault((*key, _rate(group, before, rank, seconds)), []).append((rank, call))
    return [_row(key, members) for key, members in found.items()]


def _row(key: tuple[str, ...], members: Sequence[tuple[int, dict[str, Any]]]) -> list[str]:
    process, numbers, text, step, position, rate = key
    since = max((call["since"] or 0.0 for _, call in members), default=0.0)
    peers = {peer for _, call in members for peer in (*call["waits_for"], *call["sends_to"])}
    busy = bool(peers) or since > 0
    ranks, took = runs_text(rank for rank, _ in members), seconds_text(since) if since else ""
    row = [ranks, process, numbers, text, step if busy else "", took, runs_text(peers), position]
    return [*row, rate] if rate else row


_IDLE: dict[str, Any] = {"text": "", "step": 0, "since": None, "waits_for": [], "sends_to": []}


def _calls(group: Group, rank: int) -> list[dict[str, Any]]:
    """The calls of a rank, or one that says why there are none."""
    process, standing = group.processes[rank], group.standing(rank)
    if standing is not None and not standing["failure"]:
        return standing["calls"] or [_IDLE | {"text": "no call"}]
    words = {"": "has left", "silent": "does not answer"}
    why = "failed" if standing else "busy" if rank in group.parts else words.get(process.trouble, process.trouble)
    return [_IDLE | {"text": why}]


def _numbers(group: Group, rank: int) -> str:
    """How many collective calls a rank has made, and in brackets how many of them have not ended."""
    standing = group.standing(rank)
    if standing is None:
        return ""
    running = standing["called"] - standing["ended"]
    return f"{standing['called']}{f' ({running} running)' if running else ''}"


def _rate(group: Group, before: Group | None, rank: int, seconds: float) -> str:
    """The calls of a rank per second since an earlier look; empty without one."""
    if before is None:
        return ""
    new, old = group.standing(rank), before.standing(rank) if rank < before.size else None
    return f"{(new['called'] - old['called']) / seconds:.1f}" if new and old else "?"


def links(group: Group, before: Group | None = None, seconds: float = 0.0) -> list[list[str]]:
    """The rows of a table of the tcp connections to other hosts with the columns `LINKS`, those first that had to send
    most again. The rate is the kernel's latest; with `before`, the mean since then, so many seconds ago.
    """

    def known(group: Group) -> dict[tuple[Any, ...], dict[str, Any]]:
        """By rank, peer, device and number."""
        return {
            (rank, one["peer"], one["device"], one["stream"]): one
            for rank in sorted(group.parts)
            for one in (group.standing(rank) or {}).get("connections", [])
        }

    old, new = known(before) if before else {}, known(group)
    rows = []
    for key in sorted(new, key=lambda key: (-new[key]["sent_again"], key[:2])):
        one, (rank, peer, device, stream) = new[key], key
        rate = (one["sent"] - old[key]["sent"]) / seconds if key in old and seconds else one["rate"]
        count = f" ({stream})" if stream else ""
        lengths = [about_bytes(one[name]) for name in ("sent", "received", "sent_again")]
        trip = seconds_text(one["round_trip"])
        rows.append([str(rank), str(peer), f"{device or one['address']}{count}", *lengths, trip, bandwidth_text(rate)])
    return rows


def again(job: Job, before: Job) -> list[str]:
    """How many tcp segments the hosts retransmitted since an earlier look, of hosts that did."""

    def counted(one: Job) -> dict[str, tuple[int, int]]:
        return {p.host: tuple(p.report["segments"]) for p in one.processes if p.report and p.report["segments"]}

    old, new = counted(before), counted(job)
    both = [(host, new[host][0] - old[host][0], new[host][1] - old[host][1]) for host in new if host in old]
    return [f"host {host} retransmitted {resent} of {sent} tcp segments" for host, sent, resent in both if resent]


def happened(job: Job) -> list[str]:
    """What the ranks have noticed of their network: changes, and who was late."""
    lines = []
    for group in job.groups:
        part: dict[str, Any] = next(iter(group.parts.values()), {})
        for change in part.get("changes", []):
            links = ", ".join(f"{link['source']}>{link['target']}" for link in change["links"])
            lines.append(f"{group.name!r}: the network changed before call {change['call']} (links {links})")
        for one in part.get("stragglers", []):
            lines.append(f"{group.name!r}: ranks {runs_text(one['ranks'])} were late before call {one['call']}")
    return lines


def verdicts(job: Job) -> list[str]:
    """Why calls hang, a line each; one line if none do."""
    return [cause.text for cause in causes(job)] or ["no call hangs"]


def lines(job: Job) -> list[str]:
    """Everything, for a log."""
    told = [headline(job), *(f"  {text}" for text in verdicts(job)), *happened(job)]
    for group in job.groups:
        told.append(title(group) + ", no calls" * is_idle(group))
        for row in rows(group) if not is_idle(group) else []:
            named = zip(HEADER, row, strict=True)
            told.append("  " + ", ".join(f"{name} {cell}" for name, cell in named if cell))
    return told
