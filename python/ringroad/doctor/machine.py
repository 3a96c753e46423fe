"""Checks of this machine: what the kernel, the container and the limits allow."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringroad._support.text import about_bytes, significant
from ringroad.doctor import Finding
from ringroad.doctor.probe import read
from ringroad.measure.facts import read as text_of

_ROOT = Path("/")
_SCRIPT = Path(__file__).with_name("probe.py")
_PROBE_SECONDS = 5.0
_UNLIMITED = resource.RLIM_INFINITY
_SEALED = "--security-opt seccomp=FILE with a profile that allows"


# ------------------------------------------------------------------------------------------------ memory


def dev_shm(sizes: dict[str, int] | None) -> Finding:
    """/dev/shm, which UCX, torch's data loaders and other libraries use. ringroad's own shared memory is not there."""
    remedy = "Start the container with --shm-size=2g, or on a machine: mount -o remount,size=2g /dev/shm"
    if sizes is None:
        return Finding("/dev/shm", "warning", "there is none that can be read", remedy)
    text = f"{about_bytes(sizes['size'])}, {about_bytes(sizes['free'])} free"
    if sizes["free"] < 16 << 20:
        full = "Remove files that ended programs left in /dev/shm. " if sizes["size"] >= 256 << 20 else ""
        return Finding("/dev/shm", "warning", f"{text}: UCX may find no room", full + remedy)
    if sizes["size"] < 256 << 20:
        return Finding("/dev/shm", "note", f"{text}: little for torch's data loaders", remedy)
    return Finding("/dev/shm", "ok", text)


def memory(root: Path = _ROOT) -> Finding:
    """The control group's memory limit and how much of it is left."""
    limits = []
    for folder in _groups(root, "memory"):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes") or 0
        if limit is not None and limit < 1 << 60:  # version 1 writes a huge number for no limit
            reclaimable = _field(folder / "memory.stat", "inactive_file") or 0
            limits.append((limit - max(0, used - reclaimable), limit))
    if not limits:
        return Finding("memory", "ok", "the control group sets no limit")
    left, limit = min(limits)
    text = f"the control group allows {about_bytes(limit)}, {about_bytes(max(0, left))} left"
    if left < 256 << 20:
        remedy = "Give the job more memory: docker run --memory, srun --mem, or the pod's resources.limits.memory"
        return Finding("memory", "warning", f"{text}: the kernel may kill a rank", remedy)
    return Finding("memory", "ok", text)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control groups for memory, from the innermost on."""
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if not names or controller in names.split(","):
            mount = root / "sys/fs/cgroup" / (controller if names else "")
            folder = mount / path.lstrip("/")
            yield from (one for one in (folder, *folder.parents) if one.is_relative_to(mount))


# ------------------------------------------------------------------------------------------------ processes


@dataclass(frozen=True)
class Probed:
    """What two other processes found: why a parent cannot reach its child, and why a sibling cannot reach it."""

    parent: dict[str, str | None]
    sibling: dict[str, str | None]
    clock: tuple[int, int, int]
    """The monotonic clock before, in, and after the child."""


def probe() -> Probed:
    """Starts a process, and tries to reach its memory from here and from another one."""
    before = time.monotonic_ns()
    with _holder() as place:
        after = time.monotonic_ns()
        done = _script("read", json.dumps(place))
        return Probed(read(place), json.loads(done), (before, place["monotonic"], after))


@contextmanager
def _holder() -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-I", "-S", str(_SCRIPT), "hold"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


def _script(*arguments: str) -> str:
    command = [sys.executable, "-I", "-S", str(_SCRIPT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PROBE_SECONDS).stdout


def processes(probed: Callable[[], Probed] = probe, root: Path = _ROOT) -> list[Finding]:
    """What ranks of a host do with each other, tried with real processes."""
    found = probed()
    return [cma(found, root), memfd(found), pidfd(found), shared_clock(found)]


def cma(found: Probed, root: Path = _ROOT) -> Finding:
    """Whether processes may read each other's memory (process_vm_readv)."""
    scope = text_of(root / "proc/sys/kernel/yama/ptrace_scope").strip()
    yama = f"; yama ptrace_scope is {scope}" if scope else ""
    slower = "long messages within a host are copied twice"
    parent, sibling = found.parent["memory"], found.sibling["memory"]
    if sibling is None:
        return Finding("CMA", "ok", f"processes may read each other's memory{yama}")
    if parent is None:
        remedy = (
            "Arrays from comm.empty and ringroad.torch.empty need no CMA. For others start the job with CAP_SYS_PTRACE "
            "(--cap-add=SYS_PTRACE): it may then read all processes of its container. Or sysctl -w "
            "kernel.yama.ptrace_scope=0, which has a price: on the whole machine any process of a user may then read "
            "the memory of all others of that user, with the keys and passwords in it"
        )
        return Finding("CMA", "note", f"only a parent may read its child's memory{yama}: {slower}", remedy)
    seccomp = " under seccomp" if _field(root / "proc/self/status", "Seccomp:") == 2 else ""
    remedy = f"Start the container with --cap-add=SYS_PTRACE, or with {_SEALED} process_vm_readv"
    return Finding("CMA", "warning", f"not permitted{seccomp} ({parent}){yama}: {slower}", remedy)


