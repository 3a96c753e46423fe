"""Which peers share processes."""

from __future__ import annotations

from dataclasses import dataclass

from ringroad.measure.bench.launch import mpirun, require_backend
from ringroad.measure.bench.options import MPI, PMLS, BenchOptions
from ringroad.measure.bench.peers import OURS


@dataclass(frozen=True)
class Team:
    """Peers that share processes. A process can use one PML of Open MPI only, so each PML needs a team of its own."""

    ranks: int
    pml: str | None
    peers: list[str]


def teams_of(options: BenchOptions) -> list[Team]:
    """The first team for each number of ranks has all peers; further teams have only Open MPI with another PML."""
    ways = [pml for pml in PMLS if MPI in options.peers or f"{MPI}-{pml}" in options.peers]
    others = [peer for peer in options.peers if not is_mpi(peer)]
    if not ways:
        return [Team(ranks, None, others) for ranks in options.ranks]
    first, *more = ways
    return [
        Team(ranks, pml, [*others, f"{MPI}-{pml}"] if pml == first else [f"{MPI}-{pml}"])
        for ranks in options.ranks
        for pml in (first, *more)
    ]


def backends(peers: list[str], buffers: list[str]) -> list[str]:
    """The backends of torch.distributed among the peers; with torch's buffers also ringroad's own."""
    ours = [OURS] if "torch" in buffers else []
    return ours + [peer for peer in peers if not is_mpi(peer)]


def is_mpi(peer: str) -> bool:
    return peer == MPI or peer in [f"{MPI}-{pml}" for pml in PMLS]


def require_peers(options: BenchOptions) -> None:
    """Checks that all peers can take part. Raises BenchError."""
    for backend in backends(options.peers, options.buffers):
        require_backend(backend)
    if any(map(is_mpi, options.peers)):
        mpirun()
