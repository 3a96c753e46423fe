"""The collectives of torch.distributed on a native Communicator.

Method names and signatures are those of torch 2.15's C++ classes; `opts` is one of torch's options objects, and absent
options mean an asynchronous call. Ranks are ranks of the group.
"""

import itertools
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch._C._distributed_c10d import ReduceOp

from ringroad.torch import sparse
from ringroad.torch.exchange import PointToPoint, only
from ringroad.torch.tensors import (
    Tensors,
    apart,
    are_disjoint,
    block_of,
    checked,
    copy,
    delivery,
    dtype_of,
    equal_sizes,
    in_order,
    is_block,
    output_block,
    read_first,
    reduction,
    same_dtype,
    sized,
    split,
)
from ringroad.torch.work import Work

_SUM = ReduceOp(ReduceOp.SUM)

_Item = TypeVar("_Item")


class Collectives(PointToPoint):
    """Every collective that torch has."""

    # ------------------------------------------------------------------------------------------ one tensor per rank

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work | None:
        tensor = only(tensors)
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
        return self._call("allreduce", tensor, tensor, tensor.numel(), dtype, opts, tensors, op=op, factor=factor)

    def _allreduce_sparse(self, tensor: torch.Tensor, op: str, opts: Any) -> Work | None:
        """Blocks until the sum is complete, because the ranks first have to exchange how many values they hold."""
        seconds = self._seconds(opts)

        def gather(mine: torch.Tensor) -> torch.Tensor:
            everybody = mine.new_empty(self._size, *mine.shape)
            work = self.all_gather_single(everybody, mine)
            assert work is not None, "without options a call is asynchronous"
            work.wait(None if seconds is None else timedelta(seconds=seconds))
            return everybody

        sparse.allreduce(tensor, op, gather)
        return self._join([], opts, [tensor])

    def reduce_in(
        self,
        wire: str | None,
        collective: str,
        source: torch.Tensor,
        target: torch.Tensor,
        op: str,
        factor: float | None = None,
    ) -> Work:
        """Starts an allreduce or a reduce-scatter that sends floats in this format."""
        dtype = same_dtype(target, source)
        work = self._call(
            collective, source, target, target.numel(), dtype, None, [target], op=op, factor=factor, wire=wire
        )
        assert work is not None, "without options a call is asynchronous"
        return work

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work | None:
        checked(tensors)
        if are_disjoint([tensor] for tensor in tensors):
            return self._join([self.allreduce([tensor], opts) for tensor in tensors], opts, tensors)
        blocks = apart(tensors, tensors)
        deliver = in_order(itertools.starmap(delivery, zip(tensors, blocks, strict=True)))
        return self._join([self.allreduce([block], opts) for block in blocks], opts, tensors, deliver)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work | None:
        root = 0 if opts is None else opts.rootRank
        return self._broadcast(only(tensors), root, opts)

    def _broadcast(self, tensor: torch.Tensor, root: int, opts: Any) -> Work | None:
        work: Work | None = self._plain("broadcast", tensor, tensor, opts, [tensor], root=root)
        if work is not NotImplemented:
            return work
        dtype = dtype_of(tensor)
        source = tensor if root == self._rank or is_block(tensor) else None
        target = tensor if root != self._rank or is_block(tensor) else None
        return self._call("broadcast", source, target, tensor.numel(), dtype, opts, [tensor], root=root)

    def reduce(self, tensors: Tensors, opts: Any = None) -> Work | None:
        tensor = only(tensors)
        root = 0 if opts is None else opts.rootRank
        return self._reduce(tensor, tensor, root, opts)

    def _reduce(self, source: torch.Tensor, target: torch.Tensor, root: int, opts: Any) -> Work | None:
        op, factor = reduction(_SUM if opts is None else opts.reduceOp)
        dtype = dtype_of(source)
        out = target if root == self._rank else None
        return self._call("reduce", source, out, source.numel(), dtype, opts, [target], op=op, factor=factor, root=root)

    # ------------------------------------------------------------------------------------------ blocks in one tensor

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        work: Work | None = self._plain("allgather", input, output, opts, [output])
        if work is not NotImplemented:
            return work
        dtype = same_dtype(output, input)
        sized("all_gather_single", "output", output, input.numel() * self._size)
        return self._call("allgather", input, output, input.numel(), dtype, opts, [output])

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        checked(outputs, inputs)
        pairs = zip(outputs, read_first(inputs, [[out] for out in outputs]), strict=True)
        return self._join([self.all_gather_single(out, given, opts) for out, given in pairs], opts, outputs)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        op, factor = reduction(_SUM if opts is None else opts.reduceOp)
        work: Work | None = self._plain("reduce_scatter", input, output, opts, [output], op, factor)
        if work is not NotImplemented:
            return work
        dtype = same_dtype(output, input)
        sized("reduce_scatter_single", "input", input, output.numel() * self._size)
        return self._call("reduce_scatter", input, output, output.numel(), dtype, opts, [output], op=op, factor=factor)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        checked(outputs, inputs)
        pairs = zip(outputs, read_first(inputs, [[out] for out in outputs]), strict=True)
        return self._join([self.reduce_scatter_single(out, given, opts) for out, given in pairs], opts, outputs)

    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        root = 0 if opts is None else opts.rootRank
        dtype = dtype_of(input)
        target = None
        if root == self._rank:
            same_dtype(output, input)
            sized("gather_single", "output", output, input.numel() * self._size)
            target = output
        return self._call("gather", input, target, input.numel(), dtype, opts, [output], root=root)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> Work | None:
        """Without sizes all pieces are equal. With sizes (of the first dimension) ranks exchange messages of these
        sizes, because one rank cannot know whether the pieces of all ranks are equal."""
        dtype = same_dtype(output, input)
        if not output_split_sizes and not input_split_sizes:
            sized("all_to_all_single", "output", output, input.numel())
            if input.numel() % self._size:
                raise ValueError(f"ringroad: {input.numel()} elements do not divide among {self._size} ranks")
            return self._call("alltoall", input, output, input.numel() // self._size, dtype, opts, [output])
        target, finish = output_block(output)
        source = block_of(input)
        targets = split(target, output_split_sizes, self._size)
        return self._exchange(targets, split(source, input_split_sizes, self._size), opts, [output], finish)

    # ------------------------------------------------------------------------------------------ lists of tensors

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work | None:
        source, targets = only(inputs), self._one_each("allgather", only(outputs))
        dtype = same_dtype(source, *targets)
        sized("allgather", "output of this rank", targets[self._rank], source.numel())
        if equal_sizes(targets):
            return self._call("allgather", source, targets, source.numel(), dtype, opts, targets)
        copy(targets[self._rank], source)
        return self._join([self._broadcast(tensor, root, opts) for root, tensor in enumerate(targets)], opts, targets)

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work | None:
        """outputs[rank][i] receives inputs[i] of that rank."""
        ranks = self._one_each("allgather_coalesced", outputs)
        checked(inputs, *ranks)
        targets = list(zip(*ranks, strict=True))
        pairs = zip(targets, read_first(inputs, targets), strict=True)
        works = [self.allgather([out], [given], opts) for out, given in pairs]
        return self._join(works, opts, [tensor for tensors in outputs for tensor in tensors])

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work | None:
        target, sources = only(outputs), self._one_each("reduce_scatter", only(inputs))
        dtype = same_dtype(target, *sources)
        sized("reduce_scatter", "input for this rank", sources[self._rank], target.numel())
        if not equal_sizes(sources):
            works = [self._reduce(source, target, root, opts) for root, source in enumerate(apart(sources, [target]))]
            return self._join(works, opts, outputs)
        op, factor = reduction(_SUM if opts is None else opts.reduceOp)
        return self._call("reduce_scatter", sources, target, target.numel(), dtype, opts, outputs, op=op, factor=factor)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work | None:
        source = only(inputs)
        root = 0 if opts is None else opts.rootRank
        dtype = dtype_of(source)
        targets: list[torch.Tensor] = []
        if root == self._rank:
            targets = self._one_each("gather", only(outputs))
            same_dtype(source, *targets)
            for target in targets:
                sized("gather", "every output", target, source.numel())
        return self._call("gather", source, targets, source.numel(), dtype, opts, targets, root=root)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Work | None:
        target = only(outputs)
        root = 0 if opts is None else opts.rootRank
        dtype = dtype_of(target)
        sources: list[torch.Tensor] = []
        if root == self._rank:
            sources = self._one_each("scatter", only(inputs))
            same_dtype(target, *sources)
            for source in sources:
                sized("scatter", "every input", source, target.numel())
        return self._call("scatter", sources, target, target.numel(), dtype, opts, outputs, root=root)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        targets, sources = self._one_each("alltoall", outputs), self._one_each("alltoall", inputs)
        same_dtype(*targets, *sources)
        blocks = [output_block(target) for target in targets]
        finish = in_order(finish for _, finish in blocks)
        return self._exchange(
            [block for block, _ in blocks], [block_of(source) for source in sources], opts, outputs, finish
        )

    def _one_each(self, name: str, items: Sequence[_Item]) -> list[_Item]:
        if len(items) != self._size:
            raise ValueError(f"ringroad: {name} takes one entry per rank: {self._size}, not {len(items)}")
        return list(items)

    # ------------------------------------------------------------------------------------------ no tensors

    def barrier(self, opts: Any = None) -> Work | None:
        return self._start("barrier", None, None, 0, "uint8", opts, [])
