"""What pictures need to know of their subjects: simulations and measured traces have it, and need not be known here."""

from collections.abc import Sequence
from typing import Protocol

from ringroad._native import Topology


class Event(Protocol):
    """A message as its sender or its receiver sees it, or a reduction. Times in seconds."""

    @property
    def kind(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def step(self) -> int | None: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float | None: ...


class Timeline(Protocol):
    """What ranks did, and when."""

    @property
    def title(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def messages(self) -> int:
        """How many were sent."""

    @property
    def seconds(self) -> float: ...
    @property
    def events(self) -> Sequence[Event]: ...
    @property
    def dividers(self) -> Sequence[float]:
        """Moments at which something ends or begins for all."""


class LinkLoad(Protocol):
    """What a link carried in a step."""

    @property
    def step(self) -> int: ...
    @property
    def link(self) -> int: ...
    @property
    def bytes(self) -> float: ...


class Loaded(Protocol):
    """What links carried, step by step."""

    @property
    def title(self) -> str: ...
    @property
    def topology(self) -> Topology: ...
    @property
    def steps(self) -> int: ...
    @property
    def step_ends(self) -> Sequence[float]: ...
    @property
    def messages(self) -> int: ...
    @property
    def link_loads(self) -> Sequence[LinkLoad]: ...
