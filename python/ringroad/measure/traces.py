"""`ringroad.measure.trace(comm)` and `RINGROAD_TRACE`: measured timelines of the ranks of a communicator.

Both use the format of Chrome's trace viewer, which ui.perfetto.dev opens: a process for each rank, with rows for calls,
sends, receives and computations, and an arrow for each message.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from ringroad._native import Communicator
from ringroad._notebook import frame
from ringroad._objects import allgather_bytes
from ringroad._support.files import read_json
from ringroad._support.text import check_class, seconds_text

_MICROSECONDS = 1e6
_BARS = ("X", "B")
"""Phases of the records that are events: complete events, and events that never ended."""


class TraceEvent(NamedTuple):
    """A call, a message as one of its ranks sees it, or a computation, measured or simulated. Times in seconds.

    Attributes:
        kind: "call", "send", "receive", "reduce", or, of messages in a wire format, "encode" or "decode".
        rank: The rank that does it.
        peer: The other rank of a message.
        step: The step of the schedule, from 0; None for a call.
        bytes: The length in bytes.
        sequence: The number of the collective call of the communicator.
        message: The number of the message.
        start: Seconds from the beginning of the trace.
        end: Seconds from the beginning of the trace; None if the event had not ended when the trace ended.
        algorithm: The name of the algorithm; None if it is not known.
        call: What was called, in words; None if the event is no call.
    """

    kind: Literal["call", "send", "receive", "reduce", "encode", "decode"]
    rank: int
    peer: int
    step: int | None
    bytes: int
    sequence: int
    message: int
    start: float
    end: float | None
    algorithm: str | None
    call: str | None


class CallTimes(NamedTuple):
    """How long a call took, from its start to its end, over all its repetitions and all ranks.

    Attributes:
        call: What was called, in words.
        times: How often it was called.
        median: The median, in seconds.
        slowest: The longest, in seconds.
    """

    call: str
    times: int
    median: float
    slowest: float


class Trace:
    """What ranks really did, and when. `trace` makes one; it is empty until the `with` block has ended.

    It has the attributes `events` (a list of `TraceEvent`, ordered by their start), `ranks` (how many there are)
    and `lost` (the number of events that were not recorded for lack of space).

    Args:
        recorded: The records of each rank, in the form of Chrome's trace viewer. Clocks of several machines are
            aligned at the moment when the ranks had met.
    """

    def __init__(self, recorded: Iterable[dict[str, Any]] = ()) -> None:
        """The trace of these ranks' records. Clocks of several machines are aligned at the moment when the ranks had
        met."""
        self._communicator: Communicator | None = None
        self._take(list(recorded))

    @classmethod
    def read(cls, *files: str | Path) -> "Trace":
        """Reads the files that the ranks of a communicator wrote into the directory RINGROAD_TRACE.

        Args:
            files: The paths, one for each rank.

        Returns:
            The trace.

        Raises:
            ValueError: A file is not the trace of a rank.
            OSError: A file cannot be read.
        """
        recorded = [read_json(file) for file in files]
        for file, one in zip(files, recorded, strict=True):
            try:
                cls([one])
            except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError):
                raise ValueError(
                    f"{file} is not the trace of a rank; pass files from the directory RINGROAD_TRACE"
                ) from None
        return cls(recorded)

    def __enter__(self) -> "Trace":
        communicator = self._communicator
        if communicator is None:
            raise ValueError("this trace is complete; make a new one with ringroad.measure.trace(comm)")
        communicator.barrier()
        communicator._start_trace()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        communicator, self._communicator = self._communicator, None
        assert communicator is not None
        own = communicator._end_trace()
        # After an error the ranks may not be able to exchange their events.
        mine = np.frombuffer(own.encode(), np.uint8)
        texts = [mine] if kind is not None else allgather_bytes(communicator, mine, None, "trace")
        self._take([json.loads(text.tobytes()) for text in texts])

    def _take(self, recorded: list[dict[str, Any]]) -> None:
        abouts = [one["otherData"] for one in recorded]
        first = {about["clock"]: about["started"] for about in sorted(abouts, key=lambda about: -about["started"])}
        records = [
            record | ({"ts": record["ts"] + (one["otherData"]["started"] - first[one["otherData"]["clock"]]) / 1e3})
            if "ts" in record
            else record
            for one in recorded
            for record in one["traceEvents"]
        ]
        begin = min((record["ts"] for record in records if "ts" in record), default=0.0)
        self._records = [r | {"ts": r["ts"] - begin} if "ts" in r else r for r in records]
        events = [_event(record) for record in self._records if record["ph"] in _BARS]
        self.events: list[TraceEvent] = sorted(events, key=lambda event: event.start)
        """The timeline, ordered by the start of its events."""
        self.ranks: int = max((about["ranks"] for about in abouts), default=0)
        self.lost: int = sum(about["lost"] for about in abouts)
        """The number of events that were not recorded, for lack of space."""
        self._name = abouts[0]["communicator"] if abouts else ""

    @property
    def seconds(self) -> float:
        """The time at which the last event ended."""
        return max((event.end for event in self.events if event.end is not None), default=0.0)

    @property
    def steps(self) -> int:
        """The number of steps of the call that has the most."""
        return max((event.step + 1 for event in self.events if event.step is not None), default=0)

    @property
    def messages(self) -> int:
        """The number of messages that were sent."""
        return sum(event.kind == "send" for event in self.events)

    @property
    def dividers(self) -> list[float]:
        """The start of each call on its first rank."""
        begins: dict[tuple[int, str], float] = {}
        for event in self.events:
            if event.call is not None:
                begins.setdefault((event.sequence, event.call), event.start)
        return list(begins.values())

    @property
    def divider(self) -> str:
        """What `dividers` are, in words."""
        return "start of a call"

    @property
    def title(self) -> str:
        """One line that says what was traced."""
        number = len(self.dividers)
        return f"{self._name}: {number} call{'' if number == 1 else 's'} of {self.ranks} ranks"

    @property
    def calls(self) -> list[CallTimes]:
        """The times of calls, a `CallTimes` for each, in the order of their first start."""
        found: dict[str, list[TraceEvent]] = {}
        for event in self.events:
            if event.call is not None and event.end is not None:
                found.setdefault(event.call, []).append(event)
        rows = []
        for call, events in found.items():
            seconds = [event.end - event.start for event in events if event.end is not None]
            ranks = {event.rank for event in events}
            rows.append(CallTimes(call, -(-len(events) // len(ranks)), median(seconds), max(seconds)))
        return rows

    def df(self) -> Any:
        """Returns the timeline as a pandas.DataFrame with a row for each event.

        Raises:
            ImportError: pandas is not installed.
        """
        return frame(self.events, TraceEvent._fields)

    def save_chrome_trace(self, path: str | Path) -> None:
        """Writes the timeline for ui.perfetto.dev and chrome://tracing.

        Args:
            path: The file to write.
        """
        Path(path).write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": self._records}))

    def __repr__(self) -> str:
        return f"<Trace {self.title}: {seconds_text(self.seconds)}>" if self.ranks else "<Trace, empty>"


def trace(comm: Communicator) -> Trace:
    """Records what all ranks do while a `with` block runs. Collective: all ranks enter and leave the block.

    Args:
        comm: The communicator.

    Returns:
        A `Trace`, which is empty until the block has ended. `ringroad.lab.viz.timeline` draws it.

    Raises:
        ValueError: The communicator is being traced already.
        AbortedError: The communicator has failed. Entering and leaving the block also raise what a barrier and an
            allgather raise.

    Example:
        >>> (alone,) = ringroad.Communicator.in_process(1)
        >>> with ringroad.measure.trace(alone) as trace:
        ...     total = alone.allreduce(np.ones(1000))
        >>> [call.call for call in trace.calls if "allreduce" in call.call]
        ['allreduce of 1000 float64, sum, by ring']
        >>> trace.save_chrome_trace("trace.json")  # for ui.perfetto.dev
    """
    check_class("comm", comm, Communicator)
    recorder = Trace()
    recorder._communicator = comm
    return recorder


def _event(record: dict[str, Any]) -> TraceEvent:
    about, start = record["args"], record["ts"] / _MICROSECONDS
    return TraceEvent(
        kind=record["cat"],
        rank=record["pid"],
        peer=about["peer"],
        step=about.get("step"),
        bytes=about["bytes"],
        sequence=about["sequence"],
        message=about["message"],
        start=start,
        end=start + record["dur"] / _MICROSECONDS if "dur" in record else None,
        algorithm=about.get("algorithm"),
        call=record["name"] if record["cat"] == "call" else None,
    )
