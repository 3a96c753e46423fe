"""What the ranks of the tests do: `check_...` functions run in processes of their own, once per rank."""

import contextlib
from collections.abc import Iterator
from typing import Any

import ringroad.torch  # noqa: F401  torch before 2.14 does not find it by itself
import torch
import torch.distributed as dist

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
FORMS = ["ringroad", "cpu:ringroad,cuda:gloo"][: 2 if TORCH >= (2, 14) else 1]
"""Both that a group can have: a ProcessGroup of its own, and (since torch 2.14) a Backend within torch's."""


@contextlib.contextmanager
def world(backend: str = "ringroad", **options: Any) -> Iterator[tuple[int, int]]:
    dist.init_process_group(backend, **options)
    yield dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
