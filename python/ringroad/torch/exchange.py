"""Messages between two ranks, and all-to-alls of uneven pieces, which consist of such messages."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.profiler import record_function

from ringroad._native import MismatchError
from ringroad._native import Work as NativeWork
from ringroad.torch.calls import NAME, Calls, profiling
from ringroad.torch.tensors import (
    Finish,
    Tensors,
    address_of,
    apart,
    block_of,
    copy,
    dtype_of,
    in_order,
    input_blocks,
    output_block,
    output_blocks,
    same_dtype,
    sized,
)
from ringroad.torch.work import PendingCall, Work

_UNEVEN_ALLTOALL_TAG = (1 << 28) - 1
"""Tag of the messages of an all-to-all of uneven pieces: the highest possible tag. Users' tags are below it."""


class _SizesAgreed:
    """The call that compares the sizes, as a native Work that fails on all ranks if any two ranks differ."""

    source = None

    def __init__(self, native: NativeWork, difference: NDArray[np.uint64]) -> None:
        self._native = native
        self._difference = difference

    def wait(self, timeout: float | None = None) -> bool:
        self._native.wait(timeout)
        if (error := self.exception()) is not None:
            raise error
        return True

    def is_completed(self) -> bool:
        return self._native.is_completed()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        if not self._native.is_success() or not self._difference.any():
            return self._native.exception()
        return MismatchError(
            "ringroad: all-to-all: a rank sends another one more or fewer elements than that one expects; the error of "
            "the receiving rank names both. input_split_sizes[r] must equal output_split_sizes[this rank] on rank r"
        )

    def on_complete(self, callback: Callable[[BaseException | None], object]) -> None:
        self._native.on_complete(lambda _: callback(self.exception()))


class PointToPoint(Calls):
    """Messages between two ranks."""

    def _post(
        self, direction: Any, block: torch.Tensor, peer: int | None, tag: int, timeout: float | None
    ) -> NativeWork:
        with record_function(f"{NAME}:{direction}") if profiling() else nullcontext():
            native = self.communicator._run_raw_tagged(
                direction, address_of(block), block.numel(), dtype_of(block), block, peer, tag,
                timeout=timeout, async_op=True,
            )  # fmt: skip
        assert native is not None
        return native

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> Work:
        tensor = only(tensors)
        dtype_of(tensor)
        native = self._post("send", block_of(tensor), peer, _user_tag(tag), self._timeout)
        return self._in_flight(Work((native,), tensors))

    def recv(self, tensors: Tensors, peer: int | None, tag: int = 0) -> Work:
        tensor = only(tensors)
        dtype_of(tensor)
        block, finish = output_block(tensor)
        native = self._post("recv", block, peer, _user_tag(tag), self._timeout)
        return self._in_flight(Work((native,), tensors, finish))

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        return self.recv(tensors, None, tag)

    def _exchange(
        self, targets: Tensors, sources: Tensors, opts: Any, outputs: Tensors, finish: Finish | None
    ) -> Work | None:
        """Sends sources[r] to rank r and receives targets[r] from it, in blocks of any sizes.

        Messages alone are not compared with other calls, such as an all-to-all without sizes, and a rank whose messages
        fit need not learn that others' do not. So a collective call compares the sizes of all ranks.
        """
        sources = apart(sources, targets)
        for block in targets:
            address_of(block)  # raises before anything is sent
        if not self.communicator._has_switches:
            return self._relayed(targets, sources, opts, outputs, finish)
        own, given = targets[self._rank].view(-1), sources[self._rank].view(-1)
        sized("all-to-all", "output from this rank to itself", own, given.numel())
        copy(own, given)
        self._calls += 1
        timeout = self._seconds(opts)
        difference = self._difference(targets, sources)
        address = difference.ctypes.data
        native = self._run_raw(
            "allreduce", address, address, 1, "uint64", difference, op="bxor", timeout=timeout, async_op=True
        )
        assert native is not None
        pending: list[PendingCall] = [_SizesAgreed(native, difference)]
        for direction, blocks in (("recv", targets), ("send", sources)):
            for distance in range(1, self._size):
                peer = (self._rank + (distance if direction == "send" else -distance)) % self._size
                # Also empty ones, since the peer may expect more.
                pending.append(self._post(direction, blocks[peer], peer, _UNEVEN_ALLTOALL_TAG, timeout))
        work = self._in_flight(Work(pending, outputs, finish))
        if self._is_asynchronous(opts):
            return work
        work.wait()
        return None

    def _difference(self, targets: Tensors, sources: Tensors) -> NDArray[np.uint64]:
        """One number. The exclusive or of all ranks' numbers is 0 if every rank expects what the others send it, and
        else almost certainly not: each count enters it twice, times a pseudorandom number of its sender and receiver.
        """
        peers, own = np.arange(self._size, dtype=np.uint64), np.uint64(self._rank)
        sent = _scrambled(own << np.uint64(32) | peers) * np.array([s.numel() for s in sources], np.uint64)
        expected = _scrambled(peers << np.uint64(32) | own) * np.array([t.numel() for t in targets], np.uint64)
        return np.bitwise_xor.reduce(np.stack([sent, expected]), axis=None, keepdims=True).reshape(1)

    def _relayed(
        self, targets: Tensors, sources: Tensors, opts: Any, outputs: Tensors, finish: Finish | None
    ) -> Work | None:
        """The same by the best algorithm for a network without switches; for it every rank must know all counts."""
        self._calls += 1
        timeout = self._seconds(opts)
        # Empty tensors have no address.
        block = input_blocks([source for source in sources if source.numel()] or sources[:1])
        landing, deliver = output_blocks([target for target in targets if target.numel()] or targets[:1])
        native = self.communicator._run_raw(
            "alltoall",
            address_of(block),
            address_of(landing),
            0,
            same_dtype(*sources, *targets),
            (block, landing, sources, targets),
            counts=self._agreed_counts(targets, sources, timeout),
            timeout=timeout,
            async_op=self._is_asynchronous(opts),
        )
        return self._started(native, outputs, in_order([deliver, finish]))

    def _agreed_counts(self, targets: Tensors, sources: Tensors, timeout: float | None) -> NDArray[np.int64]:
        """The number of elements that each rank sends to each other one, by source, then by target. Collective."""
        own = np.array([[tensor.numel() for tensor in tensors] for tensors in (sources, targets)], dtype=np.int64)
        told: NDArray[np.int64] = self.communicator.allgather(own, timeout=timeout)
        everybody = told.reshape(self._size, 2, self._size)
        sent, expected = everybody[:, 0], everybody[:, 1].T
        for source, target in np.argwhere(sent != expected):
            raise ValueError(
                f"ringroad: all-to-all: rank {source} has {sent[source, target]} elements for rank {target}, "
                f"which expects {expected[source, target]}"
            )
        return sent


def _scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Odd numbers that look random (the finalizer of SplitMix64)."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return mixed ^ mixed >> np.uint64(31) | np.uint64(1)


def _user_tag(tag: int) -> int:
    if tag >= _UNEVEN_ALLTOALL_TAG:
        raise ValueError(f"ringroad: tag {tag} is not below {_UNEVEN_ALLTOALL_TAG}")
    return tag


def only(items: Sequence[Any]) -> Any:
    """The only item. Raises ValueError if there is not exactly one."""
    if len(items) != 1:
        raise ValueError(f"ringroad: takes exactly one entry per rank, not {len(items)}")
    return items[0]