def memfd(found: Probed) -> Finding:
    """Whether ranks can open each other's shared memory: a file of memfd_create, through /proc/PID/fd."""
    if (why := found.sibling["memfd"]) is None:
        return Finding("memfd", "ok", "processes can map each other's shared memory")
    remedy = (
        "Run the ranks of a host as one user with a common /proc (docker run --pid=host, or one container for all), "
        f"without hidepid; in a sandbox use {_SEALED} memfd_create"
    )
    return Finding("memfd", "warning", f"{why}: ranks of a host cannot share memory and use tcp", remedy)


def pidfd(found: Probed) -> Finding:
    """Whether a rank can watch another process (pidfd_open)."""
    if (why := found.sibling["pidfd"]) is None:
        return Finding("pidfd", "ok", "a rank's end is noticed at once")
    remedy = f"Use Linux 5.3 or newer; in a sandbox use {_SEALED} pidfd_open"
    return Finding("pidfd", "note", f"pidfd_open: {why}: a rank's end is noticed up to 0.1 s later", remedy)


def shared_clock(found: Probed) -> Finding:
    """Whether all processes read the same CLOCK_MONOTONIC."""
    before, inside, after = found.clock
    if before <= inside <= after:
        return Finding("shared clock", "ok", "processes read the same monotonic clock")
    apart = (inside - before) / 1e9
    remedy = "Start all ranks of a host in one time namespace (without unshare --time); traces of ranks do not match"
    return Finding("shared clock", "warning", f"a child's clock is {apart:+.3f} s apart", remedy)


# ------------------------------------------------------------------------------------------------ clock, cores, limits


def clock_source(root: Path = _ROOT) -> Finding:
    """What the kernel reads the time from. Slow sources need a system call."""
    folder = root / "sys/devices/system/clocksource/clocksource0"
    name = text_of(folder / "current_clocksource").strip()
    if name in ("hpet", "acpi_pm", "jiffies", "refined-jiffies"):
        others = text_of(folder / "available_clocksource").split()
        better = next((other for other in ("tsc", "kvm-clock") if other in others), None)
        remedy = (
            f"echo {better} > /{folder.relative_to(root) / 'current_clocksource'}, as root"
            if better
            else "See dmesg | grep -i clocksource for why the kernel does not use tsc"
        )
        return Finding("clock source", "warning", f"{name}: each look at the clock takes about a microsecond", remedy)
    if not name:
        return Finding("clock source", "ok", "the kernel does not say; sandboxes keep it to themselves")
    return Finding("clock source", "ok", name)


def cores(allowed: int, present: int, quota: float | None, ranks: int) -> Finding:
    """Cores that this process may use, beside the ranks on this host."""
    text = f"{allowed} of {present} allowed" + ("" if quota is None else f", CPU time for {significant(quota)}")
    usable = allowed if quota is None else min(allowed, quota)
    grow = "docker run --cpus, srun --cpus-per-task, or the pod's resources.limits.cpu"
    if ranks > usable:
        remedy = f"Start at most {max(1, int(usable))} ranks here, or give the job more cores: {grow}"
        return Finding("cores", "warning", f"{text}: {ranks} ranks share them and wait for each other", remedy)
    if quota is not None and quota < allowed:
        remedy = f"Give the job as much CPU time as cores, else all its threads are stopped together: {grow}"
        return Finding("cores", "note", text, remedy)
    return Finding("cores", "ok", text)


def open_files(ranks: int = 1) -> Finding:
    """`ulimit -n`: ranks hold a few descriptors for each other rank."""
    return _limit("open files", resource.RLIMIT_NOFILE, "-n", 256 + 8 * ranks, str, f"too few for {ranks} ranks")


def locked_memory(root: Path = _ROOT) -> Finding:
    """`ulimit -l`: InfiniBand locks the memory that it sends."""
    if not _has_entries(root / "sys/class/infiniband"):
        return Finding("locked memory", "ok", "there is no InfiniBand device that needs it")
    return _limit("locked memory", resource.RLIMIT_MEMLOCK, "-l", _UNLIMITED, about_bytes, "InfiniBand needs more")


def address_space() -> Finding:
    """`ulimit -v`: ranks map each other's memory."""
    few = "ranks map each other's memory and need more"
    return _limit("address space", resource.RLIMIT_AS, "-v", _UNLIMITED, about_bytes, few)


def _limit(name: str, which: int, option: str, needed: int, text: Callable[[int], str], few: str) -> Finding:
    soft, hard = resource.getrlimit(which)
    found = "unlimited" if soft == _UNLIMITED else text(soft)
    if soft == _UNLIMITED or (needed != _UNLIMITED and soft >= needed):
        return Finding(name, "ok", found)
    enough = "unlimited" if needed == _UNLIMITED else str(needed)
    needs_root = hard != _UNLIMITED and (needed == _UNLIMITED or hard < needed)
    how = "as root, in /etc/security/limits.conf, or docker run --ulimit" if needs_root else "before the job starts"
    return Finding(name, "warning", f"{found}: {few}", f"ulimit {option} {enough}, {how}")


# ------------------------------------------------------------------------------------------------ files


def _number(path: Path) -> int | None:
    text = text_of(path).strip()
    return int(text) if text.isdigit() else None


def _field(path: Path, name: str) -> int | None:
    """The number behind a name in a file of lines."""
    for line in text_of(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == name and words[1].isdigit():
            return int(words[1])
    return None


def _has_entries(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False
