"""Messages between two ranks, and all-to-alls of uneven pieces, which consist of such messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.profiler import record_function

from ringroad._native import Work as NativeWork
from ringroad.torch.calls import NAME, Calls, profiling
from ringroad.torch.tensors import (
    Finish,
    Tensors,
    address_of,
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
from ringroad.torch.work import Work

_UNEVEN_ALLTOALL_TAG = (1 << 28) - 1
"""Tag of the messages of an all-to-all of uneven pieces: the highest possible tag. Users' tags are below it."""


class Exchange(Calls):
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

        Messages alone are not compared with other calls, such as an all-to-all without sizes. So all ranks also tell
        each other the sizes, in a collective call. Its operation, which has no other use, tells it from callers' own.
        """
        if not self.communicator.has_switches:
            return self._relayed(targets, sources, opts, outputs, finish)
        own, given = targets[self._rank].view(-1), sources[self._rank].view(-1)
        sized("all-to-all", "output from this rank to itself", own, given.numel())
        copy(own, given)
        self._calls += 1
        timeout = self._seconds(opts)
        told = np.array([source.numel() for source in sources], dtype=np.int64)
        heard = np.empty_like(told)
        sizes = self._run_raw(
            "alltoall", told.ctypes.data, heard.ctypes.data, 1, "int64", (told, heard),
            op="max", timeout=timeout, async_op=True,
        )  # fmt: skip
        assert sizes is not None
        pending = [sizes]
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

    def _relayed(
        self, targets: Tensors, sources: Tensors, opts: Any, outputs: Tensors, finish: Finish | None
    ) -> Work | None:
        """The same by the best algorithm for a network without switches; for it every rank must know all counts."""
        self._calls += 1
        self._pipeline.drain()  # its native calls come first, on all ranks
        timeout = self._seconds(opts)
        # Empty tensors have no address.
        block = input_blocks([source for source in sources if source.numel()] or sources[:1])
        landing, deliver = output_blocks([target for target in targets if target.numel()] or targets[:1])
        native = self.communicator._run_raw_alltoall_v(
            address_of(block),
            address_of(landing),
            self._agreed_counts(targets, sources, timeout),
            same_dtype(*sources, *targets),
            (block, landing, sources, targets),
            timeout=timeout,
            async_op=self._is_asynchronous(opts),
        )

        finish = in_order([deliver, finish])
        if native is not None:
            return self._in_flight(Work((native,), outputs, finish))
        if finish is not None:
            finish()
        return None

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


def _user_tag(tag: int) -> int:
    if tag >= _UNEVEN_ALLTOALL_TAG:
        raise ValueError(f"ringroad: tag {tag} is not below {_UNEVEN_ALLTOALL_TAG}")
    return tag


def only(items: Sequence[Any]) -> Any:
    """The only item. Raises ValueError if there is not exactly one."""
    if len(items) != 1:
        raise ValueError(f"ringroad: takes exactly one entry per rank, not {len(items)}")
    return items[0]
