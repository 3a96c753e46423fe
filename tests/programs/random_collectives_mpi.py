"""Random programs of collectives by mpi4py, which must give what the oracle says.

mpirun -n 3 python -m programs.random_collectives_mpi 7 8 9    # prints what is wrong on each rank, as JSON
"""

import json
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from ringroad._operations import LOCATING
from ringroad._oracle import FOLDS, Part, factor_of, is_inexact

from programs import random_messages
from programs.random_collectives import OWN, Call, run

NAMES = {"sum": "SUM", "product": "PROD", "min": "MIN", "max": "MAX", "band": "BAND", "bor": "BOR", "bxor": "BXOR"}


class OfMpi(random_messages.OfMpi):
    """mpi4py. What MPI has no type for is sent as bytes, and reduced by a function."""

    def __init__(self, comm: Any = None) -> None:
        super().__init__(comm)
        comm = self.comm
        self.rank, self.size, self.close = comm.rank, comm.size, comm.Free
        self.broadcast_object, self.gather_object, self.allgather_object = comm.bcast, comm.gather, comm.allgather
        self.scatter_object, self.alltoall_object = comm.scatter, comm.alltoall

    def sendrecv_object(self, obj: Any, to: int, source: int) -> Any:
        return self.comm.sendrecv(obj, to, source=source)

    def operation(self, op: str, dtype: np.dtype[Any]) -> tuple[Any, Any, np.dtype[Any]]:
        """MPI's operation, its type, and NumPy's of the same memory. MPI knows no NaN."""
        if op in LOCATING:
            return getattr(self.mpi, op.upper()), self.mpi.DOUBLE_INT, np.dtype(OWN[op][1], align=True)
        whole = dtype.kind in "iu" or (is_inexact(dtype) and dtype.itemsize > 2 and op not in ("min", "max"))
        if op in NAMES and whole:
            return getattr(self.mpi, NAMES[op]), self.mpi._typedict[dtype.char], dtype

        def fold(left: Any, both: Any, _: Any) -> None:
            a, b = np.frombuffer(left, dtype), np.frombuffer(both, dtype)
            b[...] = FOLDS[op](a, b)

        return self.mpi.Op.Create(fold, op != "after"), self.mpi.BYTE.Create_contiguous(dtype.itemsize).Commit(), dtype

    def prepared(self, call: Call, part: Part, local: Random) -> Callable[[Part], Callable[[], Any]]:
        return self.begin

    def begin(self, part: Part) -> Callable[[], Any]:
        case, comm, rank, root, (found, _) = part.case, self.comm, self.rank, part.case.root, part.expected
        send, dtype, op, kind = part.send, part.dtype, None, self.mpi.BYTE
        if case.op == "premul_sum":
            send = (send * factor_of(rank)).astype(dtype)
        if case.collective.reduces:
            op, kind, dtype = self.operation(case.op, dtype)
        unit = 1 if op else dtype.itemsize
        given = send.copy() if dtype == part.dtype else send.astype(dtype)
        out = (
            given
            if case.name == "broadcast"
            else np.zeros(len(send) if case.name == "exscan" else np.size(found), dtype)
        )
        table = case.lengths(self.size)
        rows, columns = [n * unit for n in table[rank]], [row[rank] * unit for row in table]
        source, target = ([array.view(np.uint8), len(array) * unit, kind] for array in (given, out))
        sources, targets = ([one[0], counts, None, kind] for one, counts in ((source, rows), (target, columns)))
        here, requests = rank == root, []
        match case.name:
            case "barrier":
                requests = [comm.Ibarrier()]
            case "broadcast":
                requests = [comm.Ibcast(target, root)]
            case "reduce":
                requests = [comm.Ireduce(source, target if here else None, op, root)]
            case "reduce_scatter":
                requests = [comm.Ireduce_scatter(source, target, rows, op)]
            case "gather":
                requests = [comm.Igatherv(source, [target[0], rows, None, kind] if here else None, root)]
            case "allgather":
                requests = [comm.Iallgatherv(source, [target[0], rows, None, kind])]
            case "scatter":
                requests = [comm.Iscatterv(sources if here else None, target, root)]
            case "alltoall":
                requests = [comm.Ialltoallv(sources, targets)]
            case "exchange":
                to, of = (rank + 1) % self.size, (rank - 1) % self.size
                requests = [comm.Isend(source, to, root), comm.Irecv(target, of, root)]
            case _:
                requests = [getattr(comm, "I" + case.name)(source, target, op)]

        def end() -> Any:
            self.mpi.Request.Waitall(requests)
            assert given is not None  # nothing else keeps it until then
            if op and not op.is_predefined:
                op.Free(), kind.Free()
            return None if found is None else (out / self.size if case.op == "avg" else out).astype(part.dtype)

        return end

    def split(self, color: int | None, key: int) -> Any:
        group = self.comm.Split(self.mpi.UNDEFINED if color is None else color, key)
        return None if color is None else OfMpi(group)

    def grid(self, lengths: tuple[int, ...], around: list[bool]) -> list[Any]:
        return self.neighbours(self.comm.Create_cart(lengths, around))

    def graph(self, destinations: list[int], sources: list[int]) -> list[Any]:
        return self.neighbours(self.comm.Create_dist_graph_adjacent(sources, destinations))

    def neighbours(self, near: Any) -> list[Any]:
        # Open MPI hangs in calls without counts, or refuses them, where a rank sends to nobody.
        def blocks(array: np.ndarray) -> list[Any]:
            return [array.view(np.uint8), [each.nbytes for each in array], None, self.mpi.BYTE]

        def allgather(send: np.ndarray, out: np.ndarray) -> None:
            near.Neighbor_allgatherv([send.view(np.uint8), send.nbytes, self.mpi.BYTE], blocks(out))

        return [lambda send, out: near.Neighbor_alltoallv(blocks(send), blocks(out)), allgather]


def main() -> None:
    library = OfMpi()
    wrong = library.comm.gather([text for seed in sys.argv[1:] for text in run(seed, library)])
    if library.rank == 0:
        print(json.dumps(wrong))


if __name__ == "__main__":
    main()
