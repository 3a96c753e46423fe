"""What `ringroad doctor` checks. A check is a function that returns findings; none of them can hang the command."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from threading import Thread
from typing import Any, Literal

Verdict = Literal["ok", "note", "warning", "failure"]
VERDICTS: tuple[Verdict, ...] = ("ok", "note", "warning", "failure")
"""From the best to the worst. A note costs speed or matters to some jobs only; after a failure ranks cannot
communicate."""


@dataclass(frozen=True)
class Finding:
    """What a check has found, and what to do about it. `host` names other hosts than the one that reports."""

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""
    host: str = ""

    def __post_init__(self) -> None:
        if (self.verdict == "ok") == bool(self.remedy):
            raise ValueError(f"{self.name}: a finding has a remedy if and only if it is not ok")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Findings = Finding | Iterable[Finding]


@dataclass(frozen=True)
class Check:
    """A check, the seconds within which it ends, and what to do if it does not."""

    name: str
    run: Callable[[], Findings]
    stuck: str
    seconds: float = 10.0


def perform(check: Check) -> list[Finding]:
    """The findings of a check. If it raises or does not end in time, a failure that says so."""
    done: list[list[Finding]] = []

    def run() -> None:
        try:
            found = check.run()
            done.append([found] if isinstance(found, Finding) else list(found))
        except Exception as error:
            text = f"the check ended with {type(error).__name__}: {error}"
            done.append([Finding(check.name, "failure", text, check.stuck)])

    # A system call that never returns cannot be interrupted. Its thread is left behind and ends with the process.
    thread = Thread(target=run, name=f"ringroad-doctor-{check.name}", daemon=True)
    thread.start()
    thread.join(check.seconds)
    if done:
        return done[0]
    return [Finding(check.name, "failure", f"the check did not end within {check.seconds:g} s", check.stuck)]


def perform_all(checks: Iterable[Check]) -> list[Finding]:
    """The findings of several checks, in order."""
    return [finding for check in checks for finding in perform(check)]


def worst(findings: Iterable[Finding]) -> Verdict:
    """The worst verdict; ok if there are no findings."""
    return max((finding.verdict for finding in findings), key=VERDICTS.index, default="ok")


def remaining(deadline: float, least: float = 0.0) -> float:
    """The seconds until a time of `time.monotonic`, but not less than `least`."""
    return max(least, deadline - time.monotonic())
