"""torch's default process group of a job, under any launcher."""

import itertools
import os
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed.constants import default_pg_timeout

from ringroad._native import Config, TimeoutError
from ringroad.start import launchers, rendezvous
from ringroad.start.launchers import Master
from ringroad.torch.membership import Options

_KEY = "torch.distributed"
_POLL = 0.01


def init(
    backend: str = "ringroad", *, timeout: timedelta | float | None = None, options: Options | None = None
) -> None:
    """Makes torch's default process group of all processes of this job, under any launcher.

    It is `torch.distributed.init_process_group` for torchrun, srun and mpirun: the processes meet where
    `ringroad.init` meets. Frameworks that refuse unknown backends keep the group that they find, so call this before
    them.

    It also sets the variables that torchrun sets and frameworks read, where they are unset and the launcher says them:
    `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`.

    Args:
        backend: The backend, as for torch: "ringroad", or "cpu:ringroad,cuda:nccl".
        timeout: The time limit of making the group and of every call: a timedelta, or seconds. None: torch's
            default, 30 minutes.
        options: Topology, algorithms and so on.

    Raises:
        ValueError: There is a default process group already.
        ConfigError: No launcher has started this process, or it does not say where rank 0 is. The message says what
            to set.
        TimeoutError: Rank 0 was not found in time. The message names its host and port.
        StoreError: The store failed, or its port belongs to another process.

    Example:
        In a script that torchrun, srun or mpirun starts:

            import ringroad.torch

            ringroad.torch.init()
            accelerator = accelerate.Accelerator(cpu=True)
    """
    if dist.is_initialized():
        raise ValueError("ringroad: torch.distributed is initialized already; call ringroad.torch.init() before that")
    if timeout is None:
        timeout = default_pg_timeout
    limit = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
    rank, size = rendezvous._place(None, None, os.environ)
    launcher, config = launchers.launcher_of(os.environ), Config()
    method = "env://"
    said: dict[str, str | int] = {"RANK": rank, "WORLD_SIZE": size}
    if launcher and (local := launchers.local_of(launcher, os.environ)):
        said |= {"LOCAL_RANK": local[0], "LOCAL_WORLD_SIZE": local[1]}
    if launchers.master(launcher, os.environ, config.tcp_ports) is None:
        where = rendezvous._where(rank, size, config)
        if isinstance(where, str):
            method = _file(Path(where)).as_uri()
        else:
            said |= _master(where, rank, size, limit)
    # Only now, since they count before the launcher's.
    for name, value in said.items():
        os.environ.setdefault(name, str(value))
    dist.init_process_group(backend, init_method=method, timeout=limit, rank=rank, world_size=size, pg_options=options)


_files = itertools.count()


def _file(folder: Path) -> Path:
    """A file for torch's store; a new one each time, since torch removes it at some time after the group's end."""
    folder.mkdir(parents=True, exist_ok=True)  # torch would wait for it
    # A name that ringroad's store in this directory accepts.
    return folder.absolute() / f"key.{_KEY}.{next(_files)}"


_server: TCPStore | None = None
"""torch's store, which rank 0 serves as long as its process lives. Within the process torch finds it by its port."""


def _master(place: Master | None, rank: int, size: int, limit: timedelta) -> dict[str, str | int]:
    """MASTER_ADDR and MASTER_PORT. Rank 0 serves torch's store there, and tells the others at `place`; a group of one
    needs none.
    """
    global _server
    seconds = limit.total_seconds()
    host = place.host if place else "127.0.0.1"
    if rank == 0:
        _server = TCPStore(host, 0, size, True, limit, wait_for_workers=False, multi_tenant=True)
    if place is None:
        assert _server, "this is rank 0"
        return {"MASTER_ADDR": host, "MASTER_PORT": _server.port}
    board = rendezvous._own_store(place, rank, seconds, None)
    if _server:
        board.set(_KEY, str(_server.port).encode())
    deadline = time.monotonic() + seconds
    while (port := board.get(_KEY)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"ringroad: rank {rank} of {size} waited {seconds:g} s for rank 0, which runs at {host} but does not "
                "call ringroad.torch.init()"
            )
        time.sleep(_POLL)
    return {"MASTER_ADDR": host, "MASTER_PORT": int(port)}
