"""Who is in an elastic group, and how that changes.

All that is decided, the members decide by agreements of the last membership: who is left, and whether all of them have
made the next communicator. Nobody decides alone, and no deadline decides anything.

- **Change**: the members make the communicator of those that are left, or of all and newcomers, and agree on whether
  all have it. If not, they make another one, of those that the agreement names. These are most of the members, or all
  others have certainly ended. A smaller part waits until the silent ones answer, or say that it was left out.
- **Join**: a newcomer reads at a door who the members are, leaves them a note with its handle, and waits for an
  invitation. It makes the next communicator with the members, and is one of them if they have agreed so.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

from ringroad._native import (
    AbortedError,
    Communicator,
    Notes,
    PeerError,
    RingroadError,
    StoreError,
    TimeoutError,
    TransportError,
    handle,
)
from ringroad.start.doors import Address, Doors, View
from ringroad.start.rendezvous import regroup

FAILURES = (PeerError, AbortedError, TimeoutError, TransportError, StoreError)
"""What a member is told when others are lost, or the network is. Other errors are the program's own."""
_LOOK = 0.02
"""Seconds between two looks at the notes."""
_AGAIN = 0.3
"""Seconds after which a newcomer asks again."""
_GRACE = 1.0
"""Seconds, for each address, that a process waits for members of an existing group before it founds one."""
_ANSWER = 1.0
"""Seconds within which a process must answer that is asked for a note."""
_TRIES = 5
"""How often the same members try to connect, all of them alive, before that is an error."""


Made = tuple[Communicator, list[str]]
"""A communicator, and the handles of its ranks."""


class LeftOutError(Exception):
    """The others have gone on without this process, or may have."""


