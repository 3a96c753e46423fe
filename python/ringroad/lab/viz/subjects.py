"""The interfaces that pictures need. Simulations, measured traces and iterations of training implement them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ringroad._native import Topology
from ringroad.measure.traces import TraceEvent

if TYPE_CHECKING:
    from ringroad.lab.training.model import Model


class Timeline(Protocol):
    """A timeline of ranks."""

    @property
    def title(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def messages(self) -> int:
        """The number of messages sent."""

    @property
    def seconds(self) -> float: ...
    @property
    def events(self) -> Sequence[TraceEvent]: ...
    @property
    def dividers(self) -> Sequence[float]:
        """Times for vertical lines."""

    @property
    def divider(self) -> str:
        """What the vertical lines are: "end of a step" or "start of a call"."""


class LinkLoad(Protocol):
    """The bytes of a link in a step, and how long they take."""

    @property
    def step(self) -> int: ...
    @property
    def link(self) -> int: ...
    @property
    def bytes(self) -> float: ...
    @property
    def seconds(self) -> float: ...


class Loaded(Protocol):
    """The loads of links, step by step."""

    @property
    def title(self) -> str: ...
    @property
    def topology(self) -> Topology: ...
    @property
    def steps(self) -> int: ...
    @property
    def step_ends(self) -> Sequence[float]: ...
    @property
    def loads(self) -> Sequence[float]:
        """The bytes that each link carried in all steps together."""

    @property
    def link_loads(self) -> Sequence[LinkLoad]: ...
    @property
    def failed_links(self) -> Sequence[tuple[int, int]]:
        """Source and target of the links that carry nothing."""


class Span(Protocol):
    """Something that takes time, in seconds from the beginning."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...


class Iteration(Protocol):
    """An iteration of training. Times are in seconds."""

    @property
    def title(self) -> str: ...
    @property
    def model(self) -> "Model": ...
    @property
    def allreduces(self) -> Sequence[Span]: ...
    @property
    def compute(self) -> float: ...
    @property
    def exposed(self) -> float: ...
    @property
    def seconds(self) -> float: ...
