"""Sums of sparse tensors: every rank gathers the values of all ranks and adds them up."""

from collections.abc import Callable

import torch

from ringroad.torch.tensors import copying


@copying()
def allreduce(tensor: torch.Tensor, op: str, gather: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replaces a sparse COO tensor by the sum (or average) of all ranks' tensors, in place.

    `gather(mine)` returns the tensors of all ranks, one after the other along a new first axis. All ranks add up the
    same values in the same order, so that they end with the same bits.
    """
    if op not in ("sum", "avg"):
        raise ValueError(f"ringroad reduces sparse tensors by SUM and AVG only, not by {op}; pass tensor.to_dense()")
    mine = tensor.coalesce()
    held, dimensions = mine._nnz(), mine.sparse_dim()
    shapes = gather(torch.tensor([held, dimensions, *mine.shape], device="cpu"))
    if (shapes[:, 1:] != shapes[0, 1:]).any():
        found = ", ".join(str(tuple(shape[2:])) for shape in shapes.tolist())
        raise ValueError(f"ringroad: sparse tensors must have the same shape on all ranks, these have {found}")
    counts = shapes[:, 0].tolist()
    most = max(counts)
    # All ranks gather tensors of the same length.
    indices = mine.indices().new_zeros(dimensions, most)
    values = mine.values().new_zeros(most, *mine.values().shape[1:])
    indices[:, :held] = mine.indices()
    values[:held] = mine.values()
    all_indices, all_values = gather(indices), gather(values)
    total = torch.sparse_coo_tensor(
        torch.cat([part[:, :count] for part, count in zip(all_indices, counts, strict=True)], dim=1),
        torch.cat([part[:count] for part, count in zip(all_values, counts, strict=True)]),
        mine.shape,
        device="cpu",
    ).coalesce()
    tensor.copy_(total / len(counts) if op == "avg" else total)
