"""From tensors to the native core: blocks of memory that it can read and write, and names of dtypes.

Tensors of a device (CUDA) go through the host, whole: a call copies them to pinned memory, which waits for the work
of the caller's stream, runs there, and copies its result back on the stream of its start. It waits for this copy,
so that any stream and any thread sees the result. An asynchronous call copies back when somebody waits for it or
asks for its future. Copies and messages do not overlap: whether that would pay has not been measured on a GPU.
`make test SET=gpu` measures it: it prints the rate of a large all_reduce beside those of the copies alone and of an
all_reduce in host memory."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch._C._distributed_c10d import ReduceOp

from ringroad._arrays import share_memory
from ringroad._native import reductions

_SUPPORTED = reductions()
DTYPES: dict[torch.dtype, str] = {getattr(torch, name): name for name in _SUPPORTED["sum"]}
"""The native names of the types that the extension supports."""
_SMALL = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2")
_MOVED = {
    getattr(torch, name): f"uint{8 * getattr(torch, name).itemsize}"
    for name in (*_SMALL, "complex32")
    if hasattr(torch, name)
}
"""The names under which types that cannot be reduced are moved."""
ENCODED = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
"""The types that can be sent in a format of fewer bytes."""
_SHORT = ("int8", "uint8", "int16", "uint16")
TOTALS = {
    name: torch.int32 if name in _SHORT else torch.uint64 if name == "uint64" else torch.int64
    for name in frozenset(_SUPPORTED["band"]) - {"bool"}
}
"""The types in which whole numbers are added up for an average, of which there is no native one: sums do not wrap
around, except of 64 bits."""

OP_NAMES: dict[Any, str] = {
    ReduceOp.SUM: "sum",
    ReduceOp.AVG: "avg",
    ReduceOp.PRODUCT: "product",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
    ReduceOp.BAND: "band",
    ReduceOp.BOR: "bor",
    ReduceOp.BXOR: "bxor",
    ReduceOp.PREMUL_SUM: "premul_sum",
}
# `op.op` costs 0.2 us and a look-up with it 0.2 us more. A ReduceOp has the hash of its kind, which costs 0.08 us.
_OPS: dict[int, str] = {hash(kind): name for kind, name in OP_NAMES.items()}

Tensors = Sequence[torch.Tensor]
Finish = Callable[[], object]
"""Copies received data to the caller's tensors; runs when the data has arrived."""

copying = torch.inference_mode
"""The mode of everything that copies from or to a caller's tensor. Autograd must not see it: it would refuse to write
to parameters, or take the block for what the tensor was computed from. A thread does not inherit its caller's mode, and
in no other may it write to inference tensors. Targets are written to as `tensor.data`: what is received without a copy
does not count as a change of the tensor, so what is copied must not either."""


def reduction(op: ReduceOp) -> tuple[str, float | None]:
    """The native name of a reduce operation, and its factor (PREMUL_SUM only)."""
    try:
        name = _OPS[hash(op)]
    except KeyError:
        raise ValueError(f"ringroad: {op} is not a reduce operation") from None
    if name != "premul_sum":
        return name, None
    state: Any = op.__getstate__()  # torch 2.8 has no `op.factor`
    factor = state[1]
    if isinstance(factor, torch.Tensor):
        if factor.numel() != 1:
            raise ValueError(f"ringroad: PREMUL_SUM takes one factor, not a tensor of {factor.numel()}")
        factor = factor.item()
    return name, float(factor)


def dtype_of(tensor: torch.Tensor) -> str:
    """The native name of the tensor's dtype. Raises ValueError or TypeError if ringroad cannot handle the tensor, and
    RuntimeError while its device records a graph. All tensors pass either here or the extension's own check."""
    name = DTYPES.get(tensor.dtype) or _MOVED.get(tensor.dtype)
    if name is None or not (tensor.is_cpu or tensor.is_cuda) or tensor.layout is not torch.strided:
        raise _unsupported(tensor)
    if is_recorded(tensor):
        raise RuntimeError(
            "ringroad: a CUDA graph cannot hold this call, which goes through host memory; make it before or after the "
            "capture, or use nccl for CUDA tensors"
        )
    # Of a part of freed memory, torch would give an address.
    if tensor.numel() and not _storage(tensor) and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
        raise ValueError("ringroad: the tensor has no memory: its storage was freed, by resize_(0) or by FSDP")
    return name


def checked(*lists: Tensors) -> None:
    """Checks all tensors of a call that consists of several, before the first of them starts."""
    for tensors in lists:
        for tensor in tensors:
            dtype_of(tensor)
            address_of(tensor)


