"""A rank: `python -m ringroad.measure.bench.worker SETUP [RANK]`. `launch` starts it, and sends it commands over a
socket.

Without RANK, mpirun has started it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Client
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ringroad._oracle import Vector, dtype_of
from ringroad.measure import tuning
from ringroad.measure.bench.data import Buffers, Case
from ringroad.measure.bench.peers import OURS, Call, Peer

if TYPE_CHECKING:
    from ringroad.measure.bench.peers.own import Own


@dataclass(frozen=True)
class Setup:
    """The parameters of all ranks."""

    directory: str
    """The directory of sockets and stores."""
    ranks: int
    timeout: float
    """Time limit of a call in seconds."""
    backends: list[str]
    """Backends of torch.distributed."""
    mpi: str | None
    """The name of the peer mpi4py, or None without it."""
    buffers: list[str]
    warmup: int
    check: bool
    algorithms: list[str]
    """ringroad's fixed algorithms that take turns beside its choice."""
    wires: list[str]
    """The wire formats that take turns, too. Their results are not verified: they are rounded."""


def main() -> None:
    setup = Setup(**json.loads(sys.argv[1]))
    rank = int(sys.argv[2] if len(sys.argv) > 2 else os.environ["OMPI_COMM_WORLD_RANK"])
    with Client(str(Path(setup.directory, "socket"))) as pipe:
        worker = Worker(setup, rank)
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
    def __init__(self, setup: Setup, rank: int) -> None:
        self.setup, self.rank = setup, rank
        self.about: dict[str, Any] = {}
        self.peers = {peer.name: peer for peer in self._join()}
        self.buffers: Buffers | None = None
        self.calls: dict[tuple[str, str], Call] = {}

    def _join(self) -> list[Peer]:
        """Connects to the other ranks. MPI comes first, because it must find only its own UCX in the process."""
        setup, rank, ranks = self.setup, self.rank, self.setup.ranks
        mpi: list[Peer] = []
        if setup.mpi:
            from ringroad.measure.bench.peers.mpi import Mpi4py

            library = Mpi4py(setup.mpi)
            self.about["mpi"] = library.library
            mpi.append(library)
        self.ours = ours = self._own("store")
        self.about["transport"] = str(ours.communicator.transport)
        self._describe(ours)
        distributed: list[Peer] = []
        if setup.backends:
            from ringroad.measure.bench.peers.distributed import join

            distributed += join(f"{setup.directory}/torch", rank, ranks, setup.timeout, setup.backends)
        return [ours, *distributed, *mpi]

    def _describe(self, ours: Own) -> None:
        communicator = ours.communicator
        self.about["profile"] = communicator.profile
        self.about["model"] = communicator.model.__getnewargs_ex__()[1]
        self.about["segment"] = communicator._segment

    def _own(self, store: str, settings: dict[str, str] | None = None) -> Own:
        from ringroad.measure.bench.peers.own import Own

        setup = self.setup
        tensors = "torch" in setup.buffers
        return Own(f"{setup.directory}/{store}", self.rank, setup.ranks, setup.timeout, tensors, settings)

    def tune(self, collective: str, seconds: float, largest: int) -> list[dict[str, Any]]:
        """Tunes for sizes up to `largest` bytes, and makes a new communicator that uses the profile.

        Returns the new description of this rank.
        """
        communicator = self.ours.communicator
        sizes = [size for size in tuning.SIZES if size <= max(largest, tuning.SIZES[0])]
        profile, _ = tuning.tune(communicator, tuning.TuningOptions([collective], sizes, seconds))
        path = Path(self.setup.directory, "profile.json")
        if self.rank == 0:
            path.write_text(profile)
        communicator.barrier()
        self.ours.close()
        self.ours = self.peers[OURS] = self._own("tuned", {"RINGROAD_PROFILE": str(path)})
        self._describe(self.ours)
        return [self.about]

    def case(self, case: Case, kind: str) -> list[tuple[str, str, str | None]]:
        """Makes the buffers. Returns the available (peer, place, algorithm)."""
        self.buffers, self.calls = None, {}
        send, recv = self._memory(case, kind), self._memory(case, kind)
        self.buffers = buffers = Buffers(case, self.rank, send, recv, kind == "torch")
        found = []
        fixed = self.ours.fixed(case.collective.name, self.setup.algorithms)
        for one in fixed + self.ours.formats(case, self.setup.wires):
            self.peers.setdefault(one.name, one)
        for name, peer in self.peers.items():
            if name == f"{OURS}-torch" and kind != "torch":
                continue
            for place in case.collective.places:
                call = peer.call(buffers, place)
                if call is not None:
                    self.calls[name, place] = call
                    found.append((name, place, peer.algorithm(buffers)))
        return found

    @staticmethod
    def _memory(case: Case, kind: str) -> Vector:
        if kind == "numpy":
            return np.empty(case.elements, dtype_of(case.dtype))
        import torch

        from ringroad.measure.bench.peers.tensors import array_of

        return array_of(torch.empty(case.elements, dtype=getattr(torch, case.dtype)))

    def burst(self, peer: str, place: str, calls: int) -> tuple[Any, int]:
        """Runs `calls` calls. Returns the seconds of each, and the number of wrong elements at the end."""
        assert self.buffers is not None
        call, clock, times = self.calls[peer, place], time.perf_counter, np.empty(calls)
        self.buffers.fill(place)
        self.peers[peer].barrier()
        for index in range(calls):
            start = clock()
            call()
            times[index] = clock() - start
        rounds = getattr(self.peers[peer], "wire", None) is not None
        return times, self.buffers.wrong(place, calls) if self.setup.check and not rounds else 0

    def close(self) -> None:
        self.buffers, self.calls = None, {}
        for peer in self.peers.values():
            peer.close()


if __name__ == "__main__":
    main()
