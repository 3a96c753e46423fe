"""A rank's place in a group, and the communicator that connects it with the others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from torch._C._distributed_c10d import PrefixStore, Store

from ringroad._native import Communicator, Topology, _round_raw
from ringroad.start.rendezvous import regroup

_SIZE_INVARIANT = "size-invariant"


@dataclass(frozen=True)
class Options:
    """`pg_options` of init_process_group, new_group and split_group. Rank 0's values count for all, except the timeout.

    Attributes:
        topology: The network, such as "torus:4x4". None: RINGROAD_TOPOLOGY, or what is detected.
        algorithm: The algorithms to choose among. None: RINGROAD_ALGO, or all.
        timeout: The time limit of making the group and of every call: a timedelta, or seconds. None: the `timeout`
            that torch was given.
        deterministic: "size-invariant": floats are added in the same order for every tensor length. None:
            RINGROAD_DETERMINISTIC.
        wire: The format in which sums and averages of floats are sent by all_reduce and reduce_scatter: "bf16", "f16",
            "fp8", "int8" or "int4"; the same on all ranks. For a group that reduces gradients: all other calls are
            exact. Groups that are split off do not inherit it. None: exact.

    Raises:
        ValueError: `timeout` is not above 0, `deterministic` is something else, or the format is unknown.

    Example:
        >>> import torch
        >>> from ringroad.torch import Options
        >>> Options(algorithm="ring", timeout=60).algorithm
        'ring'
    """

    topology: Topology | str | int | None = None
    algorithm: str | None = None
    timeout: timedelta | float | None = None
    deterministic: Literal["size-invariant"] | None = None
    wire: Literal["bf16", "f16", "fp8", "int8", "int4"] | None = None

    def __post_init__(self) -> None:
        timeout = self.timeout
        if timeout is not None and (timeout.total_seconds() if isinstance(timeout, timedelta) else timeout) <= 0:
            raise ValueError(f"ringroad: a timeout must be above 0, not {timeout}")
        if self.deterministic not in (None, _SIZE_INVARIANT):
            raise ValueError(f'ringroad: deterministic is "{_SIZE_INVARIANT}" or None, not {self.deterministic!r}')
        if self.wire is not None:
            _round_raw(self.wire, 0, 0, "float32")  # knows the formats

    def seconds(self, otherwise: timedelta) -> float:
        """Returns the time limit in seconds.

        Args:
            otherwise: The limit if these options state none.
        """
        timeout = otherwise if self.timeout is None else self.timeout
        return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


@dataclass(frozen=True)
class GroupMember:
    """The data that torch passes to each member of a new group."""

    store: Store
    rank: int
    size: int
    timeout: timedelta
    name: str
    ranks: Sequence[int]
    """The members' ranks in the world; may be empty for the world itself."""
    options: Options = field(default_factory=Options)
    is_job: bool = False
    """Whether these are all ranks that RINGROAD_TOPOLOGY describes. The world is, too."""

    def connect(self) -> Communicator:
        """The communicator of the members. Collective.

        torch numbers groups from 0 again after destroy_process_group, and reuses the number of a group that could not
        be made, over the same store. Keys that an earlier group of this name has left there do no harm: it met at
        another place of the store.
        """
        return Communicator(
            self._place(),
            self.rank,
            self.size,
            timeout=self.options.seconds(self.timeout),
            topology=self.options.topology,
            algorithm=self.options.algorithm,
            name=self.name if self.ranks else "world",
            members=None if self.is_job else list(self.ranks) or None,
            deterministic=self.options.deterministic,
        )

    def _place(self) -> Any:
        members = hashlib.sha256(repr((self.size, list(self.ranks))).encode()).hexdigest()[:16]
        return PrefixStore(f"ringroad/{members}", self.store)

    def place_of(self, communicator: Communicator) -> Store:
        """A part of the store that only this communicator uses."""
        return PrefixStore(communicator.rendezvous, self._place())

    def regroup(self, handles: Sequence[str] | Set[str], own: str, uuid: int, seconds: float) -> Communicator:
        """The communicator of the processes with these handles, which need no store. Collective."""
        topology = None if self.options.topology is None else Topology(self.options.topology)
        if topology is not None and topology.ranks != len(handles):
            topology = None  # it describes another number of ranks
        return regroup(
            handles,
            own=own,
            uuid=uuid % (1 << 64),
            timeout=seconds,
            topology=topology,
            algorithm=self.options.algorithm,
            deterministic=self.options.deterministic,
        )

    def without(self, ranks: Sequence[int], options: Options | None, whole: Communicator) -> GroupMember:
        """This rank's membership in the group without `ranks`. `whole` is the group's communicator."""
        left = [rank for rank in range(self.size) if rank not in ranks]
        world = list(self.ranks) or range(self.size)
        return replace(
            self,
            rank=left.index(self.rank),
            size=len(left),
            name=f"{self.name}:shrunk",
            ranks=[world[rank] for rank in left],
            options=options or replace(self.options, topology=whole._part(left)),
            is_job=False,
        )

    def part(
        self,
        ranks: Sequence[int],
        name: str,
        timeout: timedelta | None,
        options: Options | None,
        whole: Communicator,
    ) -> GroupMember:
        """This rank's membership in a group of some of the members; `ranks` are their ranks in this group, and `whole`
        is its communicator."""
        world = list(self.ranks) or range(self.size)
        inherited = replace(self.options, topology=whole._part(list(ranks)), wire=None)
        if timeout is not None:  # the new group's timeout overrides the options that it inherits
            inherited = replace(inherited, timeout=None)
        return replace(
            self,
            store=PrefixStore(f"{name}/", self.store),
            rank=list(ranks).index(self.rank),
            size=len(ranks),
            timeout=timeout or self.timeout,
            name=name,
            ranks=[world[rank] for rank in ranks],
            options=options or inherited,
            is_job=False,
        )
