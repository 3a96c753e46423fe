"""What the members of an elastic group hold in common, and which steps of it count."""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ringroad._catching_up import catch_up
from ringroad._native import Communicator
from ringroad._objects import allgather_bytes, allgather_json
from ringroad._replicas import ReplicaError, ReplicaPart, part_of

_MAX_FORM_BYTES = 1 << 26
"""How many bytes the form of a state may have."""


class State(Protocol):
    """What all members hold in common."""

    def form(self) -> bytes:
        """What a member must know to have the same parts, but for their bits."""

    def adopt(self, form: bytes) -> None:
        """Makes the parts have this form, which is another member's."""

    def parts(self) -> list[ReplicaPart]:
        """The arrays."""


class Arrays:
    """A state of NumPy arrays, which have their form from the start."""

    def __init__(self, arrays: Mapping[str, ArrayLike]) -> None:
        if not isinstance(arrays, Mapping):
            raise TypeError(f"state must be a dict of NumPy arrays, not {type(arrays).__name__}")
        self._parts = [part_of(str(name), array, True) for name, array in arrays.items()]

    def form(self) -> bytes:
        return json.dumps([[part.name, part.kind] for part in self._parts]).encode()

    def adopt(self, form: bytes) -> None:
        theirs = form.decode(errors="replace")
        raise ReplicaError(f"the group's state is {theirs}, but that of this process {self.form().decode()}")

    def parts(self) -> list[ReplicaPart]:
        return self._parts


class _Place(NamedTuple):
    """Where a member is."""

    step: int
    holds: bool
    """Whether it holds the state of that step."""
    has_result: bool
    """Whether it has the result of the next step in hand."""


class Progress:
    """How far a member is.

    A step is committed once all members have its result in hand, and then applied. So if one member has committed a
    step, every other one can still apply it; if none has, all repeat it.

    Attributes:
        step: How many steps are in the state.
        sure: Up to which step this member knows that all others have come.
        holds: Whether this member holds the state of that step.
    """

    def __init__(self, state: State) -> None:
        self.step = self.sure = 0
        self._state = state
        self.holds = False
        self._apply: Callable[[], object] | None = None

    def begin(self, holds: bool) -> None:
        """The state of this process is the group's, or it has to get that."""
        self.holds, self._apply = holds, None

    def has(self, apply: Callable[[], object]) -> None:
        """This member has the result of the step in hand, and can apply it."""
        self._apply = apply

    def commit(self) -> None:
        """All members have the result in hand."""
        apply, self._apply = self._apply, None
        assert apply
        self.step += 1
        try:
            apply()
        except BaseException:
            self.step -= 1
            raise

    def level(self, comm: Communicator, old: int) -> None:
        """Brings all members to the same step, with the same bits; only the first `old` ranks may hold the
        state. Collective. May fail at any point, and is then repeated with those that are left."""
        own = self.step, self.holds, self._apply is not None
        places = [_Place(*place) for place in allgather_json(comm, own, (int, bool, bool), _MAX_FORM_BYTES)]
        places[old:] = [place._replace(holds=False) for place in places[old:]]
        step = max((place.step for place in places if place.holds), default=-1)
        if step < 0:
            raise ReplicaError("none of the members that are left holds the group's state")
        able = [rank for rank, one in enumerate(places) if one.holds and step <= one.step + one.has_result]
        self.holds = comm.rank in able
        if self.holds and self.step < step:
            self.commit()
        self._apply = None
        forms = allgather_bytes(
            comm, np.frombuffer(self._state.form(), np.uint8), None, "form of the state", _MAX_FORM_BYTES
        )
        if not np.array_equal(forms[comm.rank], forms[able[0]]):
            self._spoil()
            self._state.adopt(forms[able[0]].tobytes())
        catch_up(comm, self._state.parts(), able, self._spoil)
        self.step, self.holds = step, True
        comm.barrier()  # who leaves after this has left nobody behind
        self.sure = step

    def _spoil(self) -> None:
        """The state is about to be overwritten."""
        self.holds = False
