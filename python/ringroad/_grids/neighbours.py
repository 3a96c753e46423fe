"""`Graph`: ranks that exchange blocks with their neighbours.

An exchange between neighbours is an all-to-all in which the blocks of all other pairs of ranks are empty. So its
schedules are verified, its costs are known, and its plans have no message for an empty block.
"""

import operator
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringroad._arrays import as_array, check_output, named
from ringroad._costs import Cost
from ringroad._mpi_names import missing
from ringroad._native import PROC_NULL, Communicator, Schedule, Work
from ringroad._objects import allgather_object
from ringroad._support.text import length

Array = NDArray[Any]
Slot = tuple[int, int]
"""The peer of a block, and the block's number among those of the two ranks."""

_AT_ONCE = 256
"""With more ranks, there is no schedule that exchanges with all others in one step."""
_KEPT = 16


class Pending:
    """A call in flight, whose result is completed by the rank that waits for it."""

    def __init__(self, work: Work[Any], finish: Callable[[], Any]) -> None:
        self._work, self._result = work, None
        self._finish: Callable[[], Any] | None = finish

    def wait(self, timeout: float | None = None) -> bool:
        """As `Work.wait`."""
        self._work.wait(timeout)
        if self._finish is not None:
            self._result, self._finish = self._finish(), None
        return True

    def is_completed(self) -> bool:
        """As `Work.is_completed`."""
        return self._work.is_completed()

    def result(self) -> Any:
        """As `Work.result`."""
        self.wait()
        return self._result


class Exchange:
    """A prepared all-to-all, with its memory: `counts[s, t]` elements of `dtype` from `s` to `t`. `name` says on what
    grid or graph, and must be the same on all ranks."""

    def __init__(
        self,
        comm: Communicator,
        name: str,
        dtype: np.dtype[Any],
        counts: NDArray[np.int64],
        timeout: float | None,
        algorithm: str | Schedule | None = None,
    ) -> None:
        lengths = counts[comm.rank].sum(), counts[:, comm.rank].sum()
        self.outgoing, self.incoming = (comm.empty(int(length), dtype) for length in lengths)
        send, out = named(self.outgoing, name), named(self.incoming, name)
        by = algorithm or at_once(comm.size)
        self.call = comm.prepare("alltoall", send, out, counts=counts, algorithm=by, timeout=timeout)

    def run(self, finish: Callable[[], Any], async_op: bool) -> Any:
        """Makes the call, and returns what `finish` does; with `async_op` a `Pending`."""
        if async_op:
            return Pending(self.call.start(), finish)
        self.call.run()
        return finish()


