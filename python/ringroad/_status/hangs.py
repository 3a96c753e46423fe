"""Why a job hangs, from what its processes say (`ringroad._status`)."""

from ringroad._status.absence import absent, failed
from ringroad._status.asking import Job
from ringroad._status.cause import PATIENCE, Cause, ProcessId, place_of
from ringroad._status.collectives import different, missing, stalled
from ringroad._status.waiting import deadlock, tags, unmatched


def causes(job: Job, patience: float = PATIENCE) -> list[Cause]:
    """Why calls of a job hang that have taken longer than `patience`, the plainest causes first; empty if none do."""
    found: list[Cause] = []
    seen: set[ProcessId] = set()
    for group in job.groups:
        found += [*absent(group, seen, patience), *failed(group), *different(group)]
        seen.update(map(place_of, group.processes))
    for group in job.groups:
        found += tags(group, patience)
    found += deadlock(job, patience) if not found else []
    for group in job.groups:
        known = {rank for cause in found for rank in cause.ranks if cause.group == group.name}
        found += [cause for cause in missing(group, job, patience) if not known.issuperset(cause.ranks)]
        found += unmatched(group, job, patience) if not found else []
    found += [cause for group in job.groups for cause in stalled(group, patience)] if not found else []
    return found
