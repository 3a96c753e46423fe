"""The facts that `ringroad info` and `ringroad doctor` report: software and hardware that affect communication."""

import fcntl
import json
import os
import platform
import socket
import struct
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ringroad._native import Config, ConfigError, RingroadError, __version__, between_hosts, machine, ucx_info

_SIOCGIFADDR = 0x8915
BUSY = 0.2
"""Measurements are disturbed if other processes keep more cores busy than this."""


def describe() -> dict[str, Any]:
    """All facts, ready for JSON. Sizes are in bytes. Errors, such as missing UCX, are part of the result and not
    raised."""
    config, warnings = _config()
    found = json.loads(machine())
    return {
        "versions": versions(),
        "between_hosts": carrier(),
        "ucx": ucx(),
        "ucx_variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith("UCX_")},
        "host": {
            "name": socket.gethostname(),
            "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
            "cores": len(os.sched_getaffinity(0)),
            "core_quota": core_quota(),
            "shared_memory": shared_memory(),
            "distance": found["distance"],
            "last_level_cache": found["last_level"],
            **{name: found[name] for name in ("cache_line", "page", "huge_page")},
        },
        "interfaces": interfaces(),
        "settings": [
            {
                "variable": setting.name,
                "value": setting.value,
                "unit": setting.unit,
                "origin": setting.origin,
                "default": setting.default,
                "values": setting.choices or setting.values,
                "help": setting.help,
            }
            for setting in config.settings
        ],
        "warnings": warnings,
    }


@dataclass(frozen=True)
class Caches:
    """Whether the CPUs share a cache.

    Attributes:
        label: `shared` (they do), `separate` (they do not), or `single` (there is only one CPU).
        nanoseconds: The time of a cache line from one CPU to the other; None if it was not measured.
    """

    label: str
    nanoseconds: float | None


def caches() -> Caches:
    """Measures whether the CPUs that this process may use share a cache, which takes milliseconds."""
    found = json.loads(machine())
    return Caches(found["caches"], found["nanoseconds"])


def chosen(config: Config | None = None) -> dict[str, str]:
    """The settings that the environment has, by name; none if one of them is invalid."""
    if config is None:
        config, _ = _config()
    return {setting.name: setting.value or "" for setting in config.settings if setting.origin == "environment"}


def _config() -> tuple[Config, list[str]]:
    """The settings and their warnings. If a setting is invalid, the defaults of all settings and the error."""
    try:
        config = Config()
    except ConfigError as error:
        return Config.defaults(), [f"{error}; the defaults are shown"]
    return config, config.warnings


def versions() -> dict[str, str | None]:
    """The versions of what takes part; None for what is not installed."""
    return {
        "ringroad": __version__,
        "python": platform.python_version(),
        "numpy": version_of("numpy"),
        "torch": version_of("torch"),
    }


def version_of(package: str) -> str | None:
    """The version of an installed package, without importing it; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def carrier() -> str:
    """What would carry messages between this host and others like it, and why."""
    try:
        return between_hosts()
    except ConfigError as error:
        return str(error)


def ucx() -> dict[str, str]:
    """The UCX that a communicator would use, or the reason why there is none."""
    try:
        found = ucx_info()
        first = {name: found[name] for name in ("version", "origin", "why", "path") if name in found}
        return first | {"origin": found["origin"].lower()} | {k: v for k, v in found.items() if k not in first}
    except RingroadError as error:
        return {"error": str(error)}


def core_quota() -> float | None:
    """The cores' worth of CPU time that the control group allows; None if there is no limit."""
    quotas = []
    for line in read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            quotas += [_quota_v2(folder) for folder in _with_parents("/sys/fs/cgroup", path)]
        elif "cpu" in controllers.split(","):
            quotas += [_quota_v1(folder) for folder in _with_parents(f"/sys/fs/cgroup/{controllers}", path)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _with_parents(mount: str, path: str) -> list[Path]:
    # Inside a container the group may be mounted without its path.
    folder = Path(mount, path.lstrip("/"))
    return [p for p in (folder, *folder.parents) if p.is_relative_to(mount)]


def _quota_v2(folder: Path) -> float | None:
    quota, _, period = read(folder / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() else None


def _quota_v1(folder: Path) -> float | None:
    quota, period = read(folder / "cpu.cfs_quota_us").strip(), read(folder / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def shared_memory() -> dict[str, int] | None:
    """Size and free space of /dev/shm in bytes; None if it cannot be read."""
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return None
    return {"size": status.f_blocks * status.f_frsize, "free": status.f_bavail * status.f_frsize}


def busy_cores() -> float | None:
    """The number of cores that are busy, over half a second; None if unknown."""
    before = _spent()
    time.sleep(0.5)
    after = _spent()
    return None if before is None or after is None else max(0.0, round((after - before) / 0.5, 2))


def _spent() -> float | None:
    """Busy seconds of all cores since boot, with time that the host took away; None if unknown."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


def interfaces() -> list[dict[str, Any]]:
    """Network interfaces with their state, addresses, and speed in Mbit/s (None if unknown)."""
    ipv6 = _ipv6_addresses()
    found = []
    for _, name in socket.if_nameindex():
        speed = read(f"/sys/class/net/{name}/speed").strip()
        found.append(
            {
                "name": name,
                "state": read(f"/sys/class/net/{name}/operstate").strip() or "unknown",
                "megabits": int(speed) if speed.isdigit() else None,
                "addresses": _ipv4_addresses(name) + ipv6.get(name, []),
            }
        )
    return found


def _ipv4_addresses(name: str) -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return []
    return [socket.inet_ntoa(answer[20:24])]


def _ipv6_addresses() -> dict[str, list[str]]:
    addresses: dict[str, list[str]] = {}
    for line in read("/proc/net/if_inet6").splitlines():
        digits, *_, name = line.split()
        addresses.setdefault(name, []).append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)))
    return addresses


def read(path: str | Path) -> str:
    """The file's text, empty if it cannot be read."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""
