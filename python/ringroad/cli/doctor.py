"""`ringroad doctor`: whether this machine, and the ranks of a job, can communicate well, and what to do if not."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Annotated, Any

import typer

from ringroad._native import RingroadError, StoreError
from ringroad._support.text import print_json, width
from ringroad.cli._options import Json, time_option
from ringroad.doctor import Finding, perform_all, worst
from ringroad.doctor.checks import machine_checks
from ringroad.doctor.job import Report, examine
from ringroad.doctor.messages import speed_text
from ringroad.doctor.roster import RankInfo
from ringroad.start import launchers, rendezvous

_WIDTH = 80  # at most
_SLOWEST = 6
_ENDS = {
    "ok": "no problems found",
    "note": "communication works; the notes say what could be better, or matters to some jobs",
    "warning": "communication works, but the warnings slow it down or may end a job",
    "failure": "ranks cannot communicate until the failures are corrected",
}


def doctor(
    alone: Annotated[bool, typer.Option("--alone", help="Check only this machine, even within a job.")] = False,
    timeout: Annotated[
        float, time_option(help="Seconds to wait for ranks and to measure between them.", least=1.0)
    ] = 60,
    as_json: Json = False,
) -> None:
    """Diagnose communication problems, and suggest remedies.

    Checks this machine and, in a job, its ranks together.

    In a job, start it in place of the program, for example
    torchrun --nproc-per-node 4 -m ringroad doctor
    It then also measures latency and bandwidth between ranks, and names
    unreachable ranks. Rank 0 prints the report.
    Exits with status 1 if there is a failure.
    """
    in_job = not alone and launchers.launcher_of(os.environ) is not None
    rank, size = rendezvous._place(None, None, os.environ) if in_job else (0, 1)
    report = _of_the_job(rank, size, timeout) if size > 1 else _of_this_machine()
    if report is None:
        return
    verdict = worst(report.findings)
    if as_json:
        findings = [finding.to_json() for finding in report.findings]
        print_json({"verdict": verdict, "findings": findings, "ranks": report.infos, "pairs": report.pairs})
    else:
        _print(report, verdict)
    if verdict == "failure":
        raise typer.Exit(1)


def _of_this_machine() -> Report:
    return Report(perform_all(machine_checks()), [asdict(RankInfo.own(0))], [])


def _of_the_job(rank: int, size: int, timeout: float) -> Report | None:
    """The report of rank 0; None on other ranks. What keeps a rank from taking part is a failure of its own."""
    try:
        return examine(rank, size, timeout)
    except (RingroadError, OSError) as error:
        remedy = "Start all ranks at the same time, with the same store; --alone checks this machine"
        failure = Finding("ranks", "failure", str(error), remedy)
        if rank:
            print(f"ringroad doctor: {error}\n{remedy}", file=sys.stderr)
            # Launchers end a job when a rank fails. Unless rank 0 seems to be missing, let it make its report.
            raise typer.Exit(isinstance(error, StoreError)) from None
        report = _of_this_machine()
        return Report([*report.findings, failure], report.infos, [])


def _print(report: Report, verdict: str) -> None:
    ranks = f", {len(report.infos)} ranks" if len(report.infos) > 1 else ""
    print(f"ringroad doctor on {socket.gethostname()}{ranks}")
    most = min(_WIDTH, width())
    names = [_hosts(finding.host) + finding.name for finding in report.findings]
    first = min(20, max(map(len, names)))
    for name, finding in zip(names, report.findings, strict=True):
        _print_finding(name, first, finding, most)
    _print_pairs(report.pairs, most)
    print("\n".join(_wrapped(_ENDS[verdict], most)))


def _hosts(names: str) -> str:
    first, *more = names.split(", ")
    return names and first + (f" and {len(more)} more: " if more else ": ")


def _print_finding(name: str, first: int, finding: Finding, most: int) -> None:
    if len(name) > first:
        print("\n".join(_wrapped(name, most)))
        name = ""
    column = first + 2 + len("warning") + 2
    lines = _wrapped(finding.found, most - column)
    print(f"{name:<{first}}  {finding.verdict:<7}  {lines[0]}")
    for line in lines[1:]:
        print(" " * column + line)
    if finding.remedy:
        for index, line in enumerate(_wrapped(finding.remedy, most - column - 3)):
            print(" " * column + ("-> " if index == 0 else "   ") + line)


def _print_pairs(pairs: Sequence[Mapping[str, Any]], most: int) -> None:
    if len(pairs) < 2:
        return
    shown = sorted(pairs, key=lambda pair: pair["bandwidth"])[:_SLOWEST]
    print("\nall pairs" if len(shown) == len(pairs) else f"\nslowest of {len(pairs)} pairs")
    for pair in shown:
        first, second = pair["ranks"]
        for line in _wrapped(f"{first}-{second}: {speed_text(pair)}, over {pair['over']}", most - 2):
            print(f"  {line}")
    print()


def _wrapped(text: str, most: int) -> list[str]:
    """The lines of a text. Long paths are broken, so that the columns stay columns."""
    return wrap(text, most, break_on_hyphens=False) or [""]