class Membership:
    """This process's part in a group.

    Attributes:
        comm: The communicator of the members.
    """

    comm: Communicator

    def __init__(self, known: list[Address], minimum: int | None, timeout: float, patience: float) -> None:
        self._minimum, self._timeout, self._patience = minimum, timeout, patience
        self._notes, self._doors = Notes(), Doors(known)
        self._members: list[str] = []
        self._own, self._group, self._epoch = "", "", 0
        self._agreements = 0

    @property
    def addresses(self) -> list[str]:
        """The doors of the members."""
        return list(self._doors.view.doors if self._doors.view else self._doors.own())

    def asks(self) -> list[str]:
        """The handles of processes that have asked this one to be taken in."""
        return [note.decode(errors="replace") for note in self._notes.kept(f"elastic/ask/{self._group}/")]

    def introduce(self) -> None:
        """Members tell each other what newcomers do not know, and show the group at their doors. Collective."""
        said = self.comm.allgather_object((self._epoch, self._group, self._doors.own()))
        epoch, self._group = max((epoch, group) for epoch, group, _ in said)
        self._epoch = epoch + 1
        doors = dict.fromkeys(door for _, _, own in said for door in own)
        self._doors.show(View(self._group, self._epoch, tuple(self._members), tuple(doors)))

    # ---------------------------------------------------------------------------------------------- members

    def change(self, made: Made | None = None, verdict: str = "") -> None:
        """Agrees on the next communicator. All members call this, some with one that they have made; newcomers look for
        the `verdict`.

        Raises:
            LeftOutError: The others have gone on without this process, or may have.
            TimeoutError: A member runs, but does not come; or too few are left, and others are silent.
        """
        tries = 0
        try:
            while True:
                agreed, alive = self._agree(made is not None)
                if agreed and made is None:
                    raise LeftOutError  # the others go on with what this process had made in a call that failed
                members = [self._members[rank] for rank in alive]
                lost = set(self._members) - set(members)
                good = made is not None and agreed and lost.isdisjoint(made[1])
                if verdict:
                    self._notes.keep(verdict, b"yes" if good else b"no")
                    verdict = ""
                if made and good:
                    break
                if made:
                    made[0].close()
                made = None
                tries += 1
                digest = hashlib.sha256(f"{self.comm.rendezvous} {self._agreements}".encode()).digest()
                made = self._make(members, int.from_bytes(digest[:8], "big"), tries > _TRIES)
        except BaseException:
            if made:  # the others may go on with it, and need not wait for this process there
                _resign(made[0])
            raise
        self.comm.close()
        self._use(*made)

    def admit(self, least: int = 0) -> bool:
        """Takes in who has asked. All members call this. Returns whether the communicator is another one."""
        heard = self.comm.allgather_object(self.asks())
        self._notes.forget(f"elastic/ask/{self._group}/")
        ready: list[str] = []
        if self.comm.rank == 0:
            asks = {ask for asks in heard for ask in asks} - set(self._members)
            ready = [ask for ask in sorted(asks) if self._is_asking(ask)]
            if len(self._members) + len(ready) < least:
                ready = []
        uuid, ready = self.comm.broadcast_object((secrets.randbits(64), ready))
        if not ready:
            return False
        members = self._members + ready
        if self.comm.rank == 0:
            invitation = json.dumps([uuid, len(self._members), members]).encode()
            for newcomer in ready:
                with suppress(RingroadError):  # the others notice when they meet
                    self._notes.leave(newcomer, f"elastic/invitation/{_key(newcomer)}/", invitation, _ANSWER)
        self.change(self._make(members, uuid), f"elastic/verdict/{uuid}")
        return True

    def leave(self) -> None:
        """Leaves the group at once. The others need not wait for this process any more, and it shows no group that may
        end without it."""
        self._doors.show(None)
        _resign(self.comm)

    def close(self) -> None:
        """Leaves the group for good."""
        if self._members:
            self.leave()
        self._doors.close()

    def _use(self, comm: Communicator, members: list[str]) -> None:
        self.comm, self._members, self._agreements = comm, members, 0
        comm._watch()

    def _make(self, members: list[str], uuid: int, strict: bool = False) -> Made | None:
        """The communicator of these processes, or None if it cannot be made (an error if `strict`)."""
        try:
            return regroup(members, own=self._own, uuid=uuid, timeout=self._timeout), members
        except FAILURES:
            if strict:
                raise
            return None

    def _agree(self, flag: bool) -> tuple[bool, list[int]]:
        """Whether all members that are left have passed True, and who is left."""
        try:
            agreed, alive = self.comm._agree(flag, self._patience)
        except AbortedError as error:
            raise LeftOutError from error
        self._agreements += 1
        return agreed, alive

    def _is_asking(self, process: str) -> bool:
        try:
            return self._notes.read(process, f"elastic/asks/{_key(process)}", _ANSWER) is not None
        except (RingroadError, ValueError):  # it is not there, or its note is no handle
            return False

    # ---------------------------------------------------------------------------------------------- newcomers

    def join(self, settle: Callable[[bool], None], recover: Callable[[], object]) -> None:
        """Becomes a member. `settle` is called in the first communicator, with whether this process has founded the
        group; `recover` if that fails.

        Raises:
            TimeoutError: Nobody has taken this process in.
        """
        deadline = time.monotonic() + self._patience
        founds = self._minimum is not None and not self._group
        while time.monotonic() < deadline:
            self._own = handle()
            self._notes.keep(asks := f"elastic/asks/{_key(self._own)}", b"yes")
            invitation = None
            while invitation is None and time.monotonic() < deadline:
                view = self._doors.look()
                if view is None and founds and self._doors.is_first and self._found(deadline, settle, recover):
                    return
                invitation = self._ask(view)
            self._notes.forget(asks)
            if invitation and self._accept(invitation, settle, recover):
                return
        raise TimeoutError(
            f"no group has taken in this process: asked at {self._doors.known}; check that members run and can be "
            "reached there; the first members need minimum=, and one of them must be on the host of the first address"
        )

    def _found(self, deadline: float, settle: Callable[[bool], None], recover: Callable[[], object]) -> bool:
        """Makes a group of this process alone, and takes in the others of the first members at once."""
        assert self._minimum
        self._use(regroup([self._own], own=self._own), [self._own])
        self._group, self._epoch = secrets.token_hex(8), 0
        settle(True)
        # If there is a group, but its member at the first address has just died, the others show their view soon.
        ready = time.monotonic() + self._doors.listed * _GRACE
        while time.monotonic() < deadline:
            view = self._doors.look()
            if view and view.group != self._group:
                break  # there is one, whose members do not know of this process
            enough = len(self._members) + len(self.asks()) >= self._minimum and time.monotonic() > ready
            if enough and len(self._members) >= self._minimum:
                return True
            try:
                if not enough or not self.admit(self._minimum):
                    time.sleep(_LOOK)
                    continue
                settle(False)
            except FAILURES:
                recover()
                return True  # with those of the first members that are left
        self.leave()
        self._group, self._epoch, self._members = "", 0, []
        return False

    def _ask(self, view: View | None) -> "_Invitation | None":
        """Asks two members, and waits a little for an invitation."""
        group = view.group if view else ""
        asked = 0
        for member in view.members if view else ():
            with suppress(RingroadError, ValueError):  # it has gone, or is no handle
                self._notes.leave(member, f"elastic/ask/{group}/{_key(self._own)}", self._own.encode(), _ANSWER)
                asked += 1
            if asked == 2:
                break
        until = time.monotonic() + _AGAIN
        while time.monotonic() < until:
            if found := self._notes.kept(invitations := f"elastic/invitation/{_key(self._own)}/"):
                self._notes.forget(invitations)
                return _invitation(found[0])
            time.sleep(_LOOK)
        return None

    def _accept(self, invitation: "_Invitation", settle: Callable[[bool], None], recover: Callable[[], object]) -> bool:
        """Meets with those that have invited this process. Returns whether they have taken it in."""
        uuid, old, members = invitation
        try:
            made = self._make(members, uuid)
        except ValueError:  # they are no handles
            return False
        if made is None:
            return False
        self._use(*made)
        try:
            settle(False)
        except FAILURES:
            if not self._is_admitted(uuid, members[:old]):
                self.leave()
                self._members = []
                return False
            recover()
        return True

    def _is_admitted(self, uuid: int, members: list[str]) -> bool:
        """What the members have agreed on."""
        until, left = time.monotonic() + self._timeout, list(members)
        while left and time.monotonic() < until:
            for member in list(left):
                try:
                    verdict = self._notes.read(member, f"elastic/verdict/{uuid}", _ANSWER)
                except PeerError:
                    left.remove(member)
                    continue
                except RingroadError:
                    continue
                if verdict:
                    return verdict == b"yes"
            time.sleep(_LOOK)
        return False


def _resign(comm: Communicator) -> None:
    comm._resign()
    comm.close()


_Invitation = tuple[int, int, list[str]]
"""The number of the next communicator, how many of its ranks are members already, and the handles of all."""


def _invitation(note: bytes) -> _Invitation | None:
    """Reads an invitation; None if it is none."""
    try:
        uuid, old, members = json.loads(note)
        return int(uuid), int(old), list(map(str, members))
    except (ValueError, TypeError):
        return None


def _key(process: str) -> str:
    return hashlib.sha256(process.encode()).hexdigest()[:16]
