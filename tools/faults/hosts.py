"""Two emulated hosts on this machine: network namespaces joined by a cable (veth) that can be cut."""

import ctypes
import os
import shutil
import subprocess
import time

CABLE = "cable"
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_SLAVE, MNT_DETACH = 0x4000, 0x80000, 2
NOWHERE = "02:00:00:00:00:99"  # the address of no device: packets to it are lost silently

libc = ctypes.CDLL(None, use_errno=True)


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=20).stdout


def checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


class Hosts:
    """Two hosts. `close` removes them. Raises OSError or CalledProcessError if namespaces cannot be made here."""

    def __init__(self, label: str = "") -> None:
        if shutil.which("ip") is None or os.geteuid() != 0:
            raise OSError("network namespaces need root and iproute2")
        self.names = [f"ringroad-{os.getpid()}{label}-{side}" for side in "ab"]
        self.made: list[str] = []
        try:
            for name in self.names:
                ip("netns", "add", name)
                self.made.append(name)
            first, second = self.names
            ip("link", "add", CABLE, "netns", first, "type", "veth", "peer", "name", CABLE, "netns", second)
            for number, name in enumerate(self.names, start=1):
                ip("-n", name, "address", "add", f"10.77.0.{number}/24", "dev", CABLE)
                ip("-n", name, "link", "set", CABLE, "up")
                ip("-n", name, "link", "set", "lo", "up")
            self._wait()
        except (OSError, subprocess.SubprocessError):
            self.close()
            raise

    def close(self) -> None:
        for name in self.made:
            ip("netns", "delete", name)
        self.made = []

    def _wait(self) -> None:
        """Waits until the devices are up: UCX ignores devices that are down."""
        end = time.monotonic() + 20
        while not all("LOWER_UP" in ip("-n", name, "-br", "link", "show", CABLE) for name in self.names):
            if time.monotonic() > end:
                raise OSError("the cable between two namespaces does not come up")
            time.sleep(0.02)

    def enter(self, side: int) -> None:
        """Moves this process, which must have one thread, to a host: to its network namespace, with the matching
        /sys."""
        namespace = os.open(f"/var/run/netns/{self.names[side]}", os.O_RDONLY)
        checked(libc.setns(namespace, CLONE_NEWNET), "setns")
        os.close(namespace)
        checked(libc.unshare(CLONE_NEWNS), "unshare")
        checked(libc.mount(b"", b"/", b"none", MS_SLAVE | MS_REC, None), "mount /")
        checked(libc.umount2(b"/sys", MNT_DETACH), "umount /sys")
        checked(libc.mount(b"sys", b"/sys", b"sysfs", 0, None), "mount /sys")

    def cut(self, how: str, side: int) -> None:
        """Cuts the cable. `down`: one side's device goes down; `drop`: all packets are lost; `drop one way`: one side's
        are; `refuse` and `reset`: firewalls on both sides refuse them, by ICMP or, like a process that has ended, by
        resets."""
        if verdict := {"refuse": "reject", "reset": "meta l4proto tcp reject with tcp reset"}.get(how):
            # What the other side's firewall answers comes through.
            rules = f"iifname != {CABLE} accept; meta l4proto icmp accept; tcp flags & rst == rst accept; {verdict}"
            for name in self.names:
                chain = f"chain input {{ type filter hook input priority 0; {rules}; }};"
                ip("netns", "exec", name, "nft", f"table inet wall {{ {chain} }}")
            return
        if how == "down":
            ip("-n", self.names[side], "link", "set", CABLE, "down")
            return
        for number, name in enumerate(self.names):
            if how == "drop" or number == side:
                to = f"10.77.0.{2 - number}"
                ip("-n", name, "neighbour", "replace", to, "lladdr", NOWHERE, "nud", "permanent", "dev", CABLE)

    def heal(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "exec", name, "nft", "delete", "table", "inet", "wall"], capture_output=True)
            ip("-n", name, "link", "set", CABLE, "up")
            ip("-n", name, "neighbour", "flush", "nud", "all", "dev", CABLE)
            for other in ("10.77.0.1", "10.77.0.2"):
                subprocess.run(["ip", "-n", name, "neighbour", "delete", other, "dev", CABLE], capture_output=True)
        self._wait()
