"""The functions `check_...`, which the tests run in separate processes, once per rank."""

import contextlib
import inspect
import itertools
import os
from collections.abc import Iterator
from typing import Any

import ringroad.torch  # noqa: F401  torch before 2.14 does not find it by itself
import torch
import torch.distributed as dist

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
FORMS = ["ringroad", "cpu:ringroad,cuda:gloo"][: 2 if TORCH >= (2, 14) else 1]
"""Both forms of a group: a ProcessGroup of its own and, since torch 2.14, a Backend within torch's."""

TAKES_AN_ORDER = "sort_ranks" in inspect.signature(dist.new_group).parameters
"""Whether the ranks of a group may have another order than in the world; older versions of torch sort them."""


_worlds = itertools.count()
_ended: list[Any] = []
"""A process group of gloo ends the process if the last to let go of it is a thread of its own."""


@contextlib.contextmanager
def world(backend: str = "ringroad", *, apart: bool = False, **options: Any) -> Iterator[tuple[int, int]]:
    """The world's process group. `apart` gives it separate keys in the store, for gloo, which cannot use the same keys
    twice.
    """
    if apart:
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        options["store"] = dist.PrefixStore(f"world {next(_worlds)}", store)
        options |= {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    dist.init_process_group(backend, **options)
    yield dist.get_rank(), dist.get_world_size()
    if backend == "gloo":
        _ended.append(dist.group.WORLD)
    dist.destroy_process_group()
