"""`ringroad.init`: finds rank, size and store of this process.

They come from the arguments, else from the launcher's environment. There is no fallback: if one is unknown, an error
says what to set. A process never becomes a group of one by mistake.
"""

import os
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Future
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

from ringroad import _native
from ringroad._native import Communicator, Config, ConfigError, FileStore, MemoryStore, StoreError, Topology
from ringroad._ucx import _ucx_wheel

if TYPE_CHECKING:
    from ringroad._native import Store

# The first row with both variables set gives rank and size.
_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI", "PMI_RANK", "PMI_SIZE"),
)


def init(
    store: "Store | MemoryStore | FileStore | None" = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    timeout: float | None = None,
    topology: str | Topology | None = None,
    algorithm: str | None = None,
    deterministic: Literal["size-invariant"] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Communicator:
    """The communicator of all processes of this job. Collective: every process calls it, equally often.

    Rank and size: the arguments, else `RANK` and `WORLD_SIZE` (torchrun), `SLURM_PROCID` and `SLURM_NTASKS`,
    `OMPI_COMM_WORLD_RANK` and `_SIZE`, or `PMI_RANK` and `PMI_SIZE`.

    The store, where the processes find each other: the argument (one of ringroad's, or any store of
    torch.distributed), else `RINGROAD_STORE=file:///shared/directory` (a new directory for every job), else torch's
    TCPStore at `MASTER_ADDR` and `MASTER_PORT`, which needs an installed torch. A group of one needs no store.

    `timeout` in seconds bounds this call and is the default of every later one; `topology` (such as `torus:4x4`) and
    `algorithm` (as in `RINGROAD_ALGO`) say how to communicate. With `deterministic="size-invariant"` floats are added
    up in one order, whatever the length of the vector. `settings` are RINGROAD_* variables with their values, for this
    communicator only; they override the environment (`ringroad info` lists all).

    Raises ConfigError if rank, size or store are unknown, TimeoutError naming the ranks that did not come, PeerError
    naming a rank that died or gave up meanwhile, TransportError if UCX is missing, StoreError if the store fails.
    An exception of a signal handler, such as KeyboardInterrupt, is raised at once.
    """
    rank, size = _place(rank, size, os.environ)
    if store is None:
        store = _store(rank, size, timeout, Config(settings))
    return Communicator(
        store,
        rank,
        size,
        timeout=timeout,
        topology=topology,
        algorithm=algorithm,
        deterministic=deterministic,
        settings=settings,
        ucx_wheel=_ucx_wheel(),
    )


def regroup(
    handles: Sequence[str] | Set[str],
    *,
    own: str | None = None,
    uuid: int = 0,
    timeout: float | None = None,
    topology: str | Topology | None = None,
    algorithm: str | None = None,
    deterministic: Literal["size-invariant"] | None = None,
) -> Communicator:
    """A communicator of the processes that issued these handles (`ringroad.handle()`, or `comm.handles`). Collective.

    It needs no store and no launcher: processes find each other by the handles, which you may exchange by any means.
    Use it if a job lost a rank, if ranks join later, or if groups merge or split. The order of a list gives the ranks;
    a set is put in an order in which ranks of a host are neighbours. All processes pass the same handles and the same
    `uuid`; another attempt with the same handles needs another `uuid`. If this process issued several of the handles,
    `own` says which one to use.

    `timeout` (seconds), `topology`, `algorithm` and `deterministic` are as in `init`.

    Raises PeerError naming the process that has ended or does not answer, TimeoutError if a process does not call this,
    ValueError if a handle is invalid, or if none or several of them are this process's.
    """
    return _native.regroup(
        list(handles),
        sort=isinstance(handles, Set),
        own=own,
        uuid=uuid,
        timeout=timeout,
        topology=topology,
        algorithm=algorithm,
        deterministic=deterministic,
        ucx_wheel=_ucx_wheel(),
    )


def _place(rank: int | None, size: int | None, environ: Mapping[str, str]) -> tuple[int, int]:
    """Rank and size, checked. Raises ConfigError."""
    if rank is None or size is None:
        launcher = next((row for row in _LAUNCHERS if row[1] in environ and row[2] in environ), None)
        if launcher is None:
            half = [name for row in _LAUNCHERS for name in row[1:] if name in environ]
            raise ConfigError(
                "rank and size are unknown: start the processes with torchrun, srun or mpirun, or set RANK and "
                "WORLD_SIZE, or pass rank= and size=; ringroad.local(n) starts processes on this machine"
                + (f" (found only {', '.join(half)})" if half else "")
            )
        rank = _number(launcher[1], environ) if rank is None else rank
        size = _number(launcher[2], environ) if size is None else size
    if size < 1 or not 0 <= rank < size:
        raise ConfigError(f"rank {rank} of {size} is out of range; ranks count from 0 to size - 1")
    return rank, size


def _number(name: str, environ: Mapping[str, str]) -> int:
    try:
        return int(environ[name])
    except ValueError:
        raise ConfigError(f"{name}={environ[name]!r} is not a number") from None


def _store(rank: int, size: int, timeout: float | None, config: Config) -> Any:
    """The store that the settings name, or else that of the launcher. Raises ConfigError if there is none."""
    if config.store is not None:
        return FileStore(config.store)
    if size == 1:
        return MemoryStore()
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing:
        raise ConfigError(
            f"no store for {size} ranks to meet in: set RINGROAD_STORE=file:///shared/directory, or MASTER_ADDR and "
            f"MASTER_PORT, or pass store= ({' and '.join(missing)} not set)"
        )
    if find_spec("torch") is None:
        raise ConfigError(
            "MASTER_ADDR and MASTER_PORT name a store of torch, which is not installed: install torch, or set "
            "RINGROAD_STORE=file:///shared/directory, or pass store="
        )
    return _tcp_store(rank, size, config.timeout if timeout is None else timeout)


_rendezvous: dict[tuple[int, int, float], Future[Any]] = {}
"""torch's stores by (rank, size, timeout), maybe still being connected. Rank 0 hosts the store while its process
lives."""


def _tcp_store(rank: int, size: int, timeout: float) -> Any:
    """torch's TCPStore at MASTER_ADDR and MASTER_PORT: rank 0 hosts it, or under torchrun the agent does."""
    distributed: Any = import_module("torch.distributed")
    place = (rank, size, timeout)
    if place not in _rendezvous:
        found = _rendezvous[place] = Future[Any]()

        def look() -> None:
            try:
                url = f"env://?rank={rank}&world_size={size}"
                store, _, _ = next(distributed.rendezvous(url, timeout=timedelta(seconds=timeout)))
                found.set_result(distributed.PrefixStore("ringroad", store))
            except BaseException as error:
                found.set_exception(error)

        # torch handles no signals while it waits. In another thread it leaves the main thread free to handle them.
        Thread(target=look, name="ringroad-rendezvous", daemon=True).start()
    try:
        return _rendezvous[place].result()
    except (RuntimeError, ValueError) as error:
        del _rendezvous[place]
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        text = f"rank {rank} of {size} found no store at MASTER_ADDR:MASTER_PORT={address}: {error}"
        raise StoreError(text) from error
