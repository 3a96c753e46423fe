"""`ringroad info`: this machine's software, hardware and settings."""

from typing import Any

from ringroad._support.text import (
    about_bytes,
    bytes_text,
    print_fields,
    print_json,
    print_wrapped,
    significant,
    width,
    wrapped,
)
from ringroad.cli._options import Json
from ringroad.measure import facts

_WIDTH = 100  # at most


def info(as_json: Json = False) -> None:
    """Show versions, devices and settings."""
    report = facts.describe()
    if as_json:
        return print_json(report)
    host = report["host"]
    quota, memory = host["core_quota"], host["shared_memory"]
    cores = f"{host['cores']} allowed" + ("" if quota is None else f", time for {significant(quota)}")
    shared = f"{about_bytes(memory['size'])}, {about_bytes(memory['free'])} free" if memory else "none"
    _section("versions", [(name, version or "not installed") for name, version in report["versions"].items()])
    _section("between hosts", [("messages", report["between_hosts"])])
    _section("UCX", list(report["ucx"].items()))
    _section("UCX variables set", list(report["ucx_variables"].items()))
    _section(
        "machine",
        [
            ("host", host["name"]),
            ("kernel", host["kernel"]),
            ("cores", cores),
            ("caches of cores", host["distance"]),
            ("last-level cache", _last_level(host["last_level_cache"])),
            ("cache line, page", f"{host['cache_line']} B, {bytes_text(host['page'])}"),
            ("/dev/shm", shared),
        ],
    )
    _section("interfaces", [(i["name"], _interface(i)) for i in report["interfaces"]])
    print("settings")
    for setting in report["settings"]:
        _print_setting(setting)
    for warning in report["warnings"]:
        print_wrapped(f"warning: {warning}")
    return None


def _section(title: str, rows: list[tuple[str, str]]) -> None:
    print_fields(title, rows or [("none", "")])
    print()


def _interface(interface: dict[str, Any]) -> str:
    speed = f"{interface['megabits']} Mbit/s" if interface["megabits"] else ""
    return ", ".join(filter(None, [interface["state"], speed, *interface["addresses"]]))


def _last_level(found: tuple[int, int] | None) -> str:
    if found is None:
        return "not listed"
    one, together = found
    return about_bytes(one) + ("" if one == together else f", {about_bytes(together)} in all")


def _print_setting(setting: dict[str, Any]) -> None:
    """Prints the value of a setting with its origin, its purpose, and the accepted values."""
    value = setting["value"] or "unset"
    unit = f" {setting['unit']}" if setting["unit"] and setting["value"] else ""
    origin = "from the environment" if setting["origin"] == "environment" else "the default"
    values, default = setting["values"], setting["default"]
    if isinstance(values, list):
        values = ", ".join(values)
    print(f"  {setting['variable']}: {value}{unit} ({origin})")
    more = "" if setting["origin"] == "default" else f"; default: {default or 'unset'}"
    _print_indented(setting["help"])
    _print_indented(f"values: {values}{more}")


def _print_indented(text: str) -> None:
    most = min(_WIDTH, width())
    print("\n".join(wrapped(" " * 6 + text, most, " " * 8)))
