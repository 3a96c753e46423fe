"""The members of an elastic group, and how they change.

The members decide everything by agreements of the last membership: which of them are left, and whether all of these
have made the next communicator. No member decides alone, and no deadline decides anything.

- **Change**: the members make the communicator of those that are left, or of all and newcomers, and agree on whether
  all have it. If not, they make another one, of those that the agreement names. These are most of the members, or all
  others have certainly ended. A smaller part waits until the silent ones answer, or say that it was left out.
- **Join**: a newcomer reads at a door who the members are, leaves them a note with its handle, and waits for an
  invitation. It makes the next communicator with the members, and is one of them if they have agreed so.
- **Found**: a process that finds no group makes one. That proves nothing: members of another group may be stopped, or
  cut off. If they come back, the two meet at the doors, and one gives way (`doors`).

Messages of the protocol are JSON. What a newcomer says of the group is not believed.
"""

import hashlib
import json
import random
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from ringroad._native import (
    AbortedError,
    Communicator,
    MismatchError,
    Notes,
    PeerError,
    RingroadError,
    StoreError,
    TimeoutError,
    TransportError,
    handle,
)
from ringroad._objects import allgather_json
from ringroad._support.files import parse_json
from ringroad.start.doors import MOST, Address, Doors, View
from ringroad.start.record import Record
from ringroad.start.rendezvous import regroup