def _unsupported(tensor: torch.Tensor) -> Exception:
    if not (tensor.is_cpu or tensor.is_cuda):
        return ValueError(
            f"ringroad takes CPU tensors (and CUDA tensors, through the host), this one is on {tensor.device}; "
            'for a group that serves both, use init_process_group("cpu:ringroad,cuda:nccl")'
        )
    if tensor.layout is not torch.strided:
        return ValueError(f"ringroad needs a dense tensor, this one has layout {tensor.layout}")
    return TypeError(
        f"ringroad does not support {tensor.dtype}; it supports {', '.join(DTYPES.values())}. "
        "To move the bits unchanged, pass tensor.view(torch.uint8)"
    )


def require_reducible(tensor: torch.Tensor) -> None:
    if tensor.dtype not in DTYPES:
        raise TypeError(f"ringroad can move {tensor.dtype}, but not reduce it; it reduces {', '.join(DTYPES.values())}")


def is_here(tensor: torch.Tensor) -> bool:
    return tensor.is_cpu


def is_recorded(tensor: torch.Tensor) -> bool:
    """Whether the tensor's device is recording a graph."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def is_block(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a block: host memory that holds its elements in order, without gaps."""
    return (
        is_here(tensor)
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not (tensor.is_complex() and tensor.is_conj())
    )


@copying()
def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copies the elements in their order; the shapes may differ."""
    target.data.copy_(source.reshape(target.shape))


@copying()
def divide(target: torch.Tensor, total: torch.Tensor, divisor: int) -> None:
    """Fills a block with a sum's average, rounded towards zero as by NCCL. A sum of its type is in its memory."""
    if total.dtype.is_signed:
        total.data.div_(divisor, rounding_mode="trunc")
    else:  # torch does not divide these
        array = total.data.numpy()
        array //= array.dtype.type(divisor)
    if total.dtype != target.dtype:
        copy(target, total)


