"""Doors: addresses at which processes that want to join an elastic group read who is in it.

A door is a store with one entry, the view. Any process that can listen at an address serves it, member or not; members
see to it that every door that they know shows their view, and take over doors that nobody serves any more.

Two groups meet at a door. Each member that finds the view of another group there asks its members where they stand. A
member behind a group that answers gives way (`Doors.rival`), and all others write their own view over the other one. A
member only gives way to a standing that another one really had, and standings only grow. So of all members that run,
the one that stands first never gives way, and every other one does when it next looks. Silence proves nothing: only
a process that has just founded a group gives way to silent members, too.
"""

import json
import os
import random
import socket
from dataclasses import asdict, dataclass, replace
from threading import Event, Lock, Thread

from ringroad._native import Config, Notes, PeerError, RingroadError, TcpStore
from ringroad._support.files import parse_json
from ringroad.start.launchers import _PORTS

_JOB = "ringroad elastic"
_PERIOD = 0.5
"""Seconds between two rounds to the doors."""
_ANSWER_TIMEOUT = 1.0
"""Seconds within which a door must answer, or a member of another group."""
_TRIES = 16
"""At how many ports a process tries to serve a door of its own."""
_ASKED = 8
"""How many silent members of another group are asked in a round, and how many of its doors are believed."""
MOST = 1 << 22
"""How many bytes a message of a process may have that is no member."""

Address = tuple[str, int]

_open: dict[tuple[int, Address], TcpStore] = {}
"""The doors that this process serves until it ends, by its number (a forked child has none) and the address."""


@dataclass(frozen=True, order=True)
class View:
    """The members of a group, and how far it is. Of several views the greatest counts: that of the latest step."""

    step: int
    epoch: int
    """How often its members have changed."""
    group: str
    members: tuple[str, ...] = ()
    """The handles of the members, by their ranks."""
    doors: tuple[str, ...] = ()
    """Where members serve doors of their own."""

    @staticmethod
    def read(text: bytes | None) -> "View | None":
        """The view that a door shows; None for anything else that somebody has written there."""
        try:
            found = parse_json(text or b"", "a view", _FORM, MOST)
            for door in found["doors"]:
                addresses(door)
        except ValueError:
            return None
        step, epoch, group, members, doors = (found[name] for name in _FORM)
        return View(step, epoch, group, tuple(members), tuple(doors))

    def text(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def __str__(self) -> str:
        return f"group {self.group} at step {self.step} (doors of its members: {', '.join(self.doors)})"


_FORM = {"step": int, "epoch": int, "group": str, "members": [str], "doors": [str]}


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

    def __init__(self, known: list[Address], notes: Notes) -> None:
        self._listed, self.known, self._notes = known, known, notes
        self._served: dict[Address, TcpStore] = {}
        self._reached: dict[Address, TcpStore] = {}
        self.view: View | None = None
        self._rival: View | None = None
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
            first, last = Config().tcp_ports or _PORTS
            some = [] if self._served else random.sample(range(first, last + 1), min(_TRIES, last + 1 - first))
            host = _own_host(self._listed[0][0])
            any(self._serve((host, port)) for port in some)
            return [f"{host}:{port}" for host, port in self._served]

    @property
    def rival(self) -> View | None:
        """Another group that stands before this one, and answers."""
        return self._rival if self._rival and self.view and self._rival > self.view else None

    def look(self) -> list[View]:
        """The views that doors show, the greatest first."""
        shown = sorted({view for address in dict.fromkeys(self.known) if (view := self._read(address))}, reverse=True)
        if shown:
            self._learn(shown[0])
        return shown

    def hear(self, view: View) -> View | None:
        """Where a group stands now, as one of its members says; the same object if they are silent; None if all of them
        have ended for certain, or left."""
        silent = 0
        for member in random.sample(view.members, len(view.members)):
            try:
                now = View.read(self._notes.read(member, _standing(view.group), _ANSWER_TIMEOUT))
            except (PeerError, ValueError):  # it has ended, or is no handle
                continue
            except RingroadError:
                silent += 1
                if silent == _ASKED:
                    break
                continue
            if now and now.group == view.group:
                return replace(now, members=view.members, doors=view.doors)
        return view if silent else None

    def show(self, view: View | None) -> None:
        """Shows this view from now on; a door names the step at which the members last changed. None: nothing any more,
        also at doors of those that have left; members that stay write it again soon."""
        left = self.view
        if view:
            self._notes.keep(_standing(view.group), replace(view, members=(), doors=()).text())
            if left and (left.group, left.epoch) == (view.group, view.epoch):
                self.view = view
                return
        with self._lock:
            self.view, self._rival = view, None
            if view:
                for address in self._served:
                    self._write(address, view.text())
                self._learn(view)
            elif left:
                self._notes.forget(_standing(left.group))
                for address in [*self._served, *self._reached]:
                    if (shown := self._read(address)) and shown.group == left.group:
                        self._write(address, b"")

    def _learn(self, view: View) -> None:
        self.known = [*self._listed, *(address for door in view.doors[:_ASKED] for address in addresses(door))]

    def close(self) -> None:
        """Shows nothing of this process any more. Its doors stay open for others until it ends."""
        self._end.set()
        self.show(None)

    def _tend(self) -> None:
        while not self._end.wait(_PERIOD * random.uniform(0.8, 1.2)):  # so that two groups do not keep in step
            with self._lock:
                self._serve_all()
            for address in self._listed if self.view else []:
                shown, own = self._read(address), self.view
                other = self.hear(shown) if shown and own and shown.group != own.group else None
                with self._lock:
                    if own is None or self.view is None or self.view.group != own.group:
                        continue  # this process has left the group meanwhile
                    alone = self.view.step == 0 and self.view.epoch == 1  # it has just been founded
                    if other and other > self.view and (other is not shown or alone):
                        self._rival = other
                    elif shown is None or shown.group != own.group or shown.epoch < self.view.epoch:
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
                _open[place] = TcpStore(*address, 0, job=_JOB, timeout=_ANSWER_TIMEOUT)
            except RingroadError:
                return False  # another process was faster
        self._served[address] = _open[place]
        return True

    def _store(self, address: Address) -> TcpStore:
        if store := self._served.get(address) or self._reached.get(address):
            return store
        store = self._reached[address] = TcpStore(*address, 1, job=_JOB, timeout=_ANSWER_TIMEOUT)
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


def _standing(group: str) -> str:
    """The note in which a member says where it stands."""
    return f"elastic/stands/{group}"


def _is_free(address: Address) -> bool:
    """Whether this process can listen there: the address is this machine's, and free."""
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
