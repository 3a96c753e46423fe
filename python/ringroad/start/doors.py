"""Doors: addresses at which processes that want to join an elastic group read who is in it.

A door is a store with one entry, the view. Whichever process can listen at an address serves it, member or not; members
see to it that every door that they know shows their view, and take over doors that nobody serves any more.
"""

import json
import os
import random
import socket
from dataclasses import asdict, dataclass
from threading import Event, Lock, Thread

from ringroad._native import RingroadError, TcpStore

_JOB = "ringroad elastic"
_PERIOD = 0.5
"""Seconds between two rounds to the doors."""
_PATIENCE = 1.0
"""Seconds within which a door must answer."""

Address = tuple[str, int]

_open: dict[tuple[int, Address], TcpStore] = {}
"""The doors that this process serves until it ends, by its number (a forked child has none) and the address."""


@dataclass(frozen=True)
class View:
    """Who is in a group. Of several views the one of the latest epoch counts."""

    group: str
    epoch: int
    members: tuple[str, ...]
    """The handles of the members, by their ranks."""
    doors: tuple[str, ...]
    """Where members serve doors of their own."""

    @staticmethod
    def read(text: bytes | None) -> "View | None":
        """The view that a door shows; None for anything else that somebody has written there."""
        try:
            found = json.loads(text or b"{}")
            members, doors = (tuple(map(str, found[name])) for name in ("members", "doors"))
            view = View(str(found["group"]), int(found["epoch"]), members, doors)
            for door in doors:
                addresses(door)
        except (ValueError, TypeError, LookupError):
            return None
        return view

    def text(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def addresses(text: str) -> list[Address]:
    """Reads `tcp://host:port,host:port`."""
    if not isinstance(text, str):
        raise TypeError(f"address must be a text (str), not {text!r}")
    found = []
    for one in text.removeprefix("tcp://").split(","):
        host, _, port = one.strip().rpartition(":")
        if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"address is tcp://host:port[,host:port ...], not {text!r}")
        found.append((host.strip("[]"), int(port)))
    return found


class Doors:
    """The doors that this process knows, and those that it serves.

    Attributes:
        known: Where it looks for a group.
        view: What it shows.
    """

    def __init__(self, known: list[Address]) -> None:
        self._listed, self.known = known, known
        self._served: dict[Address, TcpStore] = {}
        self._reached: dict[Address, TcpStore] = {}
        self.view: View | None = None
        self._lock, self._end = Lock(), Event()
        self._serve_all()
        Thread(target=self._tend, name="ringroad-doors", daemon=True).start()

    @property
    def listed(self) -> int:
        """How many addresses this process was given."""
        return len(self._listed)

    @property
    def is_first(self) -> bool:
        """Whether this process serves the first address, where a group is founded."""
        return self._listed[0] in self._served

    def own(self) -> list[str]:
        """The doors that this process serves, at least one if a port is free."""
        with self._lock:
            for _ in range(0 if self._served else 16):
                address = (_own_host(self._listed[0][0]), random.randrange(20000, 32768))
                if self._serve(address):
                    break
            return [f"{host}:{port}" for host, port in self._served]

    def look(self) -> View | None:
        """The latest view that any door shows."""
        shown = [view for address in dict.fromkeys(self.known) if (view := self._read(address))]
        best = max(shown, key=lambda view: view.epoch, default=None)
        if best:
            self._learn(best)
        return best

    def show(self, view: View | None) -> None:
        """Shows this view from now on. None: nothing any more, also at doors of those that have left; members that stay
        write it again soon."""
        with self._lock:
            left, self.view = self.view, view
            if view:
                for address in self._served:
                    self._write(address, view.text())
                self._learn(view)
            elif left:
                for address in [*self._served, *self._reached]:
                    if (shown := self._read(address)) and shown.group == left.group:
                        self._write(address, b"")

    def _learn(self, view: View) -> None:
        self.known = [*self._listed, *(address for door in view.doors for address in addresses(door))]

    def close(self) -> None:
        """The doors of this process stay open until it ends, for others, but show nothing of its own."""
        self._end.set()
        self.show(None)

    def _tend(self) -> None:
        while not self._end.wait(_PERIOD):
            with self._lock:
                self._serve_all()
            for address in self._listed if self.view else []:
                shown = self._read(address)
                with self._lock:
                    if self.view and (shown is None or shown.epoch < self.view.epoch):
                        self._write(address, self.view.text())

    def _serve_all(self) -> None:
        for address in self._listed:
            if address not in self._served and self._serve(address) and self.view:
                self._write(address, self.view.text())

    def _serve(self, address: Address) -> bool:
        place = (os.getpid(), address)
        if place not in _open:
            if not _is_free(address):
                return False
            try:
                _open[place] = TcpStore(*address, 0, job=_JOB, timeout=_PATIENCE)
            except RingroadError:
                return False  # another process was faster
        self._served[address] = _open[place]
        return True

    def _store(self, address: Address) -> TcpStore:
        if store := self._served.get(address) or self._reached.get(address):
            return store
        store = self._reached[address] = TcpStore(*address, 1, job=_JOB, timeout=_PATIENCE)
        return store

    def _read(self, address: Address) -> View | None:
        try:
            return View.read(self._store(address).get("view"))
        except RingroadError:
            self._reached.pop(address, None)
            return None

    def _write(self, address: Address, text: bytes) -> None:
        """Shows a view at a door, if it answers."""
        try:
            if store := self._served.get(address) or self._reached.get(address):
                store.set("view", text)
        except RingroadError:
            self._reached.pop(address, None)


def _is_free(address: Address) -> bool:
    """Whether this process can listen there: the address is this machine's, and nobody does."""
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
    except OSError:
        return False
    return True


def _own_host(towards: str) -> str:
    """This machine's address on the way to a host."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((towards, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"
