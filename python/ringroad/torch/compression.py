"""Gradients in fewer bytes, with error feedback: what rounding takes from a step's gradients is added to the next."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from ringroad._native import _round_raw
from ringroad.torch.tensors import DTYPES, ENCODED, copying, is_block, reduction


class Compression:
    """The state of the hook `ringroad.torch.compressed`: the format, and what rounding has left of earlier gradients.

    With error feedback (Seide et al., 1-Bit SGD, 2014; Karimireddy et al., 2019) a rank rounds its gradients itself,
    keeps the remainder, and adds it to the next step's gradients: it comes later, but is not lost. The remainder takes
    as much memory as the gradients, and stays on its rank. What rounding takes away where sums are sent on is not kept.

    Args:
        wire: The format: "bf16", "f16", "fp8", "int8" or "int4"; the same on all ranks.
        group: The process group. None: the default group.
        error_feedback: False: what rounding takes away is lost.

    Raises:
        ValueError: The format is unknown.
    """

    def __init__(
        self, wire: str = "int8", group: dist.ProcessGroup | None = None, *, error_feedback: bool = True
    ) -> None:
        _round_raw(wire, 0, 0, "float32")  # knows the formats
        self.wire, self.group, self.error_feedback = wire, group, error_feedback
        self._left: dict[int, torch.Tensor] = {}

    @copying()
    def _feed(self, parameters: Sequence[object], sizes: list[int], whole: torch.Tensor, rows: int = 1) -> None:
        """Adds what was left of the parameters' gradients to them, rounds them, and keeps what is left now. In each row
        of `whole` the gradients (or as many parts of them) have these sizes."""
        keys = list(map(id, parameters))
        for key, part in zip(keys, torch.split(whole.view(rows, -1), sizes, 1), strict=True):
            if (left := self._left.get(key)) is not None and left.shape == part.shape:
                part.add_(left)
        exact = whole.clone()
        _round_raw(self.wire, whole.data_ptr(), whole.numel(), DTYPES[whole.dtype])
        # The difference to what is not finite is 0: one NaN must not stay for ever.
        left = exact.sub_(whole).nan_to_num_(0.0, 0.0, 0.0)
        self._left |= zip(keys, torch.split(left.view(rows, -1), sizes, 1), strict=True)


def compressed(state: Compression, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A communication hook of DistributedDataParallel that averages gradients in a format of fewer bytes.

    `model.register_comm_hook(ringroad.torch.Compression("int8"), ringroad.torch.compressed)`. All ranks get the same
    bits, so replicas stay identical. Parameters and buffers are still sent exactly, and so are sparse gradients.

    Args:
        state: The format, and what is left of earlier gradients.
        bucket: The gradients; DistributedDataParallel passes them.

    Returns:
        A future of the averages.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> import ringroad.torch
        >>> dist.init_process_group("ringroad", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
        >>> model.register_comm_hook(ringroad.torch.Compression("int8"), ringroad.torch.compressed)
        >>> model(torch.ones(1, 3)).sum().backward()
        >>> dist.destroy_process_group()
    """
    from ringroad.torch.group import backend_of

    backend, gradients = backend_of(state.group), bucket.buffer()
    if gradients.is_sparse:
        averages = dist.AllreduceOptions()
        averages.reduceOp, averages.asyncOp = dist.ReduceOp.AVG, True
        work = backend.allreduce([gradients], averages)
        assert work is not None, "it is asynchronous"
    else:
        wire = state.wire if gradients.dtype in ENCODED else None
        if wire and state.error_feedback and is_block(gradients):
            sizes = [gradient.numel() for gradient in bucket.gradients()]
            state._feed(bucket.parameters(), sizes, gradients)
        work = backend.reduce_in(wire, "allreduce", gradients, gradients, "avg")
    return work.get_future().then(lambda done: done.value()[0])


class CompressedReduceScatter:
    """FSDP2's reduction of gradients in a format of fewer bytes: `module.set_custom_reduce_scatter` takes it.

    It keeps the remainder of each parameter's gradient, as `Compression` does, and may serve several modules.
    Parameters are still gathered exactly.

    Args:
        wire: The format: "bf16", "f16", "fp8", "int8" or "int4"; the same on all ranks.
        error_feedback: False: what rounding takes away is lost.

    Raises:
        ValueError: The format is unknown.

    Example:
        >>> import ringroad.torch
        >>> reduce_scatter = ringroad.torch.CompressedReduceScatter("int8")
    """

    def __init__(self, wire: str = "int8", *, error_feedback: bool = True) -> None:
        self._state = Compression(wire, error_feedback=error_feedback)

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Makes a tensor for FSDP2.

        Args:
            size: Its shape.
            dtype: Its type.
            device: Where it is.

        Returns:
            The tensor.
        """
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        """Reduces this rank's gradients with those of others, and keeps its shard."""
        from ringroad.torch.group import backend_of

        name, factor = reduction(dist.ReduceOp(op))
        state, wire = self._state, None
        if name in ("sum", "avg") and input_tensor.dtype in ENCODED:
            wire = state.wire
            if state.error_feedback and is_block(input_tensor):
                parameters, sizes = _reduced(sys._getframe(1).f_locals)
                ranks = group.size()
                state._feed(parameters, [size.numel() // ranks for size in sizes], input_tensor, ranks)
        work = backend_of(group).reduce_in(wire, "reduce_scatter", input_tensor, output_tensor, name, factor)
        if async_op:
            return work
        work.wait()
        return None


def _reduced(caller: Mapping[str, Any]) -> tuple[Sequence[object], Sequence[torch.Size]]:
    """The parameters whose gradients FSDP2 reduces, and the gradients' sizes, from the caller's variables: FSDP2 does
    not pass them, and in each step they may be others."""
    try:
        return caller["fsdp_params"], caller["padded_unsharded_sizes"]
    except KeyError:
        raise TypeError(
            "ringroad: only FSDP2 can call this, since error feedback needs to know the parameters (and torch "
            f"{torch.__version__} may differ from tested versions); pass error_feedback=False"
        ) from None
