"""A rank: `python -m ringroad.measure.bench.worker DIRECTORY [RANK]`. `launch` starts it, and sends it commands over a
socket in the directory.

Without RANK, mpirun has started it.
"""

import os
import sys
import time
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import numpy as np

from ringroad._native import Communicator, FileStore
from ringroad._oracle import Vector, dtype_of
from ringroad.measure import tuning
from ringroad.measure.bench.data import BenchCase, Buffers
from ringroad.measure.bench.options import MPI, BenchOptions, Team
from ringroad.measure.bench.peers import OURS, OURS_IN_TORCH, Call, Peer
from ringroad.measure.bench.peers.own import Own, variants


def main() -> None:
    directory, *rest = sys.argv[1:]
    rank = int(rest[0] if rest else os.environ["OMPI_COMM_WORLD_RANK"])
    with Client(str(Path(directory, "socket"))) as pipe:
        options, team = _next(pipe)
        worker = Worker(options, team, directory, rank)
        pipe.send((rank, worker.about))
        while (message := _next(pipe)) is not None:
            command, *arguments = message
            try:
                pipe.send(getattr(worker, command)(*arguments))
            except Exception as error:
                pipe.send(f"{type(error).__name__}: {error}")
        worker.close()


def _next(pipe: Any) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        os._exit(1)  # the parent is gone, so there is nothing to close


class Worker:
    def __init__(self, options: BenchOptions, team: Team, directory: str, rank: int) -> None:
        self.options, self.team, self.directory, self.rank = options, team, Path(directory), rank
        self.about: dict[str, Any] = {}
        self.peers = {peer.name: peer for peer in self._join()}
        self.buffers: Buffers | None = None
        self.calls: dict[tuple[str, str], Call] = {}

    def _join(self) -> list[Peer]:
        """Connects to the other ranks. MPI comes first, because it must find only its own UCX in the process."""
        team = self.team
        mpi: list[Peer] = []
        if team.pml:
            from ringroad.measure.bench.peers.mpi import Mpi4py

            library = Mpi4py(f"{MPI}-{team.pml}")
            self.about["mpi"] = library.library
            mpi.append(library)
        ours = Own(self._communicator("store"))
        distributed: list[Peer] = []
        if team.backends:
            from ringroad.measure.bench.peers.distributed import join

            store = str(self.directory / "torch")
            distributed += join(store, self.rank, team.ranks, self.options.timeout, team.backends)
        return [ours, *distributed, *mpi]

    def _communicator(self, store: str, settings: dict[str, str] | None = None) -> Communicator:
        """A new communicator, which the rank's description then speaks of."""
        where, limit = FileStore(str(self.directory / store)), self.options.timeout
        communicator = Communicator(where, self.rank, self.team.ranks, timeout=limit, settings=settings)
        self.communicator = communicator
        self.about["transport"] = str(communicator.transport)
        self.about["profile"] = communicator.profile
        self.about["model"] = communicator.model.__getnewargs_ex__()[1]
        self.about["segment"] = communicator._segment
        return communicator

    def tune(self) -> dict[str, Any]:
        """Tunes for sizes up to the largest, and makes a new communicator that uses the profile.

        Returns the new description of this rank.
        """
        options, before = self.options, self.communicator
        sizes = [size for size in tuning.SIZES if size <= max(*options.sizes, tuning.SIZES[0])]
        profile, _ = tuning.tune(before, tuning.TuningOptions([options.collective.name], sizes, options.tune))
        path = self.directory / "profile.json"
        if self.rank == 0:
            path.write_text(profile)
        before.barrier()
        before.close()
        self.peers[OURS] = Own(self._communicator("tuned", {"RINGROAD_PROFILE": str(path)}))
        return self.about

    def case(self, case: BenchCase, kind: str) -> list[tuple[str, str, str | None]]:
        """Makes the buffers. Returns the available (peer, place, algorithm)."""
        self.buffers, self.calls = None, {}
        self.buffers = buffers = Buffers(case, self.rank, self._memory(case, kind), self._memory(case, kind))
        found = []
        for one in variants(self.communicator, case.collective.name, self.options.algorithms, self.options.wires):
            self.peers.setdefault(one.name, one)
        for name, peer in self.peers.items():
            if name == OURS_IN_TORCH and kind != "torch":
                continue
            for place in case.collective.places:
                call = peer.call(buffers, place)
                if call is not None:
                    self.calls[name, place] = call
                    found.append((name, place, peer.algorithm(buffers)))
        return found

    @staticmethod
    def _memory(case: BenchCase, kind: str) -> Vector:
        if kind == "numpy":
            return np.empty(case.elements, dtype_of(case.dtype))
        import torch

        from ringroad.measure.bench.peers.tensors import array_of

        return array_of(torch.empty(case.elements, dtype=getattr(torch, case.dtype)))

    def burst(self, peer: str, place: str, calls: int) -> tuple[Any, int]:
        """Runs `calls` calls. Returns the seconds of each, and the number of wrong elements at the end; results of wire
        formats are not verified, because they are rounded."""
        assert self.buffers is not None
        call, clock, times = self.calls[peer, place], time.perf_counter, np.empty(calls)
        self.buffers.fill(place)
        self.peers[peer].barrier()
        for index in range(calls):
            start = clock()
            call()
            times[index] = clock() - start
        rounds = getattr(self.peers[peer], "wire", None) is not None
        return times, self.buffers.wrong(place, calls) if self.options.check and not rounds else 0

    def close(self) -> None:
        self.buffers, self.calls = None, {}
        for peer in self.peers.values():
            peer.close()


if __name__ == "__main__":
    main()
