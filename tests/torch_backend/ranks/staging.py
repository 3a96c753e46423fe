"""Tensors that go by way of the host, like CUDA tensors. There is no accelerator here: CPU tensors stand for device
tensors.
"""

import contextlib
import importlib.util
import io
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import helpers
import ringroad.torch.calls
import torch
import torch.distributed as dist
from ringroad.torch import staging, tensors
from ringroad.torch.backend import RingroadBackend

from ranks import world
from ranks.values import MOVING, REDUCING, UNEVEN, Case, Running

CHUNK = 1920
"""The bytes of a chunk, divisible into blocks of 3 ranks for all types."""


class LazySide:
    """A stream that copies as late as possible, so that code that does not wait finds other data."""

    def __init__(self, device: torch.device) -> None:
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.done = 0
        self.computed_by: list[int] = []
        self.followed = 0

    def enter(self) -> None:
        pass

    def memory(self, size: int) -> torch.Tensor:
        return torch.full((size,), 0xA5, dtype=torch.uint8)

    def computed(self) -> int:
        self.computed_by.append(len(self.computed_by) + 1)
        return self.computed_by[-1]

    def follow(self, event: int) -> None:
        assert event == self.followed + 1, "calls run in the order of their start"
        self.followed = event

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        assert self.followed, "copied before it was computed"
        self.copies.append((target, source))

    def copied(self) -> Any:
        count = len(self.copies)

        def synchronize() -> None:
            for target, source in self.copies[self.done : count]:
                target.copy_(source)
            self.done = max(self.done, count)

        return mock.Mock(synchronize=synchronize)


