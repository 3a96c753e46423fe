"""`ringroad.ScheduleBuilder`."""

import operator
from collections.abc import Iterable
from typing import SupportsIndex

from ringroad._native import Schedule, ScheduleError, Topology

Chunks = SupportsIndex | Iterable[SupportsIndex]


class ScheduleBuilder:
    """Makes a schedule by hand, step by step.

    All messages of a step carry what their senders hold when the step begins. A `copy` replaces what the receiver
    holds of a chunk, a `reduce` adds to it. `build` returns the schedule, and its `verify` says whether it performs
    the collective.

    Args:
        name: The schedule's name.
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring. It states the number of ranks,
            and on grids the port by which a message to a neighbour leaves.
        collective: What the schedule is meant to perform.
        chunks: Into how many equal chunks the data is cut: the vector, or in an alltoall all blocks of all ranks. A
            multiple of the number of blocks. None: a chunk for each block.
        root: The root of a broadcast, reduce, gather or scatter.

    Raises:
        ScheduleError: The number of chunks or the root does not fit. The message says what would.
        ValueError: The collective is unknown.
        TopologyError: The topology is malformed.

    Example:
        >>> ring = ringroad.ScheduleBuilder("my ring", 4, "allgather")
        >>> for k in range(3):
        ...     step = ring.step()
        ...     for rank in range(4):
        ...         step.copy(rank, (rank + 1) % 4, (rank - k) % 4)
        >>> schedule = ring.build()
        >>> schedule.verify()
        >>> print(str(schedule).splitlines()[1])
        step 0: 0→1 =[0] | 1→2 =[1] | 2→3 =[2] | 3→0 =[3]
    """

    def __init__(
        self,
        name: str,
        topology: Topology | str | int,
        collective: str = "allreduce",
        *,
        chunks: int | None = None,
        root: int = 0,
    ) -> None:
        self._topology = Topology(topology)
        self._name, self._collective, self._root = name, collective, root
        # What does not fit is refused now, and not only at the end.
        empty = Schedule.from_sends(name, self._topology.ranks, chunks, [], collective=collective, root=root)
        self._chunks = empty.chunks
        self._steps: list[ScheduleStep] = []

    def step(self) -> "ScheduleStep":
        """Begins the next step and returns it. Its messages and those of earlier steps can still be added."""
        self._steps.append(ScheduleStep(self, len(self._steps)))
        return self._steps[-1]

    def build(self) -> Schedule:
        """Returns the schedule of all steps so far. It is not verified. Steps without messages are left out.

        Raises:
            ScheduleError: The schedule is malformed. The message says why.
        """
        sends = [send for step in self._steps for send in step._sends]
        locals = [local for step in self._steps for local in step._locals]
        return Schedule.from_sends(
            self._name, self._topology.ranks, self._chunks, sends, locals, self._collective, self._root
        )

    def __repr__(self) -> str:
        return (
            f"ScheduleBuilder({self._name!r}, {self._topology.spec!r}, {self._collective!r}, chunks={self._chunks}: "
            f"{len(self._steps)} steps)"
        )


def _numbers(chunks: Chunks) -> list[int]:
    try:
        return [operator.index(chunks)]  # type: ignore[arg-type]
    except TypeError:
        return [operator.index(chunk) for chunk in chunks]  # type: ignore[union-attr]


class ScheduleStep:
    """A step of a `ScheduleBuilder`, whose `step` makes it: messages that may travel at the same time."""

    def __init__(self, _builder: ScheduleBuilder, _number: int) -> None:
        self._topology, self._chunks, self._number = _builder._topology, _builder._chunks, _number
        self._sends: list[tuple[int, int, int, list[int], str, int, int, int]] = []
        self._locals: list[tuple[int, int, list[int], str, int, int]] = []

    def copy(
        self,
        source: int,
        destination: int,
        chunks: Chunks,
        *,
        port: int | None = None,
        from_slot: int = 0,
        into_slot: int = 0,
    ) -> None:
        """Sends chunks from one rank to another, which holds them afterwards instead of what it held.

        Args:
            source: The rank that sends.
            destination: The rank that receives. If it is `source`, the rank copies one of its own slots to another
                one when all messages of the step have arrived.
            chunks: A chunk, or several.
            port: The port by which the message leaves. None: the one that leads to the neighbour, or 0.
            from_slot: Which of its values of each chunk the source reads. Slot 0 is the vector, others exist as soon
                as they are written.
            into_slot: Which of its values of each chunk the destination replaces.

        Raises:
            ScheduleError: A rank or chunk does not exist. The message names the step.
        """
        self._add("copy", source, destination, chunks, port, from_slot, into_slot)

    def reduce(
        self,
        source: int,
        destination: int,
        chunks: Chunks,
        *,
        port: int | None = None,
        from_slot: int = 0,
        into_slot: int = 0,
    ) -> None:
        """Sends chunks from one rank to another, which reduces them into what it holds.

        Args:
            source: The rank that sends.
            destination: The rank that receives. If it is `source`, the rank reduces one of its own slots into another
                one when all messages of the step have arrived.
            chunks: A chunk, or several.
            port: The port by which the message leaves. None: the one that leads to the neighbour, or 0.
            from_slot: Which of its values of each chunk the source reads. Slot 0 is the vector, others exist as soon
                as they are written.
            into_slot: Into which of its values of each chunk the destination reduces.

        Raises:
            ScheduleError: A rank or chunk does not exist. The message names the step.
        """
        self._add("reduce", source, destination, chunks, port, from_slot, into_slot)

    def _add(
        self,
        action: str,
        source: int,
        destination: int,
        chunks: Chunks,
        port: int | None,
        from_slot: int,
        into_slot: int,
    ) -> None:
        several = _numbers(chunks)
        ranks, where = self._topology.ranks, f"step {self._number}, {action} {source}→{destination}"
        for rank in (source, destination):
            if not 0 <= rank < ranks:
                raise ScheduleError(f"{where}: there is no rank {rank}, only 0 to {ranks - 1}")
        for chunk in several:
            if not 0 <= chunk < self._chunks:
                raise ScheduleError(f"{where}: there is no chunk {chunk}, only 0 to {self._chunks - 1}")
        for name, value in (("port", port or 0), ("from_slot", from_slot), ("into_slot", into_slot)):
            if value < 0:
                raise ScheduleError(f"{where}: {name} is {value}, and must be 0 or more")
        if not several:
            raise ScheduleError(f"{where}: there are no chunks to send")
        if source == destination:
            if from_slot == into_slot:
                raise ScheduleError(f"{where}: a rank sends to another rank, or from one of its slots to another one")
            self._locals.append((self._number, source, several, action, from_slot, into_slot))
            return
        if port is None:
            port = self._topology.port_to(source, destination) or 0
        self._sends.append((self._number, source, destination, several, action, port, from_slot, into_slot))
