"""`ringroad.init`: finds rank, size and store of this process.

They come from the arguments, else from the launcher's environment. There is no fallback: if one is unknown, an error
says what to set. A process never becomes a group of one by mistake.
"""

import os
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Literal

from ringroad import _native
from ringroad._native import Communicator, Config, ConfigError, FileStore, MemoryStore, TcpStore, Topology
from ringroad._support.text import items, whole
from ringroad.start import launchers
from ringroad.start.launchers import Master
from ringroad.start.signals import answer

if TYPE_CHECKING:
    from ringroad._native import Store


def init(
    store: "Store | MemoryStore | FileStore | TcpStore | None" = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    timeout: float | None = None,
    topology: Topology | str | int | None = None,
    algorithm: str | None = None,
    deterministic: Literal["size-invariant"] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Communicator:
    """Makes the communicator of all processes of this job.

    It is collective: every process calls it, equally often. Rank, size and store come from the arguments, else from
    the launcher's environment. If one is unknown, an error says what to set; there is no fallback to a group of
    one.

    Under torchrun, srun, and mpirun on one host, nothing has to be set. Without a `store` argument the processes
    meet at the first of these places:

    1. `RINGROAD_STORE`: `tcp://host:port`, where rank 0 listens (its host, and a free port), or
       `file:///shared/directory`, a new directory for every job.
    2. `MASTER_ADDR` and `MASTER_PORT`: rank 0 listens at that host, at another port, which all ranks derive from that
       one. So torch.distributed, whose own store is there, may use the same variables.
    3. Slurm: rank 0 listens on the first host of the step, at a port derived from the numbers of job and step.
    4. mpirun, Flux and others whose variables say that all ranks are on one host: rank 0 listens on loopback, at a
       port derived from what the launcher calls the job, or from its process. If the ranks are on several hosts, or
       nothing says that they are not, set 1 or 2.

    ringroad leaves signals to the program. With RINGROAD_SIGNAL=USR1, that signal makes a process write to standard
    error how its job stands, as `ringroad status` shows it, unless the program has a handler for it.

    Derived ports are between 20000 and 32767, or within RINGROAD_TCP_PORTS. If one is taken, rank 0 takes another one,
    where the others find it. With RINGROAD_SECRET only processes that know it can connect.

    Args:
        store: Where the processes find each other: a `FileStore`, a `TcpStore`, a `MemoryStore`, or a store of
            torch.distributed. None: as above. A group of one needs no store.
        rank: The number of this process, from 0. None: `RANK` (torchrun), `OMPI_COMM_WORLD_RANK` (Open MPI), `PMI_RANK`
            (MPICH, Intel MPI, PALS), `MV2_COMM_WORLD_RANK` (MVAPICH), `JSM_NAMESPACE_RANK` (jsrun), `FLUX_TASK_RANK`
            or `SLURM_PROCID`.
        size: The number of processes. None: `WORLD_SIZE` (torchrun), `OMPI_COMM_WORLD_SIZE`, `PMI_SIZE`,
            `MV2_COMM_WORLD_SIZE`, `JSM_NAMESPACE_SIZE`, `FLUX_JOB_SIZE`, `SLURM_STEP_NUM_TASKS` or `SLURM_NTASKS`.
        timeout: Seconds within which all processes must come; also the default of every later call. None:
            RINGROAD_TIMEOUT, or 300.
        topology: The network, as a `Topology` or a spec such as "torus:4x4". None: RINGROAD_TOPOLOGY, or what is
            detected. Rank 0's value counts.
        algorithm: The algorithms to choose among, as in RINGROAD_ALGO: "ring,swing" or "^bucket". None:
            RINGROAD_ALGO, or all. Rank 0's value counts.
        deterministic: "size-invariant": floats are added in the same order for every vector length. None:
            RINGROAD_DETERMINISTIC. Rank 0's value counts.
        settings: Values of RINGROAD_* variables for this communicator, by name. They override the environment.
            `ringroad info` lists all variables.

    Returns:
        The communicator. Use it in a `with` block, or close it.

    Raises:
        ConfigError: Rank, size or store are unknown, a setting has a value that cannot be used, or `algorithm`
            names an unknown one. The message says what to set.
        ValueError: `settings` names a variable that does not exist, or `timeout` or `deterministic` is invalid.
        TimeoutError: Processes did not come in time. The message names the ranks; if rank 0 was not found, also its
            host and port.
        PeerError: A process died or gave up meanwhile. The message names it.
        StoreError: The store failed, or its port belongs to another process.
        TransportError: UCX is needed and missing, or the network failed.
        TopologyError: The topology is malformed, or has another number of ranks.
        ScheduleError: None of the algorithms can run here.
        KeyboardInterrupt: What a signal handler raises is raised at once.

    Example:
        Under torchrun, srun or mpirun `ringroad.init()` needs no arguments. A group of one:

        >>> with ringroad.init(rank=0, size=1) as comm:
        ...     comm.allreduce(np.array([1.0, 2.0]))
        array([1., 2.])
    """
    rank, size = _place(rank, size, os.environ)
    answer(Config(settings))
    if store is None:
        store = _store(rank, size, timeout, settings)
    return Communicator(
        store,
        rank,
        size,
        timeout=timeout,
        topology=topology,
        algorithm=algorithm,
        deterministic=deterministic,
        settings=settings,
    )


def regroup(
    handles: Sequence[str] | Set[str],
    *,
    own: str | None = None,
    uuid: int = 0,
    timeout: float | None = None,
    topology: Topology | str | int | None = None,
    algorithm: str | None = None,
    deterministic: Literal["size-invariant"] | None = None,
) -> Communicator:
    """Makes a communicator of the processes that issued some handles.

    It is collective: each of the processes calls it. It needs neither a store nor a launcher: processes find each
    other by the handles, which you may exchange by any means. Use it if a job lost a rank, if ranks join later, or
    if groups merge or split.

    Args:
        handles: The handles of all processes, from `ringroad.handle()` or `comm.handles`; the same on all of them.
            The order of a list gives the ranks. A set is put in an order in which ranks of a host are neighbours.
        own: This process's handle, if it issued several of the handles.
        uuid: The same on all processes; another attempt with the same handles needs another one.
        timeout: Seconds to wait for the others; also the default of every later call. None: RINGROAD_TIMEOUT, or
            300.
        topology: The network, as in `init`.
        algorithm: The algorithms to choose among, as in `init`.
        deterministic: "size-invariant" or None, as in `init`.

    Returns:
        The communicator.

    Raises:
        PeerError: A process has ended or does not answer. The message names it.
        TimeoutError: A process does not call this. The message names it.
        ValueError: A handle is malformed, or none or several of them are this process's.
        TransportError: The network failed.

    Example:
        >>> with ringroad.regroup([ringroad.handle()]) as comm:
        ...     comm.rank, comm.size
        (0, 1)
    """
    return _native.regroup(
        items("handles", handles),
        sort=isinstance(handles, Set),
        own=own,
        uuid=uuid,
        timeout=timeout,
        topology=topology,
        algorithm=algorithm,
        deterministic=deterministic,
    )


def _place(rank: int | None, size: int | None, environ: Mapping[str, str]) -> tuple[int, int]:
    """Rank and size, checked. Raises ConfigError."""
    if rank is None or size is None:
        launcher = launchers.launcher_of(environ)
        if launcher is None:
            half = launchers.found_in_part(environ)
            raise ConfigError(
                "rank and size are unknown: start the processes with torchrun, srun or mpirun, or set RANK and "
                "WORLD_SIZE, or pass rank= and size=; ringroad.local(n) starts processes on this machine"
                + (f" (found only {', '.join(half)})" if half else "")
            )
        rank = launcher.rank if rank is None else rank
        size = launcher.size if size is None else size
    rank, size = whole("rank", rank), whole("size", size)
    if size < 1 or not 0 <= rank < size:
        raise ConfigError(f"rank {rank} of {size} is out of range; ranks count from 0 to size - 1")
    return rank, size


def _store(rank: int, size: int, timeout: float | None, settings: Mapping[str, str] | None) -> Any:
    """The store that the settings name, or else that of the launcher. Raises ConfigError if there is none."""
    config = Config(settings)
    where = _where(rank, size, config)
    seconds = config.timeout if timeout is None else timeout
    if isinstance(where, str):
        return FileStore(where)
    return MemoryStore() if where is None else _own_store(where, rank, seconds, settings)


def _where(rank: int, size: int, config: Config) -> str | Master | None:
    """The directory of a FileStore, the place of a TcpStore, or None for a group of one, which needs neither. Raises
    ConfigError if there is no place to meet.
    """
    if isinstance(config.store, str):
        return config.store
    if size == 1:
        return None
    launcher = launchers.launcher_of(os.environ)
    if launcher and (launcher.rank, launcher.size) != (rank, size):
        launcher = None  # the caller has made groups of its own
    if isinstance(config.store, tuple):
        host, port = config.store
        return Master(host, (port,), launchers.job_of(launcher, os.environ))
    # Ranks in an order of the caller's own meet at one place, though some keep the launcher's numbers.
    place = launchers.master(launchers.launcher_of(os.environ), os.environ, config.tcp_ports)
    if not place and launcher:
        place = launchers.derived(launcher, os.environ, config.tcp_ports)
    if not place:
        raise ConfigError(
            f"no store for {size} ranks to meet in: set RINGROAD_STORE=tcp://host:port (rank 0's host, and a free "
            "port) or RINGROAD_STORE=file:///shared/directory, or MASTER_ADDR and MASTER_PORT, or pass store="
        )
    return place


_servers: dict[tuple[int, Master], TcpStore] = {}
"""The stores that this process serves as rank 0, by its number (a forked child has none) and the place."""


def _own_store(place: Master, rank: int, timeout: float, settings: Mapping[str, str] | None) -> TcpStore:
    """The store that rank 0 serves as long as its process lives. The others connect each time, so that rank 0 keeps no
    idle connections.
    """
    served = (os.getpid(), place)
    if rank == 0 and served in _servers:
        return _servers[served]
    store = TcpStore(place.host, place.ports, rank, job=place.job, timeout=timeout, settings=settings)
    if rank == 0:
        _servers[served] = store
    return store
