"""Whether all ranks hold the same bits: digests of arrays, who differs and where, and repair from the majority.

If all is well, ranks exchange one short message each. Only if not, they exchange what tells the arrays apart.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringroad._arrays import as_array
from ringroad._native import Communicator, RingroadError, digest
from ringroad._objects import allgather_object, countdown
from ringroad._support.text import items, ranks_text

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

DIGEST = 16
"""The bytes of a digest."""


class ReplicaError(RingroadError):
    """`check_replicas` cannot compare or repair: ranks passed different arrays, or no majority holds the same bits.

    All ranks raise it, with the same message, which names ranks and arrays. No array was written, unless the message
    says so. The communicator goes on: correct the call, or copy the arrays from a rank that you trust, with
    `broadcast_coalesced` for example.
    """


@dataclass(frozen=True)
class ReplicaDifference:
    """An array that does not hold the same bits on all ranks.

    Attributes:
        name: What the array is called.
        groups: Ranks that hold the same bits, the largest group first.
    """

    name: str
    groups: list[list[int]]

    @property
    def majority(self) -> list[int]:
        """More than half of the ranks, which hold the same bits; empty if no group is so large."""
        ranks = sum(map(len, self.groups))
        return self.groups[0] if 2 * len(self.groups[0]) > ranks else []

    @property
    def minority(self) -> list[int]:
        """The ranks that are not in the majority; all of them if there is none."""
        others = self.groups[1:] if self.majority else self.groups
        return sorted(rank for group in others for rank in group)

    def __str__(self) -> str:
        if self.majority:
            return f"{self.name}: {ranks_text(self.minority)} differ{'s' * (len(self.minority) == 1)} from the others"
        return f"{self.name}: no majority; the same bits are on {' / '.join(map(ranks_text, self.groups))}"


@dataclass(frozen=True)
class ReplicaCheck:
    """What `check_replicas` has found; the same on all ranks.

    Attributes:
        arrays: How many arrays were compared.
        bytes: How many bytes they have on each rank.
        differences: The arrays that differed between ranks, in order.
        repaired: Whether the ranks of the minorities now hold the bits of the majorities.

    Example:
        >>> ringroad.Communicator.in_process(1)[0].check_replicas([np.ones(3)]).same
        True
    """

    arrays: int
    bytes: int
    differences: list[ReplicaDifference]
    repaired: bool = False

    @property
    def same(self) -> bool:
        """Whether all ranks held the same bits."""
        return not self.differences

    def __str__(self) -> str:
        if self.same:
            return f"all {self.arrays} arrays are the same on all ranks"
        text = f"{len(self.differences)} of {self.arrays} arrays differ{'ed, and were repaired' * self.repaired}"
        return "\n  ".join([text, *map(str, self.differences)])


@dataclass(frozen=True)
class ReplicaPart:
    """An array, or whatever holds one."""

    name: str
    kind: str
    """Its type and shape in words; the same on all ranks."""
    nbytes: int
    bits: Callable[[], Bytes]
    """Its elements in order: its own memory, or a copy."""
    store: Callable[[Bytes], None]
    """Takes what `bits` has returned, after it was written to."""

    def digest(self) -> bytes:
        return digest(self.bits())


def check_replicas(
    comm: Communicator, arrays: Sequence[ArrayLike] | Mapping[str, ArrayLike], repair: bool, timeout: float | None
) -> ReplicaCheck:
    return check(comm, lambda: [part_of(name, one, repair) for name, one in _named(arrays)], repair, timeout)


def check(
    comm: Communicator, parts: Callable[[], list[ReplicaPart]], repair: bool, timeout: float | None
) -> ReplicaCheck:
    """As `check_replicas`, on whatever parts this rank has. If these cannot be made, all ranks raise the error."""
    left = countdown(comm, timeout)
    mine, digests, problem = [], b"", ""
    try:
        mine = parts()
        digests = b"".join(part.digest() for part in mine)
    except Exception as error:
        problem = str(error) or type(error).__name__
    forms = [("repair", str(repair)), *((part.name, part.kind) for part in mine)]
    # One message: whether there is a problem, what the arrays are, what they hold.
    summary = bytes([problem != ""]) + _digest(repr(forms).encode()) + _digest(digests)
    summaries = gathered(comm, summary, left())
    if any(one[0] for one in summaries) or len({one[: 1 + DIGEST] for one in summaries}) > 1:
        _refuse(allgather_object(comm, (problem, forms), left(), "check_replicas"))
    wrong = [] if len(set(summaries)) == 1 else _differences(comm, mine, digests, left())
    if repair and wrong:
        _repair(comm, wrong, left)
    return ReplicaCheck(
        arrays=len(mine),
        bytes=sum(part.nbytes for part in mine),
        differences=[difference for _, difference in wrong],
        repaired=repair and wrong != [],
    )


def _refuse(said: list[tuple[str, list[tuple[str, str]]]]) -> NoReturn:
    """Raises what is wrong with the arrays of some ranks, or between ranks."""
    problems = [f"rank {rank}: {problem}" for rank, (problem, _) in enumerate(said) if problem]
    if problems:
        raise ReplicaError("check_replicas: nothing was compared.\n  " + "\n  ".join(problems))
    rows = enumerate(zip_longest(*(forms for _, forms in said)))
    place, forms = next((place, forms) for place, forms in rows if len(set(forms)) > 1)
    holders: dict[str, list[int]] = {}
    for rank, form in enumerate(forms):
        text = "nothing" if form is None else form[1] if place == 0 else f"{form[0]}, {form[1]}"
        holders.setdefault(text, []).append(rank)
    what = "repair" if place == 0 else f"array {place - 1}"
    found = "; ".join(f"{text} on {ranks_text(ranks)}" for text, ranks in holders.items())
    raise ReplicaError(
        "check_replicas: nothing was compared. All ranks must pass the same arguments, and arrays of the same names, "
        f"shapes and dtypes in the same order, but {what} is {found}"
    )


def _differences(
    comm: Communicator, mine: list[ReplicaPart], digests: bytes, seconds: float
) -> list[tuple[ReplicaPart, ReplicaDifference]]:
    everyone = gathered(comm, digests, seconds)
    table = np.frombuffer(b"".join(everyone), np.uint8).reshape(comm.size, len(mine), DIGEST)
    found = []
    for index in np.flatnonzero((table != table[0]).any(axis=(0, 2))):
        holders: dict[bytes, list[int]] = {}
        for rank in range(comm.size):
            holders.setdefault(table[rank, index].tobytes(), []).append(rank)
        groups = sorted(holders.values(), key=lambda ranks: (-len(ranks), ranks))
        found.append((mine[index], ReplicaDifference(mine[index].name, groups)))
    return found


def _repair(comm: Communicator, wrong: list[tuple[ReplicaPart, ReplicaDifference]], left: Callable[[], float]) -> None:
    undecided = [str(difference) for _, difference in wrong if not difference.majority]
    if undecided:
        raise ReplicaError(
            "check_replicas: nothing was repaired, because there are arrays of which no majority holds the same bits. "
            "Copy all arrays from a rank that you trust.\n  " + "\n  ".join(undecided)
        )
    for part, difference in wrong:
        bits = part.bits()
        comm.broadcast(bits, difference.majority[0], timeout=left())
        if comm.rank in difference.minority:
            part.store(bits)
    after = gathered(comm, b"".join(part.digest() for part, _ in wrong), left())
    if len(set(after)) > 1:
        names = ", ".join(part.name for part, _ in wrong)
        raise ReplicaError(
            f"check_replicas: ranks still differ after the repair of {names}: another thread writes to them, or a "
            "rank's memory is broken"
        )


def gathered(comm: Communicator, data: bytes, seconds: float) -> list[bytes]:
    """The bytes of every rank, which are equally many."""
    gathered = comm.allgather(np.frombuffer(data, np.uint8), timeout=seconds)
    return [part.tobytes() for part in gathered.reshape(comm.size, len(data))]


def _named(arrays: Sequence[ArrayLike] | Mapping[str, ArrayLike]) -> list[tuple[str, ArrayLike]]:
    if isinstance(arrays, np.ndarray):
        raise TypeError("arrays must be a list or a mapping of arrays, not one array; pass [array]")
    if isinstance(arrays, Mapping):
        return [(str(name), array) for name, array in arrays.items()]
    return [(f"arrays[{index}]", array) for index, array in enumerate(items("arrays", arrays))]


def part_of(name: str, given: ArrayLike, repair: bool) -> ReplicaPart:
    array = as_array(given, name)
    if array.dtype.hasobject:
        raise TypeError(f"{name} has dtype {array.dtype}, which holds references to objects and no values")
    if repair and not isinstance(given, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array that can be written, not {type(given).__name__}")
    if repair and not array.flags.writeable:
        raise ValueError(f"{name} is read-only; pass an array that can be written")

    def store(bits: Bytes) -> None:
        if not np.shares_memory(bits, array):
            np.copyto(array, bits.view(array.dtype).reshape(array.shape))

    kind = f"{array.dtype} of shape {array.shape}"
    return ReplicaPart(name, kind, array.nbytes, lambda: _bits(array), store)


def _bits(array: Array) -> Bytes:
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _digest(data: bytes) -> bytes:
    return digest(np.frombuffer(data, np.uint8))
