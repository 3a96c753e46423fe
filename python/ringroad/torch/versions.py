"""The version of torch, and the differences between versions."""

import re

import torch

_OLDEST = (2, 8)
"""Older versions of torch do not support Works that are written in Python."""


def _version() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return (int(match[1]), int(match[2])) if match else (0, 0)


MODERN = _version() >= (2, 14)
"""Whether torch supports Backends in Python. If not, a ringroad group registers gloo for torch's dispatcher."""

OLDER_NAMES = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}
"""The names of ProcessGroup's methods before torch 2.13."""


if _version() < _OLDEST:
    raise ImportError(
        f"ringroad needs torch {'.'.join(map(str, _OLDEST))} or later as a torch.distributed backend, and 2.14 or "
        f"later for all features; this is {torch.__version__}. ringroad's NumPy API does not need torch."
    )
