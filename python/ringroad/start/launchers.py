"""What launchers tell their processes: rank and size, and how the ranks of a job can find rank 0.

Everything here is derived from the environment, in the same way on all ranks.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ringroad._native import ConfigError

_ROWS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI", "PMI_RANK", "PMI_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    ("Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
)
"""The first row with both variables set counts. Slurm's come last: mpirun inside of a Slurm job leaves them set, but
they count the daemons that it has started. So do Flux's.
"""

_WITHOUT_SIZE = ("PMIX_RANK", "PALS_RANKID")
"""Ranks that come without a size."""

_PORTS = (20_000, 32_767)
"""From these ports one is derived if RINGROAD_TCP_PORTS is unset. Linux gives clients higher ones."""

_TRIES = 8
"""The number of ports that are derived, so that one of them is free."""

_NOT_A_STEP = 0xFFFF_FFF0
"""Slurm's steps from this number on are batch scripts and the like."""


@dataclass(frozen=True)
class Launcher:
    """A launcher, and the rank and the size that it has given this process."""

    name: str
    rank: int
    size: int
    variable: str


@dataclass(frozen=True)
class Master:
    """Where rank 0 listens, and what distinguishes the job from others."""

    host: str
    ports: tuple[int, ...]
    job: str


def launcher_of(environ: Mapping[str, str]) -> Launcher | None:
    """The launcher that has started this process. Raises ConfigError if its variables are not numbers."""
    for name, rank, size in _ROWS:
        if rank in environ and size in environ:
            found = Launcher(name, number(rank, environ), number(size, environ), rank)
            # Slurm's own PMI sets the same variables as mpirun and Flux, but not their others.
            others = environ.keys() & {"MPI_LOCALNRANKS", "FLUX_TASK_RANK"}
            slurm = found.name == "PMI" and not others and _is_step(environ)
            return Launcher("Slurm", found.rank, found.size, rank) if slurm else found
    return None