class Graph:
    """Ranks that exchange blocks along the edges of a graph: what `Communicator.graph` returns.

    An exchange is an all-to-all that sends nothing to others than neighbours. All ranks make it together, like a
    collective of the communicator. Blocks have any dtype but Python objects.

    Attributes:
        comm: The communicator.
        rank: This rank's number there.
        size: The number of ranks.
        destinations: The ranks to which this one sends, in the order of its blocks; `ringroad.PROC_NULL` beyond an
            end of a grid.
        sources: The ranks from which it receives, in the order of the blocks that it gets; or `ringroad.PROC_NULL`.
    """

    def __init__(
        self,
        _comm: Communicator,
        _name: str,
        _destinations: Sequence[int],
        _sources: Sequence[int],
        _numbers: tuple[Sequence[int], Sequence[int]],
        _edges: Iterable[Slot],
    ) -> None:
        self.comm, self.rank, self.size, self._name = _comm, _comm.rank, _comm.size, _name
        self.destinations, self.sources = tuple(_destinations), tuple(_sources)
        self._sent, self._received = (
            places(zip(peers, numbers, strict=True))
            for peers, numbers in zip((_destinations, _sources), _numbers, strict=True)
        )
        self._edges = np.zeros((self.size, self.size), np.int64)
        for edge in _edges:
            self._edges[edge] += 1
        self._kept: dict[Any, Exchange] = {}

    if not TYPE_CHECKING:  # type checkers know which names there are

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name)

    def neighbour_alltoall(
        self, send: ArrayLike, out: Array | None = None, *, timeout: float | None = None, async_op: bool = False
    ) -> Any:
        """Sends each neighbour a block of its own.

        Args:
            send: A block for each of `destinations`, along the first axis; of the same shape and dtype on all ranks.
                Where there is no neighbour, the block is ignored.
            out: An array for a block of each of `sources`, along the first axis. Where there is no neighbour, its block
                keeps its values. None: a new array, with zeros there.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return at once. What is returned has `wait`, `result` and `is_completed`, as a `Work` has.
                Until it has been waited for, do not use `out`; `send` may be changed at once.

        Returns:
            `out`, or the new array.

        Raises:
            TypeError: An array has Python objects, or `out` is no NumPy array.
            ValueError: An array has another shape or dtype, or `out` is read-only. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator.

        Example:
            >>> a, b = [comm.cart(2, periodic=True) for comm in ringroad.Communicator.in_process(2)]
            >>> work = a.neighbour_alltoall(np.array([1, 2]), async_op=True)
            >>> b.neighbour_alltoall(np.array([3, 4])).tolist(), work.result().tolist()
            ([2, 1], [4, 3])
        """
        send = sendable(send, "send")
        if send.shape[:1] != (len(self.destinations),):
            raise ValueError(
                f"send must have a block for each of {len(self.destinations)} destinations along its first axis; its "
                f"shape is {send.shape}"
            )
        return self._exchange(send.dtype, send.shape[1:], out, timeout, async_op, lambda to: self._pick(send, to))

    def neighbour_allgather(
        self, send: ArrayLike, out: Array | None = None, *, timeout: float | None = None, async_op: bool = False
    ) -> Any:
        """Sends all neighbours the same block.

        Args:
            send: The block for all of `destinations`; of the same shape and dtype on all ranks.
            out: As for `neighbour_alltoall`.
            timeout: As for `neighbour_alltoall`.
            async_op: As for `neighbour_alltoall`.

        Returns:
            `out`, or the new array.

        Raises:
            TypeError: As for `neighbour_alltoall`.
            ValueError: As for `neighbour_alltoall`.
            MismatchError: As for `neighbour_alltoall`.
            TimeoutError: As for `neighbour_alltoall`.
            PeerError: As for `neighbour_alltoall`.

        Example:
            >>> a, b = [comm.cart(2) for comm in ringroad.Communicator.in_process(2)]
            >>> work = a.neighbour_allgather(np.array([1, 2]), async_op=True)
            >>> b.neighbour_allgather(np.array([3, 4])).tolist(), work.result().tolist()
            ([[1, 2], [0, 0]], [[0, 0], [3, 4]])
        """
        send = sendable(send, "send")
        return self._exchange(send.dtype, send.shape, out, timeout, async_op, lambda to: np.copyto(to, send))

    def neighbour_alltoallv(
        self, send: ArrayLike, counts: Sequence[int], *, timeout: float | None = None
    ) -> list[Array]:
        """Sends each neighbour a block of its own, of any length.

        The ranks first tell all others the lengths, in a call of its own. Where lengths are always the same,
        `neighbour_alltoall` is faster.

        Args:
            send: The blocks one after the other, along the first axis; all ranks have the same further axes and dtype.
            counts: The rows of the block for each of `destinations`. Where there is no neighbour, the block is ignored.
            timeout: Seconds after which either call fails. None: the communicator's `timeout`.

        Returns:
            An array from each of `sources`, with no row where there is no neighbour.

        Raises:
            TypeError: As for `neighbour_alltoall`.
            ValueError: `counts` has another length, or `send` has another number of rows. Nothing was sent.
            MismatchError: As for `neighbour_alltoall`.
            TimeoutError: As for `neighbour_alltoall`.
            PeerError: As for `neighbour_alltoall`.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     def exchange(comm):
            ...         pair, count = comm.graph([1 - comm.rank]), 1 + comm.rank
            ...         return pair.neighbour_alltoallv([comm.rank] * count, [count])[0].tolist()
            ...     cluster.run(exchange)
            [[1, 1], [0]]
        """
        send, rows = sendable(send, "send"), numbers(counts, "counts")
        if len(rows) != len(self.destinations) or min(rows, default=0) < 0 or send.shape[:1] != (sum(rows),):
            raise ValueError(
                f"counts must be a number of rows for each of {len(self.destinations)} destinations, together those of "
                f"send; it is {rows}, and the shape of send is {send.shape}"
            )
        blocks = np.split(send, np.cumsum(rows)[:-1]) if rows else []
        degrees = self._edges.sum(axis=1)
        mine = np.array([rows[index] for index in self._sent], np.int64)
        lengths = self.comm.allgather(named(mine, self._name), counts=degrees.tolist(), timeout=timeout).view(np.int64)
        source = np.repeat(np.arange(self.size), degrees)
        target = np.concatenate([np.repeat(np.arange(self.size), row) for row in self._edges])
        table, width = np.zeros_like(self._edges), int(np.prod(send.shape[1:], dtype=np.int64))
        np.add.at(table, (source, target), lengths)
        exchange = Exchange(self.comm, self._name, send.dtype, table * width, timeout)
        coming = int(table[:, self.rank].sum())
        outgoing = exchange.outgoing.reshape(int(mine.sum()), *send.shape[1:])
        incoming = exchange.incoming.reshape(coming, *send.shape[1:])
        np.concatenate([send[:0], *(blocks[index] for index in self._sent)], out=outgoing)
        exchange.run(lambda: None, False)
        found = [send[:0]] * len(self.sources)
        parts = np.split(incoming, np.cumsum(lengths[target == self.rank]))
        for index, part in zip(self._received, parts, strict=False):
            found[index] = part
        return found

    def cost(self, bytes: int | str) -> Cost:
        """Returns what an exchange with the neighbours costs on the network, as the ranks know it.

        Args:
            bytes: The length of a block, a number of bytes or a text such as "1MiB".

        Returns:
            A `ringroad.Cost`, whose vector is what a rank sends in the mean.

        Raises:
            ValueError: No rank has a neighbour, or `bytes` is malformed.

        Example:
            >>> ranks = ringroad.Communicator.in_process(6, topology="torus:2x3,bandwidth=1GB/s,latency=1us")
            >>> ranks[0].cart((2, 3), periodic=True).cost(1 << 20).steps
            1
        """
        bytes = length("bytes", bytes)
        if not self._edges.any():
            raise ValueError("no rank has a neighbour, so there is nothing to send")
        schedule = Schedule.build(at_once(self.size), self.size, "alltoall")
        return self.comm._cost(schedule, int(self._edges.sum()) * bytes // self.size, self._edges.ravel().tolist())

    def _pick(self, send: Array, to: Array) -> None:
        for index, block in enumerate(self._sent):
            to[index] = send[block]

    def _exchange(
        self,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        out: Array | None,
        timeout: float | None,
        async_op: bool,
        fill: Callable[[Array], None],
    ) -> Any:
        blocks = (len(self.sources), *shape)
        result = np.zeros(blocks, dtype) if out is None else out
        check_output(result, blocks, dtype)
        key = (dtype, shape, timeout)
        # While the exchange is in flight, nobody else uses its memory.
        exchange = self._kept.pop(key, None)
        if exchange is None:
            counts = self._edges * int(np.prod(shape, dtype=np.int64))
            exchange = Exchange(self.comm, self._name, dtype, counts, timeout)
        fill(exchange.outgoing.reshape(len(self._sent), *shape))

        arriving = exchange.incoming.reshape(len(self._received), *shape)

        def finish() -> Array:
            for index, block in enumerate(self._received):
                result[block] = arriving[index]
            keep(self._kept, key, exchange)
            return result

        return exchange.run(finish, async_op)

    def __repr__(self) -> str:
        to, origins = (
            ["-" if peer == PROC_NULL else peer for peer in peers] for peers in (self.destinations, self.sources)
        )
        return f"<Graph: rank {self.rank} of {self.size} sends to {to}, receives from {origins}>"


def graph(comm: Communicator, neighbours: Iterable[int], sources: Iterable[int] | None, timeout: float | None) -> Graph:
    given = (numbers(neighbours, "neighbours"), None if sources is None else numbers(sources, "sources"))
    everybody = allgather_object(comm, given, timeout, "graph")
    callers: list[list[int]] = [[] for _ in range(comm.size)]
    for rank, (to, origins) in enumerate(everybody):
        for peer in (*to, *(origins or ())):
            if not 0 <= peer < comm.size:
                raise ValueError(f"rank {rank} names rank {peer}, which is not one of the ranks 0 to {comm.size - 1}")
        for peer in to:
            callers[peer].append(rank)
    for rank, (_, origins) in enumerate(everybody):
        if origins is not None and sorted(origins) != callers[rank]:
            raise ValueError(
                f"rank {rank} wants to receive from {origins}, but the ranks that name it are {callers[rank]}"
            )
    to, origins = given
    if origins is None:
        is_mutual = all(sorted(to) == callers[rank] for rank, (to, _) in enumerate(everybody))
        origins = to if is_mutual else callers[comm.rank]
    counted = [[peers[:index].count(peer) for index, peer in enumerate(peers)] for peers in (to, origins)]
    edges = [(rank, peer) for rank, (to, _) in enumerate(everybody) for peer in to]
    name = f"graph of {len(edges)} edges, {zlib.crc32(repr(everybody).encode()):08x}"
    return Graph(comm, name, to, origins, (counted[0], counted[1]), edges)


def at_once(size: int) -> str:
    """The all-to-all in which ranks exchange messages with their peers only, without relays."""
    return "direct" if size <= _AT_ONCE else "pairwise"


def places(slots: Iterable[Slot]) -> list[int]:
    """The numbers of the blocks that have a peer, in their order in memory: by peer, then by number."""
    present = ((peer, number, index) for index, (peer, number) in enumerate(slots) if peer != PROC_NULL)
    return [index for _, _, index in sorted(present)]


def keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Keeps a value, instead of the oldest if there are many."""
    if len(kept) >= _KEPT:
        del kept[next(iter(kept))]
    kept[key] = value


def numbers(given: Any, name: str) -> list[int]:
    """The whole numbers of a list, or one number."""
    try:
        return [operator.index(number) for number in (given if np.iterable(given) else [given])]
    except TypeError:
        raise TypeError(f"{name} must be whole numbers, not {given!r}") from None


def sendable(given: ArrayLike, name: str) -> Array:
    """The array of an argument of this name, whose elements can be sent. Raises TypeError."""
    found = as_array(given, name)
    check_dtype(found.dtype, name)
    return found


def check_dtype(dtype: np.dtype[Any], name: str) -> None:
    """Raises TypeError if elements of this type cannot be sent."""
    if dtype.hasobject or not dtype.itemsize:
        raise TypeError(f"{name} has dtype {dtype}, whose elements cannot be sent as bytes")


def flags(given: Any, name: str, count: int) -> tuple[bool, ...]:
    """True or False for each of this many dimensions. Raises ValueError."""
    found = list(given) if np.iterable(given) else []
    if len(found) != count or any(flag not in (True, False) for flag in found):
        raise ValueError(f"{name} must be True or False for each of {count} dimensions, not {given!r}")
    return tuple(map(bool, found))
