"""MPI through mpi4py's buffer interface. The launcher chooses the MPI library and its transport."""

from functools import partial
from typing import Any

from ringroad.measure.bench.collectives import IN
from ringroad.measure.bench.data import Buffers
from ringroad.measure.bench.peers import Call


class Mpi4py:
    def __init__(self, name: str) -> None:
        from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]

        self.name = name
        self.mpi: Any = MPI
        self.world: Any = MPI.COMM_WORLD
        self.library = " ".join(MPI.Get_library_version().split(",")[0].split()[:3])

    def call(self, buffers: Buffers, place: str) -> Call | None:
        case, world, mpi = buffers.case, self.world, self.mpi
        send: Any
        own, recv = buffers.views(place)
        send = mpi.IN_PLACE if place == IN else own
        at_root = buffers.rank == case.root
        ops = {"sum": mpi.SUM, "product": mpi.PROD, "min": mpi.MIN, "max": mpi.MAX}
        op = (ops | {"band": mpi.BAND, "bor": mpi.BOR, "bxor": mpi.BXOR}).get(case.op)
        if case.collective.reduces and op is None:
            return None  # MPI has no average, and no sum of multiples
        match case.collective.name:
            case "allreduce":
                return partial(world.Allreduce, send, recv, op)
            case "reduce_scatter":
                # In place MPI puts the result at the start of the buffer, not into the rank's block.
                return None if place == IN else partial(world.Reduce_scatter_block, send, recv, op)
            case "allgather":
                return partial(world.Allgather, send, recv)
            case "alltoall":
                return partial(world.Alltoall, send, recv)
            case "scan":
                return partial(world.Scan, send, recv, op)
            case "exscan":
                return partial(world.Exscan, send, recv, op)
            case "gather":
                # Only the root is in place.
                return partial(world.Gather, send if at_root else own, recv if at_root else None, case.root)
            case "scatter":
                target = mpi.IN_PLACE if place == IN and at_root else recv
                return partial(world.Scatter, own if at_root else None, target, case.root)
            case "broadcast":
                return partial(world.Bcast, recv, case.root)
            case "reduce":
                source = recv if place == IN and not at_root else send
                return partial(world.Reduce, source, recv if at_root else None, op, case.root)
        return self.barrier

    def barrier(self) -> Any:
        return self.world.Barrier()

    def algorithm(self, buffers: Buffers) -> str | None:
        return None

    def close(self) -> None:
        """Does nothing: MPI ends with the process."""