_LOCAL = (
    ("Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("PMI", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
    ("PMI", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("jsrun", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"),
)
"""A process's number among the ranks of its host, and how many these are. The first row that is set counts."""


def local_of(launcher: Launcher, environ: Mapping[str, str]) -> tuple[int, int] | None:
    """This process's number among the ranks of its host, and how many these are; None if the launcher does not say."""
    if launcher.name == "Slurm":
        counts = environ.get("SLURM_STEP_TASKS_PER_NODE", "")
        if not counts or "SLURM_LOCALID" not in environ or "SLURM_NODEID" not in environ:
            return None
        return number("SLURM_LOCALID", environ), counts_of(counts)[number("SLURM_NODEID", environ)]
    for name, rank, size in _LOCAL:
        if name == launcher.name and rank in environ and size in environ:
            return number(rank, environ), number(size, environ)
    return None


def counts_of(text: str) -> list[int]:
    """The ranks of each host, as Slurm writes them: 4, 4 and 3 of "4(x2),3"."""
    runs = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(count) for count, hosts in runs for _ in range(int(hosts or 1))]


def found_in_part(environ: Mapping[str, str]) -> list[str]:
    """The variables of launchers that are set, though their counterparts are not."""
    names = [*(name for row in _ROWS for name in row[1:]), *_WITHOUT_SIZE]
    return list(dict.fromkeys(name for name in names if name in environ))


def number(name: str, environ: Mapping[str, str]) -> int:
    """The value of a variable. Raises ConfigError if it is not a number."""
    try:
        return int(environ[name])
    except ValueError:
        raise ConfigError(f"{name}={environ[name]!r} is not a number") from None


def job_of(launcher: Launcher | None, environ: Mapping[str, str]) -> str:
    """What the launcher calls this job; empty if it has no name for it that is the same on all hosts."""
    names: tuple[str, ...] = ()
    match launcher.name if launcher else None:
        case "torchrun":
            names = ("TORCHELASTIC_RUN_ID",)
        case "Open MPI":
            names = ("PMIX_NAMESPACE",) if environ.get("PMIX_NAMESPACE") else ("OMPI_MCA_ess_base_jobid",)
        case "Slurm":
            job = "SLURM_HET_JOB_ID" if environ.get("SLURM_HET_JOB_ID") else "SLURM_JOB_ID"
            names = (job, "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
        case "PMI" | "Flux":
            names = ("PALS_APID", "FLUX_JOB_ID")
    return " ".join(f"{name}={environ[name]}" for name in names if environ.get(name))


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `tcp://host:port`. Raises ValueError."""
    host, _, port = text.removeprefix("tcp://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address; expected tcp://host:port")
    return host.strip("[]"), int(port)


def job_here() -> str:
    """What the launcher of this process calls its job."""
    return job_of(launcher_of(os.environ), os.environ)


def master(launcher: Launcher | None, environ: Mapping[str, str], ports: tuple[int, int] | None) -> Master | None:
    """The place that follows from MASTER_ADDR and MASTER_PORT; None if they are not set. Raises ConfigError."""
    host, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if not host and not port:
        return None
    _check_host(host or "")
    if not host or not port:
        one, other = ("MASTER_ADDR", "MASTER_PORT") if host else ("MASTER_PORT", "MASTER_ADDR")
        raise ConfigError(f"{one} is set, but {other} is not: set both, or neither")
    wanted = number("MASTER_PORT", environ)
    if not 0 < wanted < 65536:
        raise ConfigError(f"MASTER_PORT={port} is not a port; expected a number from 1 to 65535")
    # Launchers may call several jobs the same, or have no name for them.
    job = f"{job_of(launcher, environ)} MASTER_PORT={wanted}".strip()
    # At that port itself torch.distributed has its store, or torchrun's agent.
    others = tuple(one for one in _ports(job, ports) if one != wanted)
    return Master(host, others or (wanted,), job)


def _check_host(text: str) -> None:
    """Raises ConfigError if MASTER_ADDR is more than a host: torch, too, takes all of it for the host's name."""
    host, port = re.sub(r"^\w+://", "", text.strip()).rstrip("/").strip("[]"), ""
    if host.count(":") == 1 or "]:" in host:  # addresses of IPv6 have more colons
        host, _, port = host.rpartition(":")
    host = host.strip("[]")
    if host != text:
        raise ConfigError(
            f"MASTER_ADDR={text!r} is more than a host's name or address: set MASTER_ADDR={host}"
            + (f" and MASTER_PORT={port}" if port else "")
        )


def derived(launcher: Launcher, environ: Mapping[str, str], ports: tuple[int, int] | None) -> Master | None:
    """A place that follows from what the launcher says; None if it says nothing. Raises ConfigError."""
    job = job_of(launcher, environ)
    match launcher.name:
        case "Slurm":
            host = _first_host(launcher, environ)
        case "Open MPI":
            _one_host(launcher, environ, "mpirun -x MASTER_ADDR=node1 -x MASTER_PORT=29500 ...")
            # Names of jobs have a process's number, which may be used again, also in a container beside this one; the
            # launcher's port on this host has one owner.
            servers = (environ[name] for name in sorted(environ) if name.startswith("PMIX_SERVER_URI"))
            host, job = "127.0.0.1", f"{job} {next(servers, '')}" if job else _launching_process(launcher)
        case "PMI" | "MVAPICH" | "jsrun" | "Flux":
            hydra = "mpirun -genv MASTER_ADDR node1 -genv MASTER_PORT 29500 ..."
            exported = "export MASTER_ADDR=node1 MASTER_PORT=29500, if your launcher passes that on"
            _one_host(launcher, environ, hydra if "MPI_LOCALNRANKS" in environ else exported)
            host, job = "127.0.0.1", f"{job} {_launching_process(launcher)}".strip()
        case _:
            return None
    return Master(host, _ports(job, ports), job)


def _ports(job: str, allowed: tuple[int, int] | None) -> tuple[int, ...]:
    """Some ports that all ranks of a job derive alike, and other jobs differently."""
    first, last = allowed or _PORTS
    digest = hashlib.sha256(job.encode()).digest()
    pairs = (int.from_bytes(digest[at : at + 4], "little") for at in range(0, 4 * _TRIES, 4))
    return tuple(dict.fromkeys(first + pair % (last - first + 1) for pair in pairs))


def _one_host(launcher: Launcher, environ: Mapping[str, str], example: str) -> None:
    """Raises ConfigError unless the launcher says that all ranks are on one host."""
    says = [(size, launcher.size) for name, _, size in _LOCAL if name == launcher.name] + [("FLUX_JOB_NNODES", 1)]
    said = next(((name, wanted) for name, wanted in says if name in environ), None)
    if said and number(said[0], environ) == said[1]:
        return
    where = f"are on several hosts ({said[0]}={environ[said[0]]} here)" if said else "may be on several hosts"
    raise ConfigError(
        f"no store for {launcher.size} ranks to meet in: they {where}, and nothing beside {launcher.variable} says "
        f"where rank 0 is; tell it to all ranks, by the host of rank 0 and a free port there: {example}, or set "
        "RINGROAD_STORE=file:///shared/directory"
    )


def _is_step(environ: Mapping[str, str]) -> bool:
    """Whether srun has started this process."""
    return bool(environ.get("SLURM_STEP_ID")) and number("SLURM_STEP_ID", environ) < _NOT_A_STEP


def _first_host(launcher: Launcher, environ: Mapping[str, str]) -> str:
    """The host of rank 0 of a Slurm step."""
    if not _is_step(environ):
        raise ConfigError(
            f"this process is in a Slurm job, but was not started by srun: start the {launcher.size} ranks with srun, "
            "or pass rank=0, size=1 for this process alone"
        )
    hosts = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    if not hosts:
        raise ConfigError(
            "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set, so that the host of rank 0 is unknown: set "
            "MASTER_ADDR and MASTER_PORT"
        )
    if launcher.rank == 0 and environ.get("SLURM_NODEID", "0") != "0":
        raise ConfigError(
            f"rank 0 is on host number {environ['SLURM_NODEID']} of {hosts}, where other ranks do not look for it: set "
            "MASTER_ADDR and MASTER_PORT to its host and a free port"
        )
    host = first_of(hosts)
    return "127.0.0.1" if host == hosts else host


def first_of(hosts: str) -> str:
    """The first host of a list as Slurm writes it: "node07" of "node[07-09,12],login1"."""
    found = re.match(r"(?:[^,\[]|\[[^\]]*\])+", hosts)
    return re.sub(r"\[([^\]\-,]*)[^\]]*\]", r"\1", found[0]) if found else hosts


def _was_given(process: int, variable: bytes) -> bool:
    """Whether a process was started with this variable. True also if that is hidden, as for a container's starter."""
    try:
        given = Path(f"/proc/{process}/environ").read_bytes()
    except PermissionError:
        return True
    return any(one.startswith(variable) for one in given.split(b"\0"))


def _launching_process(launcher: Launcher) -> str:
    """The process that has started all ranks of this host, by its number and its start. Shells and other programs
    between it and a rank do not count: they have inherited the rank's variables.
    """
    variable, process = f"{launcher.variable}=".encode(), os.getppid()
    while process > 0:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            if not _was_given(process, variable):
                return f"process {process} {fields[19]}"
        except OSError:
            break
        process = int(fields[1])
    raise ConfigError(
        f"no store for {launcher.size} ranks to meet in: the process that started them cannot be found; set "
        "MASTER_ADDR and MASTER_PORT, or RINGROAD_STORE=file:///shared/directory"
    )
