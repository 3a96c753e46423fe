"""Collectives on large tensors of a device, by way of the host, in chunks: while one is under way between the ranks,
the one before it goes to the device, and the one after it comes from there.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch

from ringroad._native import AbortedError, Communicator, RingroadError, TimeoutError
from ringroad.torch.tensors import DTYPES, Tensors, address_of

CHUNK = 4 << 20
"""Bytes of the host that one chunk takes on a rank. A call of no more is not worth cutting."""


class Side:
    """A CUDA stream beside the caller's, for copies that the host need not wait for at once."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def enter(self) -> None:
        """Makes the device the calling thread's: a new thread begins with the first one."""
        torch.cuda.set_device(self._stream.device)

    def memory(self, size: int) -> torch.Tensor:
        """Bytes of the host, pinned: only with such do copies run while the host goes on."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def computed(self) -> torch.cuda.Event:
        """What the caller's stream has to do so far."""
        event: torch.cuda.Event = torch.cuda.current_stream(self._stream.device).record_event()
        return event

    def follow(self, event: torch.cuda.Event) -> None:
        """Copies nothing more before that is done."""
        self._stream.wait_event(event)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copies, once what was to be copied before is."""
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)

    def copied(self) -> torch.cuda.Event:
        """The copies so far; its `synchronize` waits for them."""
        event: torch.cuda.Event = self._stream.record_event()
        return event


class Pending:
    """A call of the pipeline; answers what a native Work does."""

    source = None

    def __init__(self, name: str, future: Future[None], communicator: Communicator) -> None:
        self._name = name
        self._own_future = future
        self._communicator = communicator

    @property
    def _future(self) -> Future[None]:
        """In a forked child one that has failed: the thread that would end the call's own is its parent's."""
        try:
            self._communicator.check_process()
        except AbortedError as inherited:
            failed = Future[None]()
            failed.set_exception(inherited)
            return failed
        return self._own_future

    def wait(self, timeout: float | None = None) -> bool:
        future = self._future
        if wait([future], timeout).not_done:
            raise TimeoutError(f"{self._name} has not ended within {timeout:.3f} s; it goes on until its own deadline")
        future.result()
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        return self._future.exception() if self.is_completed() else None

    def on_complete(self, callback: Callable[[BaseException | None], object]) -> None:
        self._future.add_done_callback(lambda future: callback(future.exception()))


@dataclass
class _Chunk:
    """Columns of all blocks, in a slot."""

    width: int
    input: int
    output: int
    fetches: list[tuple[torch.Tensor, torch.Tensor]]
    deliveries: list[tuple[torch.Tensor, torch.Tensor]]
    """What is copied before the native call, and after: (to, from)."""


class Pipeline:
    """The pipelined calls of a group.

    They run one after the other in the order of their start, asynchronous ones each in a thread: the order of their
    native calls must be the same on all ranks, whoever waits for what first, and they must go on while nobody waits.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._sides: dict[torch.device, Side] = {}
        self._slots: list[torch.Tensor] = []
        """Two pieces of memory that chunks go through in turn, kept for later calls."""
        self._last: Future[None] | None = None
        _pipelines.add(self)

    def takes(self, collective: str, elements: int, itemsize: int) -> bool:
        """Whether a call should go this way: because it is long, or not to wait for those that do.

        A call in one chunk makes the same native call as one that goes another way, so ranks need not agree on that.
        """
        self._communicator.check_process()
        waits = self._last is not None and not self._last.done()
        return elements > self._columns(collective, itemsize) or (waits and elements > 0)

    def drain(self) -> None:
        """Waits until all calls have ended, well or not: they do so by their deadlines."""
        self._communicator.check_process()
        if self._last is not None:
            self._last.exception()

    def give_up(self) -> None:
        """Ends calls that go on, on all ranks. A forked child has none."""
        with suppress(AbortedError):
            self._communicator.check_process()
            if self._last is not None and not self._last.done():
                self._communicator.abort("the process ended while a call was in flight")

    def start(
        self,
        device: torch.device,
        collective: str,
        sources: Tensors,
        targets: Tensors,
        elements: int,
        timeout: float,
        asynchronous: bool,
        **how: Any,
    ) -> Pending:
        """`elements` are the whole vector's or a block's, as natively; blocks are in one tensor or in one each, none
        where the rank gives or gets nothing. What is not asynchronous has ended."""
        deadline = time.monotonic() + timeout
        if device not in self._sides:
            self._sides[device] = Side(device)
        side, before, future = self._sides[device], self._last, Future[None]()
        given = [_dense(tensor) for tensor in sources]
        taken = given if targets is sources else [_dense(tensor) for tensor in targets]
        apart = [pair for pair in zip(targets, taken, strict=True) if pair[0] is not pair[1]]
        computed = side.computed()

        def run() -> None:
            try:
                if before is not None:
                    before.exception()
                side.enter()
                # Copies are nothing to differentiate, and a thread does not inherit the caller's mode.
                with torch.inference_mode():
                    side.follow(computed)
                    chunks = self._chunks(side, collective, _rows(given, elements), _rows(taken, elements))
                    self._run(side, collective, chunks, DTYPES[(given or taken)[0].dtype], apart, deadline, how)
            except BaseException as error:
                if not isinstance(error, RingroadError):
                    # The others make native calls that this rank will not make.
                    self._communicator.abort(f"{collective}: {type(error).__name__}: {error}")
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                future.set_result(None)

        if asynchronous:
            threading.Thread(target=run, name=f"ringroad {collective}").start()
        self._last = future
        if not asynchronous:
            run()
        return Pending(f"{collective} of {elements} elements", future, self._communicator)

    def _run(
        self,
        side: Side,
        collective: str,
        chunks: list[_Chunk],
        dtype: str,
        apart: list[tuple[torch.Tensor, torch.Tensor]],
        deadline: float,
        how: dict[str, Any],
    ) -> None:
        def fetch(chunk: _Chunk) -> torch.cuda.Event:
            for inside, outside in chunk.fetches:
                side.copy(inside, outside)
            # Also where nothing is fetched: what was in the slot before may be on its way out.
            return side.copied()

        try:
            ready = [fetch(chunk) for chunk in chunks[:2]]
            for chunk, next_but_one in zip_longest(chunks, chunks[2:]):
                ready.pop(0).synchronize()
                self._communicator._run_raw(
                    collective,
                    chunk.input,
                    chunk.output,
                    chunk.width,
                    dtype,
                    self._slots,
                    timeout=max(deadline - time.monotonic(), 1e-3),
                    **how,
                )
                for outside, inside in chunk.deliveries:
                    side.copy(outside, inside)
                if next_but_one is not None:
                    ready.append(fetch(next_but_one))
            for tensor, block in apart:
                side.copy(tensor, block)
        finally:
            # So whatever stream or thread comes next sees the result, and no copy goes on after an error.
            side.copied().synchronize()

    def _chunks(self, side: Side, collective: str, sources: Tensors, targets: Tensors) -> list[_Chunk]:
        """Every chunk is in place in its slot: a rank's own block, where that is all it gives or gets, lies where it is
        among all blocks."""
        first = (sources or targets)[0]
        elements, itemsize, blocks = first.numel(), first.element_size(), self._blocks(collective)
        widths = cut(elements, self._columns(collective, itemsize))
        size = blocks * max(widths) * itemsize
        if not self._slots or self._slots[0].numel() < size:
            self._slots = [side.memory(size), side.memory(size)]
        chunks: list[_Chunk] = []
        begin = 0
        for number, width in enumerate(widths):
            grid = self._slots[number % 2][: blocks * width * itemsize].view(first.dtype).view(blocks, width)
            own = grid[self._communicator.rank :][:1]
            end = min(begin + width, elements)
            inputs, outputs = (own if len(rows) == 1 < blocks else grid for rows in (sources, targets))
            fetches = [(inside[: end - begin], row[begin:end]) for inside, row in zip(inputs, sources, strict=False)]
            deliveries = [
                (row[begin:end], inside[: end - begin]) for inside, row in zip(outputs, targets, strict=False)
            ]
            chunks.append(_Chunk(width, address_of(inputs), address_of(outputs), fetches, deliveries))
            begin = end
        return chunks

    def _blocks(self, collective: str) -> int:
        return 1 if collective in ("allreduce", "broadcast", "reduce") else self._communicator.size

    def _columns(self, collective: str, itemsize: int) -> int:
        """How many elements of each block make a chunk: on all ranks the same."""
        return CHUNK // (self._blocks(collective) * itemsize)


_pipelines: weakref.WeakSet[Pipeline] = weakref.WeakSet()


def _give_up() -> None:
    for pipeline in list(_pipelines):
        pipeline.give_up()


# Python waits for threads before it runs what `atexit` knows of; concurrent.futures stops its own in this way.
threading._register_atexit(_give_up)  # type: ignore[attr-defined]


def cut(elements: int, most: int) -> list[int]:
    """The lengths of the native calls for so many elements: one call up to `most`; else about as many in each.

    Together they are one element longer, and no list is the beginning of another's. So ranks that have different
    numbers of elements make different native calls before the end of this call, and hear of it.
    """
    further = elements // (most + 1)
    if not further:
        return [elements]
    return [most + further, *[most] * (further - 1), elements - further * (most + 1) + 1]


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.resolve_conj().resolve_neg().contiguous()


def _rows(tensors: Tensors, elements: int) -> Tensors:
    return [row for tensor in tensors for row in tensor.view(-1, elements)]
