"""Which versions of torch there are, and what differs."""

from __future__ import annotations

import re

import torch

_OLDEST = (2, 8)
"""Before, torch cannot bear Works that are written in Python."""


def _version() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return (int(match[1]), int(match[2])) if match else (0, 0)


MODERN = _version() >= (2, 14)
"""Whether a Backend can be written in Python. Where it cannot, a ringroad group has gloo for torch's dispatcher."""

OLDER_NAMES = {
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}
"""What ProcessGroup's methods were called before torch 2.13."""


if _version() < _OLDEST:
    raise ImportError(
        f"ringroad needs torch {'.'.join(map(str, _OLDEST))} or later as a torch.distributed backend, and 2.14 or "
        f"later for all that it can do; this is {torch.__version__}. ringroad's NumPy API does not need torch."
    )
