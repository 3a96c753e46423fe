"""ringroad as a backend of torch.distributed, for CPU tensors.

    torch.distributed.init_process_group("ringroad")                 # CPU tensors only, the fast path
    torch.distributed.init_process_group("cpu:ringroad,cuda:nccl")   # CUDA tensors go to nccl

Neither needs an import: torch (2.14 and later) finds the backend by its entry point. Options:

    init_process_group("ringroad", pg_options=ringroad.torch.Options(algorithm="ring"))
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from ringroad._native import Communicator
    from ringroad.torch.process_group import RingroadProcessGroup

__all__ = ["OLDEST_TORCH", "Options", "communicator", "register"]

OLDEST_TORCH = (2, 14)


@dataclass(frozen=True)
class Options:
    """`pg_options` of init_process_group and new_group. None: as RINGROAD_TOPOLOGY and RINGROAD_ALGO say."""

    topology: str | None = None
    algorithm: str | None = None


def register() -> None:
    """Makes torch know the backend. Idempotent; runs on `import ringroad.torch` and by torch's entry points."""
    if not dist.is_available():
        raise ImportError("ringroad.torch: this build of torch has no torch.distributed")
    if "RINGROAD" not in dist.Backend._plugins:
        dist.Backend.register_backend("ringroad", _create, extended_api=True, devices=["cpu"])


def communicator(group: dist.ProcessGroup | None = None) -> Communicator:
    """The native communicator under a group (the default one if None): algorithms, switch points, transport."""
    from ringroad.torch.backend import RingroadBackend

    if group is None:
        group = dist.group.WORLD
    if group is None:
        raise ValueError("ringroad: there is no process group; call init_process_group first")
    backend = group._get_backend(torch.device("cpu"))
    if not isinstance(backend, RingroadBackend):
        raise TypeError(f"ringroad: the group's CPU backend is {backend.name()}, not ringroad")
    return backend.communicator


def _create(opts: Any, pg_options: Any) -> Any:
    """What torch calls for every group that a rank is a member of; collective over the members."""
    _require_version()
    from ringroad.torch.backend import RingroadBackend

    if pg_options is not None and not isinstance(pg_options, Options):
        raise TypeError(f"ringroad: pg_options must be ringroad.torch.Options, not {type(pg_options).__name__}")

    def connect(
        store: Any, rank: int, size: int, timeout: timedelta, name: str, ranks: Sequence[int], splitting: bool
    ) -> RingroadBackend:
        comm = _connect(store, rank, size, timeout, name, ranks, pg_options or Options())
        options = RingroadBackend.Options("ringroad", timeout=timeout)
        options.global_ranks_in_group = list(ranks)
        options.group_name = name  # type: ignore[assignment]
        return RingroadBackend(comm, store, options, splitting=splitting)

    arguments = (
        opts.store,
        opts.group_rank,
        opts.group_size,
        opts.timeout,
        opts.group_id,
        list(opts.global_ranks_in_group),
    )
    if not _alone(sys._getframe(1).f_locals):
        return connect(*arguments, splitting=False)

    from ringroad.torch.process_group import RingroadProcessGroup

    def group(store: Any, *rest: Any) -> RingroadProcessGroup:
        return RingroadProcessGroup(connect(store, *rest, splitting=True), store, group)

    return group(*arguments)


def _alone(caller: dict[str, Any]) -> bool:
    """Whether ringroad serves all devices of the group being created, so that it may replace torch's ProcessGroup.

    Torch does not tell a backend's creator which others there are; its caller's variables do. Where they do not, the
    group is taken for a mixed one, which is right for all and slower.
    """
    config = caller.get("backend_config")
    backends = getattr(config, "device_backend_map", {})
    return bool(backends) and set(backends.values()) == {"ringroad"}


def _connect(
    store: Any, rank: int, size: int, timeout: timedelta, name: str, ranks: Sequence[int], options: Options
) -> Communicator:
    """A communicator that meets in the store, under keys that no earlier group of this name has used.

    Torch numbers groups anew after destroy_process_group, over the same store. Members count their arrivals: creating
    a group is collective, so the n-th generation's members are the n-th `size` arrivals.
    """
    from torch._C._distributed_c10d import PrefixStore

    from ringroad._native import Communicator
    from ringroad._ucx import _ucx_wheel

    members = hashlib.sha256(repr((size, list(ranks))).encode()).hexdigest()[:16]
    prefix = f"ringroad/{members}"
    generation = (store.add(f"{prefix}/arrivals", 1) - 1) // size
    return Communicator(
        PrefixStore(f"{prefix}/{generation}", store),
        rank,
        size,
        timeout=timeout.total_seconds(),
        topology=options.topology,
        algorithm=options.algorithm,
        name=name,
        ucx_wheel=_ucx_wheel(),
    )


def _require_version() -> None:
    match = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if match is None or tuple(map(int, match.groups())) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise RuntimeError(
            f"ringroad needs torch {oldest} or later as a torch.distributed backend; this is {torch.__version__}. "
            "Older versions (2.8 to 2.13) are planned; ringroad's NumPy API does not need torch."
        )


register()
