"""The Work that torch's callers get."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist

from ringroad.torch.tensors import Finish


class PendingCall(Protocol):
    """A call that a Work waits for: a native Work, or what behaves like one."""

    @property
    def source(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def is_completed(self) -> bool: ...
    def is_success(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def on_complete(self, callback: Callable[[BaseException | None], object]) -> None: ...


class Work(dist.Work):
    """One torch call in flight: any number of native calls, and then `finish`, which copies their results.

    `wait` drives the calls in the waiting thread. A future costs a wake-up of a progress thread, so it is made only
    when somebody asks for it (DistributedDataParallel does).
    """

    def __init__(
        self,
        pending: Sequence[PendingCall],
        outputs: Sequence[torch.Tensor],
        finish: Finish | None = None,
    ) -> None:
        super().__init__()
        self._pending = pending
        self._outputs = outputs
        self._finish = finish
        self._lock = threading.Lock()
        self._future: torch.futures.Future[list[torch.Tensor]] | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until the call is complete; raises its error. A timeout of zero (torch's default) means the call's
        own."""
        if timeout:
            deadline = time.monotonic() + timeout.total_seconds()
            for work in self._pending:
                work.wait(max(1e-3, deadline - time.monotonic()))  # zero is no timeout
        else:
            for work in self._pending:
                work.wait()
        if self._finish is not None:
            self._deliver()
        return True

    def _deliver(self) -> None:
        """Runs `finish` once. A second caller waits until it is done."""
        with self._lock:
            if self._finish is not None:
                self._finish()
                self._finish = None

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not all(work.is_completed() for work in self._pending):
            return False
        if self._finish is not None and self.exception() is None:
            self._deliver()
        return True

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._pending)

    def exception(self) -> BaseException | None:
        for work in self._pending:
            if (error := work.exception()) is not None:
                return error
        return None

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return list(self._outputs)

    def source_rank(self) -> int:
        """The group rank that sent a received tensor. Waits for the tensor."""
        self.wait()
        source = self._pending[0].source if len(self._pending) == 1 else None
        if source is None:
            raise RuntimeError("ringroad: only a recv has a source rank")
        return source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future of the output tensors, completed by a progress thread."""
        with self._lock:
            if self._future is not None:
                return self._future
            # The error must be raised inside `then`: DistributedDataParallel crashes if Python sets the exception of a
            # future, or if the value of the future is not the tensors.
            done: torch.futures.Future[None] = torch.futures.Future()
            self._future = done.then(self._future_value)
        remaining = len(self._pending)
        counting = threading.Lock()

        def on_complete(_: BaseException | None) -> None:
            nonlocal remaining
            with counting:
                remaining -= 1
                last = remaining <= 0
            if last:
                done.set_result(None)

        for work in self._pending:
            work.on_complete(on_complete)
        if not self._pending:
            on_complete(None)
        return self._future

    def _future_value(self, _: torch.futures.Future[None]) -> list[torch.Tensor]:
        if (error := self.exception()) is not None:
            raise error
        self._deliver()
        return list(self._outputs)
