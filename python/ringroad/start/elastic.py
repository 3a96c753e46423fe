"""`ringroad.elastic`: a group whose members come and go while it works."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ringroad._native import Communicator, Config, MismatchError, TimeoutError
from ringroad._support.text import seconds, whole
from ringroad.start.doors import addresses
from ringroad.start.membership import FAILURES, LeftOutError, Membership
from ringroad.start.record import Record
from ringroad.start.signals import answer
from ringroad.start.state import Arrays, Progress, State

Result = TypeVar("Result")

_TRIES = 20
"""How often a step is repeated before its error is the program's."""


def elastic(
    address: str,
    state: Mapping[str, ArrayLike],
    *,
    minimum: int | None = None,
    timeout: float = 30,
    patience: float = 300,
    record: str | PathLike[str] | None = None,
) -> "ElasticGroup":
    """Joins a group whose members may come and go while it works.

    Use it in a `with` block. Every member runs the same loop: `update` at the boundary of every step, then `run` with
    what the step computes and how its result is applied to the state. If members are lost, the others repeat the step;
    processes that ask to join come in at the next boundary, with the state of the others. Any member may be lost.

    A majority of the members goes on, or, of two halves, that of the first rank; fewer go on only if all others have
    certainly ended. A part that is too small waits for the others. Members that were stopped or cut off so long that
    the others went on without them join again as newcomers.

    Args:
        address: Where members are found: `tcp://host:port[,host:port ...]`. Processes on these hosts listen there; any
            one that answers is enough. `group.address` has the addresses of the present members.
        state: What all members hold in common: NumPy arrays by name, which steps change in place. A newcomer's are
            overwritten. For models and optimizers see `ringroad.torch.elastic`.
        minimum: If there is no group yet, found one once this many processes have come. Only the process at the
            first address does so. None: only join.
        timeout: Seconds within which every call of the group must end. A stopped member is noticed then.
        patience: Seconds within which this process must be taken in, now or when it was left out, and within which
            members must come when others are lost.
        record: A file, beside the checkpoint for example, in which this process records its group. When it is
            started again, it founds no group, but asks and waits for that one. The file is removed when the `with`
            block ends without an error.

    Returns:
        The group.

    Raises:
        TimeoutError: No group takes this process in. With a record, the message says what it waited for.
        ReplicaError: The group's state has other arrays.
        ValueError: `address` is malformed, `minimum` is below 1, a time is not above 0, or the file is not a record.
        TransportError: This process cannot listen on a port.

    Example:
        >>> import socket
        >>> with socket.create_server(("127.0.0.1", 0)) as free:
        ...     address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        >>> sums = np.zeros(3)
        >>> with ringroad.elastic(address, {"sums": sums}, minimum=1) as group:
        ...     while group.step < 5:
        ...         changed = group.update()
        ...         total = group.run(
        ...             lambda comm: comm.allreduce(np.ones(3)), lambda total: np.add(sums, total, out=sums)
        ...         )
        >>> sums
        array([5., 5., 5.])
    """
    answer(Config())
    return ElasticGroup(address, Arrays(state), minimum, timeout, patience, record)


