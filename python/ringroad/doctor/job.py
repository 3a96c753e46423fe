"""The ranks of a job, examined together.

They meet in the job's store, as the ranks of a communicator do. Rank 0 decides who came; those make a communicator and
measure every pair. One rank of each host then checks its machine. Each rank publishes what it found, and rank 0 makes
the report.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ringroad._native import PresenceCheck
from ringroad.doctor import Finding, comparison, perform_all, remaining
from ringroad.doctor.checks import machine_checks
from ringroad.doctor.pairs import GRACE, PairFindings, communicate
from ringroad.doctor.roster import Roster, meet, open_store, read

_POLL = 0.02
_PART = {name: type(default) for name, default in asdict(PairFindings()).items()} | {"spec": str | None}
_FINDING = ("name", "verdict", "found", "remedy", "host")


@dataclass(frozen=True)
class Report:
    """What rank 0 reports."""

    findings: list[Finding]
    infos: list[dict[str, Any]]
    pairs: list[dict[str, Any]]


def examine(rank: int, size: int, timeout: float) -> Report | None:
    """Examines the job; every rank calls it. Only rank 0 gets the report, the others None.

    Raises:
        ConfigError: No store is set, or a setting is invalid.
        StoreError: This rank did not find the store, or not rank 0.
    """
    store = open_store(rank, size, timeout)
    board, roster = meet(store, rank, size, timeout)
    present = sorted(roster.infos)
    end = time.monotonic() + timeout + GRACE  # all ranks begin now, and rank 0 waits for none any longer
    part = communicate(roster, rank, store, timeout) if len(present) > 1 else PairFindings()
    board.tell("part", json.dumps(asdict(part)))
    hosts = roster.hosts
    checks = machine_checks(size, len(hosts[roster.infos[rank].host]), len(hosts) > 1)
    if rank:
        if hosts[roster.infos[rank].host][0] == rank:
            findings = perform_all(checks)
            board.tell("machine", json.dumps([one.to_json() for one in findings]))
        return None
    said = _collect(board, "part", present, remaining(end, 1), _PART)
    parts = {one: PairFindings(**{name: found[name] for name in _PART}) for one, found in said.items()}
    findings = [*perform_all(checks), *_others(board, roster, parts, remaining(end, GRACE))]
    findings += [comparison.came(roster, timeout), *comparison.same_versions(roster), *comparison.same_settings(roster)]
    findings += [
        *comparison.connected(roster, parts),
        *comparison.network(roster, parts),
        *comparison.local(roster, parts),
        *comparison.paired(parts),
        *comparison.sent_again(parts),
    ]
    pairs = sorted((pair for one in parts.values() for pair in one.pairs), key=lambda pair: pair["ranks"])
    return Report(findings, [asdict(info) for _, info in sorted(roster.infos.items())], pairs)


def _collect(board: PresenceCheck, kind: str, ranks: Sequence[int], seconds: float, shape: Any) -> dict[int, Any]:
    """What ranks have published under a name, of those that do so in time."""
    found: dict[int, Any] = {}
    deadline = time.monotonic() + seconds
    while len(found) < len(ranks) and time.monotonic() < deadline:
        for rank in ranks:
            if rank not in found and (text := board.published_text(kind, rank)):
                found[rank] = read(f"rank {rank}", text, shape)
        time.sleep(_POLL)
    return found


def _others(
    board: PresenceCheck, roster: Roster, parts: Mapping[int, PairFindings], seconds: float
) -> Iterator[Finding]:
    """What the other hosts have to say of themselves, if it is not ok; what several say, once. Ranks that have fallen
    silent before are not waited for."""
    firsts = {ranks[0]: host for host, ranks in roster.hosts.items() if ranks[0] != 0 and ranks[0] in parts}
    found = _collect(board, "machine", list(firsts), seconds, [dict.fromkeys(_FINDING, str)])
    said: dict[Finding, list[str]] = {}
    for rank, host in firsts.items():
        if rank not in found:
            text = f"{roster.infos[rank]} did not end its checks in time"
            yield Finding("machine", "failure", text, f"Run ringroad doctor --alone on {host}", host)
        for one in found.get(rank, []):
            if one["verdict"] != "ok":
                said.setdefault(Finding(**{name: one[name] for name in _FINDING}), []).append(host)
    for finding, hosts in said.items():
        yield replace(finding, host=", ".join(hosts))