@copying()
def copied(block: torch.Tensor, elements: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A copy of this many elements from the block's address on; with a type, only a copy if theirs is another one."""
    whole = block.as_strided((elements,), (1,))
    return whole.clone() if dtype is None else whole.to(dtype)


@copying()
def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's elements in order, without gaps, on its device: the tensor itself if they are."""
    return tensor.resolve_conj().resolve_neg().contiguous()


@copying()
def block_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if it is a block, else a contiguous copy in host memory."""
    if is_here(tensor):
        return dense(tensor)
    block = _host_block(tensor)
    block.copy_(tensor)  # waits for the work of the stream
    return block


def _host_block(tensor: torch.Tensor, *shape: int) -> torch.Tensor:
    """New host memory to stage the tensor, of its shape unless one is given. For CUDA the memory is pinned, because
    copies from and to pinned memory are several times as fast; torch caches it for the next call. The caller may have
    set another default device."""
    return torch.empty(shape or tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda, device="cpu")


def require_distinct(target: torch.Tensor) -> None:
    """Raises ValueError if elements of the tensor share memory: before the call, because afterwards the copy would."""
    overlap = torch._debug_has_internal_overlap(target)  # 2: torch does not know
    if overlap == 1 or (overlap and share_memory(target.shape, target.stride(), 1)):
        raise ValueError(
            "ringroad: cannot receive into a tensor whose elements share memory, as expand and as_strided make it; "
            "pass tensor.contiguous()"
        )


def delivery(target: torch.Tensor, block: torch.Tensor) -> Finish:
    """A function that copies a received block to the target; with CUDA on the current stream, and waits for the
    copy."""
    require_distinct(target)
    if not target.is_cuda:
        return partial(copy, target, block)
    return partial(_copy_on, torch.cuda.current_stream(target.device), target, block)


@copying()
def _copy_on(stream: torch.cuda.Stream, target: torch.Tensor, block: torch.Tensor) -> None:
    with torch.cuda.stream(stream):
        target.data.copy_(block, non_blocking=True)
    stream.synchronize()


def in_order(steps: Iterable[Finish | None]) -> Finish | None:
    """One function that runs these functions; None if there are none."""
    needed = [step for step in steps if step is not None]
    if len(needed) < 2:
        return needed[0] if needed else None

    def finish() -> None:
        for step in needed:
            step()

    return finish


def output_block(tensor: torch.Tensor) -> tuple[torch.Tensor, Finish | None]:
    """A block in which to receive the tensor's data, and the copy into the tensor (None if the block is the tensor)."""
    if is_block(tensor):
        return tensor, None
    block = _host_block(tensor)
    return block, delivery(tensor, block)


class Wrapper(ValueError):
    """The tensor's class keeps the memory elsewhere. torch's dispatcher can know where."""


def address_of(block: torch.Tensor | None) -> int:
    """The block's address; 0 for no block and for an empty one."""
    if block is None or not block.numel():
        return 0
    if type(block) is torch.Tensor or _storage(block):
        return block.data_ptr()
    raise Wrapper("ringroad: the tensor has no memory (a fake or functional tensor?)")


def _storage(tensor: torch.Tensor) -> int:
    """The address of the tensor's storage; 0 if it has no memory."""
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a wrapper
        return 0


def adjacent(tensors: Tensors) -> bool:
    """Whether the tensors are blocks that follow each other without gaps, as the pieces of `chunk` or `split` do."""
    if len(tensors) < 2:
        return all(map(is_block, tensors))
    storage = _storage(tensors[0])
    expected = tensors[0].data_ptr() if storage else 0
    for tensor in tensors:
        if not storage or _storage(tensor) != storage or tensor.data_ptr() != expected or not is_block(tensor):
            return False
        expected += tensor.nbytes
    return True


@copying()
def input_blocks(tensors: Tensors) -> torch.Tensor:
    """A tensor at whose address the elements of all tensors lie in order, without gaps."""
    if len(tensors) == 1:
        return block_of(tensors[0])
    if adjacent(tensors):
        return tensors[0]
    return block_of(torch.cat([tensor.reshape(-1) for tensor in tensors]))


@copying()
def output_blocks(tensors: Tensors) -> tuple[torch.Tensor, Finish | None]:
    """A tensor at whose address the data of all tensors can be received, and the copy into the tensors (or None)."""
    if len(tensors) == 1:
        return output_block(tensors[0])
    if adjacent(tensors):
        return tensors[0], None
    flat = _host_block(tensors[0], sum(tensor.numel() for tensor in tensors))
    pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
    return flat, in_order(
        delivery(tensor, piece.view(tensor.shape)) for tensor, piece in zip(tensors, pieces, strict=True)
    )


@copying()
def apart(sources: Tensors, targets: Tensors) -> Tensors:
    """The sources, copied if they share a storage with a target, for calls of several messages, which come in any
    order; or if they are wrappers, which have none of their own."""
    taken = {0, *map(_storage, targets)}
    return [source.clone() if _storage(source) in taken else source for source in sources]


def read_first(inputs: Tensors, outputs: Sequence[Tensors]) -> Tensors:
    """The inputs of calls that run side by side, copied if one may write what another has yet to read."""
    if are_disjoint([given, *targets] for given, targets in zip(inputs, outputs, strict=True)):
        return inputs
    return apart(inputs, [*itertools.chain.from_iterable(outputs)])


def are_disjoint(calls: Iterable[Tensors]) -> bool:
    """Whether no call has a tensor that begins before the last element of another call's tensor."""
    spans = list[tuple[int, int]]()
    for tensors in calls:
        own = list[tuple[int, int]]()
        for start, end in sorted(_span(tensor) for tensor in tensors if tensor.numel()):
            if own and start < own[-1][1]:
                start, before = own.pop()
                end = max(before, end)
            own.append((start, end))
        spans += own
    return all(end <= start for (_, end), (start, _) in itertools.pairwise(sorted(spans)))


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of the first element and behind the last one."""
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (start := tensor.data_ptr()), start + (last + 1) * tensor.itemsize


def same_dtype(first: torch.Tensor, *others: torch.Tensor) -> str:
    name = dtype_of(first)
    for tensor in others:
        if dtype_of(tensor) != name or tensor.dtype != first.dtype:
            raise TypeError(f"ringroad: tensors of one call must have one dtype, not {first.dtype} and {tensor.dtype}")
    return name


def sized(call: str, what: str, tensor: torch.Tensor, elements: int) -> None:
    if tensor.numel() != elements:
        raise ValueError(f"ringroad: {call}: {what} must have {elements} elements, not {tensor.numel()}")


def equal_sizes(tensors: Tensors) -> bool:
    return all(tensor.numel() == tensors[0].numel() for tensor in tensors)


def split(block: torch.Tensor, sizes: Sequence[int], ranks: int) -> list[torch.Tensor]:
    """The block's pieces by sizes of its first dimension; equal pieces without sizes."""
    rows = block.shape[0] if block.dim() else 1
    if not sizes:
        if rows % ranks:
            raise ValueError(f"ringroad: a first dimension of {rows} does not divide among {ranks} ranks")
        sizes = [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows:
        raise ValueError(f"ringroad: split sizes {list(sizes)} must be {ranks} and add up to {rows}")
    return list(torch.split(block, list(sizes)))
