"""Who is measured. A peer runs in every rank's process, beside the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ringroad.bench.data import Buffers

Call = Callable[[], Any]

OURS = "ringroad"
OURS_IN_TORCH = "ringroad-torch"


class Peer(Protocol):
    """A library, connected to the same peer in the other ranks."""

    name: str

    def call(self, buffers: Buffers, place: str) -> Call | None:
        """One collective, ready to run again and again; None where the library has no such call."""

    def barrier(self) -> Any: ...

    def algorithm(self, buffers: Buffers) -> str | None:
        """Which algorithm a call runs, where the library tells."""

    def close(self) -> None: ...
