"""The collectives of torch.distributed on a native Communicator.

Method names and signatures are those of torch 2.15's C++ classes; `opts` is one of torch's options objects, and absent
options mean an asynchronous call. Ranks are ranks of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch
import torch._C._distributed_c10d as c10d
from numpy.typing import NDArray
from torch._C._distributed_c10d import Backend, PrefixStore, ReduceOp
from torch.profiler import record_function

from ringroad._native import Communicator
from ringroad._native import Work as NativeWork
from ringroad.torch import sparse
from ringroad.torch.membership import Membership, Options
from ringroad.torch.monitored_barrier import monitored_barrier
from ringroad.torch.staging import Pipeline
from ringroad.torch.tensors import (
    Finish,
    Tensors,
    address_of,
    adjacent,
    block_of,
    delivery,
    dtype_of,
    equal_sizes,
    input_blocks,
    is_block,
    is_here,
    output_block,
    output_blocks,
    reduction,
    same_dtype,
    sized,
    split,
)
from ringroad.torch.versions import MODERN
from ringroad.torch.work import Work

NAME = "ringroad"
_UNSET = timedelta(milliseconds=-1)
"""What torch puts into options whose timeout nobody set."""
_UNEVEN_ALLTOALL_TAG = (1 << 28) - 1
"""Tag of the messages that an all-to-all of uneven pieces is made of: the highest that there is. Users' are below."""
_SHRINK_ABORT = 1
"""As torch.distributed.distributed_c10d.SHRINK_ABORT, which older versions lack."""
_SUM = ReduceOp(ReduceOp.SUM)
_TORCH_NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
}
"""What torch calls the collectives, where that differs."""
_profiling = torch._C._autograd._profiler_enabled
"""Bound once: this is asked for on every call."""

_Item = TypeVar("_Item")

if TYPE_CHECKING or MODERN:
    _Base = Backend
else:

    class _Base:
        """Torch's own class cannot be extended; this one is called by `RingroadProcessGroup` alone."""

        def __init__(self, rank: int, size: int) -> None:
            pass


