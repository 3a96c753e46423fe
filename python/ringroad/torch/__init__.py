"""ringroad as a backend of torch.distributed, for CPU tensors.

    torch.distributed.init_process_group("ringroad")                 # CPU tensors only, the fast path
    torch.distributed.init_process_group("cpu:ringroad,cuda:nccl")   # CUDA tensors go to nccl

Neither needs an import: torch (2.14 and later) finds the backend by its entry point. With torch 2.8 to 2.13, `import
ringroad.torch` first; ringroad must then be the only backend of a group, and the calls of torch's dispatcher (DTensor,
functional collectives) go over gloo. Options:

    init_process_group("ringroad", pg_options=ringroad.torch.Options(algorithm="ring"))

`ringroad.torch.init()` does this for any launcher, and before frameworks that refuse unknown backends.
`ringroad.torch.process_group` makes groups of which torch.distributed knows nothing.

ringroad matches the calls of a group by their order, which must be the same on all ranks. So each thread that makes
calls needs a group of its own, `dist.new_group(backend="ringroad")`: if two threads call one group at once, calls that
are alike (collective, sizes, dtype, operation) may be mixed up without an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if not dist.is_available():
    raise ImportError("ringroad.torch: this build of torch has no torch.distributed")

from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.constants import default_pg_timeout

from ringroad._native import Communicator, Config
from ringroad._replicas import ReplicaCheck
from ringroad.start.signals import answer
from ringroad.torch.compression import CompressedReduceScatter, Compression, compressed
from ringroad.torch.membership import GroupMember, Options
from ringroad.torch.starting import init
from ringroad.torch.versions import MODERN

if TYPE_CHECKING:
    from ringroad.torch.elastic_training import ElasticTraining

__all__ = [
    "CompressedReduceScatter",
    "Compression",
    "Options",
    "check_replicas",
    "communicator",
    "compressed",
    "elastic",
    "empty",
    "init",
    "process_group",
    "register",
]
__dir__ = __all__.copy


def register() -> None:
    """Registers ringroad as a backend of torch.distributed. A second call does nothing.

    It runs on `import ringroad.torch`, and by torch's entry points.
    """
    if "RINGROAD" not in dist.Backend._plugins:
        dist.Backend.register_backend("ringroad", _create, extended_api=True, devices=["cpu"])


def process_group(
    store: Store, rank: int, size: int, options: Options | None = None, *, name: str = "group"
) -> dist.ProcessGroup:
    """Makes a process group without `torch.distributed.init_process_group`.

    Use it with frameworks that make groups of their own, such as torchft and actors of Ray. It is collective over the
    members. torch.distributed need not be initialized, and does not know the group: you can pass it as `group=`, but
    give roots as `group_src` and `group_dst`, and end it with `group.shutdown()`. After a rank has died, make a new
    group of the others.

    Args:
        store: Where the members meet: a store of torch.distributed, such as `TCPStore`. A store may serve several
            groups, one after the other or, if their names differ, at the same time.
        rank: The number of this member, from 0.
        size: The number of members.
        options: Topology, algorithms, time limit and so on. The time limit is torch's default, 30 minutes, unless
            they state one.
        name: What messages call the group; the same on all members.

    Returns:
        The group, for the calls of one thread. `ringroad.torch.communicator(group)` is its native communicator.

    Raises:
        TypeError: `store` is not a store of torch.distributed.
        ValueError: `rank` is not below `size`.
        TimeoutError: Members did not come in time. The message names them.
        PeerError: A member died or gave up meanwhile. The message names it.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> import ringroad.torch
        >>> group = ringroad.torch.process_group(dist.HashStore(), rank=0, size=1)
        >>> tensor = torch.ones(2)
        >>> dist.all_reduce(tensor, group=group)
        >>> tensor
        tensor([1., 1.])
        >>> group.shutdown()
    """
    from ringroad.torch.group import RingroadProcessGroup

    if not isinstance(store, Store):
        raise TypeError(
            f"ringroad: a process group meets in a store of torch.distributed, such as TCPStore, not in a "
            f"{type(store).__name__}"
        )
    if not 0 <= rank < size:
        raise ValueError(f"ringroad: rank {rank} of {size} is out of range; ranks count from 0 to size - 1")
    answer(Config())
    place = PrefixStore(name, store)
    member = GroupMember(place, rank, size, default_pg_timeout, name, range(size), options or Options(), is_job=True)
    return RingroadProcessGroup(member)


def communicator(group: dist.ProcessGroup | None = None) -> Communicator:
    """Returns the native communicator of a process group, which tells algorithms, switch points and transport.

    Args:
        group: The group. None: the default group.

    Returns:
        The `ringroad.Communicator`. The group owns it; do not close it.

    Raises:
        ValueError: There is no process group yet.
        TypeError: None of the group's backends is ringroad.

    Example:
        >>> import torch.distributed as dist
        >>> import ringroad.torch
        >>> dist.init_process_group("ringroad", store=dist.HashStore(), rank=0, world_size=1)
        >>> ringroad.torch.communicator().size
        1
        >>> dist.destroy_process_group()
    """
    from ringroad.torch.group import backend_of

    return backend_of(group).communicator


def empty(*size: Any, dtype: torch.dtype | None = None, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """Makes a tensor, of any content, in memory that the other ranks of this host can read.

    Use it like `torch.empty`. Collectives of `group` copy less if you give them such tensors.

    Args:
        size: The lengths of the dimensions, as numbers or as one sequence.
        dtype: The elements' type. None: torch's default.
        group: The group. None: the default group.

    Returns:
        A CPU tensor.

    Raises:
        MemoryError: There is not enough shared memory left.
        ValueError: There is no process group yet.
        TypeError: None of the group's backends is ringroad.

    Example:
        >>> import torch.distributed as dist
        >>> import ringroad.torch
        >>> dist.init_process_group("ringroad", store=dist.HashStore(), rank=0, world_size=1)
        >>> tensor = ringroad.torch.empty(2, 3).fill_(1)
        >>> dist.all_reduce(tensor)
        >>> float(tensor.sum())
        6.0
        >>> dist.destroy_process_group()
    """
    dtype = dtype or torch.get_default_dtype()
    shape = torch.empty(*size, device="meta").shape
    memory = communicator(group).empty(shape.numel() * dtype.itemsize, "uint8")
    return torch.from_numpy(memory).view(dtype).reshape(shape)


def check_replicas(
    module: torch.nn.Module | Mapping[str, torch.Tensor],
    group: dist.ProcessGroup | None = None,
    *,
    repair: bool = False,
    timeout: float | None = None,
) -> ReplicaCheck:
    """Checks that a model's parameters and buffers hold the same bits on all ranks, and says which differ and where.

    Replicas of data parallel training should never differ, but broken memory, a step that one rank has missed, or code
    that runs on some ranks only makes them differ without an error. `Communicator.check_replicas` explains what is
    compared and repaired. Tensors on GPUs are copied to the host, one after the other.

    Args:
        module: The module, or a mapping from names to tensors, such as the state of an optimizer.
        group: The group whose members are compared. None: the default group. For a sharded model, pass the group of a
            mesh dimension along which it is replicated: local parts are compared.
        repair: True: what differs is copied from the majority, for each tensor.
        timeout: Seconds after which the call fails. None: the group's.

    Returns:
        A `ringroad.results.ReplicaCheck`, the same on all ranks; its ranks are those in the group.

    Raises:
        ReplicaError: Ranks passed different tensors, or one that cannot be compared, or there is no majority for a
            repair. All ranks raise it. The group can be used.
        ValueError: There is no process group yet.
        TypeError: None of the group's backends is ringroad.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> import ringroad.torch
        >>> dist.init_process_group("ringroad", store=dist.HashStore(), rank=0, world_size=1)
        >>> print(ringroad.torch.check_replicas(torch.nn.Linear(3, 2)))
        all 2 arrays are the same on all ranks
        >>> dist.destroy_process_group()
    """
    from ringroad.torch.replicas import check_modules

    return check_modules(communicator(group), module, group, repair, timeout)


def elastic(
    address: str,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    minimum: int | None = None,
    timeout: float = 30,
    patience: float = 300,
    record: str | PathLike[str] | None = None,
) -> ElasticTraining:
    """Joins a group that trains a model, and whose members may come and go. See `ringroad.elastic`.

    The group's state is the model's parameters and buffers and the optimizer's state, which all members hold alike. It
    overwrites a newcomer's own. torch.distributed is not used, and need not be initialized.

    Args:
        address: As for `ringroad.elastic`.
        model: The same model on all members, whole on each of them.
        optimizer: Its optimizer, made alike on all members.
        minimum: As for `ringroad.elastic`.
        timeout: As for `ringroad.elastic`.
        patience: As for `ringroad.elastic`.
        record: As for `ringroad.elastic`.

    Returns:
        The group, whose method `train` does a step of data parallel training.

    Raises:
        TimeoutError: No group takes this process in.
        ReplicaError: The group trains another model.
        ValueError: `address` is malformed.
        TransportError: This process cannot listen on a port.

    Example:
        >>> import socket
        >>> import torch
        >>> import ringroad.torch
        >>> with socket.create_server(("127.0.0.1", 0)) as free:
        ...     address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        >>> model = torch.nn.Linear(3, 1)
        >>> adam = torch.optim.Adam(model.parameters(), lr=0.1)
        >>> with ringroad.torch.elastic(address, model, adam, minimum=1) as group:
        ...     while group.step < 100:
        ...         changed = group.update()
        ...         loss = group.train(lambda: (model(torch.ones(3)) - 1).square().sum())
        >>> bool(loss < 0.1)
        True
    """
    from ringroad.torch.elastic_training import ElasticTraining

    return ElasticTraining(address, model, optimizer, minimum, timeout, patience, record)


def _create(opts: Any, pg_options: Any) -> Any:
    """Makes the group; torch calls this for every group on its members. Collective over the members."""
    from ringroad.torch.backend import RingroadBackend
    from ringroad.torch.group import RingroadProcessGroup

    if pg_options is not None and not isinstance(pg_options, Options):
        raise TypeError(f"ringroad: pg_options must be ringroad.torch.Options, not {type(pg_options).__name__}")
    answer(Config())
    member = GroupMember(
        opts.store,
        opts.group_rank,
        opts.group_size,
        opts.timeout,
        opts.group_id,
        opts.global_ranks_in_group,
        pg_options or Options(),
    )
    alone = _alone(sys._getframe(1).f_locals)
    if getattr(opts, "enable_reconfigure", False):
        from ringroad.torch.reconfigure import ReconfigurableProcessGroup

        if not alone:
            raise ValueError("ringroad: enable_reconfigure=True takes a group whose only backend is ringroad")
        return ReconfigurableProcessGroup(member)
    if alone:
        return RingroadProcessGroup(member)
    if not MODERN:
        raise RuntimeError(
            f'ringroad: beside another backend ("cpu:ringroad,cuda:nccl") it needs torch 2.14 or later, this is '
            f'{torch.__version__}; use init_process_group("ringroad"), for CPU tensors'
        )
    return RingroadBackend(member)


def _alone(caller: dict[str, Any]) -> bool:
    """Whether ringroad serves all devices of the group being created, so that it may replace torch's ProcessGroup.

    torch does not pass the other backends to a backend's creator, so this reads the caller's variables. If they do not
    say, the group counts as mixed, which works for all groups but is slower.
    """
    config = caller.get("backend_config")
    backends = getattr(config, "device_backend_map", {})
    return bool(backends) and set(backends.values()) == {"ringroad"}


register()
