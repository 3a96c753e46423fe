"""The measured libraries. All peers run in every rank's process."""

from collections.abc import Callable
from typing import Any, Protocol

from ringroad.measure.bench.data import Buffers

Call = Callable[[], Any]

OURS = "ringroad"
OURS_IN_TORCH = "ringroad-torch"


class Peer(Protocol):
    """A library, connected to the same peer in the other ranks."""

    name: str

    def call(self, buffers: Buffers, place: str) -> Call | None:
        """A function that runs the collective, any number of times; None if the library has no such call."""

    def barrier(self) -> Any: ...

    def algorithm(self, buffers: Buffers) -> str | None:
        """The algorithm of a call; None if the library does not say."""

    def close(self) -> None: ...
