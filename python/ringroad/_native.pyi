"""The Rust core. Import from `ringroad`; this module is an implementation detail."""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import GenericAlias, TracebackType
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, final, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import TypeVar

from ringroad._costs import Cost, Explanation, FormatCost, Overview
from ringroad._grids.cart import Cart
from ringroad._grids.neighbours import Graph
from ringroad._messages import Message
from ringroad._network import NetworkView, Transport
from ringroad._replicas import ReplicaCheck

_Scalar = TypeVar("_Scalar", bound=np.generic, default=Any)
_Plain: TypeAlias = complex | np.generic | Sequence[Any]
"""Inputs that become arrays. The result's dtype is then not known to type checkers."""
_Result_co = TypeVar("_Result_co", covariant=True, default=Any)

CollectiveName: TypeAlias = Literal[
    "allreduce",
    "reduce_scatter",
    "allgather",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "alltoall",
    "scan",
    "exscan",
]
Given: TypeAlias = Schedule | str | PathLike[str]
"""A schedule of the user's own, or the path of its file."""
By: TypeAlias = Schedule | str | PathLike[str] | None
"""The algorithm of a call: a name, a schedule of the user's own, or the path of its file (as text: "file:PATH")."""
Op: TypeAlias = Literal["sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum"]
AnyOp: TypeAlias = Op | Literal["minloc", "maxloc"] | Callable[[Any, Any], Any]
"""A reduction: its name, or one of the user's own, such as a ufunc or a `ringroad.Op`."""
Wire: TypeAlias = Literal["bf16", "f16", "fp8", "int8", "int4", "int8:stochastic", "int4:stochastic"] | None
"""The format in which a call sends elements; None: as they are."""

__version__: str

# ------------------------------------------------------------------------------------------------ errors

class RingroadError(RuntimeError): ...
class TimeoutError(RingroadError, builtins.TimeoutError): ...
class PeerError(RingroadError, ConnectionError): ...
class MismatchError(RingroadError): ...
class AbortedError(RingroadError): ...
class TransportError(RingroadError): ...
class StoreError(RingroadError): ...
class ConfigError(RingroadError, ValueError): ...
class ScheduleError(RingroadError, ValueError): ...
class TopologyError(RingroadError, ValueError): ...

# ------------------------------------------------------------------------------------------------ analysis

