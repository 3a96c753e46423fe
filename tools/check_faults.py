#!/usr/bin/env python3
"""Causes real faults at random moments, and checks how the other ranks react.

    tools/check_faults.py --minutes 30 [--seed S] [--only kills,stops] [--json FILE]

The faults: ranks are killed, stopped or cut off, they get no more memory, descriptors or system calls, or they call
something else than the others. The checks: nobody hangs, no call that succeeds has a wrong result, all other ranks
raise an error of the right type in time that names the culprit, can go on, and keep nothing open. Afterwards random
histories of shrink run, many at a time (see faults/histories.py), which takes about as long. The exit status is 1 if a
check failed. The same seed repeats the same faults, but the ranks' progress at that moment differs from run to
run.
"""

import argparse
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

# Set before the imports: threads of these libraries would not survive the fork.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
os.environ["RINGROAD_CACHE"] = "none"

from faults import histories
from faults import rank as ranks_part
from faults.hosts import Hosts
from faults.judge import FINDINGS, Finding, judge
from faults.kinds import KINDS, TRANSPORTS, Job, Kind
from faults.processes import DONE, WARM, Board, Ranks, read_log
from ringroad._support.text import print_table

LIMIT = 60.0  # seconds after which ranks that still run count as hanging
KEPT = 20  # failed runs of a kind whose details are kept


@dataclass
class Tally:
    """A row of the table: the number of runs with each finding."""

    runs: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINDINGS, 0))
    failed: list[dict[str, Any]] = field(default_factory=list)


def run(kind: Kind, job: Job, directory: Path) -> tuple[list[Finding], dict[int, tuple[str, float]]]:
    """Runs one job. Returns the findings, and each surviving rank's error and its delay after the fault."""
    board = Board(LIMIT)
    everybody = list(range(job.ranks))
    ranks = Ranks(job.ranks, directory, lambda rank, log: ranks_part.live(job, kind, board, directory, rank, log))
    try:
        board.wait(lambda: board.reached(everybody, WARM) or any(ranks.reap([rank]) for rank in everybody))
        board.let(ranks_part.MET)
        kind.strike(job, ranks, board)
        left = kind.left(job)
        board.wait(lambda: board.reached(left, DONE) or ranks.reap(left) or ranks.any_failed(left))
        board.let(ranks_part.TIDY)
        board.wait(lambda: ranks.reap(left) or ranks.any_failed(left))
    finally:
        hanging = ranks.end()
    logs = {rank: read_log(directory / f"rank-{rank}.jsonl") for rank in everybody}
    return judge(kind, job, board.fault, logs, ranks.status, hanging)


def kept(directory: Path, details: dict[str, Any]) -> None:
    (directory / "findings.json").write_text(json.dumps(details, indent=1) + "\n")
    for place in ("warm", "main", "again"):
        shutil.rmtree(directory / place, ignore_errors=True)


def one(kind: Kind, seed: str, base: Path, tally: Tally, verbose: bool) -> None:
    """Makes the next run of a kind and adds it to its tally."""
    job = kind.draw(Random(f"{seed}/{kind.name}/{tally.runs}"), tally.runs)
    directory = base / f"{kind.name}-{tally.runs}"
    directory.mkdir()
    began = time.monotonic()
    findings, raised = run(kind, job, directory)
    tally.runs += 1
    tally.seconds += time.monotonic() - began
    tally.longest = max([tally.longest, *(seconds for _, seconds in raised.values())])
    for what in {what for what, _ in findings}:
        tally.found[what] += 1
    if verbose:
        said = ", ".join(sorted({what for what, _ in findings})) or "well"
        types = ", ".join(f"{rank}: {what} {seconds:.2f} s" for rank, (what, seconds) in raised.items())
        print(f"{directory.name} {job.transport} {job.where} {job.what} ({types}): {said}", flush=True)
    if findings:
        tally.failed.append({"kind": kind.name, "run": tally.runs - 1, "job": asdict(job), "findings": findings})
    if findings and len(tally.failed) <= KEPT:
        kept(directory, tally.failed[-1])
    else:
        shutil.rmtree(directory)


def print_tallies(tallies: dict[str, Tally], goals: dict[str, int]) -> None:
    header, rows = ["kind", "runs", "goal", *FINDINGS, "longest s"], []
    for name, tally in tallies.items():
        found = [str(tally.found[what]) for what in FINDINGS]
        rows.append([name, str(tally.runs), str(goals[name]), *found, f"{tally.longest:.2f}"])
    print_table(header, rows, right=header)


def arguments() -> argparse.Namespace:
    names, ways = ",".join(kind.name for kind in KINDS), ",".join(TRANSPORTS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--runs", type=int, help="number of runs of each kind, instead of minutes")
    parser.add_argument("--seed", default="0", help="seed of the faults, any text")
    parser.add_argument("--only", default=names, help=f"kinds to run, among {names}")
    parser.add_argument("--over", default=ways, help=f"transports, among {ways}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table and the failed runs")
    parser.add_argument(
        "--histories", type=int, help="number of random histories of shrink; default: 67 a minute, or --runs"
    )
    parser.add_argument("--parallel", type=int, default=40, help="how many histories run at a time")
    parser.add_argument("--slack", type=float, default=1, help="multiply the time limits by this, for busy machines")
    parser.add_argument("--verbose", action="store_true", help="print a line for each run")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    hosts: Hosts | None = None
    try:
        hosts = Hosts()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"without network namespaces: {error}")
    base = Path(tempfile.mkdtemp(prefix="ringroad-faults-"))
    chosen = options.only.split(",")
    kinds = [kind for kind in (each(hosts, options.slack) for each in KINDS) if kind.name in chosen]
    for kind in kinds:
        kind.transports = [way for way in kind.transports if way in options.over.split(",")]
    kinds = [kind for kind in kinds if kind.transports]
    tallies = {kind.name: Tally() for kind in kinds}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up as after Ctrl-C
    end = time.monotonic() + 60 * options.minutes
    gc.freeze()  # the forked ranks need not scan the parent's objects
    try:
        while kinds:
            if options.runs:
                kinds = [kind for kind in kinds if tallies[kind.name].runs < options.runs]
            elif time.monotonic() > end:
                break
            # The kind that has used the least of its share of time.
            for kind in sorted(kinds, key=lambda kind: tallies[kind.name].seconds / kind.share)[:1]:
                one(kind, options.seed, base, tallies[kind.name], options.verbose)
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        if hosts:
            hosts.close()
    enough = options.runs or round(2000 * options.minutes / 30)
    count = enough if options.histories is None else options.histories
    happened, split = histories.run(count, options.parallel, options.seed, base, options.verbose)
    goals = {kind.name: round(kind.goal * options.minutes / 30) for kind in KINDS}
    print_tallies(tallies, goals)
    print(f"random histories of shrink, {len(split)} with findings: {dict(happened.most_common())}")
    failed = sum(len(tally.failed) for tally in tallies.values()) + len(split)
    if failed:
        print(f"{failed} runs failed; details in {base}")
    else:
        shutil.rmtree(base)
    if options.json:
        record = {name: asdict(tally) for name, tally in tallies.items()}
        record["histories"] = {"happened": happened, "failed": split}
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
