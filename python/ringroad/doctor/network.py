"""Checks of the network: interfaces, names, and the way to the rendezvous."""

import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ringroad.doctor import Finding, Verdict

Resolve = Callable[[str], list[str]]


def resolve(name: str) -> list[str]:
    """The addresses of a name. Raises OSError."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def source(address: str) -> str:
    """The address from which this machine would send to another one; nothing is sent. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        return str(probe.getsockname()[0])


def interfaces(found: Sequence[Mapping[str, Any]]) -> Finding:
    """The network interfaces of this machine."""
    usable = [one for one in found if one["addresses"] and one["state"] in ("up", "unknown")]
    idle = [one["name"] for one in found if one not in usable]
    text = "; ".join(f"{one['name']} {one['addresses'][0]}" for one in usable) or "none has an address"
    if idle:
        text += f"; down or without address: {', '.join(idle)}"
    if all(_is_loopback(one["addresses"][0]) for one in usable):
        remedy = "Bring one up (ip link set DEVICE up), or start the container with a network (--network=host)"
        return Finding("interfaces", "note", f"{text}: other hosts cannot be reached", remedy)
    return Finding("interfaces", "ok", text)


def rendezvous(
    host: str | None,
    chosen: Mapping[str, str],
    found: Sequence[Mapping[str, Any]],
    several_hosts: bool,
    resolved: Resolve = resolve,
    sends_from: Callable[[str], str] = source,
) -> Finding:
    """Which interface leads to rank 0's host: that of RINGROAD_STORE=tcp://host:port, or else `host`, from MASTER_ADDR.
    `chosen`: the settings of the environment.
    """
    name, variable = "rendezvous", "MASTER_ADDR"
    store = chosen.get("RINGROAD_STORE", "")
    # In a directory MASTER_ADDR does not say where the ranks meet, only which interface UCX uses.
    bad: Verdict = "warning" if store else "failure"
    if store.startswith("tcp://"):
        host, variable, bad = urlsplit(store).hostname, "RINGROAD_STORE", "failure"
    if not host:
        return Finding(name, "ok", "MASTER_ADDR is not set; ranks of one machine need none")
    try:
        address = resolved(host)[0]
    except OSError as error:
        remedy = f"Name an address of rank 0's host in {variable}, or add the name to /etc/hosts or DNS"
        return Finding(name, bad, f"{variable}: {host} cannot be resolved: {error}", remedy)
    try:
        own = sends_from(address)
    except OSError as error:
        remedy = f"Name an address in {variable} that this host can reach; ip route get {address} shows the way"
        return Finding(name, bad, f"{variable}: no way to {host} ({address}): {error}", remedy)
    device = next((one["name"] for one in found if own in one["addresses"]), None)
    text = f"{host} ({address}) by {device or f'the interface of {own}'}"
    if several_hosts and _is_loopback(address):
        remedy = f"Name an address of rank 0's host in {variable} that the other hosts can reach"
        return Finding(name, bad, f"{text}: loopback does not lead to other hosts", remedy)
    wanted = devices(chosen)
    if wanted and device and device not in wanted and not _is_loopback(address):
        remedy = "Unset RINGROAD_NET_DEVICES unless that network is the faster one"
        return Finding(name, "note", f"{text}, but messages go by {', '.join(wanted)}", remedy)
    return Finding(name, "ok", text)


def devices(chosen: Mapping[str, str]) -> list[str]:
    """The network devices that RINGROAD_NET_DEVICES names, for all ports or for each."""
    text = chosen.get("RINGROAD_NET_DEVICES", "").removeprefix("per-port:")
    return [word.strip() for word in text.split(",") if word.strip()]


def hostname(name: str, resolved: Resolve = resolve) -> Finding:
    """Whether this host's name has an address that others can use."""
    try:
        addresses = resolved(name)
    except OSError as error:
        remedy = f"Add a line with this host's address and {name} to /etc/hosts, or set MASTER_ADDR to an address"
        return Finding("hostname", "warning", f"{name} cannot be resolved: {error}", remedy)
    text = f"{name} is {', '.join(addresses[:2])}"
    if all(_is_loopback(address) for address in addresses):
        remedy = "For a job of several hosts set MASTER_ADDR to an address instead of this name"
        return Finding("hostname", "note", f"{text}, which does not lead here from other hosts", remedy)
    return Finding("hostname", "ok", text)


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
