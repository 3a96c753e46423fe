"""`Cart`: ranks on a grid."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ringroad._grids.halo import Halo, Plan
from ringroad._grids.neighbours import Array, Graph, flags, numbers
from ringroad._grids.placement import order
from ringroad._native import PROC_NULL, Communicator
from ringroad._objects import broadcast_object, countdown
from ringroad._support.text import whole


class Cart(Graph):
    """Ranks on a grid of any number of dimensions: what `Communicator.cart` returns.

    It is a `Graph`: each rank exchanges blocks with its two neighbours in each dimension, first the lower, then the
    upper one, dimension by dimension. In a periodic dimension of one or two ranks, what goes down arrives from above,
    and what goes up from below.

    Use it in a `with` block or `close` it where it has a communicator of its own: with `reorder=True`, and from `sub`.

    Attributes:
        shape: The lengths of the dimensions.
        periodic: For each dimension, whether its ends are neighbours.
        coordinates: This rank's place.
    """

    def __init__(
        self, _comm: Communicator, _shape: tuple[int, ...], _periodic: tuple[bool, ...], _is_own: bool = False
    ) -> None:
        self.shape, self.periodic, self._is_own = _shape, _periodic, _is_own
        self.coordinates = self.coordinates_of(_comm.rank)
        slots = range(2 * len(_shape))
        neighbours = [self._neighbours_of(rank) for rank in range(_comm.size)]
        edges = [(rank, peer) for rank, peers in enumerate(neighbours) for peer in peers if peer != PROC_NULL]
        # What comes from below was sent up.
        labels = (list(slots), [slot ^ 1 for slot in slots])
        lengths = "x".join(f"{n}{'~' if around else ''}" for n, around in zip(_shape, _periodic, strict=True))
        super().__init__(_comm, f"cart {lengths}", neighbours[_comm.rank], neighbours[_comm.rank], labels, edges)
        self._plans: dict[Any, Plan] = {}

    def coordinates_of(self, rank: int) -> tuple[int, ...]:
        """Returns the place of a rank.

        Args:
            rank: The rank.

        Returns:
            Its coordinates.

        Raises:
            ValueError: There is no such rank.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> alone.cart((1, 1)).coordinates_of(0)
            (0, 0)
        """
        if not 0 <= whole("rank", rank) < math.prod(self.shape):
            raise ValueError(f"rank {rank} is not one of the ranks 0 to {math.prod(self.shape) - 1}")
        return tuple(int(c) for c in np.unravel_index(rank, self.shape))

    def rank_at(self, coordinates: Sequence[int]) -> int:
        """Returns the rank at a place. Coordinates count around in periodic dimensions.

        Args:
            coordinates: The place.

        Returns:
            The rank; `ringroad.PROC_NULL` beyond an end that is not periodic.

        Raises:
            ValueError: There is another number of coordinates than of dimensions.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> alone.cart((1, 1), periodic=(True, False)).rank_at((-3, 0))
            0
        """
        if len(places := numbers(coordinates, "coordinates")) != len(self.shape):
            raise ValueError(f"{coordinates} must have a coordinate for each of {len(self.shape)} dimensions")
        rank = 0
        for at, length, is_periodic in zip(places, self.shape, self.periodic, strict=True):
            if not is_periodic and not 0 <= at < length:
                return PROC_NULL
            rank = rank * length + at % length
        return rank

    def shift(self, dimension: int, steps: int = 1) -> tuple[int, int]:
        """Returns with whom this rank exchanges if all ranks send the same way along a dimension.

        Args:
            dimension: The dimension, counted from 0.
            steps: How far they send; down if negative.

        Returns:
            The rank from which this one receives, and the one to which it sends, as `Communicator.sendrecv` takes them;
            `ringroad.PROC_NULL` where there is none.

        Raises:
            ValueError: There is no such dimension.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> a.cart(2).shift(0) == (ringroad.PROC_NULL, 1), b.cart(2).shift(0) == (0, ringroad.PROC_NULL)
            (True, True)
            >>> a.cart(2, periodic=True).shift(0)
            (1, 1)
        """
        steps = whole("steps", steps)
        if not 0 <= whole("dimension", dimension) < len(self.shape):
            raise ValueError(f"dimension {dimension} is not one of 0 to {len(self.shape) - 1}")
        return self._step(self.coordinates, dimension, -steps), self._step(self.coordinates, dimension, steps)

    def sub(self, keep: Sequence[bool], *, timeout: float | None = None) -> "Cart":
        """Makes the grid of the ranks that differ from this one only in some dimensions, such as its row.

        It is collective: all ranks call it, with the same dimensions.

        Args:
            keep: For each dimension, whether the new grids have it.
            timeout: Seconds to wait for the others. None: the communicator's `timeout`.

        Returns:
            The grid to which this rank belongs, with a communicator of its own.

        Raises:
            ValueError: `keep` has another number of dimensions.
            TimeoutError: Ranks did not come in time. The message names them.

        Example:
            >>> with ringroad.local(4) as cluster:
            ...     def row(comm):
            ...         with comm.cart((2, 2)).sub((False, True)) as row:
            ...             return int(row.comm.allreduce(comm.rank))
            ...     cluster.run(row)
            [1, 1, 5, 5]
        """
        kept = flags(keep, "keep", len(self.shape))
        row, rest = ([index for index, one in enumerate(kept) if one == which] for which in (True, False))

        def number(dimensions: list[int]) -> int:
            places = [self.coordinates[index] for index in dimensions]
            return int(np.ravel_multi_index(places, [self.shape[index] for index in dimensions])) if places else 0

        comm = self.comm.split(number(rest), number(row), timeout=timeout)
        assert comm is not None
        shape, periodic = (tuple(values[index] for index in row) for values in (self.shape, self.periodic))
        return Cart(comm, shape or (1,), periodic or (False,), _is_own=True)  # type: ignore[arg-type]

    def halo(
        self,
        block: Array,
        width: int | Sequence[int] = 1,
        *,
        corners: bool = True,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """Fills the borders of this rank's block of an array with the values that its neighbours have there.

        The first axes of the blocks are the dimensions of the grid; what further axes have belongs to one cell. A block
        has `width` cells more on each side than it owns. Those are filled from the neighbours' outermost cells of their
        own, at faces, edges and corners, in one call. Beyond an end that is not periodic they keep their values.

        It is collective: all ranks call it. With the first block of a shape, ranks tell each other their shapes and
        choose by cost between one message for each neighbour, and two for each dimension, which carry what belongs to
        edges and corners along. If only some ranks' blocks get another shape later, use `prepare_halo`.

        Args:
            block: A NumPy array of any strides, with the same dtype on all ranks, but no Python objects. Ranks with the
                same coordinate in a dimension have the same length there.
            width: The number of cells, for all dimensions or for each; at most as many as a rank owns.
            corners: False: faces only, which is enough for stencils without diagonals.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return at once. What is returned has `wait`, `result` and `is_completed`, as a `Work` has.
                Until it has been waited for, borders have their old values; other cells may be changed.

        Returns:
            `block`.

        Raises:
            TypeError: `block` is no NumPy array, or has Python objects.
            ValueError: `block` is read-only or has too few dimensions or cells, or ranks passed what does not fit
                together.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     def row(comm):
            ...         block = np.array([0, 10 * comm.rank + 1, 10 * comm.rank + 2, 0])
            ...         return comm.cart(2).halo(block).tolist()
            ...     cluster.run(row)
            [[0, 1, 2, 11], [2, 11, 12, 0]]
        """
        plan = Plan.local(self, block, width, corners)
        plan = self._plans.get(plan.key) or self._plans.setdefault(plan.key, plan.agreed(timeout))
        return Halo(plan, block, timeout)._run(async_op)

    def prepare_halo(
        self, block: Array, width: int | Sequence[int] = 1, *, corners: bool = True, timeout: float | None = None
    ) -> Halo:
        """Prepares `halo` for a certain array, to run it often.

        It is collective: all ranks call it, and tell each other their blocks' shapes.

        Args:
            block: As for `halo`.
            width: As for `halo`.
            corners: As for `halo`.
            timeout: Seconds after which this and every run fails. None: the communicator's `timeout`.

        Returns:
            A `Halo`. It keeps the array alive.

        Raises:
            TypeError: As for `halo`.
            ValueError: As for `halo`.
            MismatchError: As for `halo`.
            TimeoutError: As for `halo`.
            PeerError: As for `halo`.
        """
        return Halo(Plan.local(self, block, width, corners).agreed(timeout), block, timeout)

    def close(self) -> None:
        """Closes the communicator, if the grid has one of its own."""
        if self._is_own:
            self.comm.close()

    def __enter__(self) -> "Cart":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self._name.capitalize()}: rank {self.rank} at {self.coordinates}>"

    def _neighbours_of(self, rank: int) -> list[int]:
        """The neighbours of a rank: the lower and the upper one in each dimension."""
        place = self.coordinates_of(rank)
        return [self._step(place, dimension, step) for dimension in range(len(place)) for step in (-1, 1)]

    def _step(self, place: tuple[int, ...], dimension: int, steps: int) -> int:
        return self.rank_at([at + steps * (index == dimension) for index, at in enumerate(place)])


def cart(comm: Communicator, shape: Any, periodic: Any, reorder: bool, timeout: float | None) -> Cart:
    lengths = _lengths(shape, comm.size)
    around = flags(periodic if np.iterable(periodic) else [periodic or False] * len(lengths), "periodic", len(lengths))
    plain = Cart(comm, lengths, around)
    if not reorder:
        return plain
    left = countdown(comm, timeout)
    # Rank 0's view of the network counts.
    found = order(comm, lengths, plain._edges) if comm.rank == 0 else None
    chosen = broadcast_object(comm, found, 0, left(), plain._name)
    own = comm.split(0, chosen.index(comm.rank), timeout=left())
    assert own is not None
    return Cart(own, lengths, around, _is_own=True)


def _lengths(shape: Any, size: int) -> tuple[int, ...]:
    given = numbers(shape, "shape")
    known, free = math.prod(length for length in given if length), given.count(0)
    if not given or min(given) < 0 or size % known or (known != size and not free):
        raise ValueError(f"a grid of shape {shape!r} cannot have {size} ranks; split the communicator, or let one be 0")
    chosen = iter(sorted(_even(size // known, free), reverse=True))
    return tuple(length or next(chosen) for length in given)


def _even(size: int, count: int) -> list[int]:
    """`count` factors of a number that are about equal."""
    if count == 0:
        return []
    factor = next(f for f in range(1, size + 1) if size % f == 0 and f**count >= size)
    return [factor, *_even(size // factor, count - 1)]
