"""What the ranks of the tests do: `check_...` functions run in processes of their own, once per rank."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])


@contextlib.contextmanager
def world(backend: str = "ringroad", **options: Any) -> Iterator[tuple[int, int]]:
    dist.init_process_group(backend, **options)
    yield dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
