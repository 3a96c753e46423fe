"""Groups that change: torch's fault tolerance interface (2.15; experimental there).

dist.init_process_group("ringroad", enable_reconfigure=True)    # a group that has no members yet
handle = dist._get_reconfigure_handle()                         # send it to the others, by any means
dist._reconfigure(uuid, handles).wait()                         # any number of times, with survivors and new processes
"""

from dataclasses import replace
from typing import Any, cast

import torch.distributed.distributed_c10d as distributed

from ringroad._native import Communicator, handle
from ringroad.torch.backend import RingroadBackend
from ringroad.torch.group import RingroadProcessGroup
from ringroad.torch.membership import GroupMember
from ringroad.torch.work import Work


class _Unconfigured:
    """Stands in for the communicator in a group that has no members yet."""

    rendezvous = "none"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "ringroad: this process group was made with enable_reconfigure=True and has no members yet: send "
            "torch.distributed._get_reconfigure_handle() to the other processes, and call "
            "torch.distributed._reconfigure(uuid, handles) on all"
        )

    def _run_raw(self, *args: Any, **kwargs: Any) -> Any:
        return self.__getattr__("_run_raw")

    _run_tensors = _run_raw

    def abort(self, reason: str = "") -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


class ReconfigurableBackend(RingroadBackend):
    """A backend whose communicator `reconfigure` makes and replaces."""

    supports_reconfigure = True

    def __init__(self, member: GroupMember) -> None:
        self._handle = handle()
        self._uuids: set[int] = set()
        super().__init__(member, splitting=True, communicator=cast(Communicator, _Unconfigured()))
        # A communicator's own timeout is only the time that was left when it was made.
        self._timeout = member.options.seconds(member.timeout)

    # torch's own methods return the values of the time when the group was made.
    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def get_reconfigure_handle(self) -> str:
        return self._handle

    def reconfigure(self, opts: Any) -> Work:
        """Makes the processes of all `opts.handles` the members. Blocks until all of them have called it.

        The order of a list gives the ranks; a set gets an order from ringroad. Calls in flight in the old group fail.
        Raises RuntimeError if `opts.uuid` was used in this group before, PeerError naming a process that has ended or
        does not answer, TimeoutError if one does not come.
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
    """A group without members until `reconfigure`. That may be called any number of times, with fewer, more or other
    processes, also after a process has died in the middle of a call."""

    backend: ReconfigurableBackend

    def __init__(self, member: GroupMember) -> None:
        super().__init__(member, ReconfigurableBackend(member))

    # torch's own methods return the values of the time when the group was made.
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
        """Always raises: the members of a part would meet in the group's store, which may be gone."""
        raise NotImplementedError(
            "ringroad: a group made with enable_reconfigure=True does not split; make another one with new_group"
        )