@contextlib.contextmanager
def elsewhere(
    is_here: Callable[[torch.Tensor], bool] = lambda tensor: False, chunk: int = CHUNK
) -> Iterator[list[Any]]:
    """Tensors count as being on a device, unless `is_here`. Yields the lists of chunk lengths."""
    cuts: list[list[int]] = []
    cut = staging.cut

    def recorded(elements: int, most: int) -> list[int]:
        cuts.append(cut(elements, most))
        return cuts[-1]

    plain = RingroadBackend._plain

    def plain_if_here(self: Any, collective: str, source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if is_here(source) and is_here(target):
            return plain(self, collective, source, target, *args, **kwargs)
        return NotImplemented

    with (
        mock.patch.object(RingroadBackend, "_plain", plain_if_here),
        mock.patch.object(tensors, "is_here", is_here),
        mock.patch.object(ringroad.torch.calls, "is_here", is_here),
        mock.patch.object(staging, "Side", LazySide),
        mock.patch.object(staging, "CHUNK", chunk),
        mock.patch.object(staging, "cut", recorded),
    ):
        yield cuts


def check_whole() -> None:
    """Tensors too short to be cut, and tensors with uneven pieces."""
    with elsewhere(chunk=1 << 20) as cuts, world() as (_, ranks):
        for index, kind in enumerate(REDUCING + MOVING):
            for uneven, async_op in itertools.product((False, True) if kind in UNEVEN else (False,), (False, True)):
                case = Case(kind, 1000 + index, root=ranks - 1, async_op=async_op, gaps=async_op, uneven=uneven)
                Running(case).finish()
        assert not cuts


def check_chunks() -> None:
    """All collectives, in equal and unequal chunks, with many in flight. Each rank waits in an order of its own."""
    with elsewhere() as cuts, world() as (rank, ranks):
        shuffle = random.Random(rank).shuffle
        turn = itertools.count()
        for dtype in ("float32", "int8", "complex128"):
            running = []
            for kind in REDUCING + MOVING:
                whole = kind.startswith(("allreduce", "broadcast", "reduce")) and "scatter" not in kind
                most = CHUNK // helpers.dtype_of(dtype).itemsize // (1 if whole else ranks)
                for count in (1, most, most + 1, 2 * most + 1, 2 * most + 2, 2 * most + 3, 7 * most + 5):
                    for async_op in (True, False):
                        index = next(turn)
                        case = Case(
                            kind, count, dtype, "sum", index % ranks, async_op, index % 3 == 0, False, index % 5
                        )
                        one = Running(case)
                        running.append(one) if async_op else one.finish()
            shuffle(running)
            for one in running:
                one.finish()
            for kind in UNEVEN:
                Running(Case(kind, 2000, dtype, uneven=True)).finish()
        assert {len(widths) for widths in cuts} >= {1, 2, 3, 8}


def check_order() -> None:
    """Ranks wait in any order, at any time. Native calls are made in one order, and progress while no rank waits. Short
    tensors are on the host here.
    """
    with elsewhere(lambda tensor: tensor.numel() < 100), world() as (rank, ranks):
        total = sum(range(ranks))
        for turn in range(12):
            works, outputs = [], []
            for index, count in enumerate((3000, 5, 1000, 1, 2000)):
                outputs.append(torch.full((count + turn,), float(rank)))
                works.append(dist.all_reduce(outputs[-1], async_op=True))
                if (rank + turn) % 5 == index:
                    works[-1].wait()
                while (rank + turn) % 7 == index and not works[0].is_completed():
                    time.sleep(0)
            dist.all_reduce(after := torch.full((700,), float(rank)))
            outputs.append(after)
            (first,) = works[0].get_future().wait()
            assert first is outputs[0]
            for work in works[:: rank % 2 * 2 - 1]:
                assert work.wait() and work.is_success() and work.exception() is None
            assert all((output == total).all() for output in outputs)
            work = dist.all_reduce(output := torch.full((5000,), float(rank)), async_op=True)
            if rank == 1:
                work.wait()
            if rank < 2:
                dist.send(torch.ones(1), 0) if rank else dist.recv(torch.ones(1), 1)
            work.wait()
            assert (output == total).all()


def check_modes() -> None:
    """Modes of the caller's thread: inference tensors, and parameters."""
    with elsewhere(), world() as (rank, ranks):
        with torch.inference_mode():
            inferred = torch.full((2000,), float(rank))
            works = [dist.all_reduce(inferred, async_op=True)]
        with torch.no_grad():
            works.append(
                dist.all_reduce(parameter := torch.nn.Parameter(torch.full((2000,), float(rank))), async_op=True)
            )
        for work in works:
            work.wait()
        assert (inferred == sum(range(ranks))).all() and (parameter == sum(range(ranks))).all()
        parameter.sum().backward()
        negated = torch.complex(torch.ones(2000), torch.full((2000,), float(rank))).conj().imag
        assert negated.is_neg()
        dist.broadcast(negated, 1)
        assert (negated == -1).all()


def check_graphs() -> None:
    """Calls are refused while a CUDA graph is recorded."""
    with elsewhere(), world() as (rank, ranks):
        with mock.patch.object(tensors, "is_recorded", lambda tensor: True):
            for call in (
                lambda: dist.all_reduce(torch.ones(2000)),
                lambda: dist.all_gather([torch.ones(3) for _ in range(ranks)], torch.ones(3)),
                lambda: dist.all_to_all_single(torch.ones(ranks), torch.ones(ranks), [1] * ranks, [1] * ranks),
                lambda: dist.send(torch.ones(3), (rank + 1) % ranks),
            ):
                kind, text = helpers.failure_of(call)
                assert kind == "RuntimeError" and "CUDA graph" in text, (kind, text)
        dist.all_reduce(tensor := torch.ones(2000))
        assert (tensor == ranks).all()


def check_on_a_gpu() -> None:
    """The checks of tools/check_gpu.py, without a GPU. (Training has tests of its own, and takes seconds.)"""
    path = Path(__file__).parents[3] / "tools" / "check_gpu.py"
    spec = importlib.util.spec_from_file_location("check_gpu", path)
    check_gpu = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_gpu)
    check_gpu.CHUNKED = 3001
    for check in (check_gpu.check_collectives, check_gpu.check_speed):
        print(check("cpu"))
    with mock.patch.object(torch.cuda, "is_available", lambda: False):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert check_gpu.main([]) == 0
        assert "skipped: there is no GPU" in said.getvalue()


def different() -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """Pairs: the call of all ranks except one, and the call of that one."""
    most = CHUNK // 4

    def reduce(count: int, *times: int, dtype: torch.dtype = torch.float32, **options: Any) -> Callable[[Any], Any]:
        def call(group: Any) -> None:
            for each in (count, *times):
                work = dist.all_reduce(torch.ones(each, dtype=dtype), group=group, **options)
                if work is not None:
                    work.wait()

        return call

    def gather(group: Any) -> None:
        out = torch.ones(dist.get_world_size() * 3 * most)
        dist.all_gather_into_tensor(out, torch.ones(3 * most), group=group)

    return {
        "the last chunk": (reduce(5 * most), reduce(5 * most + 1)),
        "a chunk more": (reduce(2 * most), reduce(3 * most)),
        "as one chunk": (reduce(most, most + 1, 1), reduce(2 * most + 1)),
        "dtype": (reduce(5 * most), reduce(5 * most, dtype=torch.int32)),
        "collective": (reduce(5 * most), gather),
        "an asynchronous call": (reduce(5 * most, async_op=True), reduce(6 * most, async_op=True)),
        "after one that was equal": (reduce(5 * most, 3 * most), reduce(5 * most, 4 * most)),
    }


