"""Starts calls of the native communicator: directly, through staging memory, or several as one."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._C._distributed_c10d import Backend
from torch.profiler import record_function

from ringroad._native import Communicator
from ringroad._native import Work as NativeWork
from ringroad.torch.tensors import (
    DTYPES,
    ENCODED,
    TOTALS,
    Finish,
    Tensors,
    address_of,
    adjacent,
    copied,
    delivery,
    divide,
    in_order,
    input_blocks,
    output_blocks,
    require_reducible,
)
from ringroad.torch.versions import MODERN
from ringroad.torch.work import Work

NAME = "ringroad"
_UNSET = timedelta(milliseconds=-1)
"""torch's value for options whose timeout is not set."""
_TORCH_NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
}
"""torch's names of collectives that differ from ringroad's."""
_REDUCING = frozenset({"allreduce", "reduce", "reduce_scatter"})
_ENCODED = frozenset(DTYPES[dtype] for dtype in ENCODED)
profiling = torch._C._autograd._profiler_enabled
"""Bound once, because every call asks."""

if TYPE_CHECKING or MODERN:
    _Base = Backend
else:

    class _Base:
        """Stands in for torch's class, which cannot be extended; only `RingroadProcessGroup` calls this one."""

        def __init__(self, rank: int, size: int) -> None:
            pass


