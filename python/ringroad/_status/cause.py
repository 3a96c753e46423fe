"""A cause for which a job hangs."""

from typing import Any, Literal, NamedTuple

from ringroad._status.asking import Group, Process

PATIENCE = 0.4
"""Calls that are younger (in seconds) are no hang."""

Kind = Literal[
    "ended",
    "stopped",
    "silent",
    "failed",
    "left",
    "busy",
    "other call",
    "other size",
    "missing",
    "deadlock",
    "tag",
    "slow",
    "network",
]


ProcessId = tuple[str, int]
"""A process: its host, and its number."""


class Cause(NamedTuple):
    """Why ranks wait.

    Attributes:
        kind: What kind of cause it is.
        group: The name of the communicator.
        ranks: Whose fault it is, as far as that can be told.
        text: The cause in words, and what to do.
    """

    kind: Kind
    group: str
    ranks: list[int]
    text: str


def pending(group: Group, rank: int, patience: float) -> list[dict[str, Any]]:
    """The calls of a rank that have taken so long."""
    return [call for call in group.calls(rank) if (call["since"] or 0) >= patience]


def place_of(process: Process) -> ProcessId:
    return process.host, process.pid
