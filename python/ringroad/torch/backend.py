"""The backend that is registered with torch: its start, its end, and torch's queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import torch
import torch._C._distributed_c10d as c10d
from torch._C._distributed_c10d import Backend, PrefixStore

from ringroad._native import Communicator
from ringroad.torch.calls import NAME
from ringroad.torch.collectives import Collectives
from ringroad.torch.membership import GroupMember, Options
from ringroad.torch.monitored_barrier import monitored_barrier
from ringroad.torch.versions import MODERN

_SHRINK_ABORT = 1
"""The value of torch.distributed.distributed_c10d.SHRINK_ABORT, which older versions lack."""


class RingroadBackend(Collectives):
    """The backend that torch's dispatcher calls for CPU tensors. `RingroadProcessGroup` calls it directly."""

    alive: ClassVar[set[RingroadBackend]] = set()
    """torch may keep only the C++ half of a backend; this keeps the Python half until shutdown."""

    def __init__(
        self, member: GroupMember, *, splitting: bool = False, communicator: Communicator | None = None
    ) -> None:
        """Collective over the members, unless a communicator is given."""
        super().__init__(member.rank, member.size)
        self._member = member
        self._options = Backend.Options(NAME, timeout=timedelta(seconds=member.options.seconds(member.timeout)))
        if MODERN:
            self._options.global_ranks_in_group = list(member.ranks)
            self._options.group_name = member.name  # type: ignore[assignment]
        self._splitting = splitting
        self._wire = member.options.wire
        self._shrinks = 0
        self._use(member.connect() if communicator is None else communicator, member.rank, member.size)

    def _use(self, communicator: Communicator, rank: int, size: int) -> None:
        super()._use(communicator, rank, size)
        self.place = self._member.place_of(communicator)
        self._monitored_barriers = 0
        if MODERN:
            RingroadBackend.alive.add(self)

    def getBackendName(self) -> str:
        return NAME

    @property
    def options(self) -> Backend.Options:
        return self._options

    @property
    def supports_splitting(self) -> bool:
        """Whether this is part of a `RingroadProcessGroup`, which splits itself. torch 2.15 crashes if `Backend.split`
        returns no group."""
        return self._splitting

    # torch's C++ half asks Python for these. Without them Python would ask the C++ half, in an endless loop.
    supports_coalescing = False
    supports_shrinking = True
    supports_reconfigure = False
    supports_window = False
    _supports_time_estimate = False

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Does nothing on ranks outside a new group: the members meet in the store."""

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    def _set_sequence_number_for_group(self) -> None:
        """Does nothing: every rank counts from zero."""

    def abort(self) -> None:
        RingroadBackend.alive.discard(self)
        self.communicator.abort("the process group was aborted")

    def shutdown(self) -> None:
        RingroadBackend.alive.discard(self)
        self.communicator.close()

    def shrink(
        self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0, opts_override: Any = None
    ) -> RingroadBackend:
        """The backend of the remaining ranks, whether or not the excluded ones still live. Collective over the
        remaining ranks.

        Flag 1 (SHRINK_ABORT) first ends the calls in flight.
        """
        if opts_override is not None and not isinstance(opts_override, Options):
            raise TypeError(f"ringroad: pg_options must be ringroad.torch.Options, not {type(opts_override).__name__}")
        if shrink_flags & _SHRINK_ABORT:
            self.communicator.abort("the process group is made smaller")
        member = self._member.without(ranks_to_exclude, opts_override, self.communicator)
        left = {rank: text for rank, text in enumerate(self.communicator.handles) if rank not in ranks_to_exclude}
        handles = {rank: text for rank, text in left.items() if text is not None}
        if missing := sorted(left.keys() - handles):
            raise RuntimeError(
                f"ringroad: cannot shrink: ranks {missing} have no open port, so other ranks cannot find them"
            )
        self._shrinks += 1
        seconds = member.options.seconds(member.timeout)
        communicator = member.regroup(list(handles.values()), handles[self._rank], self._shrinks, seconds)
        return RingroadBackend(member, communicator=communicator)

    def get_error(self) -> Any:
        """Always success: every call raises its own errors, and none are stored."""
        return c10d.ErrorType.SUCCESS

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        seconds = self._seconds(opts)
        self._monitored_barriers += 1
        store = PrefixStore(f"monitored_barrier/{self._monitored_barriers}", self.place)
        seconds = self.communicator.timeout if seconds is None else seconds
        monitored_barrier(store, self._rank, self._size, seconds, wait_all_ranks, self.communicator.lost)