class Calls(_Base):
    """Starts native calls and returns torch Works for them."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._timeout: float | None = None
        self._calls = 0
        self._coalesced: list[Work] | None = None
        self._wire: str | None = None
        """The format in which sums and averages send floats; None: as they are."""

    def _use(self, communicator: Communicator, rank: int, size: int) -> None:
        """Uses this communicator for all further calls."""
        self.communicator = communicator
        self._run_raw: Callable[..., NativeWork | None] = communicator._run_raw
        self._run_tensors: Callable[..., Any] = communicator._run_tensors
        self._rank = rank
        self._size = size

    def _seconds(self, opts: Any) -> float | None:
        """The timeout of a call in seconds; None means the communicator's."""
        if opts is None:
            return self._timeout
        timeout = opts.timeout
        return self._timeout if timeout == _UNSET else timeout.total_seconds()

    def _start(
        self,
        collective: str,
        source: torch.Tensor | None,
        target: torch.Tensor | None,
        elements: int,
        dtype: str,
        opts: Any,
        outputs: Tensors,
        finish: Finish | None = None,
        *,
        op: str = "sum",
        factor: float | None = None,
        root: int = 0,
        wire: str | None = None,
    ) -> Work | None:
        """Runs a collective from block to block. Returns None if the call was synchronous; it is complete then.

        The source may be the first of several blocks that follow each other in memory. If it overlaps the target,
        other than in place, it is copied; other ranks need not know.
        """
        if source is not None and collective in _REDUCING:
            require_reducible(source)
        if op == "avg" and dtype in TOTALS:
            assert source is not None, "all ranks reduce"
            return self._average(collective, source, target, elements, dtype, opts, outputs, finish, root)
        address = address_of(target)
        run = self._recorded if profiling() else self._run_raw
        native: Any = run(
            collective,
            address if source is target else address_of(source),
            address,
            elements,
            dtype,
            (source, target),
            op=op,
            factor=factor,
            root=root,
            wire=wire or self._format(collective, op, dtype),
            timeout=self._seconds(opts),
            async_op=self._is_asynchronous(opts),
        )
        if native is NotImplemented:
            assert source is not None, "two blocks overlap"
            source = copied(source, self._sent(collective, elements))
            how: dict[str, Any] = {"op": op, "factor": factor, "root": root, "wire": wire}
            return self._start(collective, source, target, elements, dtype, opts, outputs, finish, **how)
        self._calls += 1
        return self._started(native, outputs, finish)

    def _average(
        self,
        collective: str,
        source: torch.Tensor,
        target: torch.Tensor | None,
        elements: int,
        dtype: str,
        opts: Any,
        outputs: Tensors,
        finish: Finish | None,
        root: int,
    ) -> Work | None:
        """Like `_start`, for an average of whole numbers: their sum, divided afterwards."""
        wide, total = TOTALS[dtype], None
        if target is not None:
            total = copied(target, elements, wide)
            finish = in_order([partial(divide, target, total, self._size), finish])
        numbers = copied(source, self._sent(collective, elements), wide)
        return self._start(collective, numbers, total, elements, DTYPES[wide], opts, outputs, finish, root=root)

    def _sent(self, collective: str, elements: int) -> int:
        """The number of elements of the input of a call."""
        return elements * self._size if collective in ("reduce_scatter", "scatter", "alltoall") else elements

    def _plain(
        self,
        collective: str,
        source: torch.Tensor,
        target: torch.Tensor,
        opts: Any,
        outputs: Tensors,
        op: str = "sum",
        factor: float | None = None,
        root: int = 0,
    ) -> Any:
        """Runs a collective on tensors that are blocks already, as most are. The native side checks them, because a
        check in Python takes longer than a short call. Returns NotImplemented for other tensors, for blocks that
        overlap, and while a profiler records."""
        if profiling() or source.is_neg() or target.is_neg():
            return NotImplemented
        if op == "avg" and not (source.is_floating_point() or source.is_complex()):
            return NotImplemented
        native: Any = self._run_tensors(
            collective,
            source,
            target,
            op=op,
            factor=factor,
            root=root,
            wire=None if self._wire is None else self._format(collective, op, DTYPES.get(source.dtype)),
            timeout=self._timeout if opts is None else self._seconds(opts),
            async_op=opts is None or opts.asyncOp or self._coalesced is not None,
        )
        if native is NotImplemented:
            return native
        self._calls += 1
        return None if native is None else self._in_flight(Work((native,), outputs, None))

    def _format(self, collective: str, op: str, dtype: str | None) -> str | None:
        """The format of a call that names none: the group's for sums and averages of floats, as gradients are."""
        encoded = collective in ("allreduce", "reduce_scatter") and op in ("sum", "avg") and dtype in _ENCODED
        return self._wire if encoded else None

    def _recorded(self, collective: str, *args: Any, **kwargs: Any) -> NativeWork | None:
        """`_run_raw` as an event of torch's profiler: the whole call, or only its start if it is asynchronous."""
        with record_function(f"{NAME}:{_TORCH_NAMES.get(collective, collective)}"):
            return self._run_raw(collective, *args, **kwargs)

    def _call(
        self,
        collective: str,
        source: torch.Tensor | Tensors | None,
        target: torch.Tensor | Tensors | None,
        elements: int,
        dtype: str,
        opts: Any,
        outputs: Tensors,
        **how: Any,
    ) -> Work | None:
        """Like `_start`, but for any tensors, or lists of them: through staging memory unless those of each side lie in
        host memory as a block. Without a target this rank receives nothing.
        """
        sources, targets = _listed(source), _listed(target)
        finish = None
        if adjacent(sources) and (target is source or adjacent(targets)):
            block, out = (tensors[0] if tensors else None for tensors in (sources, targets))
        else:
            block = out = input_blocks(sources) if sources else None
            if out is not None and target is source:
                finish = delivery(targets[0], out)
            elif targets:
                out, finish = output_blocks(targets)
        return self._start(collective, block, out, elements, dtype, opts, outputs, finish, **how)

    def _started(self, native: NativeWork | None, outputs: Tensors, finish: Finish | None) -> Work | None:
        """The Work of a native call, and what finishes it; None if it was synchronous."""
        if native is not None:
            return self._in_flight(Work((native,), outputs, finish))
        if finish is not None:
            finish()
        return None

    def _is_asynchronous(self, opts: Any) -> bool:
        return opts is None or opts.asyncOp or self._coalesced is not None

    def _in_flight(self, work: Work) -> Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _join(
        self, works: Sequence[Work | None], opts: Any, outputs: Tensors, finish: Finish | None = None
    ) -> Work | None:
        """One Work for several calls, and what finishes them all; None if they were synchronous."""
        if not self._is_asynchronous(opts):
            if finish is not None:
                finish()
            return None
        parts = [work for work in works if work is not None]
        return Work(
            [native for work in parts for native in work._pending], outputs, in_order([_finish_all(parts), finish])
        )

    def start_coalescing(self) -> None:
        """Until `end_coalescing`, calls are posted without waiting."""
        self._coalesced = []

    def end_coalescing(self) -> Work:
        works, self._coalesced = self._coalesced or [], None
        outputs = [output for work in works for output in work._outputs]
        return Work([native for work in works for native in work._pending], outputs, _finish_all(works))


def _listed(tensors: torch.Tensor | Tensors | None) -> Tensors:
    return () if tensors is None else (tensors,) if isinstance(tensors, torch.Tensor) else tensors


def _finish_all(works: Sequence[Work]) -> Finish | None:
    return in_order(None if work._finish is None else work._deliver for work in works)
