"""The Rust core. Import from `ringroad`; this module is an implementation detail."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, final

from numpy.typing import ArrayLike, NDArray
from typing_extensions import disjoint_base

from ringroad.tracing import Trace

Array: TypeAlias = NDArray[Any]
CollectiveName: TypeAlias = Literal[
    "allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather", "scatter", "alltoall"
]
Op: TypeAlias = Literal["sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum"]

__version__: str

# ------------------------------------------------------------------------------------------------ errors

class RingroadError(RuntimeError):
    """Base class of what ringroad raises, beside ValueError and TypeError for bad arguments, and MemoryError."""

class TimeoutError(RingroadError, builtins.TimeoutError):
    """A deadline passed. Names rank, host, peers, collective, sequence number and step."""

class PeerError(RingroadError, ConnectionError):
    """Another rank died or left."""

class MismatchError(RingroadError):
    """Ranks made different calls. Lists what each rank called."""

class AbortedError(RingroadError):
    """The communicator failed or was aborted earlier; make a new one."""

class TransportError(RingroadError):
    """UCX is missing, unusable, or refused something."""

class StoreError(RingroadError):
    """The store failed."""

class ConfigError(RingroadError, ValueError):
    """A RINGROAD_* variable or an option has a value that makes no sense."""

class ScheduleError(RingroadError, ValueError):
    """A schedule is malformed, unavailable, or does not perform its collective."""

class TopologyError(RingroadError, ValueError):
    """A topology specification makes no sense."""

# ------------------------------------------------------------------------------------------------ analysis

@final
class Topology:
    """A directed multigraph of ranks, switches and links.

    `ring:8`, `torus:4x4`, `mesh:4x4`, `twisted-torus:8x4`, `hyperx:4x4`, `hammingmesh:2x2:4x4` (a board, and how
    many), `hypercube:4` (dimensions), `twisted-hypercube:3`, `switch:16`, `fattree:4x8:2` (from the top down;
    oversubscription), `hosts:2x4`; graphs without a grid such as `circulant:16:3,4`, `kautz:4:1`, `petersen` or
    `cayley:z8*z2^3:5.1,3.0`; what operators make of any of these, such as `line(petersen)` or
    `without(torus:4x4, 0-1)` (`ringroad topology` lists all); each with a routing if wanted
    (`torus:4x4,routing=single-path`); or the path of a graph's file.
    """

    def __new__(
        cls,
        spec: str | PathLike[str],
        *,
        bandwidth: float | None = None,
        latency: float | None = None,
        processing: float | None = None,
        routing: str | None = None,
    ) -> Topology:
        """`bandwidth` (bytes/s) and `latency` (s) of every link; `processing`: what every node takes in addition to
        pass a message on, where latency does not include it. `routing`: minimal, dimension-ordered or single-path."""
    @staticmethod
    def from_graph(graph: Any, *, name: str | None = None, dimensions: Sequence[int] | None = None) -> Topology:
        """Of a networkx graph. Nodes are ranks, or `kind="switch"`; edges may have bandwidth, capacity, latency and
        extra_latency, nodes rank and processing. `dimensions`: the grid that algorithms take for a torus; unset: the
        graph's attribute (`4x4`), or none. Needs networkx."""
    def to_graph(self) -> Any:
        """A networkx.MultiDiGraph with the attributes that `from_graph` reads."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes a file whose path may stand for the topology: .json, or .graphml."""
    @staticmethod
    def from_json(text: str) -> Topology: ...
    def to_json(self) -> str: ...
    @staticmethod
    def _from_links(
        name: str,
        ranks: int,
        nodes: int,
        links: Sequence[tuple[int, int, float, float, float, float]],
        dimensions: Sequence[int],
    ) -> Topology: ...
    def _links(self) -> list[tuple[int, int, float, float, float, float]]:
        """(source, target, bandwidth, capacity, latency, extra latency)."""
    def with_links(
        self,
        *,
        bandwidth: float | None = None,
        latency: float | None = None,
        processing: float | None = None,
        memory: float | None = None,
    ) -> Topology:
        """The same network with this bandwidth (bytes/s) and latency (s) on every link; links that have more capacity
        than others still have. `processing`: seconds that every node takes in addition to pass a message on.
        `memory`, on `hosts:2x4`: bytes/s between a rank and the memory of its host. None leaves them alone."""
    def with_routing(self, routing: str) -> Topology:
        """The same network with other routes; `ringroad.routes` makes those of tables."""
    def line(self) -> Topology:
        """The line digraph: a rank for every link, in their order; each has links to those that leave its end."""
    def line_graph(self) -> Topology:
        """The line graph of a graph of cables: a rank for every cable, joined to those with an end in common."""
    def degree_expansion(self, n: int) -> Topology:
        """`n` copies of every rank, each linked to all copies of the rank's neighbours; copy i of rank v is v*n + i."""
    def power(self, n: int) -> Topology:
        """The Cartesian product of `n` times this graph."""
    def product(self, *others: Topology | str | int) -> Topology:
        """The Cartesian product, numbered like a C array; the first factor's ports come first."""
    def transpose(self) -> Topology:
        """All links turned round."""
    def bidirectional(self) -> Topology:
        """The graph and its transpose together."""
    def without_links(self, pairs: Sequence[tuple[int, int]], *, directed: bool = False) -> Topology:
        """Without all links between these pairs of nodes, in both directions; `directed`: from the first to the second
        only. Grids stay grids. Raises TopologyError where there are none, or if ranks are cut off."""
    def behind_cards(self, capacity: float) -> Topology:
        """A card for every rank, which the links join; between rank and card `capacity` times a link's bandwidth in
        each direction (the host bottleneck of Basu et al.). Cards pass on what is for others. Spec:
        `bottleneck(torus:4x4, 2)`."""
    @staticmethod
    def _kinds() -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]:
        """What `ringroad topology` lists: families, operators and routings, each with what it is."""
    def _operands(self) -> tuple[str, list[str], list[str]] | None:
        """Where the spec is an operator's: the operator, its operands' specs, and what follows them."""
    @property
    def digest(self) -> str:
        """32 hexadecimal digits, the same everywhere, that differ where ranks, grid, links or routing differ."""
    @property
    def is_cayley(self) -> bool:
        """Whether ranks are a group's elements and the n-th link of every rank is the same generator."""
    @property
    def spec(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def nodes(self) -> int:
        """Ranks, hosts' memories and switches."""
    @property
    def per_host(self) -> int:
        """How many ranks share a host's memory; 1 where each is on its own."""
    @property
    def dimensions(self) -> tuple[int, ...]:
        """The grid that algorithms take for a torus; empty where ranks form none."""
    @property
    def routing(self) -> str: ...
    @property
    def degree(self) -> int:
        """The most links that leave a rank."""
    @property
    def diameter(self) -> int:
        """The most hops on a shortest path between two ranks, those to and from switches included."""
    @property
    def links(self) -> list[tuple[int, int, float, float]]:
        """(source, target, bandwidth in bytes/s, latency in s)."""
    def coordinates(self, rank: int) -> tuple[int, ...]: ...
    def route(self, source: int, destination: int) -> tuple[int, float, list[tuple[int, float]]]:
        """(hops, latency in s, [(index of a link, share of the bytes that it carries)])."""
    def _repr_html_(self) -> str: ...

@final
class Algorithm:
    """An entry of the catalogue, or a member of a family: `Algorithm("swing")`, `Algorithm("generalized:2")`.

    Networks are topologies, their specifications, or a number of ranks (a ring).
    """

    def __new__(cls, name: str) -> Algorithm: ...
    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def collectives(self) -> tuple[str, ...]: ...
    @property
    def parameter(self) -> tuple[str, str] | None:
        """Name and meaning of what distinguishes the members of a family."""
    def requirement(self, collective: str = "allreduce") -> str | None:
        """On which networks it performs the collective; None where on none."""
    def ports(self, topology: Topology | str | int) -> int:
        """By how many ports a rank sends at once, at most."""
    def supports(self, topology: Topology | str | int, collective: str = "allreduce") -> bool: ...
    def consistent(self, topology: Topology | str | int, collective: str = "allreduce") -> bool:
        """Whether all ranks end with the same bits for floating-point sums."""
    def cost_line(self, topology: Topology | str | int, collective: str = "allreduce") -> tuple[int, float]:
        """(steps, fraction of the vector that the busiest rank sends), from the closed form."""
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class AlltoallFlow:
    """A flow that meets all demands; `ringroad.synthesis.alltoall_flow` says more."""

    @property
    def ranks(self) -> int: ...
    @property
    def load(self) -> float: ...
    @property
    def bound(self) -> float: ...
    @property
    def gap(self) -> float: ...
    @property
    def sweeps(self) -> int: ...
    @property
    def bounds(self) -> list[float | None]: ...
    def links(self) -> list[tuple[int, int, float, float]]: ...
    def ways(self, source: int) -> list[tuple[int, float, list[int]]]: ...
    def schedule(self, steps: int, pieces: int) -> tuple[Schedule, int, int]: ...

def alltoall_flow(
    topology: Topology | str | int,
    demands: list[float] | None,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> AlltoallFlow:
    """The flow of one for each pair, or of demands by source, then by target."""

@final
class RoutingTable:
    """One path for each pair of ranks; `ringroad.routes` says more."""

    @property
    def topology(self) -> Topology: ...
    @property
    def channels(self) -> int: ...
    @property
    def load(self) -> float: ...
    def counts(self) -> list[int]: ...
    def path(self, source: int, target: int) -> list[tuple[int, int, int, int]]: ...
    def longest(self) -> int: ...
    def with_channels(self, way: str) -> RoutingTable: ...
    def circle(self) -> list[tuple[int, int]] | None: ...
    def csv(self, source: int) -> str: ...

def balanced_routes(
    topology: Topology | str | int,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> tuple[RoutingTable, float]:
    """Paths that load links as evenly as any flow, or nearly so, and the bound on their load."""

def least_load(
    topology: Topology | str | int,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> float:
    """How long the busiest link takes at least for a byte of each pair."""

def plain_routes(topology: Topology | str | int, method: str) -> RoutingTable:
    """`shortest`, `up-down`, or those that the topology has: `own`."""

@final
class Found:
    """A network that the topology finder knows; `ringroad.find` says what it is good for."""

    @property
    def spec(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def degree(self) -> int: ...
    @property
    def bidirectional(self) -> bool: ...
    def cost(self, collective: str) -> tuple[int, int, int]:
        """Steps, and the bandwidth term as numerator and denominator."""

def find_networks(ranks: int, degree: int, bidirectional: bool) -> list[Found]:
    """The networks of which no other one is better, the fewest steps first."""

def moore_steps(ranks: int, degree: int, bidirectional: bool) -> int | None:
    """The fewest steps in which so many ranks can be reached; None where they cannot."""

def algorithms(topology: Topology | str | int | None = None) -> list[Algorithm]:
    """The catalogue; for a network with the members of every family that are worth trying on it."""

@final
class Schedule:
    """Who sends which chunks to whom in which step, for all ranks. A value: comparable, printable, JSON.

    A rank may keep several values of a chunk apart, in slots; slot 0 is the vector.
    """

    @staticmethod
    def build(
        algorithm: str, topology: Topology | str | int, collective: str = "allreduce", root: int = 0
    ) -> Schedule: ...
    @staticmethod
    def from_json(text: str) -> Schedule: ...
    @staticmethod
    def split(name: str, parts: Sequence[Schedule]) -> Schedule: ...
    def to_json(self) -> str: ...
    def verify(self) -> None:
        """Raises ScheduleError naming rank, chunk and step unless the schedule performs its collective."""
    def reverse(self) -> Schedule: ...
    def compose(self, after: Schedule) -> Schedule: ...
    def on_slice(self, index: int) -> Schedule:
        """What happens to one slice of a symmetric schedule, as a schedule of the whole vector on its ports alone."""
    @property
    def name(self) -> str: ...
    @property
    def collective(self) -> str: ...
    @property
    def root(self) -> int | None: ...
    @property
    def ranks(self) -> int: ...
    @property
    def chunks(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def ports(self) -> int: ...
    @property
    def max_sent(self) -> float:
        """The most that a rank sends, as a fraction of the vector."""
    @property
    def slots(self) -> int:
        """How many values of a chunk a rank keeps apart."""
    @property
    def symmetric(self) -> bool:
        """Whether one rank's sends stand for all."""
    def expand(self) -> Schedule:
        """The same schedule with the sends of all ranks written out."""
    def sends(self) -> list[tuple[int, int, int, list[int], str, int, int, int]]:
        """(step, source, destination, chunks, "copy" or "reduce", port, from slot, into slot)."""
    def locals(self) -> list[tuple[int, int, list[int], str, int, int]]:
        """What ranks do with their own slots: (step, rank, chunks, "copy" or "reduce", from slot, into slot)."""
    def lower(self, rank: int, count: int, itemsize: int = 4) -> tuple[int, int]:
        """(operations, bytes of scratch memory) of one rank's plan.

        `count` elements of `itemsize` bytes: the whole vector, or one rank's block.
        """
    @property
    def held_for_others(self) -> float:
        """In an alltoall, what a rank holds on its way from one other rank to another, at most at once, in vectors; 0
        for other collectives."""
    def __eq__(self, value: object, /) -> bool: ...
    def __str__(self) -> str: ...

@disjoint_base
class Cost:
    """What the model says of a schedule on a topology: `fixed + per_byte * bytes` seconds.

    The deficiencies are factors over what is optimal, as Swing's paper defines them; for an allreduce of n bytes the
    optimum of a torus of D dimensions is log2(ranks) steps, and n / D bytes by every port.
    """

    @property
    def seconds(self) -> float: ...
    @property
    def fixed(self) -> float: ...
    @property
    def per_byte(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def hops(self) -> int:
        """Sum over the steps of the longest route."""
    @property
    def link_load(self) -> float:
        """Sum over the steps of the most loaded link's bytes, in units of the vector."""
    @property
    def max_link_load(self) -> float:
        """The most loaded link's bytes over the whole schedule, in units of the vector."""
    @property
    def latency_deficiency(self) -> float:
        """Lambda: steps over the fewest, log2(ranks)."""
    @property
    def bandwidth_deficiency(self) -> float:
        """Psi: what the busiest port sends, step by step, over the least."""
    @property
    def congestion_deficiency(self) -> float:
        """Xi: what the most loaded link carries, step by step, over what the busiest port sends."""
    @property
    def worst_link(self) -> float:
        """Psi * Xi: what the most loaded link carries, step by step, over the least that a port sends."""

@final
class Candidate(Cost):
    """A row of `explain`."""

    @property
    def algorithm(self) -> str: ...
    @property
    def consistent(self) -> bool: ...
    @property
    def ratio(self) -> float:
        """Time relative to the best."""

@final
class CostModel:
    """step_latency + hops * hop_latency + most loaded link's bytes / bandwidth, summed over the steps.

    hop_latency and bandwidth override the topology's links; reduce_cost is seconds per byte reduced (default 0);
    message_latency is what every message of a step but a rank's first costs (default 0); incast_latency what every rank
    but the first adds whose messages reach a rank by the same port (default 0.1e-6). Where reductions are
    overlapped, only the longer of a step's transfer and its reduction counts.

    cores is for ranks that share memory and take turns on so many cores, which share out what all of them do, though
    nothing takes less than the busiest rank needs: every message costs message_latency, half of it the sender and half
    the receiver, and bandwidth is that of copies, which are made of all that is sent. There are no ports then.

    over_links, with cores, is for ranks on hosts of their own that one machine emulates: the cores share out messages
    and reductions, bytes pass links, and bandwidth is that of links.
    """

    def __new__(
        cls,
        *,
        step_latency: float | None = None,
        message_latency: float | None = None,
        incast_latency: float | None = None,
        hop_latency: float | None = None,
        bandwidth: float | None = None,
        reduce_cost: float | None = None,
        overlapped: bool = False,
        cores: int | None = None,
        over_links: bool = False,
    ) -> CostModel: ...
    @property
    def step_latency(self) -> float: ...
    @property
    def hop_latency(self) -> float | None: ...
    @property
    def bandwidth(self) -> float | None: ...
    @property
    def message_latency(self) -> float: ...
    @property
    def incast_latency(self) -> float: ...
    @property
    def reduce_cost(self) -> float: ...
    @property
    def overlapped(self) -> bool: ...
    @property
    def cores(self) -> int | None: ...
    @property
    def over_links(self) -> bool: ...
    def cost(self, schedule: Schedule, topology: Topology, bytes: int, *, blocks: Sequence[int] | None = None) -> Cost:
        """For a vector of `bytes` bytes. `blocks`: how long the ranks' blocks are, in any unit, where they differ (for
        reduce_scatter, allgather, gather and scatter); unset: all alike."""
    def explain(self, collective: str, topology: Topology, bytes: int) -> list[Candidate]:
        """All algorithms available for the collective on the topology's ranks, best first (by time)."""
    def compare(self, collective: str, topology: Topology, sizes: Sequence[int]) -> list[list[Candidate]]:
        """As `explain`, for several numbers of bytes at once."""
    def choice(self, collective: str, topology: Topology, bytes: int, consistent: bool = True) -> Explanation:
        """What this model alone would choose, and why; `consistent`: for floating-point data."""
    def switch_points(self, collective: str, topology: Topology, consistent: bool = True) -> list[tuple[int, str]]:
        """(from bytes, algorithm) for every range of sizes."""

@final
class Outcome:
    """What happened in a simulation. Times are seconds from the beginning, loads bytes."""

    @property
    def seconds(self) -> float:
        """When the last rank was done."""
    @property
    def finished(self) -> list[float]:
        """When each rank was done."""
    @property
    def step_ends(self) -> list[float]:
        """When the last operation of each step was done; 0 where it has none."""
    @property
    def messages(self) -> int: ...
    @property
    def loads(self) -> list[float]:
        """What each of the topology's links carried."""
    @property
    def step_loads(self) -> list[list[tuple[int, float]]]:
        """For each step, (link, bytes) of all links that carried something. Empty without details."""
    @property
    def events(self) -> list[tuple[str, int, int, int | None, int, int, float, float | None, str | None]]:
        """("send", "receive" or "reduce", rank, peer, step, bytes, message, start, end, algorithm). Empty without
        details."""
    def trace_json(self) -> str:
        """The timeline as JSON."""
    def chrome_trace(self) -> str:
        """The timeline for chrome://tracing and ui.perfetto.dev."""

def simulate(
    schedule: Schedule,
    topology: Topology,
    bytes: int,
    late: Sequence[tuple[int, float]],
    slow_ranks: Sequence[tuple[int, float]],
    slow_links: Sequence[tuple[int, int, float]],
    failed_links: Sequence[tuple[int, int]],
    *,
    model: CostModel | None = None,
    pace: str = "synchronous",
    forwarding: str = "cut-through",
    skew: tuple[float, int] | None = None,
    eager: int | None = None,
    segment: int | None = None,
    details: bool = True,
) -> Outcome:
    """Runs a verified schedule over a model of the network; see `ringroad.simulate`."""

@final
class Explanation:
    """Why an algorithm was chosen for a collective of `bytes`. `str()` says it in words. Times are in seconds."""

    @property
    def topology(self) -> str: ...
    @property
    def collective(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def origin(self) -> str:
        """What it was chosen by: "model", "measured", "rules" or "only" (nothing else may be used)."""
    @property
    def range(self) -> tuple[int, int | None]:
        """From how many bytes on it is chosen, and up to and including how many."""
    @property
    def model(self) -> CostModel:
        """The costs that were assumed."""
    @property
    def candidates(self) -> list[Candidate]:
        """All that could run, the fastest by the model first."""
    @property
    def runner_up(self) -> str | None:
        """The fastest of the others, by the model."""
    @property
    def margin(self) -> float | None:
        """By how much of the chosen one's time the runner-up takes longer; negative where the model prefers it."""
    @property
    def terms(self) -> dict[str, float] | None:
        """What takes the chosen one how long: steps, messages, hops, bytes, reduction."""
    @property
    def runner_up_terms(self) -> dict[str, float] | None: ...
    @property
    def runner_up_bytes(self) -> tuple[int, int | None] | None:
        """From and up to how many bytes the runner-up is the faster one of both."""
    @property
    def factors(self) -> dict[str, float]:
        """By term: if it took this many times as long, for all algorithms, both would be equally fast."""

@final
class Profile:
    """What `ringroad tune` measured in a place, the cost model that fits it best, and the rules that follow."""

    @staticmethod
    def read(path: str) -> Profile:
        """Raises ConfigError where it is none, or of another version."""
    @staticmethod
    def from_json(text: str) -> Profile: ...
    def to_json(self) -> str:
        """As files have it."""
    def to_csv(self) -> str:
        """The rules as for RINGROAD_TUNER_FILE and NCCL's tuner plugin."""
    def choice(self, collective: str, bytes: int, consistent: bool = True) -> Explanation:
        """What a communicator in this place chooses, and why; `consistent`: for floating-point data."""
    def switch_points(self, collective: str = "allreduce", consistent: bool = True) -> list[tuple[int, str]]:
        """(from bytes, algorithm) for every range of sizes."""
    @property
    def topology(self) -> str: ...
    @property
    def place(self) -> str:
        """Network, transport and machines, in words."""
    @property
    def file_name(self) -> str:
        """Under which profiles of this place are found in the directory of profiles."""
    @property
    def model(self) -> CostModel: ...
    @property
    def errors(self) -> tuple[float, float, float]:
        """By how much of the measured times the model is wrong: the median, nine tenths, and the worst."""
    @property
    def rules(self) -> list[tuple[str, int, int, str]]:
        """(collective, from bytes, to bytes, algorithm): what was measured to be the fastest."""
    @property
    def measurements(self) -> list[tuple[str, str, int, float]]:
        """(collective, algorithm, bytes, seconds)."""

def profile_directory() -> str | None:
    """Where profiles are looked for, unless RINGROAD_PROFILE says otherwise."""

# ------------------------------------------------------------------------------------------------ running

class Store(Protocol):
    """Key-value store that all ranks can reach; torch's TCPStore and FileStore fit."""

    def set(self, key: str, value: bytes) -> None: ...
    def get(self, key: str) -> bytes: ...
    def wait(self, keys: list[str], timeout: Any = ...) -> None: ...

@final
class MemoryStore:
    """A store for threads of one process."""

    def __new__(cls) -> MemoryStore: ...

@final
class FileStore:
    """A store in a directory that all ranks share."""

    def __new__(cls, path: str) -> FileStore: ...

@final
class Work:
    """An asynchronous call."""

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until complete; raises what the call failed with. True.

        `timeout` in seconds; when it passes, TimeoutError is raised, and the call goes on until its own deadline."""
    def is_completed(self) -> bool: ...
    def is_success(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def result(self) -> Any:
        """Waits, then the output array (None on ranks that have none)."""
    def on_complete(self, callback: Callable[[BaseException | None], object]) -> None:
        """Calls back once, from a thread for callbacks with the GIL attached, or at once where already complete.

        Callbacks may wait for other calls; where one takes long, those of other calls overtake it."""
    @property
    def source(self) -> int | None:
        """Who sent the message of a receive; None for other calls, and while one from any rank waits."""
    @property
    def algorithm(self) -> str: ...

@final
class Communicator:
    """A group of `size` processes that call collectives together, in the same order.

    Arrays are C-contiguous NumPy arrays of float16/32/64, bfloat16 (ml_dtypes), int8/16/32/64, uint8, bool,
    complex64/128. `out=None` allocates the result; `out=send` works in place. Blocks along the first axis.
    Timeouts are in seconds. With `async_op=True` a Work is returned, and neither array may be touched until it ends.
    """

    def __new__(
        cls,
        store: Store | MemoryStore | FileStore,
        rank: int,
        size: int,
        *,
        timeout: float | None = None,
        topology: str | Topology | None = None,
        algorithm: str | None = None,
        deterministic: Literal["size-invariant"] | None = None,
        settings: Mapping[str, str] | None = None,
        name: str = "world",
        ucx_wheel: str | None = None,
    ) -> Communicator:
        """Collective: every rank calls it, with the same name. `algorithm` is as RINGROAD_ALGO, `deterministic` as
        RINGROAD_DETERMINISTIC; rank 0's count. `settings` are like variables of the environment, and come before
        them."""
    @staticmethod
    def in_process(
        size: int,
        *,
        timeout: float | None = None,
        topology: str | Topology | None = None,
        algorithm: str | None = None,
        deterministic: Literal["size-invariant"] | None = None,
    ) -> list[Communicator]:
        """Communicators of `size` threads of this process, for tests and notebooks."""
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def meeting(self) -> str:
        """Tells this communicator from all others of its name; the same on all ranks."""
    @property
    def timeout(self) -> float: ...
    @property
    def topology(self) -> str: ...
    @property
    def has_switches(self) -> bool:
        """Whether switches or memories join the ranks. Where there are none, ranks pass on what goes farther than to a
        neighbour."""
    @property
    def transport(self) -> str:
        """For example `ucx 1.22.0 (cma, posix, tcp; devices eth0)`: its transports and network devices."""
    @property
    def hosts(self) -> list[str]:
        """The host of every rank."""
    def empty(self, shape: int | tuple[int, ...], dtype: Any = ...) -> Any:
        """A new array in memory that the ranks of this host read where it is, of any content, float64 by default.

        Use it as `numpy.empty`. Calls that take or fill such arrays copy less: the others reduce straight out of what
        is passed in, and read a large result where it arises. The memory lives as long as the array, and a
        forked child shares it. Most of it is given back to the machine then; what arrays need again and again
        stays. Raises MemoryError where there is no memory left.
        """
    def allreduce(
        self,
        send: Array,
        out: Array | None = None,
        *,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any: ...
    def reduce_scatter(
        self,
        send: Array,
        out: Array | None = None,
        *,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """send has `size` equal blocks along its first axis; the result is this rank's block of the reduction."""
    def reduce_scatter_v(
        self,
        send: Array,
        counts: Sequence[int],
        out: Array | None = None,
        *,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """As reduce_scatter, with `counts[r]` rows (entries of the first axis) in the block of rank r."""
    def allgather(
        self,
        send: Array,
        out: Array | None = None,
        *,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """The result is the concatenation of all ranks' arrays along the first axis (0-d arrays: a vector)."""
    def allgather_v(
        self,
        send: Array,
        counts: Sequence[int],
        out: Array | None = None,
        *,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """As allgather, where rank r brings `counts[r]` rows (entries of the first axis)."""
    def alltoall_v(
        self,
        send: Array,
        counts: ArrayLike,
        out: Array | None = None,
        *,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """As alltoall, where rank s has `counts[s][t]` rows (entries of the first axis) for rank t. All ranks pass the
        same matrix; `send` has the rows for rank 0 first, the result those from rank 0. Not in place."""
    def broadcast(
        self,
        array: Array,
        root: int = 0,
        *,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """In place; returns the array."""
    def reduce(
        self,
        send: Array,
        out: Array | None = None,
        root: int = 0,
        *,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """The result at the root, None elsewhere."""
    def gather(
        self,
        send: Array,
        out: Array | None = None,
        root: int = 0,
        *,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """The concatenation at the root, None elsewhere."""
    def scatter(
        self,
        send: Array | None,
        out: Array | None = None,
        root: int = 0,
        *,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """send at the root only; other ranks must pass `out`."""
    def alltoall(
        self,
        send: Array,
        out: Array | None = None,
        *,
        algorithm: str | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any: ...
    def send(
        self, array: Array, peer: int, tag: int = 0, *, timeout: float | None = None, async_op: bool = False
    ) -> Any:
        """Ends when the array may be used again: a long one (2 MiB or more) goes when its receiver has come."""
    def recv(
        self,
        out: Array,
        peer: int | None = None,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """Receives exactly out's bytes, from `peer` or from whoever sends first; returns out."""
    def barrier(self, *, timeout: float | None = None, async_op: bool = False) -> Any: ...
    def _run_raw(
        self,
        collective: str,
        input: int,
        output: int,
        elements: int,
        dtype: str,
        owner: object,
        *,
        op: str = "sum",
        factor: float | None = None,
        root: int = 0,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Work | None:
        """For adapters: the same on raw addresses.

        `collective` is a collective's name, "send", "recv" (root is then the peer, factor ignored) or "barrier".
        `elements` is the whole vector (allreduce, broadcast, reduce, send, recv) or one rank's block (the others).
        Addresses are 0 where the rank has no such buffer; equal or enclosing addresses mean in place. `owner` is kept
        until the call ends. Blocking calls return None and run inline in the caller with the GIL released."""
    def _run_tensors(
        self,
        collective: str,
        input: object,
        output: object,
        *,
        op: str = "sum",
        factor: float | None = None,
        root: int = 0,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Work | None:
        """As `_run_raw`, of torch tensors; both have the size that the collective needs, or are the same tensor.

        NotImplemented, and no call, where a tensor is no plain block of this host's memory (then the adapter has to
        stage it), does not fit, or is complex, and where torch has no DLPack exchange API (before 2.10). Tensors whose
        negative bit is set are for the caller to find."""
    def _run_raw_tagged(
        self,
        direction: Literal["send", "recv"],
        address: int,
        elements: int,
        dtype: str,
        owner: object,
        peer: int | None,
        tag: int,
        *,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Work | None: ...
    def _run_raw_alltoall_v(
        self,
        input: int,
        output: int,
        counts: ArrayLike,
        dtype: str,
        owner: object,
        *,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Work | None:
        """alltoall_v on memory at these addresses; counts are elements."""
    def algorithm_for(self, collective: str, bytes: int, *, dtype: str = "float32", op: Op = "sum") -> str:
        """The algorithm that a call with a vector of `bytes` would run."""
    def explain(self, collective: str, bytes: int, *, dtype: str = "float32", op: Op = "sum") -> Explanation:
        """Why a call with a vector of `bytes` runs what it runs. Builds all candidates: not for every call."""
    @property
    def model(self) -> CostModel:
        """The costs that rank 0 assumed, or read from a profile."""
    @property
    def segment(self) -> int:
        """The most bytes that are sent in one message over a network."""
    @property
    def profile(self) -> str | None:
        """The file of measurements that rank 0 read, if it found one."""
    def contestants(self, collective: str = "allreduce") -> list[str]:
        """The algorithms that the choice for floats is made among, the first of those that cost the same."""
    def calibrate(self, measurements: Sequence[tuple[str, str, int, float]]) -> Profile:
        """A profile of where this communicator is, from (collective, algorithm, bytes, seconds)."""
    def switch_points(self, collective: str = "allreduce") -> list[tuple[int, str]]:
        """(from bytes, algorithm): the choice that rank 0 made for floating-point data."""
    @property
    def handles(self) -> list[str | None]:
        """By which `ringroad.regroup` finds the ranks' processes; None of a rank that cannot listen on a port, and of
        threads of one process."""
    def agree(self, flag: bool, *, timeout: float | None = None) -> bool:
        """Whether all ranks that are left say yes: the same answer on all of them, whoever dies meanwhile.

        Every rank that is left calls it, equally often; it works after failures and aborts. Raises TimeoutError
        naming a rank that runs but does not come.
        """
    def survivors(self, *, timeout: float | None = None) -> list[int]:
        """The ranks that are left, the same list on all of them. Called like `agree`."""
    def shrink(self, *, timeout: float | None = None) -> Communicator:
        """The communicator of the ranks that are left, in the same order. All of them call it, mostly on a PeerError.

        They need neither the store nor the rank that the job began with. This communicator is of no use afterwards. A
        topology that was given for all ranks is dropped. Raises TimeoutError naming a rank that runs but does not come,
        AbortedError on a rank that the others took for dead, since it had not answered for seconds.
        """
    def abort(self, reason: str = "") -> None:
        """Fails every call in flight on every rank; the communicator is of no use afterwards.

        Raises AbortedError in a forked child, which cannot end its parent's calls.
        """
    def lost(self) -> list[tuple[int, str]]:
        """(rank, how that is known) of the ranks that have died: soon on this host, on others when a connection breaks.

        Ranks that have only given up or closed are not among them. Works after a failure, too.
        """
    def trace(self) -> Trace:
        """Writes down what all ranks do while a `with` block runs. Collective: all ranks enter and leave it.

        with comm.trace() as trace:
            comm.allreduce(array)
        trace.save_chrome_trace("trace.json")  # for ui.perfetto.dev

        """
    def _start_trace(self) -> None:
        """Of this rank alone."""
    def _end_trace(self) -> str:
        """As JSON, for ui.perfetto.dev."""
    def check_process(self) -> None:
        """Raises AbortedError in a process that was forked from the one that made the communicator.

        Such a child can make communicators of its own, but neither calls nor waits by inherited ones; whatever it does,
        its parent's go on.
        """
    def close(self) -> None:
        """Closes the connections. Idempotent. A forked child only lets go: the connections are its parent's."""
    def __enter__(self) -> Communicator: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

# ------------------------------------------------------------------------------------------------ information

def handle() -> str:
    """A text by which other processes find this one, to form a group with it (`ringroad.regroup`); each call a new one.

    Hand it to them by any way. Who holds it can join this process's groups, unless RINGROAD_SECRET is set: then who
    knows the secret as well. Raises TransportError where this process cannot listen on a port.
    """

def regroup(
    handles: list[str],
    *,
    sort: bool = False,
    own: str | None = None,
    uuid: int = 0,
    timeout: float | None = None,
    topology: str | Topology | None = None,
    algorithm: str | None = None,
    deterministic: Literal["size-invariant"] | None = None,
    ucx_wheel: str | None = None,
) -> Communicator:
    """As ringroad.regroup; `sort` puts the handles in an order of their own."""

@final
class Setting:
    """One RINGROAD_* variable: what it is, and what it can be."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None:
        """As written; "set" where it is secret, None where it is unset and has no default."""
    @property
    def unit(self) -> str:
        """Of the value; mostly empty."""
    @property
    def origin(self) -> str:
        """Where the value is from: "default" or "environment"."""
    @property
    def default(self) -> str | None: ...
    @property
    def values(self) -> str:
        """What can be written, in words."""
    @property
    def choices(self) -> list[str]:
        """All that can be written, where that is a list of names; else empty."""
    @property
    def help(self) -> str:
        """What it is for, and what leaving it unset means."""

@final
class Config:
    """What `settings` say, by the names of the variables, and this process's environment where they say nothing.

    Raises ConfigError where a value cannot be used, ValueError where `settings` name no setting."""

    def __new__(cls, settings: Mapping[str, str] | None = None) -> Config: ...
    @staticmethod
    def defaults() -> Config:
        """What holds where nothing is set."""
    @property
    def settings(self) -> list[Setting]:
        """All there are."""
    @property
    def warnings(self) -> list[str]:
        """One line for each unknown RINGROAD_* variable."""
    @property
    def store(self) -> str | None:
        """The directory in which ranks meet."""
    @property
    def timeout(self) -> float:
        """Seconds."""
    @property
    def profile(self) -> str | None:
        """The file of measurements that is named, if one is."""

def machine() -> str:
    """What is known of this machine, and the numbers that were measured on others, as JSON."""

def ucx_info(wheel: str | None = None) -> dict[str, str]:
    """path, version, origin of the UCX that would be used; raises TransportError where there is none."""

def bfb_cost(topology: Topology | str | int, collective: str) -> tuple[int, int, int]:
    """(steps, numerator, denominator) of what all links of a rank carry, in vectors."""
