"""Groups that change: torch's fault tolerance interface (2.15; experimental there).

dist.init_process_group("ringroad", enable_reconfigure=True)    # a group that has no members yet
handle = dist._get_reconfigure_handle()                         # hand it to the others, by any way
dist._reconfigure(uuid, handles).wait()                         # again and again, with whoever is left or new
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch.distributed.distributed_c10d as distributed

from ringroad._native import Communicator, handle
from ringroad.torch.backend import RingroadBackend
from ringroad.torch.membership import Membership
from ringroad.torch.process_group import RingroadProcessGroup
from ringroad.torch.work import Work


class _Unconfigured:
    """In place of a communicator, in a group that has no members yet."""

    meeting = "none"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "ringroad: this process group was made with enable_reconfigure=True and has no members yet: hand "
            "torch.distributed._get_reconfigure_handle() to the other processes, and call "
            "torch.distributed._reconfigure(uuid, handles) on all"
        )

    def _run_raw(self, *args: Any, **kwargs: Any) -> Any:
        return self.__getattr__("_run_raw")

    _run_tensors = _run_raw

    def abort(self, reason: str = "") -> None:
        """There is nothing to end."""

    def close(self) -> None:
        """There is nothing to close."""


class ReconfigurableBackend(RingroadBackend):
    """A backend whose communicator `reconfigure` makes, and makes anew."""

    supports_reconfigure = True

    def __init__(self, member: Membership) -> None:
        self._handle = handle()
        self._uuids: set[int] = set()
        super().__init__(member, splitting=True, communicator=cast(Communicator, _Unconfigured()))
        # A communicator's own timeout is what was left for making it.
        self._timeout = member.options.seconds(member.timeout)

    # Torch's own methods answer what was true when the group was made.
    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def get_reconfigure_handle(self) -> str:
        return self._handle

    def reconfigure(self, opts: Any) -> Work:
        """Ends when the processes of all `opts.handles` have called it; from then on they are the members.

        A list says which rank each process gets; from a set ringroad makes an order. What was in flight in the old
        group fails. Raises RuntimeError if `opts.uuid` was used in this group before, PeerError naming a process that
        has ended or does not answer, TimeoutError where one does not come.
        """
        if opts.uuid in self._uuids:
            raise RuntimeError(f"ringroad: reconfigure: uuid {opts.uuid} was already used; pass a new one every time")
        self._uuids.add(opts.uuid)
        self.communicator.abort("the process group is reconfigured")
        self.communicator.close()
        seconds = self._timeout if opts.timeout is None else opts.timeout.total_seconds()
        assert seconds is not None, "a reconfigurable group has a timeout"
        communicator = self._member.regroup(opts.handles, self._handle, opts.uuid, seconds)
        self._member = replace(self._member, rank=communicator.rank, size=communicator.size, ranks=[])
        self._use(communicator, communicator.rank, communicator.size)
        return Work((), ())


class ReconfigurableProcessGroup(RingroadProcessGroup):
    """A group without members until `reconfigure`, which may be called again and again: with fewer, more or other
    processes, and after one of them has died in the middle of a call."""

    backend: ReconfigurableBackend

    def __init__(self, member: Membership) -> None:
        super().__init__(member, ReconfigurableBackend(member))

    # Torch's own methods answer what was true when the group was made.
    def rank(self) -> int:
        return self.backend.rank()

    def size(self) -> int:
        return self.backend.size()

    getRank, getSize = rank, size

    @property
    def supports_reconfigure(self) -> bool:
        return True

    def get_reconfigure_handle(self) -> str:
        return self.backend.get_reconfigure_handle()

    def reconfigure(self, opts: Any) -> Work:
        work = self.backend.reconfigure(opts)
        ranks: Any = distributed._world.pg_group_ranks
        if self in ranks:
            ranks[self] = {rank: rank for rank in range(self.size())}
        return work

    def split_group(self, *args: Any, **kwargs: Any) -> RingroadProcessGroup | None:
        """Refused: parts of a group meet in its store, which may be gone."""
        raise NotImplementedError(
            "ringroad: a group made with enable_reconfigure=True does not split; make another one with new_group"
        )