def check_different_calls() -> None:
    """One rank calls something else: all ranks are told what every rank called."""
    with elsewhere(), world(timeout=timedelta(seconds=20)) as (rank, ranks):
        for name, (all_call, one_calls) in different().items():
            group = dist.new_group()
            start = time.monotonic()
            kind, text = helpers.failure_of(lambda g=group, call=one_calls if rank == 1 else all_call: call(g))
            assert kind == "MismatchError", (name, kind, text)
            assert time.monotonic() - start < 15, name
            assert all(f"rank {peer} (" in text for peer in range(ranks)), (name, text)
            dist.destroy_process_group(group)
        with elsewhere(lambda tensor: rank == 1):
            group = dist.new_group()
            kind, text = helpers.failure_of(lambda: dist.all_reduce(torch.ones(1000), group=group))
            assert kind == "MismatchError", (kind, text)
            dist.destroy_process_group(group)
        dist.all_reduce(tensor := torch.ones(1000))
        assert (tensor == ranks).all()


def failing(group: Any, calls: int, fail: Callable[[], Any]) -> None:
    """Lets this rank's pipeline fail after `calls` native calls."""
    pipeline = group.backend._pipeline
    communicator = pipeline._communicator
    before = itertools.count()

    def run_raw(*args: Any, **kwargs: Any) -> Any:
        if next(before) == calls:
            fail()
        return communicator._run_raw(*args, **kwargs)

    pipeline._communicator = mock.Mock(wraps=communicator, rank=communicator.rank, size=communicator.size)
    pipeline._communicator._run_raw = run_raw
    pipeline._communicator.timeout = communicator.timeout


def check_abort() -> None:
    """A rank aborts between two chunks: all ranks learn of it, nothing stays in flight, and a new group works."""
    with elsewhere():
        for async_op in (False, True):
            with world(timeout=timedelta(seconds=20)) as (rank, _):
                group = dist.group.WORLD
                if rank == 1:
                    failing(group, 3, group.abort)
                works = []

                def call(works=works, async_op=async_op) -> None:
                    for _ in range(3):
                        works.append(dist.all_reduce(torch.ones(5000), async_op=async_op))
                    for work in works:
                        work.wait()

                kind, text = helpers.failure_of(call)
                assert kind == "AbortedError" and "rank 1 " in text, (kind, text)
                for work in works:
                    if work is not None:
                        assert helpers.failure_of(work.wait)[0] == "AbortedError"
                        assert work.is_completed() and not work.is_success() and work.exception() is not None
                        kind, text = helpers.failure_of(work.get_future().wait)
                        assert "AbortedError" in kind + text
                sides = group.backend._pipeline._sides.values()
                assert sides and all(side.done == len(side.copies) for side in sides)
            with world() as (_, ranks):
                dist.all_reduce(tensor := torch.ones(5000))
                assert (tensor == ranks).all()


def check_local_error() -> None:
    """A copy fails on one rank. The others do not wait for the native calls that it will not make."""

    def fail() -> None:
        raise MemoryError("nothing to pin")

    for async_op in (False, True):
        with elsewhere(), world(timeout=timedelta(seconds=60)) as (rank, _):
            if rank == 1:
                failing(dist.group.WORLD, 2, fail)

            def call(async_op=async_op) -> None:
                work = dist.all_reduce(torch.ones(9000), async_op=async_op)
                if work is not None:
                    work.wait()

            start = time.monotonic()
            kind, text = helpers.failure_of(call)
            assert time.monotonic() - start < 30, "waited for the deadline"
            assert kind == ("MemoryError" if rank == 1 else "AbortedError") and "nothing to pin" in text, (kind, text)


def check_death() -> str:
    """Rank 1 dies between two chunks."""
    with elsewhere(), world(timeout=timedelta(seconds=30)) as (rank, _):
        if rank == 1:
            failing(dist.group.WORLD, 3, lambda: os._exit(0))
        work = dist.all_reduce(torch.ones(5000), async_op=True)
        start = time.monotonic()
        kind, text = helpers.failure_of(work.wait)
        assert time.monotonic() - start < 20
    return f"{kind}: {text}"


def check_deadline() -> None:
    """The timeout of a call covers all its chunks."""
    with elsewhere(), world(timeout=timedelta(seconds=2)) as (rank, ranks):
        late = rank == ranks - 1
        if late:
            # Each chunk takes less than the timeout, but all together take longer.
            failing(dist.group.WORLD, 0, lambda: None)
            pipeline = dist.group.WORLD.backend._pipeline
            run_raw = pipeline._communicator._run_raw
            pipeline._communicator._run_raw = lambda *args, **kwargs: (time.sleep(0.5), run_raw(*args, **kwargs))
        start = time.monotonic()
        work = dist.all_reduce(torch.ones(20_000), async_op=True)
        if not late:
            kind, text = helpers.failure_of(lambda: work.wait(timedelta(seconds=0.5)))
            assert kind == "TimeoutError" and "goes on" in text, (kind, text)
        kind, text = helpers.failure_of(work.wait)
        assert kind in ("TimeoutError", "AbortedError"), (kind, text)
        assert 1 < time.monotonic() - start < 10
