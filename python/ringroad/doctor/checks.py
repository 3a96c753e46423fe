"""All checks of one machine, in the order of the report."""

import os
import socket
from collections.abc import Iterable
from functools import cache

from ringroad.doctor import Check, Finding, machine, messages, network, software
from ringroad.measure import facts

_MESSAGE_SECONDS = 20.0

_READING = "A file in /proc or /sys cannot be read: see the kernel's messages (dmesg)"
_NAMES = "The name servers do not answer: see /etc/resolv.conf, or use addresses instead of names"
_STARTING = "This machine does not start Python within seconds: see its load (uptime) and its disks"
_MESSAGES = "See the findings above; RINGROAD_DEBUG=INFO ringroad doctor prints more"


def machine_checks(size: int = 1, ranks_here: int = 1, several_hosts: bool = False) -> list[Check]:
    """The checks of this machine, and of its part in a job if there is one. Together they take a few seconds."""
    interfaces, ucx = cache(facts.interfaces), cache(facts.ucx)

    def settings() -> Iterable[Finding]:
        names = [str(one["name"]) for one in interfaces()]
        return software.settings(os.environ, names, size, ranks_here)

    def rendezvous() -> Finding:
        master = os.environ.get("MASTER_ADDR")
        return network.rendezvous(master, facts.chosen(), interfaces(), several_hosts)

    def cores() -> Finding:
        allowed, present = len(os.sched_getaffinity(0)), os.cpu_count() or 1
        return machine.cores(allowed, present, facts.core_quota(), ranks_here)

    def copies() -> Iterable[Finding]:
        return [] if "error" in ucx() else [software.ucx_copies(ucx()["path"], software.ucx_candidates(os.environ))]

    def over_ucx() -> Iterable[Finding]:
        return [] if "error" in ucx() else [messages.over_network("UCX", _MESSAGE_SECONDS)]

    return [
        Check("versions", lambda: software.versions(facts.versions()), _READING),
        Check("settings", settings, _READING),
        Check("interfaces", lambda: network.interfaces(interfaces()), _READING),
        Check("hostname", lambda: network.hostname(socket.gethostname()), _NAMES),
        Check("rendezvous", rendezvous, _NAMES),
        Check("processes", machine.processes, _STARTING),
        Check("/dev/shm", lambda: machine.dev_shm(facts.shared_memory()), _READING),
        Check("memory", machine.memory, _READING),
        Check("cores", cores, _READING),
        Check("open files", lambda: machine.open_files(size), _READING),
        Check("locked memory", machine.locked_memory, _READING),
        Check("address space", machine.address_space, _READING),
        Check("clock source", machine.clock_source, _READING),
        Check("shared memory", lambda: messages.shared_memory(_MESSAGE_SECONDS), _MESSAGES, 1.5 * _MESSAGE_SECONDS),
        Check("between hosts", lambda: Finding("between hosts", "ok", facts.carrier()), _READING),
        Check(
            "tcp messages", lambda: messages.over_network("tcp", _MESSAGE_SECONDS), _MESSAGES, 1.5 * _MESSAGE_SECONDS
        ),
        Check("UCX", lambda: software.ucx(ucx(), facts.carrier()), _MESSAGES),
        Check("copies of UCX", copies, _READING),
        Check("UCX messages", over_ucx, _MESSAGES, 1.5 * _MESSAGE_SECONDS),
    ]