class ElasticGroup:
    """A group whose members come and go. `ringroad.elastic` makes it, and explains arguments and errors.

    Args:
        address: Where members are found.
        state: What they hold in common.
        minimum: How many found the group.
        timeout: Seconds within which a call must end.
        patience: Seconds to wait for other members.
        record: Where this process records its group.
    """

    def __init__(
        self,
        address: str,
        state: State,
        minimum: int | None,
        timeout: float,
        patience: float,
        record: str | PathLike[str] | None,
    ) -> None:
        if minimum is not None and whole("minimum", minimum) < 1:
            raise ValueError(f"minimum must be a number of processes, or None, not {minimum}")
        limits = seconds("timeout", timeout), seconds("patience", patience)
        self._members = Membership(addresses(address), minimum, *limits, Record(record))
        self._progress = Progress(state)
        self._asked: bool | None = None
        """Whether a newcomer has asked, as all members know since the last step; None if they do not."""
        self._changed = self._left = False
        try:
            self._join()
        except BaseException:
            self._members.close(done=False)
            raise

    @property
    def comm(self) -> Communicator:
        """The communicator of the present members. Another one takes its place whenever they change."""
        return self._members.comm

    @property
    def rank(self) -> int:
        """The number of this process among the present members."""
        return self.comm.rank

    @property
    def size(self) -> int:
        """How many members there are."""
        return self.comm.size

    @property
    def step(self) -> int:
        """How many steps are in the state."""
        return self._progress.step

    @property
    def address(self) -> str:
        """Where the present members are found, as `elastic` takes it."""
        return f"tcp://{','.join(self._members.addresses)}"

    def update(self) -> bool:
        """Takes in processes that have asked to join. Every member calls it at every boundary between steps.

        Returns:
            Whether the members have changed since the last call, also by losses: then `rank`, `size` and `comm` are
            new.

        Raises:
            TimeoutError: A member runs, but takes no part; too few are left, and others are silent; or this process was
                left out, and no group takes it in again.
            ReplicaError: Members hold different bits, and no majority agrees.
            MismatchError: Members have done different numbers of steps; or there is another group, which has done more.
                The message names both. The state is as after the last step.
            RuntimeError: This process has left the group.
        """
        self._check_present()
        try:
            if self._asked is None:
                self._look()
            asked, self._asked = self._asked, None
            if asked and self._members.admit():
                self._settle()
                self._asked = None
        except (*FAILURES, LeftOutError):
            self._recover()
            self._asked = None
        changed, self._changed = self._changed, False
        return changed

    def run(self, compute: Callable[[Communicator], Result], apply: Callable[[Result], object]) -> Result:
        """Does one step: all members compute, make sure that all have a result, and apply it to the state.

        Args:
            compute: Gets the communicator and returns the result. It does not change the state: if members are lost,
                the others call it again.
            apply: Gets the result and changes the state in place, without communication. It is called once. If it
                raises an error, the state is half changed: this process leaves the group at once, the step does not
                count, and `run` raises the error. The others go on without it.

        Returns:
            The result.

        Raises:
            TimeoutError: As for `update`; or calls of the step end at their time limit again and again.
            ReplicaError: As for `update`.
            MismatchError: As for `update`.
            RuntimeError: As for `update`.
        """
        self._check_present()
        for _ in range(_TRIES):
            start = self.step
            try:
                result = compute(self.comm)
                self._progress.has(lambda result=result: self._change(apply, result))  # type: ignore[misc]
                self._look()
            except FAILURES as error:
                failure = error
                if self._recover() and self.step == start + 1:
                    return result
            else:
                self._progress.commit()
                self._members.show(self.step)
                return result
        raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._left:
            return
        done = False
        try:
            # Others may not know yet that the last step is committed.
            unsure = kind is None and self.size > 1 and self._progress.sure < self.step
            if unsure and not self._recover(returning=False):
                raise TimeoutError(
                    f"this process was stopped or cut off, and the others have ended without it: its step {self.step}, "
                    "the last one, may differ from theirs"
                )
            done = kind is None
        finally:
            self._end(done)

    def _end(self, done: bool = False) -> None:
        self._left = True
        self._members.close(done)

    def _check_present(self) -> None:
        if self._left:
            raise RuntimeError("this process has left the elastic group; join again with ringroad.elastic")
        try:
            if not self._members.gives_way():
                return
        except MismatchError:
            self._end()
            raise
        self._members.leave()
        self._join()

    def _change(self, apply: Callable[[Result], object], result: Result) -> None:
        """Applies a result. A half changed state is no member's."""
        try:
            apply(result)
        except BaseException as error:
            self._end()
            error.add_note(
                f"apply failed in step {self.step} of the elastic group: the state is half changed, the step does not "
                "count, and this process has left the group; join again with ringroad.elastic"
            )
            raise

    def _look(self) -> None:
        """All members have come here; they learn whether anybody asks to be taken in."""
        asks, steps = self.comm.allreduce(np.array([len(self._members.asks()), self.step])).tolist()
        if steps != self.step * self.size:
            raise MismatchError(
                f"rank {self.rank} of the elastic group has done {self.step} steps, and others other numbers"
            )
        self._asked = asks > 0

    def _settle(self) -> None:
        """All members of a new communicator come to the same step and state."""
        self._progress.level(self.comm, self._members.introduce())
        self._members.show(self.step)
        self._asked, self._changed = False, True

    def _join(self) -> None:
        def settle(founded: bool) -> None:
            if founded:
                self._progress.begin(holds=True)
            self._settle()

        self._progress.begin(holds=False)
        self._members.join(settle, self._recover)

    def _recover(self, returning: bool = True) -> bool:
        """Goes on with those that are left. Returns whether this process is one of them; else it has joined again."""
        for _ in range(_TRIES):
            self.comm.abort("the members of the elastic group change")
            try:
                self._members.change()
            except LeftOutError:
                if returning:
                    self._members.leave(self._progress.holds)
                    self._join()
                return False
            try:
                self._settle()
                return True
            except FAILURES as error:
                if self._left:  # apply has failed
                    raise
                failure = error
        raise failure