FAILURES = (PeerError, AbortedError, TimeoutError, TransportError, StoreError)
"""What a member is told when others are lost, or the network is. Other errors are the program's own."""
_POLL_INTERVAL = 0.02
"""Seconds between two looks at the notes."""
_AGAIN = 0.3
"""Seconds after which a newcomer asks again."""
_GRACE = 1.0
"""Seconds, for each address, that members of a group have to show it to a process that founds one."""
_HANDLE, _ASKS = 1 << 12, 1 << 6
"""How long a handle may be, and how many newcomers are taken in at a time. Anybody can ask."""
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

    def __init__(
        self, known: list[Address], minimum: int | None, timeout: float, patience: float, record: Record
    ) -> None:
        self._minimum, self._timeout, self._patience, self._record = minimum, timeout, patience, record
        self._past = record.read()
        """The group that this process was in before, or was as its record says."""
        self._has_state = False
        """Whether this process holds its state."""
        self._notes = Notes()
        self._doors = Doors(known, self._notes)
        self._members: list[str] = []
        self._own, self._group, self._epoch, self._old = "", "", 0, 0
        self._agreements = 0
        self._told: tuple[str, ...] = ()
        self._other: View | None = None
        """A group that was found while this process waited for its own."""

    @property
    def addresses(self) -> list[str]:
        """The doors of the members."""
        return list(self._doors.view.doors if self._doors.view else self._doors.own())

    def asks(self) -> list[str]:
        """The handles of processes that have asked this one to be taken in."""
        notes = [note for note in self._notes.kept(f"elastic/ask/{self._group}/") if len(note) <= _HANDLE]
        return [note.decode(errors="replace") for note in notes[:_ASKS]]

    def introduce(self) -> int:
        """Members tell each other what newcomers do not know. Collective. Returns how many of the first ranks are no
        newcomers."""
        own = self._epoch, self._group, self._doors.own()
        said = allgather_json(self.comm, own, (int, str, [str]), MOST)
        self._epoch, self._group = max((epoch + 1, group) for epoch, group, _ in said[: self._old])
        self._told = tuple(dict.fromkeys(door for _, _, own in said for door in own))
        if self.comm.rank >= self._old and self._has_state and self._past and self._past.group != self._group:
            raise _two_groups(self._past, View(0, self._epoch, self._group, tuple(self._members), self._told))
        return self._old

    def show(self, step: int) -> None:
        """Says to all who ask how many steps this member has done, and records it."""
        view = View(step, self._epoch, self._group, tuple(self._members), self._told)
        self._doors.show(view)
        if view.step or view.epoch > 1:  # else a founder may still wait for others
            self._record.write(self._others_of(view))

    def _others_of(self, view: View) -> View:
        """What this process keeps of a group: whom it can ask later."""
        return replace(view, members=tuple(member for member in view.members if member != self._own))

    def gives_way(self) -> bool:
        """Whether another group is ahead. MismatchError if this process has a state to lose."""
        own, other = self._doors.view, self._doors.rival
        now = self._doors.hear(other) if other else None
        if own is None or now is None or now is other or now < own:
            return False  # it may have ended since it was found
        if own.step:
            raise _two_groups(own, now)
        return True

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
                made[0].close()
            raise
        self.comm.close()
        self._use(*made, len(set(self._members) & set(made[1])))

    def admit(self, least: int = 0) -> bool:
        """Takes in processes that ask. All members call this. Returns whether the communicator is another one."""
        heard = allgather_json(self.comm, self.asks(), [str], MOST)
        self._notes.forget(f"elastic/ask/{self._group}/")
        ready: list[str] = []
        if self.comm.rank == 0:
            asks = {ask for asks in heard for ask in asks} - set(self._members)
            ready = [ask for ask in sorted(asks) if self._is_asking(ask)]
            if len(self._members) + len(ready) < least:
                ready = []
        uuid, ready = allgather_json(self.comm, (secrets.randbits(63), ready), (int, [str]), MOST)[0]
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

    def leave(self, holds: bool = False) -> None:
        """Leaves the group at once. The others need not wait for this process any more, and it shows no group that may
        end without it. If it holds a state, it does not give that up for another group's."""
        if self._doors.view and self._doors.view.step:  # else there is nothing to lose
            self._past, self._has_state = self._others_of(self._doors.view), holds
        self._doors.show(None)
        self.comm.close()
        self._members = []

    def close(self, done: bool) -> None:
        """Leaves the group for good. If all is done, no process needs to look for it any more."""
        if self._members:
            self.leave()
        self._doors.close()
        if done:
            self._record.forget()

    def _use(self, comm: Communicator, members: list[str], old: int) -> None:
        """Members of the group have this communicator from now on; this many of its first ranks are no newcomers."""
        self.comm, self._members, self._old, self._agreements = comm, members, old, 0
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
            MismatchError: There is only another group than that whose state this process has.
        """
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            self._own = handle()
            self._notes.keep(asks := f"elastic/asks/{_key(self._own)}", b"yes")
            invitation = None
            while invitation is None and time.monotonic() < deadline:
                if not self._ask():
                    founds: object = self._minimum and self._doors.is_first
                    if self._past:  # this process goes on from its state only for others that have less
                        founds = self._has_state and (self._other or any(map(self._is_asking, self.asks())))
                    if founds and self._found(deadline, settle, recover):
                        return
                invitation = self._invited()
            self._notes.forget(asks)
            if invitation and self._accept(invitation, settle, recover):
                return
        asked = ", ".join(f"{host}:{port}" for host, port in self._doors.known)
        why = (
            f"no group has taken in this process: asked at {asked}; check that members run and can be "
            "reached there; the first members need minimum=, and one of them must be on the host of the first address"
        )
        if self._past:
            why += f". It looked for {self._past}, of which it was a member{self._record.advice}"
            why += f"; it found {self._other}, which is not ahead of that" if self._other else ""
        raise TimeoutError(why)

    def _found(self, deadline: float, settle: Callable[[bool], None], recover: Callable[[], object]) -> bool:
        """Makes a group of this process alone, and takes in the others of the first members at once."""
        least, past = 1 if self._past else self._minimum or 1, self._past
        self._use(regroup([self._own], own=self._own), [self._own], 1)
        self._group, self._epoch = secrets.token_hex(8), 0
        settle(True)
        # If there is a group, but its member at the first address has just died, the others show their view soon.
        ready = time.monotonic() + self._doors.listed * _GRACE
        while time.monotonic() < deadline and not self._doors.rival:
            enough = len(self._members) + len(self.asks()) >= least and time.monotonic() > ready
            if enough and len(self._members) >= least:
                return True
            try:
                if not enough or not self.admit(least):
                    time.sleep(_POLL_INTERVAL)
                    continue
                settle(False)
            except FAILURES:
                recover()
                return True  # with those of the first members that are left
        self.leave(holds=self._has_state)
        self._past, self._group = past, past.group if past else ""
        return False

    def _ask(self) -> bool:
        """Asks two members of a group to be taken in. Returns whether there is a group, or may be. This process's own
        comes first; of others it only asks those that are ahead."""
        past, maybe, self._other = self._past, False, None
        shown = self._doors.look()
        if past:
            shown = [past, *sorted(shown, key=lambda view: view.group != past.group)]
        for view in shown:
            now = self._doors.hear(view)
            if past and view.group != past.group:
                if now is None or now is view or now < past:
                    self._other = self._other if now is view else now or self._other
                    continue
                if self._has_state:
                    raise _two_groups(past, now)
            asked = 0
            for member in random.sample(view.members, len(view.members)):  # also those that have left, but hold a state
                with suppress(RingroadError, ValueError):  # it has gone, or is no handle
                    key = f"elastic/ask/{view.group}/{_key(self._own)}"
                    self._notes.leave(member, key, self._own.encode(), _ANSWER)
                    asked += 1
                if asked == 2:
                    break
            if now and now is not view:
                return True
            maybe |= now is not None
        return maybe

    def _invited(self) -> "_Invitation | None":
        """Waits a little for an invitation."""
        until = time.monotonic() + _AGAIN
        while time.monotonic() < until:
            if found := self._notes.kept(invitations := f"elastic/invitation/{_key(self._own)}/"):
                self._notes.forget(invitations)
                return _invitation(found[0])
            time.sleep(_POLL_INTERVAL)
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
        self._use(*made, old)
        try:
            settle(False)
        except FAILURES:
            if not self._is_admitted(uuid, members[:old]):
                self._has_state = False  # it may be half overwritten
                self.leave()
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
            time.sleep(_POLL_INTERVAL)
        return False


def _two_groups(own: View, other: View) -> MismatchError:
    return MismatchError(
        f"there are two elastic groups: this process belongs to {own}, and found {other}. Their states cannot be "
        "joined: the group of the later step goes on, and this process stops, with the state of its last step. Started "
        "again, it joins the other group"
    )


_Invitation = tuple[int, int, list[str]]
"""The number of the next communicator, how many of its ranks are members already, and the handles of all."""


def _invitation(note: bytes) -> _Invitation | None:
    """Reads an invitation; None if it is none."""
    try:
        uuid, old, members = parse_json(note, "an invitation", (int, int, [str]), MOST)
    except ValueError:
        return None
    return (uuid, old, members) if 0 < old < len(members) else None


def _key(process: str) -> str:
    return hashlib.sha256(process.encode()).hexdigest()[:16]