@final
class Topology:
    def __new__(
        cls,
        spec: Topology | str | int | PathLike[str],
        *,
        bandwidth: float | None = None,
        latency: float | None = None,
        processing: float | None = None,
        routing: str | None = None,
    ) -> Topology: ...
    @staticmethod
    def from_graph(graph: Any, *, name: str | None = None, dimensions: Sequence[int] | None = None) -> Topology: ...
    def to_graph(self) -> Any: ...
    def save(self, path: str | PathLike[str]) -> None: ...
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
    def _links(self) -> list[tuple[int, int, float, float, float, float]]: ...
    def _with_fastest_link(self, bandwidth: float) -> Topology: ...
    def with_links(
        self,
        *,
        bandwidth: float | None = None,
        latency: float | None = None,
        processing: float | None = None,
        memory: float | None = None,
    ) -> Topology: ...
    def with_routing(self, routing: str) -> Topology: ...
    def line(self) -> Topology: ...
    def line_graph(self) -> Topology: ...
    def degree_expansion(self, n: int) -> Topology: ...
    def power(self, n: int) -> Topology: ...
    def product(self, *others: Topology | str | int) -> Topology: ...
    def transpose(self) -> Topology: ...
    def bidirectional(self) -> Topology: ...
    def induced(self, ranks: Sequence[int]) -> Topology: ...
    def placed(self, positions: Sequence[int]) -> Topology: ...
    @property
    def positions(self) -> list[int] | None: ...
    @property
    def base(self) -> Topology: ...
    def without_links(self, pairs: Sequence[tuple[int, int]], *, directed: bool = False) -> Topology: ...
    def behind_nics(self, capacity: float) -> Topology: ...
    @staticmethod
    def _kinds() -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]: ...
    def _facts(self, *, diameter: bool = True) -> dict[str, Any]: ...
    def _whole(self) -> Topology | None: ...
    def _drawing(self) -> dict[str, Any]: ...
    @property
    def digest(self) -> str: ...
    @property
    def is_cayley(self) -> bool: ...
    @property
    def spec(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def per_host(self) -> int: ...
    @property
    def hosts(self) -> list[int]: ...
    @property
    def dimensions(self) -> tuple[int, ...]: ...
    @property
    def routing(self) -> Literal["minimal", "dimension-ordered", "single-path", "table"]: ...
    @property
    def degree(self) -> int: ...
    @property
    def diameter(self) -> int: ...
    @property
    def links(self) -> list[tuple[int, int, float, float]]: ...
    def coordinates(self, rank: int) -> tuple[int, ...]: ...
    def port_towards(self, source: int, destination: int) -> int: ...
    def route(self, source: int, destination: int) -> tuple[int, float, list[tuple[int, float]]]: ...
    def df(self) -> Any: ...
    def _repr_html_(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Algorithm:
    def __new__(cls, name: str) -> Algorithm: ...
    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def collectives(self) -> tuple[CollectiveName, ...]: ...
    @property
    def parameter(self) -> tuple[str, str] | None: ...
    def requirement(self, collective: str = "allreduce") -> str | None: ...
    def ports(self, topology: Topology | str | int) -> int: ...
    def supports(self, topology: Topology | str | int, collective: str = "allreduce") -> bool: ...
    def bit_identical(self, topology: Topology | str | int, collective: str = "allreduce") -> bool: ...
    def cost_line(
        self, topology: Topology | str | int, collective: str = "allreduce", root: int | None = None
    ) -> tuple[int, float]: ...
    def df(self) -> Any: ...
    def _repr_html_(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs__(self) -> tuple[str]: ...

@final
class AlltoallFlow:
    def report(self, times: float) -> dict[str, Any]: ...
    def paths(self, source: int) -> Any: ...
    def schedule(self, steps: int | None, pieces: int | None) -> tuple[Schedule, int, int, float, float]: ...

def alltoall_flow(
    topology: Topology | str | int,
    demands: list[float] | None,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> AlltoallFlow: ...

@final
class RoutingTable:
    @property
    def topology(self) -> Topology: ...
    def facts(self, bound: float | None) -> dict[str, Any]: ...
    def path(self, source: int, target: int) -> Any: ...
    def with_channels(self, way: Literal["turns", "lash"]) -> RoutingTable: ...
    def csv(self, source: int) -> str: ...

def balanced_routes(
    topology: Topology | str | int,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> tuple[RoutingTable, float]: ...
def least_load(
    topology: Topology | str | int,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> float: ...
def plain_routes(topology: Topology | str | int, method: Literal["shortest", "up-down", "own"]) -> RoutingTable: ...
def find_networks(
    ranks: int,
    degrees: list[int],
    bidirectional: bool,
    collective: str,
    alpha: float,
    bytes: int | str,
    bandwidth: float,
) -> Any: ...
def moore_steps(ranks: int, degree: int, bidirectional: bool) -> int | None: ...
def collectives() -> list[str]: ...
def algorithms(topology: Topology | str | int | None = None) -> list[Algorithm]: ...
def collective_name(text: str) -> str: ...

@final
class Schedule:
    @staticmethod
    def build(
        algorithm: str, topology: Topology | str | int, collective: str = "allreduce", root: int | None = None
    ) -> Schedule: ...
    @staticmethod
    def from_sends(
        name: str,
        ranks: int,
        chunks: int | None,
        sends: Sequence[tuple[int, int, int, Sequence[int], str, int, int, int]],
        locals: Sequence[tuple[int, int, Sequence[int], str, int, int]] | None = None,
        collective: str = "allreduce",
        root: int | None = None,
    ) -> Schedule: ...
    @staticmethod
    def from_json(text: str) -> Schedule: ...
    @staticmethod
    def split(name: str, parts: Sequence[Schedule]) -> Schedule: ...
    def to_json(self) -> str: ...
    @staticmethod
    def from_msccl(text: str) -> Schedule: ...
    _MOST_BYTES: Final[int]
    @staticmethod
    def _read(content: bytes) -> Schedule: ...
    def to_msccl(self) -> str: ...
    def to_mscclpp(self) -> str: ...
    def to_goal(self, bytes: int | str, model: CostModel | None = None) -> str: ...
    def to_chakra(self, bytes: int | str, model: CostModel | None = None) -> list[builtins.bytes]: ...
    def verify(self) -> None: ...
    def reverse(self) -> Schedule: ...
    def compose(self, after: Schedule) -> Schedule: ...
    def on_slice(self, index: int) -> Schedule: ...
    @staticmethod
    def _along_dimensions(sizes: Sequence[int]) -> Schedule: ...
    @property
    def name(self) -> str: ...
    @property
    def collective(self) -> CollectiveName: ...
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
    def max_sent(self) -> float: ...
    @property
    def slots(self) -> int: ...
    @property
    def symmetric(self) -> bool: ...
    def expand(self) -> Schedule: ...
    def sends(self) -> list[tuple[int, int, int, list[int], Literal["copy", "reduce"], int, int, int]]: ...
    def locals(self) -> list[tuple[int, int, list[int], Literal["copy", "reduce"], int, int]]: ...
    def lower(self, rank: int, count: int, itemsize: int = 4) -> tuple[int, int]: ...
    @property
    def held_for_others(self) -> float: ...
    def df(self) -> Any: ...
    def _repr_html_(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __str__(self) -> str: ...

@final
class CostModel:
    def __new__(
        cls,
        *,
        step_latency: float | None = None,
        message_latency: float | None = None,
        incast_latency: float | None = None,
        hop_latency: float | None = None,
        bandwidth: float | None = None,
        reduce_cost: float | None = None,
        codec_cost: float | None = None,
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
    def codec_cost(self) -> float: ...
    @property
    def overlapped(self) -> bool: ...
    @property
    def cores(self) -> int | None: ...
    @property
    def over_links(self) -> bool: ...
    def cost(
        self,
        schedule: Schedule,
        topology: Topology | str | int,
        bytes: int | str,
        *,
        blocks: Sequence[int] | None = None,
    ) -> Cost: ...
    def explain(
        self,
        collective: str,
        topology: Topology | str | int,
        bytes: int | str,
        *,
        bit_identical: bool = True,
        schedules: Sequence[Given] = ...,
    ) -> Explanation: ...
    def compare(
        self,
        collective: str,
        topology: Topology | str | int,
        sizes: Sequence[int | str],
        *,
        schedules: Sequence[Given] = ...,
    ) -> Overview: ...
    def formats(
        self,
        collective: str,
        topology: Topology | str | int,
        bytes: int | str,
        *,
        dtype: str = "float32",
        max_error: float | None = None,
    ) -> list[FormatCost]: ...
    def to_csv(self, collective: str, topology: Topology | str | int, bit_identical: bool = True) -> str: ...
    def switch_points(
        self,
        collective: str,
        topology: Topology | str | int,
        bit_identical: bool = True,
        *,
        schedules: Sequence[Given] = ...,
    ) -> list[tuple[int, str]]: ...
    def df(self) -> Any: ...
    def _repr_html_(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]: ...

@final
class Outcome:
    def report(self) -> dict[str, Any]: ...
    def link_loads(self, topology: Topology, model: CostModel) -> Any: ...
    def busiest_links(self, topology: Topology, model: CostModel) -> Any: ...
    def events(self) -> Any: ...
    def trace_json(self) -> str: ...
    def chrome_trace(self) -> str: ...

def simulate(
    schedule: Schedule,
    topology: Topology,
    bytes: int | str,
    late: Sequence[tuple[int, float]],
    slow_ranks: Sequence[tuple[int, float]],
    slow_links: Sequence[tuple[int, int, float]],
    failed_links: Sequence[tuple[int, int]],
    *,
    model: CostModel | None = None,
    pace: Literal["synchronous", "free"] = "synchronous",
    forwarding: Literal["cut-through", "store-and-forward"] = "cut-through",
    skew: tuple[float, int] | None = None,
    eager: int | None = None,
    segment: int | None = None,
    details: bool = True,
) -> Outcome: ...

@final
class Profile:
    @staticmethod
    def read(path: str | PathLike[str]) -> Profile: ...
    @staticmethod
    def from_json(text: str) -> Profile: ...
    def to_json(self) -> str: ...
    def to_csv(self) -> str: ...
    def explain(self, collective: str, bytes: int | str, *, bit_identical: bool = True) -> Explanation: ...
    def compare(self, collective: str, sizes: Sequence[int | str]) -> Overview: ...
    def switch_points(self, collective: str = "allreduce", bit_identical: bool = True) -> list[tuple[int, str]]: ...
    @property
    def topology(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def file_name(self) -> str: ...
    @property
    def model(self) -> CostModel: ...
    @property
    def errors(self) -> tuple[float, float, float]: ...
    @property
    def rules(self) -> list[tuple[CollectiveName, int, int, str]]: ...
    @property
    def measurements(self) -> list[tuple[CollectiveName, str, int, float]]: ...

# ------------------------------------------------------------------------------------------------ running

# A key-value store that all ranks can reach, such as torch's TCPStore. `get` returns None or raises KeyError if there
# is no such key. It need not if the store has torch's method `check`.
class Store(Protocol):
    def set(self, key: str, value: bytes, /) -> object: ...
    def get(self, key: str, /) -> bytes | None: ...

@final
class MemoryStore:
    def __new__(cls) -> MemoryStore: ...

@final
class FileStore:
    def __new__(cls, path: str | PathLike[str]) -> FileStore: ...

@final
class RollCall:
    def __new__(
        cls, store: Store | MemoryStore | FileStore | TcpStore, rank: int, size: int, timeout: float, word: str
    ) -> RollCall: ...
    @property
    def words(self) -> list[str | None]: ...
    def tell(self, kind: str, text: str) -> None: ...
    def look(self, kind: str, rank: int) -> str | None: ...

@final
class Notes:
    def __new__(cls) -> Notes: ...
    def keep(self, key: str, note: bytes) -> None: ...
    def kept(self, prefix: str) -> list[bytes]: ...
    def forget(self, prefix: str) -> None: ...
    def leave(self, handle: str, key: str, note: bytes, timeout: float | None = None) -> None: ...
    def read(self, handle: str, key: str, timeout: float | None = None) -> bytes | None: ...

@final
class TcpStore:
    def __new__(
        cls,
        host: str,
        port: int | Sequence[int],
        rank: int,
        *,
        job: str = "",
        timeout: float | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> TcpStore: ...
    def set(self, key: str, value: bytes) -> None: ...
    def get(self, key: str) -> bytes | None: ...

@final
class Work(Generic[_Result_co]):
    def wait(self, timeout: float | None = None) -> bool: ...
    def is_completed(self) -> bool: ...
    def is_success(self) -> bool: ...
    def exception(self) -> Exception | None: ...
    def result(self) -> _Result_co: ...
    def on_complete(self, callback: Callable[[Exception | None], object]) -> None: ...
    @property
    def source(self) -> int | None: ...
    @property
    def message(self) -> Message | None: ...
    @property
    def algorithm(self) -> str: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

NOBODY: int
ANY: int

def waitall(works: Iterable[Work[_Result_co]], timeout: float | None = None) -> list[_Result_co]: ...
def waitany(works: Iterable[Work[Any]], timeout: float | None = None) -> int: ...
def testsome(works: Iterable[Work[Any]]) -> list[int]: ...

@final
class PreparedCall:
    def start(self) -> Work[NDArray[Any] | None]: ...
    def run(self) -> NDArray[Any] | None: ...
    @property
    def algorithm(self) -> str: ...

@final
class Communicator:
    def __new__(
        cls,
        store: Store | MemoryStore | FileStore | TcpStore,
        rank: int,
        size: int,
        *,
        timeout: float | None = None,
        topology: Topology | str | int | None = None,
        algorithm: str | None = None,
        deterministic: Literal["size-invariant"] | None = None,
        settings: Mapping[str, str] | None = None,
        name: str = "world",
        members: Sequence[int] | None = None,
    ) -> Communicator: ...
    @staticmethod
    def in_process(
        size: int,
        *,
        timeout: float | None = None,
        topology: Topology | str | int | None = None,
        algorithm: str | None = None,
        deterministic: Literal["size-invariant"] | None = None,
    ) -> list[Communicator]: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def rendezvous(self) -> str: ...
    @property
    def timeout(self) -> float: ...
    @property
    def topology(self) -> str: ...
    @property
    def network(self) -> NetworkView: ...
    @property
    def _has_switches(self) -> bool: ...
    @property
    def transport(self) -> Transport: ...
    @property
    def hosts(self) -> list[str]: ...
    @overload
    def empty(self, shape: int | tuple[int, ...], dtype: None = None) -> NDArray[np.float64]: ...
    @overload
    def empty(self, shape: int | tuple[int, ...], dtype: type[_Scalar] | np.dtype[_Scalar]) -> NDArray[_Scalar]: ...
    @overload
    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]: ...
    @overload
    def allreduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def allreduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def allreduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def reduce_scatter(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: Sequence[int] | None = None,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def reduce_scatter(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: Sequence[int] | None = None,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def reduce_scatter(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: Sequence[int] | None = None,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def allgather(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def allgather(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def allgather(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def alltoall(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: ArrayLike | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def alltoall(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: ArrayLike | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def alltoall(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: ArrayLike | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def broadcast(
        self,
        array: NDArray[_Scalar],
        root: int = 0,
        *,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def broadcast(
        self,
        array: NDArray[_Scalar],
        root: int = 0,
        *,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def broadcast(
        self,
        array: NDArray[_Scalar],
        root: int = 0,
        *,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def reduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar] | None: ...
    @overload
    def reduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar] | None]: ...
    @overload
    def reduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar] | None] | NDArray[_Scalar] | None: ...
    @overload
    def gather(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar] | None: ...
    @overload
    def gather(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar] | None]: ...
    @overload
    def gather(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar] | None] | NDArray[_Scalar] | None: ...
    @overload
    def scatter(
        self,
        send: NDArray[_Scalar] | _Plain | None,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def scatter(
        self,
        send: NDArray[_Scalar] | _Plain | None,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def scatter(
        self,
        send: NDArray[_Scalar] | _Plain | None,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def scan(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def scan(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def scan(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def exscan(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar] | None: ...
    @overload
    def exscan(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar] | None]: ...
    @overload
    def exscan(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar] | None] | NDArray[_Scalar] | None: ...
    @overload
    def send(
        self,
        array: NDArray[Any] | _Plain,
        peer: int,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> None: ...
    @overload
    def send(
        self,
        array: NDArray[Any] | _Plain,
        peer: int,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[None]: ...
    @overload
    def send(
        self,
        array: NDArray[Any] | _Plain,
        peer: int,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[None] | None: ...
    @overload
    def recv(
        self,
        out: None = None,
        peer: int | None = None,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[Any] | None: ...
    @overload
    def recv(
        self,
        out: None = None,
        peer: int | None = None,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[Any] | None]: ...
    @overload
    def recv(
        self,
        out: NDArray[_Scalar],
        peer: int | None = None,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def recv(
        self,
        out: NDArray[_Scalar],
        peer: int | None = None,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def recv(
        self,
        out: NDArray[_Scalar],
        peer: int | None = None,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def sendrecv(
        self,
        array: NDArray[Any] | _Plain,
        destination: int,
        out: NDArray[_Scalar],
        source: int | None = None,
        tag: int = 0,
        *,
        recv_tag: int | None = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def sendrecv(
        self,
        array: NDArray[Any] | _Plain,
        destination: int,
        out: NDArray[_Scalar],
        source: int | None = None,
        tag: int = 0,
        *,
        recv_tag: int | None = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def sendrecv(
        self,
        array: NDArray[Any] | _Plain,
        destination: int,
        out: NDArray[_Scalar],
        source: int | None = None,
        tag: int = 0,
        *,
        recv_tag: int | None = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[_Scalar]] | NDArray[_Scalar]: ...
    @overload
    def sendrecv(
        self,
        array: NDArray[Any] | _Plain,
        destination: int,
        out: None = None,
        source: int | None = None,
        tag: int = 0,
        *,
        recv_tag: int | None = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[Any] | None: ...
    @overload
    def sendrecv(
        self,
        array: NDArray[Any] | _Plain,
        destination: int,
        out: None = None,
        source: int | None = None,
        tag: int = 0,
        *,
        recv_tag: int | None = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[Any] | None]: ...
    @overload
    def sendrecv(
        self,
        array: NDArray[Any] | _Plain,
        destination: int,
        out: None = None,
        source: int | None = None,
        tag: int = 0,
        *,
        recv_tag: int | None = None,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[NDArray[Any] | None] | NDArray[Any] | None: ...
    def probe(self, peer: int | None = None, tag: int = 0, *, timeout: float | None = None) -> Message: ...
    def iprobe(self, peer: int | None = None, tag: int = 0) -> Message | None: ...
    @overload
    def barrier(
        self,
        *,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> None: ...
    @overload
    def barrier(
        self,
        *,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[None]: ...
    @overload
    def barrier(
        self,
        *,
        timeout: float | None = None,
        async_op: bool,
    ) -> Work[None] | None: ...
    def cart(
        self,
        shape: int | Sequence[int],
        *,
        periodic: bool | Sequence[bool] | None = None,
        reorder: bool = False,
        timeout: float | None = None,
    ) -> Cart: ...
    def graph(
        self, neighbours: Sequence[int], sources: Sequence[int] | None = None, *, timeout: float | None = None
    ) -> Graph: ...
    @overload
    def shared(
        self, shape: int | tuple[int, ...], dtype: None = None, *, timeout: float | None = None
    ) -> NDArray[np.float64]: ...
    @overload
    def shared(
        self,
        shape: int | tuple[int, ...],
        dtype: type[_Scalar] | np.dtype[_Scalar],
        *,
        timeout: float | None = None,
    ) -> NDArray[_Scalar]: ...
    @overload
    def shared(
        self, shape: int | tuple[int, ...], dtype: DTypeLike, *, timeout: float | None = None
    ) -> NDArray[Any]: ...
    def _cost(self, schedule: Schedule, bytes: int, blocks: Sequence[int]) -> Cost: ...
    def _discover(self, budget: float, timeout: float | None) -> str: ...
    def _part(self, ranks: Sequence[int]) -> Topology | None: ...
    def _run_raw(
        self,
        collective: str,
        input: int,
        output: int,
        elements: int,
        dtype: str,
        owner: object,
        *,
        counts: ArrayLike | None = None,
        op: str = "sum",
        factor: float | None = None,
        root: int = 0,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Work[None] | None: ...
    def _run_tensors(
        self,
        collective: str,
        input: object,
        output: object,
        *,
        op: str = "sum",
        factor: float | None = None,
        root: int = 0,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Work[None] | None: ...
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
    ) -> Work[None] | None: ...
    def algorithm_for(
        self, collective: str, bytes: int | str, *, dtype: DTypeLike = "float32", op: Op = "sum"
    ) -> str: ...
    def explain(
        self, collective: str, bytes: int | str, *, dtype: DTypeLike = "float32", op: Op = "sum"
    ) -> Explanation: ...
    @property
    def model(self) -> CostModel: ...
    @property
    def _segment(self) -> int: ...
    @property
    def profile(self) -> str | None: ...
    def _contestants(self, collective: str) -> list[str]: ...
    def _calibrate(self, measurements: Sequence[tuple[str, str, int, float]]) -> Profile: ...
    def switch_points(self, collective: str = "allreduce") -> list[tuple[int, str]]: ...
    @property
    def handles(self) -> list[str | None]: ...
    def agree(self, flag: bool, *, timeout: float | None = None) -> bool: ...
    def survivors(self, *, timeout: float | None = None) -> list[int]: ...
    def _agree(self, flag: bool, timeout: float | None) -> tuple[bool, list[int]]: ...
    def _watch(self) -> None: ...
    def shrink(
        self, *, timeout: float | None = None, quorum: int | Literal["majority"] | None = None
    ) -> Communicator: ...
    def abort(self, reason: str = "") -> None: ...
    def lost(self) -> list[tuple[int, str]]: ...
    @overload
    def split(
        self,
        color: int,
        key: int = 0,
        *,
        topology: str | Topology | None = None,
        timeout: float | None = None,
    ) -> Communicator: ...
    @overload
    def split(
        self,
        color: None,
        key: int = 0,
        *,
        topology: str | Topology | None = None,
        timeout: float | None = None,
    ) -> None: ...
    @overload
    def split(
        self,
        color: int | None,
        key: int = 0,
        *,
        topology: str | Topology | None = None,
        timeout: float | None = None,
    ) -> Communicator | None: ...
    def dup(self, *, timeout: float | None = None) -> Communicator: ...
    def prepare(
        self,
        collective: CollectiveName,
        send: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
        *,
        counts: ArrayLike | None = None,
        root: int = 0,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        wire: Wire = None,
        max_error: float | None = None,
        timeout: float | None = None,
    ) -> PreparedCall: ...
    def broadcast_object(self, obj: Any = None, root: int = 0, *, timeout: float | None = None) -> Any: ...
    def allgather_object(self, obj: Any, *, timeout: float | None = None) -> list[Any]: ...
    def gather_object(self, obj: Any, root: int = 0, *, timeout: float | None = None) -> list[Any] | None: ...
    def scatter_object(
        self, objects: Sequence[Any] | None = None, root: int = 0, *, timeout: float | None = None
    ) -> Any: ...
    def alltoall_object(self, objects: Sequence[Any], *, timeout: float | None = None) -> list[Any]: ...
    def send_object(
        self, obj: Any, peer: int, tag: int = 0, *, timeout: float | None = None, async_op: bool = False
    ) -> Any: ...
    def recv_object(
        self, peer: int | None = None, tag: int = 0, *, timeout: float | None = None, async_op: bool = False
    ) -> Any: ...
    def sendrecv_object(
        self,
        obj: Any,
        destination: int,
        source: int | None = None,
        tag: int = 0,
        *,
        recv_tag: int | None = None,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any: ...
    def allreduce_coalesced(
        self,
        arrays: Sequence[NDArray[Any] | _Plain],
        out: Sequence[NDArray[Any]] | None = None,
        *,
        op: AnyOp = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
    ) -> list[NDArray[Any]]: ...
    def broadcast_coalesced(
        self,
        arrays: Sequence[NDArray[Any]],
        root: int = 0,
        *,
        algorithm: By = None,
        timeout: float | None = None,
    ) -> list[NDArray[Any]]: ...
    def check_replicas(
        self, arrays: Sequence[Any] | Mapping[str, Any], *, repair: bool = False, timeout: float | None = None
    ) -> ReplicaCheck: ...
    def _start_trace(self) -> None: ...
    def _end_trace(self) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Communicator: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

# ------------------------------------------------------------------------------------------------ information

def handle() -> str: ...
def regroup(
    handles: list[str],
    *,
    sort: bool = False,
    own: str | None = None,
    uuid: int = 0,
    timeout: float | None = None,
    topology: Topology | str | int | None = None,
    algorithm: By = None,
    deterministic: Literal["size-invariant"] | None = None,
) -> Communicator: ...

@final
class Setting:
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None: ...
    @property
    def unit(self) -> str: ...
    @property
    def origin(self) -> Literal["default", "environment"]: ...
    @property
    def default(self) -> str | None: ...
    @property
    def values(self) -> str: ...
    @property
    def choices(self) -> list[str]: ...
    @property
    def help(self) -> str: ...
    @property
    def _scope(self) -> Literal["job", "rank", "any"]: ...

@final
class Config:
    def __new__(cls, settings: Mapping[str, str] | None = None) -> Config: ...
    @staticmethod
    def defaults() -> Config: ...
    @property
    def settings(self) -> list[Setting]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def store(self) -> str | tuple[str, int] | None: ...
    @property
    def tcp_ports(self) -> tuple[int, int] | None: ...
    @property
    def signal(self) -> str | None: ...
    @property
    def profiles(self) -> str | None: ...
    @property
    def timeout(self) -> float: ...
    @property
    def profile(self) -> str | None: ...

def reductions() -> dict[str, list[str]]: ...
def machine() -> str: ...
def _round_raw(wire: str, address: int, elements: int, dtype: str) -> None: ...
def digest(array: NDArray[Any]) -> bytes: ...
def read_bytes(text: str) -> int: ...
def read_bandwidth(text: str) -> float: ...
def read_seconds(text: str) -> float: ...
def keep_profile(path: str | PathLike[str], text: str | None = None) -> None: ...
def read_file(path: str | PathLike[str], most: int | None = None) -> bytes: ...
def processes_here() -> list[tuple[int, str, str | None]]: ...
def ask_status(handles: list[str], members: bool, within: float) -> list[tuple[str | None, str | None, bool]]: ...
def ask_status_at(host: str, ports: list[int], job: str, within: float) -> str: ...
def own_status() -> str: ...
def between_hosts() -> str: ...
def ucx_info() -> dict[str, str]: ...
def bfb_cost(topology: Topology | str | int, collective: str) -> Any: ...
