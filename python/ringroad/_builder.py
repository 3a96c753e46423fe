"""`ringroad.ScheduleBuilder`."""

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex

from ringroad._native import Schedule, ScheduleError, Topology

Chunks = SupportsIndex | Iterable[SupportsIndex]


class ScheduleBuilder:
    """Makes a schedule by hand, step by step.

    All messages of a step carry what their senders hold when the step begins. In a step, a chunk of a rank may be
    copied to once, or reduced into any number of times. `build` returns the schedule, and its `verify` says whether it
    performs the collective.

    Args:
        name: The schedule's name.
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring. It states the number of ranks,
            and on grids the ports by which messages leave.
        collective: What the schedule is meant to perform.
        chunks: Into how many equal chunks the data is cut: the vector, or in an alltoall all blocks of all ranks. A
            multiple of the number of blocks. None: a chunk for each block.
        root: The root of a broadcast, reduce, gather or scatter.

    Raises:
        ScheduleError: The number of chunks or the root does not fit. The message says what would.
        ValueError: The collective is unknown, or a number is negative.
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
        """Begins the next step and returns it. Messages can be added to it and to earlier steps at any time."""
        self._steps.append(ScheduleStep(self, len(self._steps)))
        return self._steps[-1]

    def build(self) -> Schedule:
        """Returns the schedule of all steps so far. It is not verified. Empty steps are left out, and later ones move
        up.

        Raises:
            ScheduleError: There are too many ranks, chunks and slots to verify in memory.
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


class ScheduleStep:
    """A step of a `ScheduleBuilder`, whose `step` makes it: messages that may travel at the same time.

    A rank may keep several values of a chunk apart, in slots. Slot 0 is the vector; another slot exists as soon as it
    is written. Where source and destination are the same rank, it combines two of its slots when all messages of the
    step have arrived.
    """

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
        """Sends chunks that replace what the receiver holds.

        Args:
            source: The rank that sends.
            destination: The rank that receives.
            chunks: A chunk, or several.
            port: The port by which the message leaves. None: `topology.port_towards(source, destination)`.
            from_slot: The source's slot that is read.
            into_slot: The destination's slot that is written.

        Raises:
            ScheduleError: A rank or chunk does not exist, there are no chunks, a port or slot is negative or too large,
                or a rank writes a slot into itself. The message names the step.
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
        """Sends chunks that are reduced into what the receiver holds.

        Args:
            source: As for `copy`.
            destination: As for `copy`.
            chunks: As for `copy`.
            port: As for `copy`.
            from_slot: As for `copy`.
            into_slot: As for `copy`.

        Raises:
            ScheduleError: As for `copy`.
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
        where = f"step {self._number}, {action} {source}→{destination}"
        several = _chunk_numbers(where, chunks)
        for what, count, values in (
            ("rank", self._topology.ranks, (source, destination)),
            ("chunk", self._chunks, several),
            ("port", _MAX_SLOTS_OR_PORTS, (port or 0,)),
            ("slot", _MAX_SLOTS_OR_PORTS, (from_slot, into_slot)),
        ):
            for value in values:
                if not 0 <= _number(where, what, value) < count:
                    raise ScheduleError(f"{where}: there is no {what} {value}, only 0 to {count - 1}")
        if not several:
            raise ScheduleError(f"{where}: there are no chunks to send")
        if source == destination:
            if from_slot == into_slot:
                raise ScheduleError(f"{where}: a rank sends to another rank, or from one of its slots to another one")
            self._locals.append((self._number, source, several, action, from_slot, into_slot))
            return
        if port is None:
            port = self._topology.port_towards(source, destination)
        self._sends.append((self._number, source, destination, several, action, port, from_slot, into_slot))


_MAX_SLOTS_OR_PORTS = 1 << 14
"""How many slots a rank may have for a chunk, and more than any rank has ports."""


def _number(where: str, what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ScheduleError(f"{where}: a {what} is a whole number, not {value!r}") from None


def _chunk_numbers(where: str, chunks: Any) -> list[int]:
    """The chunks, which may be one number or several."""
    try:
        return [operator.index(chunks)]
    except TypeError:
        several = chunks if isinstance(chunks, Iterable) and not isinstance(chunks, str) else [chunks]
        return [_number(where, "chunk", chunk) for chunk in several]
