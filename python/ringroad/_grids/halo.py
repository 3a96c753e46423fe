"""Exchanges of the borders of arrays between the ranks of a grid.

Each rank has a block of an array on a grid of ranks, with a border on all sides. What lies in the direction (-1, 1) of
its own cells, one down in the first dimension and one up in the second, is filled from the neighbour in that direction,
who sends what is outermost in the direction (1, -1) of its cells. All that one rank sends to another is a block of an
all-to-all, whose other blocks are empty.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ringroad._arrays import parts_of
from ringroad._grids.neighbours import Array, Exchange, Pending, at_once, check_dtype, keep, numbers, places
from ringroad._native import PROC_NULL, Communicator, Schedule
from ringroad._objects import allgather_object
from ringroad._support.text import check_class

Direction = tuple[int, ...]
Where = tuple[slice, ...]

_COMPARED = 256
"""With more ranks, schedules take long to compare."""
AT_ONCE, ALONG = "at once", "along dimensions"


class Grid(Protocol):
    """What is needed of a `Cart`."""

    comm: Communicator
    size: int
    shape: tuple[int, ...]
    _name: str

    def coordinates_of(self, rank: int) -> tuple[int, ...]: ...
    def rank_at(self, coordinates: Sequence[int]) -> int: ...


class Said(NamedTuple):
    """What a rank tells the others of its block."""

    shape: tuple[int, ...]
    dtype: str
    widths: tuple[int, ...]
    corners: bool


class Room(NamedTuple):
    """An exchange, and views of its memory in the shapes of what is sent and filled."""

    exchange: Exchange
    sent: list[Array]
    arrived: list[Array]


class Plan:
    """What is sent from where to where, for blocks of the same shape and dtype."""

    def __init__(
        self, cart: Grid, shape: tuple[int, ...], dtype: np.dtype[Any], widths: tuple[int, ...], corners: bool
    ):
        self.cart, self.shape, self.dtype, self.widths = cart, shape, dtype, widths
        self.key = (shape, dtype, widths, corners)
        self.corners = corners
        self.rooms: dict[float | None, Room] = {}

    @staticmethod
    def local(cart: Grid, block: Any, width: int | Sequence[int], corners: bool) -> "Plan":
        """The plan of this rank, before it knows of the others."""
        if not isinstance(block, np.ndarray) or isinstance(block, np.ma.MaskedArray):
            raise TypeError(f"block must be a NumPy array, not {type(block).__name__}")
        check_dtype(block.dtype, "block")
        check_class("corners", corners, bool, np.bool_)
        if not block.flags.writeable:
            raise ValueError("block is read-only; pass an array that can be written")
        dimensions = len(cart.shape)
        widths = tuple(numbers(width, "width")) * (1 if np.iterable(width) else dimensions)
        if len(widths) != dimensions or min(widths) < 0:
            raise ValueError(f"width must be a number from 0 on for each of {dimensions} dimensions, not {width}")
        if block.ndim < dimensions:
            raise ValueError(
                f"block must have at least {dimensions} dimensions, as the grid; its shape is {block.shape}"
            )
        return Plan(cart, block.shape, block.dtype, widths, bool(corners))

    def agreed(self, timeout: float | None) -> "Plan":
        """The plan, after all ranks have told each other theirs. All of them raise an error if these do not fit."""
        cart = self.cart
        said = Said(self.shape, str(self.dtype), self.widths, self.corners)
        everybody = allgather_object(cart.comm, said, timeout, f"halo on {cart._name}")
        _check(cart, everybody)
        directions = self._directions()
        self.counts = np.zeros((cart.size, cart.size), np.int64)
        for rank, (shape, *_) in enumerate(everybody):
            for direction, peer in zip(directions, self._peers(rank, directions), strict=True):
                if peer != PROC_NULL:
                    self.counts[rank, peer] += math.prod(_lengths(_outermost(shape, self.widths, direction), shape))
        peers = self._peers(cart.comm.rank, directions)
        outgoing = places(zip(peers, range(len(directions)), strict=True))
        # What comes from a direction was sent in the opposite one, and lies where that comes in the order.
        incoming = places(zip(peers, (directions.index(tuple(-step for step in d)) for d in directions), strict=True))
        self.sent = [_outermost(self.shape, self.widths, directions[index]) for index in outgoing]
        self.filled = [_border(self.shape, self.widths, directions[index]) for index in incoming]
        self.costs = self._costs()
        return self

    def room(self, timeout: float | None) -> Room:
        """An exchange that nobody uses."""
        kept = self.rooms.pop(timeout, None)
        if kept is not None:
            return kept
        is_along = bool(self.costs) and min(self.costs, key=lambda way: self.costs[way]) == ALONG
        along = Schedule._along_dimensions(self.cart.shape) if is_along else None
        exchange = Exchange(self.cart.comm, self.cart._name, self.dtype, self.counts, timeout, along)
        sent, arrived = ([_lengths(where, self.shape) for where in parts] for parts in (self.sent, self.filled))
        return Room(exchange, parts_of(exchange.outgoing, sent), parts_of(exchange.incoming, arrived))

    def _directions(self) -> list[Direction]:
        """To all neighbours that have something to send."""
        steps = [(-1, 0, 1) if width else (0,) for width in self.widths]
        most = len(steps) if self.corners else 1
        return [d for d in itertools.product(*steps) if 1 <= sum(map(abs, d)) <= most]

    def _peers(self, rank: int, directions: list[Direction]) -> list[int]:
        place = self.cart.coordinates_of(rank)
        return [self.cart.rank_at([at + step for at, step in zip(place, d, strict=True)]) for d in directions]

    def _costs(self) -> dict[str, float]:
        """The seconds that both ways take; empty if there is no choice."""
        cart = self.cart
        others = self.counts.copy()
        np.fill_diagonal(others, 0)
        if not self.corners or sum(length > 1 for length in cart.shape) < 2 or not others.any():
            return {}
        if cart.size > _COMPARED:
            return {ALONG: math.nan}
        along = Schedule._along_dimensions(cart.shape)
        mean = int(others.sum()) * self.dtype.itemsize // cart.size
        ways = {AT_ONCE: Schedule.build(at_once(cart.size), cart.size, "alltoall"), ALONG: along}
        blocks = others.ravel().tolist()
        return {way: cart.comm._cost(schedule, mean, blocks).seconds for way, schedule in ways.items()}


class Halo:
    """The exchange of the borders of an array, prepared once and run often: what `Cart.prepare_halo` returns.

    Example:
        >>> with ringroad.local(2) as cluster:
        ...     def diffused(comm):
        ...         x = np.array([0.0, comm.rank, comm.rank, 0.0])
        ...         halo = comm.cart(2).prepare_halo(x)
        ...         for step in range(2):
        ...             halo.run()
        ...             x[1:-1] += (x[2:] - 2 * x[1:-1] + x[:-2]) / 4
        ...         return x[1:-1].tolist()
        ...     cluster.run(diffused)
        [[0.0625, 0.3125], [0.625, 0.5625]]
    """

    def __init__(self, _plan: Plan, _block: Array, _timeout: float | None) -> None:
        self._plan, self._block, self._timeout = _plan, _block, _timeout
        self._sent = [_block[where] for where in _plan.sent]
        self._filled = [_block[where] for where in _plan.filled]

    def run(self) -> Array:
        """Fills the borders.

        Returns:
            The array.

        Raises:
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator.
        """
        self._run(False)
        return self._block

    def start(self) -> Pending:
        """Begins to fill the borders.

        Returns:
            An object with `wait`, `result` and `is_completed`, as a `Work` has. Until it has been waited for, borders
            have their old values; other cells may be changed.
        """
        work: Pending = self._run(True)
        return work

    @property
    def costs(self) -> dict[str, float]:
        """The seconds that the exchange takes by the cost model "at once", with a message for each neighbour, and
        "along dimensions", with two for each dimension. The least one is run. Empty if there is no choice: without
        corners, or with ranks along one dimension only.
        """
        return dict(self._plan.costs)

    def _run(self, async_op: bool) -> Any:
        plan, timeout = self._plan, self._timeout
        room = plan.room(timeout)
        for part, border in zip(room.sent, self._sent, strict=True):
            part[...] = border

        def finish() -> Array:
            for border, part in zip(self._filled, room.arrived, strict=True):
                border[...] = part
            keep(plan.rooms, timeout, room)
            return self._block

        return room.exchange.run(finish, async_op)


def _check(cart: Grid, everybody: list[Said]) -> None:
    """Raises an error that is the same on all ranks if their blocks do not fit together."""
    dimensions = len(cart.shape)
    first = everybody[0]
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, said in enumerate(everybody):
        shape = said.shape
        if said[1:] != first[1:]:
            raise ValueError(f"ranks 0 and {rank} passed different dtypes, widths or corners: {first[1:]}, {said[1:]}")
        if (len(shape), shape[dimensions:]) != (len(first.shape), first.shape[dimensions:]):
            raise ValueError(f"the blocks of ranks 0 and {rank} do not fit: their shapes are {first.shape} and {shape}")
        for index, at in enumerate(cart.coordinates_of(rank)):
            length, width = shape[index], said.widths[index]
            if length < 3 * width:
                raise ValueError(
                    f"the block of rank {rank} has {length} cells in dimension {index}; with a border of {width} it "
                    f"needs {3 * width} at least"
                )
            other, same = known.setdefault((index, at), (rank, length))
            if same != length:
                raise ValueError(
                    f"ranks {other} and {rank} have the same coordinate in dimension {index}, but their blocks have "
                    f"{same} and {length} cells there"
                )


def _outermost(shape: Sequence[int], widths: Sequence[int], direction: Direction) -> Where:
    """The outermost of a rank's own cells in a direction."""
    places = zip(direction, shape, widths, strict=False)
    return tuple(
        slice(w, n - w) if step == 0 else slice(w, 2 * w) if step < 0 else slice(n - 2 * w, n - w)
        for step, n, w in places
    )


def _border(shape: Sequence[int], widths: Sequence[int], direction: Direction) -> Where:
    """The border in a direction."""
    places = zip(direction, shape, widths, strict=False)
    return tuple(
        slice(w, n - w) if step == 0 else slice(0, w) if step < 0 else slice(n - w, n) for step, n, w in places
    )


def _lengths(where: Where, shape: Sequence[int]) -> tuple[int, ...]:
    return (*(part.stop - part.start for part in where), *shape[len(where) :])
