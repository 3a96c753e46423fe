"""Collectives on large tensors of a device, through host memory, in chunks: while the ranks exchange one chunk, the
previous one is copied to the device and the next one from it.
"""

from __future__ import annotations

import threading
import time
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch

from ringroad._native import AbortedError, Communicator, RingroadError, TimeoutError
from ringroad.torch.tensors import DTYPES, Tensors, address_of, copying, dense, require_distinct

CHUNK = 4 << 20
"""Bytes of host memory for one chunk on a rank. Shorter calls are not cut."""


class Side:
    """A CUDA stream beside the caller's, for asynchronous copies."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def enter(self) -> None:
        """Makes this device current in the calling thread: a new thread starts with the first device."""
        torch.cuda.set_device(self._stream.device)

    def memory(self, size: int) -> torch.Tensor:
        """`size` bytes of pinned host memory: only copies from and to pinned memory are asynchronous."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def computed(self) -> torch.cuda.Event:
        """An event after all work that the caller's stream has so far."""
        event: torch.cuda.Event = torch.cuda.current_stream(self._stream.device).record_event()
        return event

    def follow(self, event: torch.cuda.Event) -> None:
        """Delays all further copies until `event`."""
        self._stream.wait_event(event)

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copies after all earlier copies of this stream."""
        with torch.cuda.stream(self._stream):
            target.data.copy_(source, non_blocking=True)

    def copied(self) -> torch.cuda.Event:
        """An event after all copies so far; its `synchronize` waits for them."""
        event: torch.cuda.Event = self._stream.record_event()
        return event


class Pending:
    """A call of the pipeline, with the interface of a native Work."""

    source = None

    def __init__(self, name: str, future: Future[None], communicator: Communicator) -> None:
        self._name = name
        self._own_future = future
        self._communicator = communicator

    @property
    def _future(self) -> Future[None]:
        """The call's future. In a forked child it has failed, because the thread that would complete it is the
        parent's."""
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
    """A range of columns of all blocks, in a slot."""

    width: int
    input: int
    output: int
    fetches: list[tuple[torch.Tensor, torch.Tensor]]
    deliveries: list[tuple[torch.Tensor, torch.Tensor]]
    """Copies before the native call (`fetches`) and after it (`deliveries`), as (to, from)."""


class Pipeline:
    """The pipelined calls of a group.

    They run one after the other in the order of their start, because the order of their native calls must be the same
    on all ranks, whichever call a rank waits for first. An asynchronous call has a thread, because it must go on while
    nobody waits.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._sides: dict[torch.device, Side] = {}
        self._slots: list[torch.Tensor] = []
        """Two buffers that chunks use in turn; kept for later calls."""
        self._last: Future[None] | None = None
        _pipelines.add(self)

    def takes(self, collective: str, elements: int, itemsize: int) -> bool:
        """Whether a call should use the pipeline: because it is long, or so that its start need not wait for pipelined
        calls.

        A call in one chunk makes the same native call as outside the pipeline, so ranks need not agree on this.
        """
        self._communicator.check_process()
        waits = self._last is not None and not self._last.done()
        return elements > self._columns(collective, itemsize) or (waits and elements > 0)

    def drain(self) -> None:
        """Waits until all calls have ended, with or without an error, at the latest at their deadlines."""
        self._communicator.check_process()
        if self._last is not None:
            self._last.exception()

    def give_up(self) -> None:
        """Aborts calls in flight, on all ranks. Does nothing in a forked child."""
        if self._last is None or self._last.done():
            return
        with suppress(AbortedError):
            self._communicator.check_process()
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
        """Starts a call. `elements` are those of the whole vector or of a block, as in native calls. Blocks are in one
        tensor or in one tensor each; a rank that sends or receives nothing passes none. A synchronous call has ended
        when this returns."""
        deadline = time.monotonic() + timeout
        if device not in self._sides:
            self._sides[device] = Side(device)
        side, before, future = self._sides[device], self._last, Future[None]()
        given = [dense(tensor) for tensor in sources]
        taken = given if targets is sources else [dense(tensor) for tensor in targets]
        apart = [pair for pair in zip(targets, taken, strict=True) if pair[0] is not pair[1]]
        for target, _ in apart:
            require_distinct(target)
        computed = side.computed()

        def run() -> None:
            try:
                if before is not None:
                    before.exception()
                side.enter()
                with copying():
                    side.follow(computed)
                    chunks = self._chunks(side, collective, _rows(given, elements), _rows(taken, elements))
                    self._run(side, collective, chunks, DTYPES[(given or taken)[0].dtype], apart, deadline, how)
            except BaseException as error:
                if not isinstance(error, RingroadError):
                    # The other ranks make native calls that this rank will not make.
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
            # Also needed without fetches: the slot's previous chunk may still be copied to the device.
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
            # After this any stream or thread sees the result, and no copy runs after an error.
            side.copied().synchronize()

    def _chunks(self, side: Side, collective: str, sources: Tensors, targets: Tensors) -> list[_Chunk]:
        """Cuts a call into chunks. Every chunk's native call is in place in its slot: if a rank sends or receives only
        its own block, this lies at its position among all blocks."""
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
        """The number of elements of each block in a chunk; the same on all ranks."""
        return CHUNK // (self._blocks(collective) * itemsize)


_pipelines: weakref.WeakSet[Pipeline] = weakref.WeakSet()


def _give_up() -> None:
    for pipeline in list(_pipelines):
        try:
            pipeline.give_up()
        except Exception:  # must not keep Python from waiting for the other threads
            traceback.print_exc()


# Python waits for threads before it runs `atexit` functions; concurrent.futures stops its threads in this way, too.
threading._register_atexit(_give_up)  # type: ignore[attr-defined]


def cut(elements: int, most: int) -> list[int]:
    """The lengths of the native calls for `elements`: one call up to `most` elements, else several of about `most`
    each.

    If there are several, they are one element longer together, and no list of lengths is the beginning of another list.
    So ranks that have different numbers of elements make different native calls before the end of this call, and get an
    error.
    """
    further = elements // (most + 1)
    if not further:
        return [elements]
    return [most + further, *[most] * (further - 1), elements - further * (most + 1) + 1]


def _rows(tensors: Tensors, elements: int) -> Tensors:
    return [row for tensor in tensors for row in tensor.view(-1, elements)]
