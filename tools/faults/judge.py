"""Checks a run, and returns what is wrong as findings."""

import re
from collections.abc import Iterator
from typing import Any

from faults.kinds import Job, Kind

FINDINGS = ["hang", "died", "wrong result", "wrong error", "late", "unusable", "leak"]

Records = dict[int, list[dict[str, Any]]]
Finding = tuple[str, str]


def named(text: str) -> set[int]:
    """The ranks that a message names, as in `rank 2`, `ranks 1-3` or `ranks 0, 2 and 3`."""
    ranks: set[int] = set()
    for many in re.findall(r"\branks? (\d+(?:-\d+)?(?:(?:, | and |, and )\d+(?:-\d+)?)*)", text):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", many):
            ranks |= set(range(int(first), int(last or first) + 1))
    return ranks


def judge(
    kind: Kind, job: Job, fault: float, logs: Records, statuses: dict[int, int], hanging: list[int]
) -> tuple[list[Finding], dict[int, tuple[str, float]]]:
    """The findings, and for each surviving rank its error and the seconds after the fault."""
    errors = {rank: record for rank in logs for record in logs[rank] if record["event"] == "error"}
    if kind.aborts and job.victims[0] in errors:
        fault = errors[job.victims[0]]["at"]
    died = [rank for rank in kind.left(job) if rank not in hanging and statuses[rank] != 0]
    if died:  # after a death the state of the others means nothing
        return [("died", f"rank {rank} ended with {statuses[rank]}: see rank-{rank}.err") for rank in died], {}
    findings = [
        finding
        for rank in kind.left(job)
        for finding in of_rank(kind, job, rank, fault, logs[rank], errors, rank in hanging)
    ]
    raised = {rank: (errors[rank]["type"], errors[rank]["at"] - fault) for rank in kind.left(job) if rank in errors}
    return findings, raised


def of_rank(
    kind: Kind,
    job: Job,
    rank: int,
    fault: float,
    log: list[dict[str, Any]],
    errors: dict[int, dict[str, Any]],
    hangs: bool,
) -> Iterator[Finding]:
    events = {record["event"]: record for record in log}
    if hangs:
        yield "hang", f"rank {rank} did not come to its end: rank-{rank}.err says where it is"
    for record in log:
        if record["event"] == "wrong":
            yield "wrong result", f"rank {rank}: {record['text']}"
        if record["event"] == "unusable":
            yield "unusable", f"rank {rank} could not go on: {record['text']}"
    error = errors.get(rank)
    if error is None and kind.must_fail(job, rank, errors) and not hangs:
        yield "wrong error", f"rank {rank} raised nothing"
    if error is not None:
        said = f"rank {rank}: {error['type']}: {error['text']}"
        yield from of_error(kind, job, rank, fault, error, said)
    if leaks := events.get("end", {}).get("leaks"):
        yield "leak", f"rank {rank} has more than before: {leaks}"


def of_error(kind: Kind, job: Job, rank: int, fault: float, error: dict[str, Any], said: str) -> Iterator[Finding]:
    if fault == 0 or (error["at"] < fault and not kind.told_early):
        yield "wrong error", f"before anything happened, {said}"
        return
    culprits = kind.culprits(job, rank)
    missing = culprits - named(error["text"])
    unnamed = missing if kind.named == "all" else culprits and missing == culprits
    types = kind.errors(job)
    if error["type"] not in types or unnamed:
        yield "wrong error", f"{said}\nshould be one of {', '.join(types)}, and name {kind.named} of {culprits}"
    late = error["at"] - kind.deadline(job, error, fault)
    if late > 0:
        yield "late", f"{error['at'] - fault:.2f} s after the fault, {late:.2f} s too late, {said}"
