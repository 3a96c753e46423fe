"""What the members of an elastic group hold in common, and which steps of it count."""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from numpy.typing import ArrayLike

from ringroad._catching_up import catch_up
from ringroad._native import Communicator
from ringroad._replicas import Part, ReplicaError, part_of


class State(Protocol):
    """What all members hold in common."""

    def form(self) -> bytes:
        """What a member must know to have the same parts, but for their bits."""

    def adopt(self, form: bytes) -> None:
        """Makes the parts have this form, which is another member's."""

    def parts(self) -> list[Part]:
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
        raise ReplicaError(f"the group's state is {form.decode()}, but that of this process {self.form().decode()}")

    def parts(self) -> list[Part]:
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
    """

    def __init__(self, state: State) -> None:
        self.step = self.sure = 0
        self._state = state
        self._holds = False
        self._apply: Callable[[], object] | None = None

    def begin(self, holds: bool) -> None:
        """The state of this process is the group's, or it has to get that."""
        self._holds, self._apply = holds, None

    def has(self, apply: Callable[[], object]) -> None:
        """This member has the result of the step in hand, and can apply it."""
        self._apply = apply

    def commit(self) -> None:
        """All members have the result in hand."""
        apply, self._apply = self._apply, None
        assert apply
        self.step += 1
        apply()

    def level(self, comm: Communicator) -> None:
        """Brings all members to the same step, with the same bits. Collective. May fail at any point, and is then
        repeated with those that are left."""
        places = [_Place(*place) for place in comm.allgather_object((self.step, self._holds, self._apply is not None))]
        step = max((place.step for place in places if place.holds), default=-1)
        if step < 0:
            raise ReplicaError("none of the members that are left holds the group's state")
        able = [rank for rank, one in enumerate(places) if one.holds and step <= one.step + one.has_result]
        self._holds = comm.rank in able
        if self._holds and self.step < step:
            self.commit()
        self._apply = None
        forms = comm.allgather_object(self._state.form())
        if forms[comm.rank] != forms[able[0]]:
            self._spoil()
            self._state.adopt(forms[able[0]])
        catch_up(comm, self._state.parts(), able, self._spoil)
        self.step, self._holds = step, True
        comm.barrier()  # who leaves after this has left nobody behind
        self.sure = step

    def _spoil(self) -> None:
        """The state is about to be overwritten."""
        self._holds = False
