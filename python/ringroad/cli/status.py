"""`ringroad status`: asks a running job how it stands."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ringroad._status import asking
from ringroad._status.asking import Job
from ringroad._status.flight import write
from ringroad._status.hangs import causes
from ringroad._status.text import HEADER, LINKS, RATE, again, happened, headline, is_idle, links, rows, title, verdicts
from ringroad._support.text import print_json, print_table, print_wrapped
from ringroad.cli._options import Json
from ringroad.start.launchers import address_of, job_here

_PAUSE = 2.0
"""Seconds between two looks of --watch."""


def status(
    job: Annotated[
        str | None,
        typer.Option(metavar="JOB", help="Job key, process ID, or tcp://host:port of the store."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat every 2 seconds, until Ctrl-C.")] = False,
    stacks: Annotated[bool, typer.Option("--stacks", help="Print the Python threads' stacks.")] = False,
    connections: Annotated[
        bool, typer.Option("--connections", help="Print tcp connections between hosts, with retransmissions.")
    ] = False,
    flight: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a file per rank for torchfrtrace.")] = None,
    as_json: Json = False,
) -> None:
    """Show why a running job hangs.

    Names ranks that are late, stopped or gone, and calls that differ. Run it on any host of the job, as the same user,
    with the job's RINGROAD_SECRET. It does not slow down the job.
    """
    before: Job | None = None
    for now in _looks(job, watch):
        if as_json:
            print_json(now.to_dict() | {"causes": [cause._asdict() for cause in causes(now)]})
        else:
            _print(now, before, stacks, connections)
        if flight is not None:
            written = write(now, flight)
            if not as_json:
                print_wrapped(
                    f"\nwrote {len(written)} files; read them with: torchfrtrace --allow-incomplete-ranks {flight}"
                )
        before = now


def _looks(job: str | None, watch: bool) -> Iterator[Job]:
    yield _look(job)
    while watch:
        try:
            time.sleep(_PAUSE)
        except KeyboardInterrupt:
            return
        print("\033[H\033[2J" if sys.stdout.isatty() else "", flush=True)
        yield _look(job)


def _look(job: str | None) -> Job:
    if job is None or not job.startswith("tcp://"):
        return asking.here(job)
    return asking.at(*address_of(job), job_here())


def _print(job: Job, before: Job | None, stacks: bool, connections: bool) -> None:
    print_wrapped(headline(job))
    for line in verdicts(job):
        print_wrapped(f"  {line}", indent="    ")
    for line in [*happened(job), *(again(job, before) if before else [])]:
        print_wrapped(f"  {line}", indent="    ")
    known = {group.key: group for group in before.groups} if before else {}
    for group in job.groups:
        print()
        old = known.get(group.key)
        print_wrapped(title(group) + ", no calls" * is_idle(group))
        seconds = job.time - before.time if before else 0.0
        if not is_idle(group) or old:
            table = rows(group, old, seconds)
            print_table([*HEADER, RATE] if old else HEADER, table, right=["calls", "step", "since", RATE])
        if connections and (found := links(group, old, seconds)):
            print()
            print_table(LINKS, found, right=LINKS[3:])
    for process in job.others:
        print_wrapped(f"process {process.name}: {process.why or 'no communicator yet'} {process.position}".rstrip())
    for process in [*job.processes, *job.others] if stacks else []:
        print()
        print_wrapped(f"process {process.name}: {(process.report or {}).get('no_stacks') or process.why}".rstrip(": "))
        for name, frames in (process.report or {}).get("stacks") or []:
            print_wrapped(f"  {name}")
            for file, line, function in frames:
                print_wrapped(f"    {file}:{line} in {function}")
