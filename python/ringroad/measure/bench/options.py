"""The options of the command line, checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ringroad import _oracle as oracle
from ringroad._native import Algorithm, Topology
from ringroad._support.processes import MOST as MOST_PROCESSES
from ringroad._support.text import parse_bytes
from ringroad.measure import tuning
from ringroad.measure.bench.collectives import BenchCollective
from ringroad.measure.bench.data import BenchCase
from ringroad.measure.bench.peers import OURS

_BUFFERS = ("numpy", "torch")
WIRED = ("allreduce", "reduce_scatter", "allgather", "broadcast", "alltoall")
"""The collectives that take a wire format."""
WIRES = ("f16", "bf16", "int8", "fp8", "int4")
PMLS = ("ob1", "ucx")
MPI = "mpi4py"
"""Open MPI with each of the PMLs; `mpi4py-ucx`, for example, is one of them."""


@dataclass(frozen=True)
class Team:
    """Peers that share processes. A process can use one PML of Open MPI only, so each PML needs a team of its own."""

    ranks: int
    pml: str | None
    """Open MPI's PML; None: it does not take part."""
    backends: list[str]
    """The backends of torch.distributed."""


@dataclass(frozen=True)
class BenchOptions:
    """Options of a run. Sizes are in bytes, times in seconds."""

    collective: BenchCollective
    sizes: list[int]
    ranks: list[int]
    buffers: list[str]
    peers: list[str]
    dtype: str
    op: str
    root: int
    calls: int | None
    """Timed calls per size, peer and launch; None: as many as the budget allows."""
    warmup: int
    check: bool
    budget: float
    hogs: int
    timeout: float
    algorithms: list[str] = field(default_factory=list)
    """ringroad's algorithms that also take turns; or `all`, or `different`."""
    wires: list[str] = field(default_factory=list)
    """Wire formats with which ringroad also takes turns."""
    tune: float = 0.0
    """Seconds for which every team of ranks tunes first; the choice then follows the result."""
    launches: int = 1
    """The number of starts of each team of ranks."""
    testbed: Topology | None = None
    """The network to emulate and run on; None: this machine."""
    rate: float = 0.0
    """Bytes per second of the emulated cables."""
    place: str | None = None
    """One of the collective's places: only calls there are measured; None: all."""

    def __post_init__(self) -> None:
        _among("-d", [self.dtype], oracle.DTYPES)
        _among("-o", [self.op], oracle.OPS)
        _among("--buffers", self.buffers, _BUFFERS)
        _among("--wire", self.wires, WIRES)
        if self.wires:
            _among("--wire with", [self.collective.name], WIRED)
            _among("--wire with -d", [self.dtype], ("float16", "bfloat16", "float32", "float64"))
            _among("--wire with -o", [self.op], ("sum", "avg"))
        if not {"all", "different"}.intersection(self.algorithms):
            for name in self.algorithms:
                Algorithm(name)
        if self.collective.reduces:
            name = self.collective.name
            _among(f"{name} of {self.dtype}: -o", [self.op], oracle.ops(name, self.dtype))
        if not self.buffers:
            raise ValueError("bench: --buffers needs numpy or torch")
        if not self.ranks or min(self.ranks) < 1 or max(self.ranks) > MOST_PROCESSES:
            raise ValueError(f"bench: --ranks needs one or more numbers from 1 to {MOST_PROCESSES}")
        if not 0 <= self.root < min(self.ranks):
            raise ValueError(f"bench: -r {self.root} is not a rank of {min(self.ranks)}")
        if self.tune < 0 or (self.tune and self.collective.name not in tuning.COLLECTIVES):
            raise ValueError(f"bench: --tune {self.tune:g}: {self.collective.name} cannot be measured for so long")
        if self.tune and self.buffers != ["numpy"]:
            raise ValueError("bench: --tune goes with --buffers numpy: torch's groups are made before")
        if self.place is not None:
            _among("--place", [self.place], self.collective.places)
        if self.testbed is not None and self.rate <= 0:
            raise ValueError("bench: --testbed needs --rate, such as 100Mbit: what its cables carry")

    def teams(self) -> list[Team]:
        """The first team for each number of ranks has all peers; further teams have only Open MPI with another PML."""
        by_pml = {pml: f"{MPI}-{pml}" for pml in PMLS}
        ours = [OURS] if "torch" in self.buffers else []
        everyone = ours + [peer for peer in self.peers if peer not in (MPI, *by_pml.values())]
        pmls = [pml for pml, peer in by_pml.items() if {MPI, peer}.intersection(self.peers)]
        return [
            Team(ranks, pml, ours if pml in pmls[1:] else everyone) for ranks in self.ranks for pml in pmls or (None,)
        ]

    def cases(self, ranks: int) -> list[BenchCase]:
        """A case for every size, rounded to what the collective can have on `ranks` ranks, without duplicates."""
        collective = self.collective
        unit = oracle.dtype_of(self.dtype).itemsize * (ranks if collective.blocks else 1)
        counts = [0] if collective.name == "barrier" else [max(1, size // unit) for size in self.sizes]
        if self.place is not None:
            collective = replace(collective, places=(self.place,))
        return [BenchCase(collective, ranks, n, self.dtype, self.op, self.root) for n in dict.fromkeys(counts)]


def _among(flag: str, values: Sequence[str], allowed: Sequence[str]) -> None:
    for value in values:
        if value not in allowed:
            raise ValueError(f"bench: {flag} {value}: expected one of: {', '.join(allowed)}")


def numbers(flag: str, text: str) -> list[int]:
    """The numbers of a comma-separated list."""
    try:
        return [int(part) for part in names(text)]
    except ValueError:
        raise ValueError(f"bench: {flag} {text}: expected comma-separated numbers") from None


def names(text: str) -> list[str]:
    """The items of a comma-separated list, without duplicates."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def sizes(smallest: str, largest: str, factor: int) -> list[int]:
    """The sizes from the smallest to the largest, both included, each `factor` (at least 2) times the one before."""
    size, last = parse_bytes(smallest), parse_bytes(largest)
    if not 0 < size <= last:
        raise ValueError("bench: -b must be at least 1 and at most -e")
    found = []
    while size < last:
        found.append(size)
        size *= factor
    return [*found, last]