class RingroadBackend(_Base):
    """What torch's dispatcher calls for CPU tensors; also does the work of `RingroadProcessGroup`."""

    alive: ClassVar[set[RingroadBackend]] = set()
    """Torch may keep only the C++ half of a backend; this keeps the Python half until shutdown."""

    def __init__(
        self, member: Membership, *, splitting: bool = False, communicator: Communicator | None = None
    ) -> None:
        """Collective over the members, unless they have a communicator already."""
        super().__init__(member.rank, member.size)
        self._member = member
        self._options = Backend.Options(NAME, timeout=timedelta(seconds=member.options.seconds(member.timeout)))
        if MODERN:
            self._options.global_ranks_in_group = list(member.ranks)
            self._options.group_name = member.name  # type: ignore[assignment]
        self._splitting = splitting
        self._timeout: float | None = None
        self._calls = 0
        self._shrinks = 0
        self._coalesced: list[Work] | None = None
        self._use(member.connect() if communicator is None else communicator, member.rank, member.size)

    def _use(self, communicator: Communicator, rank: int, size: int) -> None:
        self.communicator = communicator
        self.place = self._member.place_of(communicator)
        self._monitored_barriers = 0
        self._run_raw: Callable[..., NativeWork | None] = self.communicator.run_raw
        self._run_tensors: Callable[..., Any] = self.communicator.run_tensors
        self._pipeline = Pipeline(self.communicator)
        self._rank = rank
        self._size = size
        if MODERN:
            RingroadBackend.alive.add(self)

    # ------------------------------------------------------------------------------------------ what torch asks

    def getBackendName(self) -> str:
        return NAME

    @property
    def options(self) -> Backend.Options:
        return self._options

    @property
    def supports_splitting(self) -> bool:
        """Only as part of a `RingroadProcessGroup`, which splits itself: torch 2.15 crashes where `Backend.split` has
        no group to return."""
        return self._splitting

    # Torch's C++ half asks Python for these, and Python, where they are missing, asks the C++ half, for ever.
    supports_coalescing = False
    supports_shrinking = True
    supports_reconfigure = False
    supports_window = False
    _supports_time_estimate = False

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Ranks outside a new group have nothing to do: members meet in the store."""

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    def _set_sequence_number_for_group(self) -> None:
        """Every rank counts from zero."""

    def abort(self) -> None:
        RingroadBackend.alive.discard(self)
        self.communicator.abort("the process group was aborted")

    def shutdown(self) -> None:
        RingroadBackend.alive.discard(self)
        self.communicator.close()

    def shrink(
        self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0, opts_override: Any = None
    ) -> RingroadBackend:
        """The backend of the other ranks, whether or not the excluded ones still live. Collective over the others.

        Flag 1 (SHRINK_ABORT) first ends the calls in flight.
        """
        if opts_override is not None and not isinstance(opts_override, Options):
            raise TypeError(f"ringroad: pg_options must be ringroad.torch.Options, not {type(opts_override).__name__}")
        if shrink_flags & _SHRINK_ABORT:
            self.communicator.abort("the process group is made smaller")
        member = self._member.without(ranks_to_exclude, opts_override)
        left = {rank: text for rank, text in enumerate(self.communicator.handles) if rank not in ranks_to_exclude}
        handles = {rank: text for rank, text in left.items() if text is not None}
        if missing := sorted(left.keys() - handles):
            raise RuntimeError(f"ringroad: ranks {missing} could not listen on a port, so they cannot be found again")
        self._shrinks += 1
        seconds = member.options.seconds(member.timeout)
        communicator = member.regroup(list(handles.values()), handles[self._rank], self._shrinks, seconds)
        return RingroadBackend(member, communicator=communicator)

    def get_error(self) -> Any:
        """Whoever makes a call hears of its errors; none are kept."""
        return c10d.ErrorType.SUCCESS

    # ------------------------------------------------------------------------------------------ machinery

    def _seconds(self, opts: Any) -> float | None:
        """The call's timeout; None for the communicator's."""
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
    ) -> Work | None:
        """Runs a collective from block to block. None where the call was synchronous, and then it is complete."""
        self._calls += 1
        asynchronous = opts is None or opts.asyncOp or self._coalesced is not None
        address = address_of(target)
        run = self._recorded if _profiling() else self._run_raw
        native = run(
            collective,
            address if source is target else address_of(source),
            address,
            elements,
            dtype,
            (source, target),
            op=op,
            factor=factor,
            root=root,
            timeout=self._seconds(opts),
            async_op=asynchronous,
        )
        if native is not None:
            return self._in_flight(Work((native,), outputs, finish))
        if finish is not None:
            finish()
        return None

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
        """Runs a collective on tensors that are blocks already, as most are: to look at them in Python takes longer
        than a short call does. NotImplemented for others, and where somebody records events."""
        if _profiling() or source.is_neg() or target.is_neg():
            return NotImplemented
        native: Any = self._run_tensors(
            collective,
            source,
            target,
            op=op,
            factor=factor,
            root=root,
            timeout=self._timeout if opts is None else self._seconds(opts),
            async_op=opts is None or opts.asyncOp or self._coalesced is not None,
        )
        if native is NotImplemented:
            return native
        self._calls += 1
        return None if native is None else self._in_flight(Work((native,), outputs, None))

    def _recorded(self, collective: str, *args: Any, **kwargs: Any) -> NativeWork | None:
        """As `run_raw`, as an event for torch's profiler: of the whole call, or of its start if it is asynchronous."""
        with _event(collective):
            return self._run_raw(collective, *args, **kwargs)

    def _staged(
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
        """As `_start`, by way of other memory: where a tensor is on a device or no block, or blocks are in a list.

        Without a target nothing comes back.
        """
        sources = _listed(source)
        targets = sources if target is source else _listed(target)
        first = (sources or targets)[0]
        if not is_here(first) and self._pipeline.takes(collective, elements, first.element_size()):
            return self._pipelined(first.device, collective, sources, targets, elements, opts, outputs, how)
        block = input_blocks(sources) if sources else None
        out, finish = block, None
        if block is not None and target is source:
            finish = delivery(targets[0], block)
        elif targets:
            out, finish = output_blocks(targets)
        return self._start(collective, block, out, elements, dtype, opts, outputs, finish, **how)

    def _pipelined(
        self,
        device: torch.device,
        collective: str,
        sources: Tensors,
        targets: Tensors,
        elements: int,
        opts: Any,
        outputs: Tensors,
        how: dict[str, Any],
    ) -> Work | None:
        self._calls += 1
        asynchronous = self._is_asynchronous(opts)
        seconds = self._seconds(opts)
        seconds = self.communicator.timeout if seconds is None else seconds
        with _event(collective) if _profiling() else nullcontext():
            pending = self._pipeline.start(device, collective, sources, targets, elements, seconds, asynchronous, **how)
        if asynchronous:
            self._run_raw, self._run_tensors = self._run_in_turn, lambda *args, **kwargs: NotImplemented
            return self._in_flight(Work((pending,), outputs))
        pending.wait()
        return None

    def _run_in_turn(self, *args: Any, **kwargs: Any) -> NativeWork | None:
        """In place of `run_raw`, and of `run_tensors`, while earlier collectives may have native calls to make."""
        self._pipeline.drain()
        self._run_raw, self._run_tensors = self.communicator.run_raw, self.communicator.run_tensors
        return self._run_raw(*args, **kwargs)

    def _is_asynchronous(self, opts: Any) -> bool:
        return opts is None or opts.asyncOp or self._coalesced is not None

    def _in_flight(self, work: Work) -> Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _join(self, works: Sequence[Work | None], opts: Any, outputs: Tensors) -> Work | None:
        """One Work for several calls; None where they were synchronous."""
        if not self._is_asynchronous(opts):
            return None
        parts = [work for work in works if work is not None]
        return Work([native for work in parts for native in work._pending], outputs, _finish_all(parts))

    def start_coalescing(self) -> None:
        """From here to `end_coalescing`, calls are posted and not waited for."""
        self._coalesced = []

    def end_coalescing(self) -> Work:
        works, self._coalesced = self._coalesced or [], None
        outputs = [output for work in works for output in work._outputs]
        return Work([native for work in works for native in work._pending], outputs, _finish_all(works))

    # ------------------------------------------------------------------------------------------ one tensor per rank

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work | None:
        tensor = _only(tensors)
        op, factor = reduction(_SUM if opts is None else opts.reduceOp)
        work: Work | None = self._plain("allreduce", tensor, tensor, opts, tensors, op, factor)
        if work is not NotImplemented:
            return work
        try:
            dtype = dtype_of(tensor)
        except ValueError:
            if tensor.layout is torch.sparse_coo and tensor.is_cpu:
                return self._allreduce_sparse(tensor, op, opts)
            raise
        start = self._start if is_block(tensor) else self._staged
        return start("allreduce", tensor, tensor, tensor.numel(), dtype, opts, tensors, op=op, factor=factor)

    def _allreduce_sparse(self, tensor: torch.Tensor, op: str, opts: Any) -> Work | None:
        """Ends before it returns: how much the others hold is known only when they have said so."""
        seconds = self._seconds(opts)

        def gather(mine: torch.Tensor) -> torch.Tensor:
            everybody = mine.new_empty(self._size, *mine.shape)
            work = self.all_gather_single(everybody, mine)
            assert work is not None, "without options a call is asynchronous"
            work.wait(None if seconds is None else timedelta(seconds=seconds))
            return everybody

        sparse.allreduce(tensor, op, gather)
        return self._join([], opts, [tensor])

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work | None:
        return self._join([self.allreduce([tensor], opts) for tensor in tensors], opts, tensors)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work | None:
        root = 0 if opts is None else opts.rootRank
        return self._broadcast(_only(tensors), root, opts)

    def _broadcast(self, tensor: torch.Tensor, root: int, opts: Any) -> Work | None:
        work: Work | None = self._plain("broadcast", tensor, tensor, opts, [tensor], root=root)
        if work is not NotImplemented:
            return work
        dtype = dtype_of(tensor)
        elements = tensor.numel()
        if is_block(tensor):
            return self._start("broadcast", tensor, tensor, elements, dtype, opts, [tensor], root=root)
        source, target = (tensor, None) if root == self._rank else (None, tensor)
        return self._staged("broadcast", source, target, elements, dtype, opts, [tensor], root=root)

    def reduce(self, tensors: Tensors, opts: Any = None) -> Work | None:
        tensor = _only(tensors)
        root = 0 if opts is None else opts.rootRank
        return self._reduce(tensor, tensor, root, opts)

    def _reduce(self, source: torch.Tensor, target: torch.Tensor, root: int, opts: Any) -> Work | None:
        op, factor = reduction(_SUM if opts is None else opts.reduceOp)
        dtype = dtype_of(source)
        out = target if root == self._rank else None
        start = self._start if is_block(source) and (out is None or is_block(out)) else self._staged
        return start("reduce", source, out, source.numel(), dtype, opts, [target], op=op, factor=factor, root=root)

    # ------------------------------------------------------------------------------------------ blocks in one tensor

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        work: Work | None = self._plain("allgather", input, output, opts, [output])
        if work is not NotImplemented:
            return work
        dtype = same_dtype(output, input)
        sized("all_gather_single", "output", output, input.numel() * self._size)
        start = self._start if is_block(input) and is_block(output) else self._staged
        return start("allgather", input, output, input.numel(), dtype, opts, [output])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        pairs = zip(outputs, inputs, strict=True)
        return self._join([self.all_gather_single(out, given, opts) for out, given in pairs], opts, outputs)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        op, factor = reduction(_SUM if opts is None else opts.reduceOp)
        work: Work | None = self._plain("reduce_scatter", input, output, opts, [output], op, factor)
        if work is not NotImplemented:
            return work
        dtype = same_dtype(output, input)
        sized("reduce_scatter_single", "input", input, output.numel() * self._size)
        start = self._start if is_block(input) and is_block(output) else self._staged
        return start("reduce_scatter", input, output, output.numel(), dtype, opts, [output], op=op, factor=factor)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        pairs = zip(outputs, inputs, strict=True)
        return self._join([self.reduce_scatter_single(out, given, opts) for out, given in pairs], opts, outputs)

    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        root = 0 if opts is None else opts.rootRank
        dtype = dtype_of(input)
        target = None
        if root == self._rank:
            same_dtype(output, input)
            sized("gather_single", "output", output, input.numel() * self._size)
            target = output
        start = self._start if is_block(input) and (target is None or is_block(target)) else self._staged
        return start("gather", input, target, input.numel(), dtype, opts, [output], root=root)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> Work | None:
        """Without sizes all pieces are equal. With sizes (of the first dimension) ranks exchange messages: whether all
        pieces of all ranks are equal is more than one rank can know."""
        dtype = same_dtype(output, input)
        if not output_split_sizes and not input_split_sizes:
            sized("all_to_all_single", "output", output, input.numel())
            if input.numel() % self._size:
                raise ValueError(f"ringroad: {input.numel()} elements do not divide among {self._size} ranks")
            start = self._start if is_block(input) and is_block(output) else self._staged
            return start("alltoall", input, output, input.numel() // self._size, dtype, opts, [output])
        target, finish = output_block(output)
        source = block_of(input)
        return self._exchange(
            split(target, output_split_sizes, self._size), split(source, input_split_sizes, self._size), opts, finish
        )

    # ------------------------------------------------------------------------------------------ lists of tensors

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work | None:
        source, targets = _only(inputs), self._one_each("allgather", _only(outputs))
        dtype = same_dtype(source, *targets)
        sized("allgather", "output of this rank", targets[self._rank], source.numel())
        if equal_sizes(targets):
            if is_block(source) and adjacent(targets):
                return self._start("allgather", source, targets[0], source.numel(), dtype, opts, targets)
            return self._staged("allgather", source, targets, source.numel(), dtype, opts, targets)
        targets[self._rank].copy_(source.view(targets[self._rank].shape))
        return self._join([self._broadcast(tensor, root, opts) for root, tensor in enumerate(targets)], opts, targets)

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work | None:
        """outputs[rank][i] receives inputs[i] of the rank."""
        ranks = self._one_each("allgather_coalesced", outputs)
        pairs = zip(zip(*ranks, strict=True), inputs, strict=True)
        works = [self.allgather([out], [given], opts) for out, given in pairs]
        return self._join(works, opts, [tensor for tensors in outputs for tensor in tensors])

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work | None:
        target, sources = _only(outputs), self._one_each("reduce_scatter", _only(inputs))
        dtype = same_dtype(target, *sources)
        sized("reduce_scatter", "input for this rank", sources[self._rank], target.numel())
        if not equal_sizes(sources):
            works = [self._reduce(source, target, root, opts) for root, source in enumerate(sources)]
            return self._join(works, opts, outputs)
        op, factor = reduction(_SUM if opts is None else opts.reduceOp)
        elements = target.numel()
        if is_block(target) and adjacent(sources):
            return self._start(
                "reduce_scatter", sources[0], target, elements, dtype, opts, outputs, op=op, factor=factor
            )
        return self._staged("reduce_scatter", sources, target, elements, dtype, opts, outputs, op=op, factor=factor)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work | None:
        source = _only(inputs)
        root = 0 if opts is None else opts.rootRank
        dtype = dtype_of(source)
        targets: list[torch.Tensor] = []
        if root == self._rank:
            targets = self._one_each("gather", _only(outputs))
            same_dtype(source, *targets)
            for target in targets:
                sized("gather", "every output", target, source.numel())
        elements = source.numel()
        if is_block(source) and (not targets or adjacent(targets)):
            out = targets[0] if targets else None
            return self._start("gather", source, out, elements, dtype, opts, targets, root=root)
        return self._staged("gather", source, targets, elements, dtype, opts, targets, root=root)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work | None:
        target = _only(outputs)
        root = 0 if opts is None else opts.rootRank
        dtype = dtype_of(target)
        sources: list[torch.Tensor] = []
        if root == self._rank:
            sources = self._one_each("scatter", _only(inputs))
            same_dtype(target, *sources)
            for source in sources:
                sized("scatter", "every input", source, target.numel())
        elements = target.numel()
        if is_block(target) and (not sources or adjacent(sources)):
            given = sources[0] if sources else None
            return self._start("scatter", given, target, elements, dtype, opts, outputs, root=root)
        return self._staged("scatter", sources, target, elements, dtype, opts, outputs, root=root)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        targets, sources = self._one_each("alltoall", outputs), self._one_each("alltoall", inputs)
        same_dtype(*targets, *sources)
        blocks = [output_block(target) for target in targets]
        finishes = [finish for _, finish in blocks if finish is not None]

        def finish_all() -> None:
            for finish in finishes:
                finish()

        return self._exchange(
            [block for block, _ in blocks],
            [block_of(source) for source in sources],
            opts,
            finish_all if finishes else None,
        )

    def _exchange(self, targets: Tensors, sources: Tensors, opts: Any, finish: Finish | None) -> Work | None:
        """Sends sources[r] to rank r and receives targets[r] from it, in blocks of any sizes."""
        if not self.communicator.has_switches:
            return self._relayed(targets, sources, opts, finish)
        own, given = targets[self._rank].view(-1), sources[self._rank].view(-1)
        sized("all-to-all", "output from this rank to itself", own, given.numel())
        own.copy_(given)
        self._calls += 1
        timeout = self._seconds(opts)
        pending: list[NativeWork] = []
        for direction, blocks in (("recv", targets), ("send", sources)):
            for distance in range(1, self._size):
                peer = (self._rank + (distance if direction == "send" else -distance)) % self._size
                if blocks[peer].numel():
                    pending.append(self._post(direction, blocks[peer], peer, _UNEVEN_ALLTOALL_TAG, timeout))
        work = self._in_flight(Work(pending, targets, finish))
        if self._is_asynchronous(opts):
            return work
        work.wait()
        return None

    def _relayed(self, targets: Tensors, sources: Tensors, opts: Any, finish: Finish | None) -> Work | None:
        """The same by the algorithm that suits the network, for which every rank must know what all others have."""
        self._calls += 1
        timeout = self._seconds(opts)
        # Empty tensors have no address.
        block = input_blocks([source for source in sources if source.numel()] or sources[:1])
        landing, deliver = output_blocks([target for target in targets if target.numel()] or targets[:1])
        native = self.communicator.run_raw_alltoall_v(
            address_of(block),
            address_of(landing),
            self._agreed_counts(targets, sources, timeout),
            same_dtype(*sources, *targets),
            (block, landing, sources, targets),
            timeout=timeout,
            async_op=self._is_asynchronous(opts),
        )

        def finish_both() -> None:
            for step in (deliver, finish):
                if step is not None:
                    step()

        if native is not None:
            return self._in_flight(Work((native,), targets, finish_both))
        finish_both()
        return None

    def _agreed_counts(self, targets: Tensors, sources: Tensors, timeout: float | None) -> NDArray[np.int64]:
        """By source, then by target: what all ranks have for each other, in elements."""
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

    def _one_each(self, name: str, items: Sequence[_Item]) -> list[_Item]:
        if len(items) != self._size:
            raise ValueError(f"ringroad: {name} takes one entry per rank: {self._size}, not {len(items)}")
        return list(items)

    # ------------------------------------------------------------------------------------------ two ranks, no tensors

    def _post(
        self, direction: Any, block: torch.Tensor, peer: int | None, tag: int, timeout: float | None
    ) -> NativeWork:
        with record_function(f"{NAME}:{direction}") if _profiling() else nullcontext():
            native = self.communicator.run_raw_tagged(
                direction, address_of(block), block.numel(), dtype_of(block), block, peer, tag,
                timeout=timeout, async_op=True,
            )  # fmt: skip
        assert native is not None
        return native

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> Work:
        tensor = _only(tensors)
        dtype_of(tensor)
        native = self._post("send", block_of(tensor), peer, _user_tag(tag), self._timeout)
        return self._in_flight(Work((native,), tensors))

    def recv(self, tensors: Tensors, peer: int | None, tag: int = 0) -> Work:
        tensor = _only(tensors)
        dtype_of(tensor)
        block, finish = output_block(tensor)
        native = self._post("recv", block, peer, _user_tag(tag), self._timeout)
        return self._in_flight(Work((native,), tensors, finish))

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        return self.recv(tensors, None, tag)

    def barrier(self, opts: Any = None) -> Work | None:
        return self._start("barrier", None, None, 0, "uint8", opts, [])

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        seconds = self._seconds(opts)
        self._monitored_barriers += 1
        store = PrefixStore(f"monitored_barrier/{self._monitored_barriers}", self.place)
        seconds = self.communicator.timeout if seconds is None else seconds
        monitored_barrier(store, self._rank, self._size, seconds, wait_all_ranks, self.communicator.lost)


def _user_tag(tag: int) -> int:
    if tag >= _UNEVEN_ALLTOALL_TAG:
        raise ValueError(f"ringroad: tag {tag} is not below {_UNEVEN_ALLTOALL_TAG}")
    return tag


def _only(items: Sequence[Any]) -> Any:
    if len(items) != 1:
        raise ValueError(f"ringroad: takes exactly one entry per rank, not {len(items)}")
    return items[0]


def _listed(tensors: torch.Tensor | Tensors | None) -> Tensors:
    return () if tensors is None else (tensors,) if isinstance(tensors, torch.Tensor) else tensors


def _event(collective: str) -> record_function:
    return record_function(f"{NAME}:{_TORCH_NAMES.get(collective, collective)}")


def _finish_all(works: Sequence[Work]) -> Finish | None:
    if all(work._finish is None for work in works):
        return None

    def finish() -> None:
        for work in works:
            work._deliver()

    return finish
