"""Emulated hosts: namespaces of this machine. Each has its own network, host name, mounts and System V shared memory.

A host exists while this process holds its namespaces open or a process runs in it. So nothing has to be removed, in
whatever way this process ends.
"""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

from ringroad._native import RingroadError

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC, _CLONE_NEWNET = 0x20000, 0x4000000, 0x8000000, 0x40000000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_KINDS = ("net", "mnt", "uts", "ipc")
_TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}
_SECONDS = 30.0  # time limit of a tool


class TestbedError(RingroadError):
    """This machine or this user cannot emulate a network, or the emulated network has no such cable.

    The message says what is missing, and what to permit or install.
    """

    __test__ = False  # pytest would take it for a class of tests


def require() -> None:
    """Raises TestbedError, with a remedy, if this process may not make namespaces or lacks a tool."""
    missing = sorted({package for tool, package in _TOOLS.items() if _tool(tool) is None})
    if missing:
        raise TestbedError(
            f"a testbed needs {' and '.join(missing)}: install {' '.join(missing)} (Debian: apt install)"
        )
    if os.geteuid() != 0:
        raise TestbedError(
            "a testbed needs root, or a user namespace in which this process is root: start it by "
            "`unshare --user --map-root-user COMMAND`, or as root"
        )


def reenter() -> None:
    """If this process is not root but may make a user namespace, restarts the program as root in one."""
    unshare = _tool("unshare")
    if os.geteuid() == 0 or unshare is None:
        return
    root = [unshare, "--user", "--map-root-user"]
    if subprocess.run([*root, "true"], capture_output=True).returncode == 0:  # else `require` says what is missing
        os.execv(unshare, [*root, sys.executable, *sys.orig_argv[1:]])


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def run(command: Sequence[str], what: str, text: str = "") -> str:
    """Runs a tool and returns its output. Raises TestbedError, which starts with `what`, the purpose of the command."""
    try:
        ended = subprocess.run(list(command), input=text, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise TestbedError(f"{what}: {command[0]} did not answer within {_SECONDS:g} s") from None
    if ended.returncode != 0:
        raise TestbedError(f"{what}: {ended.stderr.strip() or f'{command[0]} ended with {ended.returncode}'}")
    return ended.stdout


class Host:
    """A host or a switch."""

    def __init__(self, name: str, hosts_file: str) -> None:
        """`hosts_file` becomes /etc/hosts of the host."""
        self.name = name
        self._files: list[int] = []

        def make() -> None:
            _make(name, hosts_file)
            self._files += [os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY) for kind in _KINDS]

        try:
            _in_thread(f"making {name}", make)
        except BaseException:
            self.close()
            raise

    def path(self) -> str:
        """The path of the host's network namespace."""
        return f"/proc/{os.getpid()}/fd/{self._files[0]}"

    def enter(self) -> list[str]:
        """The prefix of a command line that runs on the host, in this process's directory."""
        options = ("net", "mount", "uts", "ipc")
        files = [f"--{option}=/proc/{os.getpid()}/fd/{file}" for option, file in zip(options, self._files, strict=True)]
        return [_tool("nsenter") or "nsenter", *files, "--", "env", "-C", os.getcwd()]

    def datagrams(self) -> socket.socket:
        """A UDP socket on the host. It keeps the host's network alive."""
        made: list[socket.socket] = []

        def make() -> None:
            _must("setns", self._files[0], _CLONE_NEWNET)
            made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

        _in_thread(f"opening a socket on {self.name}", make)
        return made[0]

    def ip(self, lines: Sequence[str]) -> None:
        """Runs commands of `ip` on the host."""
        self._batch("ip", lines)

    def tc(self, lines: Sequence[str]) -> None:
        """Runs commands of `tc` on the host."""
        self._batch("tc", lines)

    def _batch(self, tool: str, lines: Sequence[str]) -> None:
        if lines:
            command = [*self.enter(), _tool(tool) or tool, "-batch", "-"]
            run(command, f"setting up {self.name}", "\n".join(lines) + "\n")

    def read(self, *command: str) -> str:
        """The output of a command on the host."""
        return run([*self.enter(), *command], f"looking at {self.name}")

    def write(self, values: dict[str, str]) -> None:
        """Sets kernel variables (sysctl) on the host."""
        lines = [f"echo {value} > /proc/sys/{name.replace('.', '/')}" for name, value in values.items()]
        run([*self.enter(), "sh", "-ec", "\n".join(lines)], f"setting up {self.name}")

    def close(self) -> None:
        """Releases the host. It ends with the last process that runs in it."""
        while self._files:
            with contextlib.suppress(OSError):
                os.close(self._files.pop())


def _in_thread(what: str, function: Callable[[], None]) -> None:
    """Runs a function in a thread of its own, because namespaces belong to threads. Raises TestbedError, which starts
    with `what`, if it fails."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="ringroad-testbed")
    thread.start()
    thread.join()
    if failure:
        raise TestbedError(f"{what}: {failure[0]}") from failure[0]


def _must(what: str, *arguments: object) -> None:
    """Calls a function of the C library, the first word of `what`. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True)[what.split()[0]](*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _make(name: str, hosts_file: str) -> None:
    """Moves this thread to a new host."""
    _must("unshare", _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWNET)
    _must("sethostname", name.encode(), len(name))
    _must("mount /", b"none", b"/", None, _MS_REC | _MS_SLAVE, None)
    # UCX reads network devices from /sys, which shows those of the namespace that mounted it.
    _must("mount /sys", b"sysfs", b"/sys", b"sysfs", 0, None)
    _must("mount /etc/hosts", hosts_file.encode(), b"/etc/hosts", None, _MS_BIND, None)
