"""A rank's place in a group, and the communicator that connects it with the others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import PrefixStore, Store

from ringroad._native import Communicator
from ringroad._ucx import _ucx_wheel


@dataclass(frozen=True)
class Options:
    """`pg_options` of init_process_group and new_group. None: as RINGROAD_TOPOLOGY and RINGROAD_ALGO say."""

    topology: str | None = None
    algorithm: str | None = None


@dataclass(frozen=True)
class Membership:
    """What torch tells a member of a group that is being created."""

    store: Store
    rank: int
    size: int
    timeout: timedelta
    name: str
    ranks: Sequence[int]
    """The members' ranks in the world; may be empty for the world itself."""
    options: Options = field(default_factory=Options)

    def connect(self) -> Communicator:
        """Collective over the members. They meet in the store, under keys that no earlier group of this name has used.

        Torch numbers groups anew after destroy_process_group, over the same store. Members count their arrivals:
        creating a group is collective, so the n-th generation's members are the n-th `size` arrivals.
        """
        members = hashlib.sha256(repr((self.size, list(self.ranks))).encode()).hexdigest()[:16]
        generation = (self.store.add(f"ringroad/{members}/arrivals", 1) - 1) // self.size
        store: Any = PrefixStore(f"ringroad/{members}/{generation}", self.store)
        return Communicator(
            store,
            self.rank,
            self.size,
            timeout=self.timeout.total_seconds(),
            topology=self.options.topology,
            algorithm=self.options.algorithm,
            name=self.name if self.ranks else "world",
            ucx_wheel=_ucx_wheel(),
        )

    def part(self, ranks: Sequence[int], name: str, timeout: timedelta | None) -> Membership:
        """This rank's place in a group of some of the members, which are named by their ranks in this one."""
        world = list(self.ranks) or range(self.size)
        return replace(
            self,
            store=PrefixStore(f"{name}/", self.store),
            rank=list(ranks).index(self.rank),
            size=len(ranks),
            timeout=timeout or self.timeout,
            name=name,
            ranks=[world[rank] for rank in ranks],
        )
