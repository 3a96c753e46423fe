"""The Rust core. Import from `ringroad`; this module is an implementation detail."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import GenericAlias, TracebackType
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, final, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import TypeVar

from ringroad._costs import Cost, Explanation, Overview
from ringroad._network import NetworkView, Transport

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

__version__: str

# ------------------------------------------------------------------------------------------------ errors

class RingroadError(RuntimeError):
    """The base class of ringroad's own errors.

    Bad arguments raise ValueError or TypeError, a lack of memory MemoryError. Messages name rank, host, process,
    call and step, and say what to do.

    Example:
        >>> try:
        ...     ringroad.Topology("thorus:4x4")
        ... except ringroad.RingroadError as error:
        ...     print(type(error).__name__)
        TopologyError
    """

class TimeoutError(RingroadError, builtins.TimeoutError):
    """A call did not complete before its deadline. The message names the ranks that are missing.

    Look at those ranks: they may hang, have made fewer calls, or need a longer `timeout`. The communicator cannot
    be used any more, unless it was `Work.wait` that raised the error; call `shrink` or make a new one.
    """

class PeerError(RingroadError, ConnectionError):
    """A member is lost: another rank died, closed its communicator, or left it during a call, over a signal for
    example. The message names it.

    Later calls on the communicator raise it, too. It cannot be used any more, but the process can: call `shrink` to
    continue with the ranks that are left.
    """

class MismatchError(RingroadError):
    """Ranks made different calls. The message lists what each rank called.

    Correct the program: all ranks make the same calls in the same order, with the same shapes, dtypes and roots.
    The communicator cannot be used any more.
    """

class AbortedError(RingroadError):
    """The communicator was aborted, is closed, failed earlier other than by a loss (`PeerError`), or belongs to the
    parent of a forked process.

    Make a new communicator, or call `shrink`. The message has the reason.
    """

class TransportError(RingroadError):
    """UCX is missing or cannot be used, or the network or the system refused something.

    The message says what to install, permit or set.
    """

class StoreError(RingroadError):
    """The store at which ranks meet failed. Its own error is the `__cause__`, if it raised one.

    See whether this rank can reach the store's host and port, or may write in its directory, and whether another job
    uses the same. The message says which.
    """

class ConfigError(RingroadError, ValueError):
    """A RINGROAD_* variable or an option has a value that cannot be used, or one that is needed is not set.

    The message says what can be written. `ringroad info` lists all variables.
    """

class ScheduleError(RingroadError, ValueError):
    """A schedule is malformed or wrong, or an algorithm is unknown or does not run on a network.

    The message names rank, chunk and step of a wrong schedule, or algorithms that can be used.
    """

class TopologyError(RingroadError, ValueError):
    """A topology is malformed, or does not have what is asked of it.

    The message shows a valid spec.
    """

# ------------------------------------------------------------------------------------------------ analysis

@final
class Topology:
    """A network: ranks, switches, and the directed links between them.

    A spec names a family with its sizes, such as "ring:8", "torus:4x4", "mesh:4x4",
    "twisted-torus:8x4", "hyperx:4x4", "hammingmesh:2x2:4x4", "hypercube:4", "switch:16",
    "fattree:4x8:2", "hosts:2x4" (2 hosts of 4 ranks) or "hosts:1,2,3" (hosts of 1, 2 and 3); a graph
    without a grid, such as "circulant:16:3,4", "kautz:4:1", "petersen" or
    "cayley:z64*z16^11:34.1,14.14"; or what an operator makes of these, such as "line(petersen)" or
    "without(torus:4x4, 0-1)". `ringroad topology` lists all families. A routing may follow:
    "torus:4x4,routing=single-path"; rates of all links, of cables and of links:
    "ring:9,bandwidth=200Mbit/s,latency=20us,0-1=50Mbit/s,2>3=10Mbit/s"; and where the ranks stand, if not
    in the network's own order: "torus:2x2@2,0,1,3". A path of a file stands for the graph in it.

    Topologies are values: they compare equal by their links, grid and routing, and can be pickled. Wherever
    one is an argument, a spec, the path of a file or a number of ranks may stand for it.

    Args:
        spec: The spec, or the path of a file: .json, .graphml, .gml, .csv, .edges, .edgelist or .txt. A
            number of ranks stands for a ring; a `Topology` is taken as it is.
        bandwidth: Of every link in one direction, in bytes per second; 12.5e9 unless stated.
        latency: Of every link, in seconds, with what the node at its end needs to pass a message on;
            0.5e-6 unless stated.
        processing: Seconds that every node needs in addition to pass a message on, where `latency` does
            not include them.
        routing: "minimal" (spread over all shortest paths, the default), "dimension-ordered" (on grids)
            or "single-path".

    Raises:
        TopologyError: The spec is malformed, or the sizes, numbers or routing do not fit. The message
            shows a valid spec.
        OSError: The file cannot be read.
        ImportError: The file's format needs networkx, which is not installed.

    Example:
        >>> torus = ringroad.Topology("torus:4x4", bandwidth=25e9)
        >>> torus.ranks, torus.degree, torus.diameter, torus.dimensions
        (16, 4, 4, (4, 4))
    """

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
    def from_graph(graph: Any, *, name: str | None = None, dimensions: Sequence[int] | None = None) -> Topology:
        """Makes a topology of a networkx graph.

        Args:
            graph: Any networkx graph; an edge of an undirected graph is a link in each direction. A node is
                a rank, or a switch if its attribute `kind` is "switch"; `rank` states a rank's number, and
                `processing` the seconds it needs to pass a message on. Edges may state `bandwidth` (bytes
                per second), `capacity` (a factor of it), `latency` and `extra_latency` (seconds).
            name: The graph's name in the spec.
            dimensions: The grid that algorithms take for a torus. None: the graph's attribute `dimensions`,
                such as "4x4", or no grid.

        Returns:
            The topology. Its spec is `graph:` and the name.

        Raises:
            TopologyError: The graph has no ranks, or an attribute is invalid. The message names it.

        Example:
            >>> import networkx
            >>> ringroad.Topology.from_graph(networkx.cycle_graph(5), name="five").ranks
            5
        """
    def to_graph(self) -> Any:
        """Returns a networkx.MultiDiGraph with the attributes that `from_graph` reads.

        Raises:
            ImportError: networkx is not installed.
        """
    def save(self, path: str | PathLike[str]) -> None:
        """Writes a file whose path can stand for the topology.

        Args:
            path: Ends in .json, which keeps family and routing, or in .graphml, which other programs read.

        Raises:
            ValueError: The name ends in something else.
            OSError: The file cannot be written.
            ImportError: .graphml needs networkx, which is not installed.
        """
    @staticmethod
    def from_json(text: str) -> Topology:
        """Reads what `to_json` wrote.

        Args:
            text: The JSON.

        Returns:
            The topology.

        Raises:
            TopologyError: The text is not a topology. The message says why.
        """
    def to_json(self) -> str:
        """Returns the topology as JSON, with its links and routes if the spec does not say them.

        Example:
            >>> ring = ringroad.Topology("ring:4")
            >>> ringroad.Topology.from_json(ring.to_json()) == ring
            True
        """
    @staticmethod
    def _from_links(
        name: str,
        ranks: int,
        nodes: int,
        links: Sequence[tuple[int, int, float, float, float, float]],
        dimensions: Sequence[int],
    ) -> Topology:
        """Makes a topology of links, each with source, target, bandwidth, capacity, latency and extra latency."""
    def _links(self) -> list[tuple[int, int, float, float, float, float]]:
        """Returns the links with source, target, bandwidth, capacity, latency and extra latency."""
    def _with_fastest_link(self, bandwidth: float) -> Topology:
        """Returns the same network with this bandwidth for the fastest link, and for the others in proportion."""
    def with_links(
        self,
        *,
        bandwidth: float | None = None,
        latency: float | None = None,
        processing: float | None = None,
        memory: float | None = None,
    ) -> Topology:
        """Returns the same network with other links. None leaves a property as it is.

        Args:
            bandwidth: Of every link, in bytes per second. Links with more capacity than others still have
                it.
            latency: Of every link, in seconds.
            processing: Seconds that every node needs in addition to pass a message on.
            memory: Bytes per second between a rank and the memory of its host; only networks of hosts have
                it.

        Returns:
            The new topology.

        Raises:
            TopologyError: A number is negative, or a bandwidth is 0.
        """
    def with_routing(self, routing: str) -> Topology:
        """Returns the same network with another routing. `ringroad.lab.routes` makes tables of routes.

        Args:
            routing: "minimal", "dimension-ordered" or "single-path".

        Returns:
            The new topology.

        Raises:
            TopologyError: The routing is unknown, or the network has no dimensions for "dimension-ordered".
        """
    def line(self) -> Topology:
        """Returns the line digraph: a rank for each link, with a link to each link that starts where this one
        ends.

        Ranks have the numbers of the links. This is one of the expansions of Zhao et al. (arXiv
        2202.03356).

        Raises:
            TopologyError: The network has switches, or the result would be too large.

        Example:
            >>> ringroad.Topology("complete:3").line().ranks
            6
        """
    def line_graph(self) -> Topology:
        """Returns the line graph: a rank for each cable, with a cable to each cable that shares an end.

        A cable is a link in each direction; ranks are numbered by the cables' first links.

        Raises:
            TopologyError: A link has none back, the network has switches, or the result would be too large.
        """
    def degree_expansion(self, n: int) -> Topology:
        """Returns `n` copies of every rank, each linked to all copies of the rank's neighbours.

        Copy i of rank v is rank v*n + i. This is one of the expansions of Zhao et al. (arXiv 2202.03356).

        Args:
            n: The number of copies.

        Raises:
            TopologyError: The network has switches, or the result would be too large.
        """
    def power(self, n: int) -> Topology:
        """Returns the Cartesian product of `n` times this network. `product` says more.

        Args:
            n: The number of factors.

        Raises:
            TopologyError: The network has switches, or the result would be too large.
        """
    def product(self, *others: Topology | str | int) -> Topology:
        """Returns the Cartesian product of this network and others.

        Ranks are numbered like the elements of a C array, those of the last factor fastest. The ports of
        the first factor come first.

        Args:
            others: Topologies, specs, or numbers of ranks, which stand for rings.

        Raises:
            TopologyError: A network has switches, or the result would be too large.

        Example:
            >>> ringroad.Topology("ring:4").product("complete:3").ranks
            12
        """
    def transpose(self) -> Topology:
        """Returns the network with all links turned round. Links keep their numbers."""
    def bidirectional(self) -> Topology:
        """Returns the network with a second link, turned round, for each link."""
    def induced(self, ranks: Sequence[int]) -> Topology:
        """Returns the part of this network on which some ranks stand: the links on shortest paths between them.

        Other ranks on these paths become switches. What is a ring, torus, mesh, switch or hosts has the
        spec of one. Subgroups use this where RINGROAD_TOPOLOGY describes the job.

        Args:
            ranks: The ranks; they are numbered anew in this order.

        Raises:
            TopologyError: A rank is given twice or does not exist, or the search for paths would take long.

        Example:
            >>> torus = ringroad.Topology("torus:4x4")
            >>> torus.induced([1, 5, 9, 13]).spec, torus.induced([5, 6, 9, 10]).spec
            ('ring:4', 'mesh:2x2')
        """
    def placed(self, positions: Sequence[int]) -> Topology:
        """Returns the same network with its ranks in another order.

        Algorithms for the network run in any order of ranks.

        Args:
            positions: For every rank, which rank of this network stands where it is to stand.

        Raises:
            TopologyError: These are not the numbers of all ranks, each once.

        Example:
            >>> placed = ringroad.Topology("torus:2x2").placed([2, 0, 1, 3])
            >>> placed.spec, placed.coordinates(0), placed.base.coordinates(2)
            ('torus:2x2@2,0,1,3', (1, 0), (1, 0))
        """
    @property
    def positions(self) -> list[int] | None:
        """The position of each rank on `base`; None if ranks are in the network's own order."""
    @property
    def base(self) -> Topology:
        """The network on which the ranks are placed; the network itself if they are in its own order."""
    def without_links(self, pairs: Sequence[tuple[int, int]], *, directed: bool = False) -> Topology:
        """Returns the network without some links. A grid stays a grid.

        Args:
            pairs: Pairs of nodes. All links between them are removed.
            directed: True: only those from the first node to the second are removed.

        Raises:
            TopologyError: Two nodes have no link between them, or ranks would be cut off.

        Example:
            >>> torus = ringroad.Topology("torus:4x4").without_links([(0, 1)])
            >>> torus.spec, torus.dimensions
            ('without(torus:4x4, 0-1)', (4, 4))
        """
    def behind_cards(self, capacity: float) -> Topology:
        """Returns the network with a network card for every rank.

        The network's links join the cards, and cards pass on messages for other ranks. This is the host
        bottleneck of Basu et al., HPDC 2024. Its spec is `bottleneck(torus:4x4, 2)`.

        Args:
            capacity: The bandwidth between rank and card in each direction, in units of the rank's first
                link.

        Raises:
            TopologyError: `capacity` is not above 0.
        """
    @staticmethod
    def _kinds() -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]:
        """Returns what `ringroad topology` lists: families, operators and routings, each with what it is."""
    def _operands(self) -> tuple[str, list[str], list[str]] | None:
        """Returns the operator of the spec of `base`, its operands' specs, and the parameters after them; None without
        one.
        """
    @property
    def digest(self) -> str:
        """32 hexadecimal digits, the same on every machine. They differ if ranks, grid, links or routing
        differ.
        """
    @property
    def is_cayley(self) -> bool:
        """Whether the ranks are the elements of a group, and the n-th link of every rank multiplies by the
        same element.
        """
    @property
    def spec(self) -> str:
        """The spec that the network is known by. Networks of files and graphs are called `graph:name`."""
    @property
    def ranks(self) -> int:
        """The number of ranks."""
    @property
    def nodes(self) -> int:
        """The number of ranks, switches and hosts' memories together. Ranks have the lowest numbers."""
    @property
    def per_host(self) -> int:
        """The number of ranks that share the memory of a host; 1 if each has a host of its own, or if hosts
        have different numbers of ranks.
        """
    @property
    def hosts(self) -> list[int]:
        """The host of each rank."""
    @property
    def dimensions(self) -> tuple[int, ...]:
        """The lengths of the grid that algorithms take for a torus; empty if the ranks form none."""
    @property
    def routing(self) -> Literal["minimal", "dimension-ordered", "single-path", "table"]:
        """How messages choose among paths: "minimal", "dimension-ordered", "single-path" or "table"."""
    @property
    def degree(self) -> int:
        """The largest number of links that leave a rank."""
    @property
    def diameter(self) -> int:
        """The largest number of hops on a shortest path between two ranks, hops to and from switches included."""
    @property
    def links(self) -> list[tuple[int, int, float, float]]:
        """Tuples of source, target, bandwidth in bytes per second, and latency in seconds; one for each link."""
    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Returns the place of a rank on the grid.

        Args:
            rank: The rank.

        Returns:
            A coordinate for each dimension; empty if there is no grid.

        Example:
            >>> ringroad.Topology("torus:4x4").coordinates(6)
            (1, 2)
        """
    def port_towards(self, source: int, destination: int) -> int:
        """Returns the port by which a message from one rank to another leaves.

        On a grid, port 2d leads to the rank whose coordinate in dimension d is one higher, and 2d + 1 to the
        one that is one lower, around the end. A message to a rank further away leaves by the port of the
        shorter way in the first dimension in which the ranks differ. Without a grid all ports count as one, 0.

        Args:
            source: The rank that sends.
            destination: The rank that receives.

        Raises:
            TopologyError: A rank is out of range.

        Example:
            >>> torus = ringroad.Topology("torus:4x4")
            >>> torus.port_towards(0, 1), torus.port_towards(0, 12), torus.port_towards(0, 2)
            (2, 1, 2)
        """
    def route(self, source: int, destination: int) -> tuple[int, float, list[tuple[int, float]]]:
        """Returns the route of a message from one rank to another.

        Args:
            source: The rank that sends.
            destination: The rank that receives.

        Returns:
            A tuple of the number of hops, the latency in seconds, and a list of the links used: each with
            its index in `links` and the share of the bytes that it carries.

        Raises:
            TopologyError: There is no route, or a rank is out of range.

        Example:
            >>> hops, latency, shares = ringroad.Topology("ring:4").route(0, 2)
            >>> hops, [share for _, share in shares]
            (2, [0.5, 0.5, 0.5, 0.5])
        """
    def df(self) -> Any:
        """Returns the links as a pandas.DataFrame with a row for each.

        Raises:
            ImportError: pandas is not installed.
        """
    def _repr_html_(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Algorithm:
    """An algorithm of the catalogue, or a member of a family of algorithms.

    In its methods a network is a `Topology`, a spec, or a number of ranks, which stands for a ring. Algorithms
    compare equal by their names, and can be pickled.

    Args:
        name: Such as "swing", or "generalized:2" for a member. `ringroad.algorithms()` lists all.

    Raises:
        ScheduleError: The name is unknown. The message suggests another.

    Example:
        >>> ring = ringroad.Algorithm("ring")
        >>> ring.cost_line(8)
        (14, 1.75)
        >>> ring.supports("torus:4x4", "broadcast")
        False
    """

    def __new__(cls, name: str) -> Algorithm: ...
    @property
    def name(self) -> str:
        """The name, with the parameter of a member: "generalized:2"."""
    @property
    def summary(self) -> str:
        """What the algorithm does, in one line."""
    @property
    def source(self) -> str:
        """The paper that describes the algorithm."""
    @property
    def collectives(self) -> tuple[CollectiveName, ...]:
        """The collectives that the algorithm can perform."""
    @property
    def parameter(self) -> tuple[str, str] | None:
        """Name and meaning of the parameter by which members of the family differ; None for a single
        algorithm.
        """
    def requirement(self, collective: str = "allreduce") -> str | None:
        """Returns on which networks the algorithm performs a collective, in words.

        Args:
            collective: For example "allreduce".

        Returns:
            The requirement; None if the algorithm never performs the collective.

        Raises:
            ValueError: The collective is unknown.
        """
    def ports(self, topology: Topology | str | int) -> int:
        """Returns the largest number of ports by which a rank sends at the same time.

        Args:
            topology: The network.

        Raises:
            TopologyError: The topology is malformed.
        """
    def supports(self, topology: Topology | str | int, collective: str = "allreduce") -> bool:
        """Returns whether the algorithm performs a collective on a network.

        Args:
            topology: The network.
            collective: For example "allreduce".

        Raises:
            ValueError: The collective is unknown.
            TopologyError: The topology is malformed.
        """
    def consistent(self, topology: Topology | str | int, collective: str = "allreduce") -> bool:
        """Returns whether all ranks end with the same bits after a sum of floats.

        Args:
            topology: The network.
            collective: For example "allreduce".

        Raises:
            ValueError: The collective is unknown.
            TopologyError: The topology is malformed.
        """
    def cost_line(
        self, topology: Topology | str | int, collective: str = "allreduce", root: int | None = None
    ) -> tuple[int, float]:
        """Returns the steps and the volume of the schedule, from the closed form and without building it.

        Args:
            topology: The network.
            collective: For example "allreduce".
            root: The rank that sends or receives all, for collectives that have one; 0 if it is not given. The
                figures may depend on it.

        Returns:
            The number of steps, and the most that a rank sends, in units of the vector.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: The algorithm does not perform the collective on this network. The message says
                why and names others that do.
            TopologyError: The topology is malformed.

        Example:
            >>> ringroad.Algorithm("ring").cost_line(8)
            (14, 1.75)
        """
    def df(self) -> Any:
        """Returns the collectives as a pandas.DataFrame with a row for each, and what they require.

        Raises:
            ImportError: pandas is not installed.
        """
    def _repr_html_(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs__(self) -> tuple[str]: ...

@final
class AlltoallFlow:
    """A flow that meets all demands of an all-to-all. `ringroad.lab.synthesis.AlltoallFlow` shows it."""

    def report(self, times: float) -> dict[str, Any]:
        """What the flow is: the fields of `ringroad.lab.synthesis.AlltoallFlow`.

        Args:
            times: What each demand is multiplied by.
        """
    def ways(self, source: int) -> Any:
        """Returns the paths of what one rank sends, by target.

        Args:
            source: The rank.

        Raises:
            IndexError: There is no such rank.
        """
    def schedule(self, steps: int | None, pieces: int | None) -> tuple[Schedule, int, int, float, float]:
        """Makes a schedule of the flow, in which ranks relay chunks of blocks along its paths.

        Args:
            steps: The most steps. None: as many as it takes.
            pieces: The most chunks of a block. None: as many as it takes.

        Returns:
            The schedule, the number of chunks of a block, the most chunks that a rank holds for others at once,
            and by which fractions the busiest link and all steps together exceed the bound.

        Raises:
            ValueError: The network has switches, or there would be too many chunks.
        """

def alltoall_flow(
    topology: Topology | str | int,
    demands: list[float] | None,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> AlltoallFlow:
    """Finds a flow for an all-to-all. `ringroad.lab.synthesis.alltoall_flow` calls it, and says what the
    arguments mean.

    Args:
        topology: The network.
        demands: Bytes of each pair by source, then by target. None: one of each pair.
        gap: The search ends when the load exceeds the bound by at most this fraction.
        budget: The search ends after this many seconds.
        progress: Called with the number of sweeps, the load and the bound.

    Returns:
        An `AlltoallFlow`.

    Raises:
        ValueError: A number is invalid.
        ScheduleError: Ranks cannot reach each other.
        TopologyError: The topology is malformed.
    """

@final
class RoutingTable:
    """One path for each pair of ranks of a network. `ringroad.lab.routes.Routes` shows it."""

    @property
    def topology(self) -> Topology:
        """The network with these routes."""
    def facts(self, bound: float | None) -> dict[str, Any]:
        """Returns what the routes are: the fields of `ringroad.lab.routes.Routes`.

        Args:
            bound: A lower bound of the load of any routes, if it is known.
        """
    def path(self, source: int, target: int) -> Any:
        """Returns the hops of one path.

        Args:
            source: The rank that sends.
            target: The rank that receives.

        Returns:
            A `Hop` for each link.

        Raises:
            IndexError: There is no such rank.
        """
    def with_channels(self, way: Literal["turns", "lash"]) -> RoutingTable:
        """Returns the same paths on virtual channels on which messages cannot deadlock.

        Args:
            way: "turns" or "lash"; `ringroad.lab.routes.Routes.with_channels` explains them.

        Raises:
            ValueError: `way` is something else.
            TopologyError: The paths need more than 256 channels.
        """
    def csv(self, source: int) -> str:
        """Returns the lines of a CSV file for the paths of one source.

        Args:
            source: The rank that sends.
        """

def balanced_routes(
    topology: Topology | str | int,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> tuple[RoutingTable, float]:
    """Finds one path for each pair such that links are loaded evenly. `ringroad.lab.routes.balanced` calls it.

    Args:
        topology: The network.
        gap: How far the load of the flow may exceed the bound, as a fraction.
        budget: The search ends after this many seconds.
        progress: Called with the number of sweeps, the load and the bound.

    Returns:
        A `RoutingTable`, and the seconds that the busiest link takes at least for a byte of each pair.

    Raises:
        ValueError: `gap` or `budget` is invalid.
        ScheduleError: Ranks cannot reach each other.
    """

def least_load(
    topology: Topology | str | int,
    gap: float,
    budget: float | None,
    progress: Callable[[int, float, float], object] | None,
) -> float:
    """Returns the seconds that the busiest link takes at least for a byte of each pair, with any routes.

    Args:
        topology: The network.
        gap: How far the bound may be from the best one, as a fraction.
        budget: The search ends after this many seconds.
        progress: Called with the number of sweeps, the load and the bound.

    Raises:
        ValueError: `gap` or `budget` is invalid.
        ScheduleError: Ranks cannot reach each other.
    """

def plain_routes(topology: Topology | str | int, method: Literal["shortest", "up-down", "own"]) -> RoutingTable:
    """Makes routes by a rule.

    Args:
        topology: The network.
        method: "shortest" (single shortest paths), "up-down" (up*/down*), or "own" (those that the
            topology has).

    Returns:
        A `RoutingTable`.

    Raises:
        ValueError: The method is unknown.
        TopologyError: The network has no such routes.
    """

def find_networks(
    ranks: int,
    degrees: list[int],
    bidirectional: bool,
    collective: str,
    alpha: float,
    bytes: int,
    bandwidth: float,
) -> Any:
    """Searches for networks. `ringroad.lab.find` calls it, and says what the arguments mean.

    Args:
        ranks: The number of ranks.
        degrees: The numbers of links that leave each rank.
        bidirectional: Whether every link must have one back.
        collective: "allreduce", "allgather" or "reduce_scatter".
        alpha: Seconds to start a step.
        bytes: The length of the vector in bytes.
        bandwidth: Bytes per second of all links of a rank together.

    Returns:
        A `Findings`.

    Raises:
        ValueError: There is no such network, or the collective is another one.
    """

def moore_steps(ranks: int, degree: int, bidirectional: bool) -> int | None:
    """Returns the fewest steps in which a rank can reach all others, by the Moore bound.

    Args:
        ranks: The number of ranks.
        degree: The number of links that leave each rank.
        bidirectional: Whether every link has one back.

    Returns:
        The steps; None if not all ranks can be reached.
    """

def collectives() -> list[str]:
    """Returns the names of all collectives."""

def algorithms(topology: Topology | str | int | None = None) -> list[Algorithm]:
    """Lists the catalogue of algorithms.

    Args:
        topology: A `Topology`, a spec, or a number of ranks. With it, families are listed by those of
            their members that are worth trying on this network.

    Returns:
        `Algorithm` objects.

    Raises:
        TopologyError: The topology is malformed.

    Example:
        >>> ringroad.Algorithm("swing") in ringroad.algorithms()
        True
        >>> [a.name for a in ringroad.algorithms(8) if a.name.startswith("generalized:")]
        ['generalized:0', 'generalized:1', 'generalized:2', 'generalized:3']
    """

def collective_name(text: str) -> str:
    """Returns the name of a collective that is written in any way.

    Args:
        text: The name, such as `all_reduce`, `reduce-scatter` or `bcast`.

    Returns:
        The name that ringroad uses.

    Raises:
        ValueError: There is no such collective.
    """

@final
class Schedule:
    """Who sends which chunks to whom in which step, for all ranks.

    A schedule is a value: it can be compared, printed, pickled, and stored as JSON. The vector is cut
    into chunks. In a step each rank may send chunks; the receiver copies them or reduces them into its
    own. A rank may keep several values of a chunk apart, in slots; slot 0 is the vector. If all ranks
    do the same, only the sends of one rank are stored (`symmetric`).

    Example:
        >>> swing = ringroad.Schedule.build("swing", "torus:4x4")
        >>> swing.verify()
        >>> swing.ranks, swing.steps, swing.max_sent
        (16, 8, 1.875)
    """

    @staticmethod
    def build(
        algorithm: str, topology: Topology | str | int, collective: str = "allreduce", root: int | None = None
    ) -> Schedule:
        """Builds the schedule of an algorithm on a network.

        Args:
            algorithm: The algorithm's name, such as "swing" or "generalized:2".
            topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
            collective: For example "allreduce".
            root: The root of a broadcast, reduce, gather or scatter. None: rank 0.

        Returns:
            The schedule. It is not verified; `verify` does that.

        Raises:
            ScheduleError: The algorithm is unknown, or does not perform the collective on this network. The
                message names algorithms that do.
            ValueError: The collective is unknown.
            TopologyError: The topology is malformed.

        Example:
            >>> print(ringroad.Schedule.build("binomial", 4, "broadcast"))
            binomial: broadcast (root 0) over 4 ranks, 1 chunks
            step 0: 0→2 =[0]
            step 1: 0→1 =[0] | 2→3 =[0]
        """
    @staticmethod
    def from_sends(
        name: str,
        ranks: int,
        chunks: int | None,
        sends: Sequence[tuple[int, int, int, Sequence[int], str, int, int, int]],
        locals: Sequence[tuple[int, int, Sequence[int], str, int, int]] | None = None,
        collective: str = "allreduce",
        root: int | None = None,
    ) -> Schedule:
        """Makes a schedule of messages, the opposite of `sends` and `locals`.

        `ScheduleBuilder` is more convenient by hand.

        Args:
            name: The schedule's name.
            ranks: The number of ranks.
            chunks: Into how many equal chunks the data is cut: the vector, or in an alltoall all blocks of all
                ranks. None: as few as the collective needs, one for each block.
            sends: Tuples or lists as `sends` returns them. Messages of a step that reduce into the same chunk do
                so in this order.
            locals: Tuples or lists as `locals` returns them, in the order in which ranks do them.
            collective: What the schedule is meant to perform.
            root: The root of a broadcast, reduce, gather or scatter. None: rank 0.

        Returns:
            The schedule. It is not verified. Empty steps are left out, and later ones move up.

        Raises:
            ScheduleError: A message or local operation cannot be read, is empty, names what does not exist, or
                leads from a rank to itself; or the number of chunks or the root does not fit the collective.
                The message says which one.
            ValueError: The collective is unknown, or a number is negative.

        Example:
            >>> swap = [(0, 0, 1, [0], "copy", 0, 0, 0), (0, 1, 0, [1], "copy", 0, 0, 0)]
            >>> ringroad.Schedule.from_sends("swap", 2, None, swap, collective="allgather").verify()
        """
    @staticmethod
    def from_json(text: str) -> Schedule:
        """Reads what `to_json` wrote.

        Args:
            text: The JSON.

        Returns:
            The schedule. It is not verified.

        Raises:
            ScheduleError: The text is not a schedule. The message says why.
        """
    @staticmethod
    def split(name: str, parts: Sequence[Schedule]) -> Schedule:
        """Cuts the vector into equal slices and runs a schedule on each, step by step and side by side.

        Messages from one rank to another by the same port become one.

        Args:
            name: The new schedule's name.
            parts: A schedule for each slice, all for the same collective, ranks and number of chunks.

        Returns:
            The schedule.

        Raises:
            ScheduleError: There are no parts, or they do not fit together.
        """
    def to_json(self) -> str:
        """Returns the schedule as JSON.

        Example:
            >>> ring = ringroad.Schedule.build("ring", 4)
            >>> ringroad.Schedule.from_json(ring.to_json()) == ring
            True
        """
    @staticmethod
    def from_msccl(text: str) -> Schedule:
        """Reads the XML of MSCCL, which msccl-tools, TACCL, TE-CCL and ForestColl write.

        GPUs become ranks, channels become ports, and places in buffers become slots of chunks.

        Args:
            text: The XML.

        Returns:
            The schedule. It is not verified.

        Raises:
            ScheduleError: The text is no program of MSCCL, is too large, or has something that a schedule
                cannot express. The message names the line.
        """
    _MOST_BYTES: Final[int]
    @staticmethod
    def _read(content: bytes) -> Schedule:
        """Reads the contents of a file, in any format that ringroad reads."""
    def to_msccl(self) -> str:
        """Returns the schedule as XML for MSCCL. `from_msccl` reads it back equal, but for the numbers of slots.

        Raises:
            ScheduleError: MSCCL does not have the collective: gather and scatter.

        Example:
            >>> ring = ringroad.Schedule.build("ring", 4)
            >>> ringroad.Schedule.from_msccl(ring.to_msccl()) == ring.expand()
            True
        """
    def to_mscclpp(self) -> str:
        """Returns an execution plan for MSCCL++ 0.9.0, as JSON.

        Raises:
            ScheduleError: MSCCL++ does not have the collective, or the plan would be longer than its executor
                accepts.
        """
    def to_goal(self, bytes: int, model: CostModel | None = None) -> str:
        """Returns a call as GOAL, the text that LogGOPSim reads. It has the messages that `ringroad.lab.simulate`
        simulates.

        Args:
            bytes: The length of the vector in bytes.
            model: The cost model, for the time of reductions; None: the default one.

        Raises:
            ScheduleError: The schedule is wrong.

        Example:
            >>> ringroad.Schedule.build("ring", 2, "allgather").to_goal(16).splitlines()[0]
            'num_ranks 2'
        """
    def to_chakra(self, bytes: int, model: CostModel | None = None) -> list[builtins.bytes]:
        """Returns a call as Chakra execution traces, which ASTRA-sim reads: the contents of a file for each rank.

        Args:
            bytes: The length of the vector in bytes.
            model: The cost model, for the time of reductions; None: the default one.

        Raises:
            ScheduleError: The schedule is wrong.

        Example:
            >>> len(ringroad.Schedule.build("ring", 4).to_chakra(1 << 20))
            4
        """
    def verify(self) -> None:
        """Checks that the schedule performs its collective. Counts every rank's contribution to every chunk.

        Raises:
            ScheduleError: A contribution is missing or counted twice, or the schedule is malformed. The
                message names rank, chunk and step.

        Example:
            >>> ringroad.Schedule.build("ring", 4).verify()
        """
    def reverse(self) -> Schedule:
        """Returns the same messages backwards: the last step first, receivers as senders, copies as
        reductions.

        It turns a reduce_scatter into an allgather, a broadcast into a reduce, a gather into a scatter, and
        back.

        Raises:
            ScheduleError: The reverse performs no collective, or ranks combine slots.

        Example:
            >>> ringroad.Schedule.build("ring", 4, "reduce_scatter").reverse().collective
            'allgather'
        """
    def compose(self, after: Schedule) -> Schedule:
        """Returns a schedule that runs this one and then another.

        A reduce_scatter and an allgather make an allreduce, a scatter and an allgather a broadcast, a
        reduce_scatter and a gather a reduce.

        Args:
            after: The schedule that follows; for as many ranks and chunks.

        Raises:
            ScheduleError: The two do not fit together.

        Example:
            >>> scatter = ringroad.Schedule.build("ring", 4, "reduce_scatter")
            >>> scatter.compose(scatter.reverse()).collective
            'allreduce'
        """
    def on_slice(self, index: int) -> Schedule:
        """Returns what a symmetric schedule does with one slice of the vector, as a schedule of a whole
        vector.

        Args:
            index: The slice, from 0.

        Raises:
            ScheduleError: The schedule has no such slice, or is written out.
        """
    @property
    def name(self) -> str:
        """The schedule's name, mostly that of its algorithm."""
    @property
    def collective(self) -> CollectiveName:
        """The collective that it performs, such as "allreduce"."""
    @property
    def root(self) -> int | None:
        """The root of a broadcast, reduce, gather or scatter; None for other collectives."""
    @property
    def ranks(self) -> int:
        """The number of ranks."""
    @property
    def chunks(self) -> int:
        """The number of chunks into which the data of the collective is cut: the vector, or in an alltoall all
        blocks of all ranks.
        """
    @property
    def steps(self) -> int:
        """The number of steps."""
    @property
    def ports(self) -> int:
        """The number of ports by which ranks send."""
    @property
    def max_sent(self) -> float:
        """The most that a rank sends, in units of the vector."""
    @property
    def slots(self) -> int:
        """The number of values of a chunk that a rank keeps apart; 1 in most schedules."""
    @property
    def symmetric(self) -> bool:
        """Whether the sends of one rank stand for those of all."""
    def expand(self) -> Schedule:
        """Returns the same schedule with the sends of all ranks written out."""
    def sends(self) -> list[tuple[int, int, int, list[int], Literal["copy", "reduce"], int, int, int]]:
        """Returns all messages, with those of all ranks written out.

        Returns:
            Tuples of step, source, destination, chunks, "copy" or "reduce", port, the slot that is read,
            and the slot that is written.

        Example:
            >>> ringroad.Schedule.build("ring", 2, "allgather").sends()
            [(0, 0, 1, [0], 'copy', 0, 0, 0), (0, 1, 0, [1], 'copy', 0, 0, 0)]
        """
    def locals(self) -> list[tuple[int, int, list[int], Literal["copy", "reduce"], int, int]]:
        """Returns what ranks do with their own slots at the ends of steps.

        Returns:
            Tuples of step, rank, chunks, "copy" or "reduce", the slot that is read, and the slot that is
            written.
        """
    def lower(self, rank: int, count: int, itemsize: int = 4) -> tuple[int, int]:
        """Makes the plan of one rank and returns its size.

        Args:
            rank: The rank.
            count: Elements of the whole vector (allreduce, broadcast, reduce) or of one rank's block
                (others).
            itemsize: The bytes of an element.

        Returns:
            The number of operations, and the bytes of scratch memory that they need.

        Raises:
            ScheduleError: The rank is out of range, or the plan would be too large.
        """
    @property
    def held_for_others(self) -> float:
        """In an alltoall, the most that a rank holds at once on the way from one other rank to another, in
        units of the vector; 0 for other collectives.
        """
    def df(self) -> Any:
        """Returns all messages as a pandas.DataFrame with a row for each, in the order of `sends`.

        Raises:
            ImportError: pandas is not installed.
        """
    def _repr_html_(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __str__(self) -> str: ...

@final
class CostModel:
    """Predicts how long a schedule takes on a network.

    A step takes `step_latency + hops * hop_latency + bytes / bandwidth`, with the hops of its longest
    route and the bytes of its most loaded link; a schedule takes the sum over its steps. This is the
    model of De Sensi et al., Swing, NSDI 2024 (arXiv 2401.09356), section 2.2, extended by the terms
    below. Models are values: they compare equal by their numbers, and can be pickled.

    Args:
        step_latency: Seconds to start a step (alpha); 0.5e-6 unless stated.
        message_latency: Seconds for each message of a rank in a step but the first; 0 unless stated.
        incast_latency: Seconds for each rank but the first that sends to the same port in a step;
            0.1e-6 unless stated.
        hop_latency: Seconds for each hop. None: the latencies of the topology's links.
        bandwidth: Bytes per second of every link of capacity 1. None: the bandwidths of the topology's
            links.
        reduce_cost: Seconds to reduce a byte (gamma); 0 unless stated.
        overlapped: True: a rank reduces while it receives, so that only the longer of both counts.
        cores: For ranks that share memory and take turns on this number of cores. Each message then
            costs `message_latency`, half of it the sender and half the receiver; `bandwidth` is that of
            copying; the cores share the work of all ranks, but nothing takes less time than the busiest
            rank needs.
        over_links: With `cores`: the ranks have hosts of their own, which one machine emulates. The cores
            then share messages and reductions; bytes pass links, and `bandwidth` is that of links.

    Raises:
        ValueError: A number is negative or not finite, `bandwidth` or `cores` is 0, or `over_links`
            is given without `cores`.

    Example:
        >>> model = ringroad.CostModel(step_latency=1e-6)
        >>> cost = model.cost(ringroad.Schedule.build("swing", "torus:4x4"), "torus:4x4", 1 << 20)
        >>> cost.steps, cost.seconds < 1e-3
        (8, True)
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
    def step_latency(self) -> float:
        """Seconds to start a step."""
    @property
    def hop_latency(self) -> float | None:
        """Seconds for each hop; None: the latencies of the topology's links."""
    @property
    def bandwidth(self) -> float | None:
        """Bytes per second of every link of capacity 1; None: the bandwidths of the topology's links."""
    @property
    def message_latency(self) -> float:
        """Seconds for each message of a rank in a step but the first."""
    @property
    def incast_latency(self) -> float:
        """Seconds for each rank but the first that sends to the same port in a step."""
    @property
    def reduce_cost(self) -> float:
        """Seconds to reduce a byte."""
    @property
    def overlapped(self) -> bool:
        """Whether a rank reduces while it receives."""
    @property
    def cores(self) -> int | None:
        """The number of cores on which ranks that share memory take turns; None: each has its own."""
    @property
    def over_links(self) -> bool:
        """Whether the ranks that share cores have hosts of their own, so that bytes pass links."""
    def cost(
        self, schedule: Schedule, topology: Topology | str | int, bytes: int, *, blocks: Sequence[int] | None = None
    ) -> Cost:
        """Returns the cost of a schedule on a network.

        Args:
            schedule: The schedule.
            topology: A `Topology`, a spec, or a number of ranks, which stands for a ring; with at least as
                many ranks as the schedule.
            bytes: The length of the vector in bytes.
            blocks: The lengths of the ranks' blocks, in any unit, if they differ (reduce_scatter,
                allgather, gather and scatter only). None: equal blocks.

        Returns:
            A `Cost`.

        Raises:
            ScheduleError: The schedule has more ranks than the topology, or `blocks` does not fit.
            TopologyError: The topology is malformed.

        Example:
            >>> cost = ringroad.CostModel().cost(ringroad.Schedule.build("ring", 8), "ring:8", 1 << 20)
            >>> cost.link_load, cost.bandwidth_deficiency
            (1.75, 1.75)
        """
    def explain(
        self,
        collective: str,
        topology: Topology | str | int,
        bytes: int,
        *,
        consistent: bool = True,
        schedules: Sequence[Given] = ...,
    ) -> Explanation:
        """Returns which algorithm this model chooses, why, and what all others cost.

        Args:
            collective: For example "allreduce".
            topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
            bytes: The length of the vector in bytes.
            consistent: True: choose only among algorithms that give all ranks the same bits after a sum of floats.
            schedules: Schedules of your own that compete: `Schedule` objects, or paths of their files.

        Returns:
            An `Explanation`; `print` shows it in words.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: No algorithm performs it on this network, or a schedule of your own does not.
            TopologyError: The topology is malformed.

        Example:
            >>> found = ringroad.CostModel().explain("allreduce", "torus:8x8", 1 << 20)
            >>> found.algorithm, found.runner_up
            ('bfb-ring', 'nested:1')
            >>> found.candidates[0].algorithm, found.candidates[0].ratio
            ('bfb-ring', 1.0)
        """
    def compare(
        self,
        collective: str,
        topology: Topology | str | int,
        sizes: Sequence[int],
        *,
        schedules: Sequence[Given] = ...,
    ) -> Overview:
        """Returns which algorithms this model chooses for all sizes, and explains the choice for several of them.

        Args:
            collective: For example "allreduce".
            topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
            sizes: The lengths of the vector in bytes.
            schedules: Schedules of your own that compete: `Schedule` objects, or paths of their files.

        Returns:
            An `Overview`, with what `explain` returns for each size.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: No algorithm performs it on this network, or a schedule of your own does not.
            TopologyError: The topology is malformed.

        Example:
            >>> found = ringroad.CostModel().compare("allreduce", "torus:8x8", [8, 1 << 20])
            >>> [size.algorithm for size in found.sizes]
            ['gather-sum', 'bfb-ring']
        """
    def to_csv(self, collective: str, topology: Topology | str | int, consistent: bool = True) -> str:
        """Returns the choice for every range of sizes as lines for RINGROAD_TUNER_FILE and for NCCL's tuner plugin.

        Args:
            collective: For example "allreduce".
            topology: A `Topology`, a spec, or a number of ranks, which stands for a ring. The rules hold for its
                numbers of ranks and hosts only.
            consistent: True: only algorithms that give all ranks the same bits after a sum of floats.

        Returns:
            A line of headings, and a line for each range.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: No algorithm performs it on this network.
            TopologyError: The topology is malformed.

        Example:
            >>> print(ringroad.CostModel().to_csv("broadcast", "ring:4").splitlines()[0])
            collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
        """
    def switch_points(
        self,
        collective: str,
        topology: Topology | str | int,
        consistent: bool = True,
        *,
        schedules: Sequence[Given] = ...,
    ) -> list[tuple[int, str]]:
        """Returns the algorithm that this model chooses for every range of sizes.

        Args:
            collective: For example "allreduce".
            topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
            consistent: True: only algorithms that give all ranks the same bits after a sum of floats.
            schedules: Schedules of your own that compete: `Schedule` objects, or paths of their files.

        Returns:
            Tuples of a number of bytes and the algorithm that is the fastest from there on, in ascending
            order.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: No algorithm performs it on this network, or a schedule of your own does not.
            TopologyError: The topology is malformed.

        Example:
            >>> ringroad.CostModel().switch_points("broadcast", "ring:4")[0][0]
            0
        """
    def df(self) -> Any:
        """Returns the parameters as a pandas.DataFrame with one row.

        Raises:
            ImportError: pandas is not installed.
        """
    def _repr_html_(self) -> str: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]: ...

@final
class Outcome:
    """What the native `simulate` returns, for `ringroad.lab.Simulation`."""

    def report(self) -> dict[str, Any]:
        """Returns the fields of `Simulation` that are results."""
    def link_loads(self, topology: Topology, model: CostModel) -> Any:
        """Returns the bytes of every link in every step. Empty without details.

        Args:
            topology: The network.
            model: The cost model.
        """
    def busiest_links(self, topology: Topology, model: CostModel) -> Any:
        """Returns for each step the link that needs the longest time; None if none carried anything.

        Args:
            topology: The network.
            model: The cost model.
        """
    def events(self) -> Any:
        """Returns the timeline. Empty without details."""
    def trace_json(self) -> str:
        """Returns the timeline as JSON."""
    def chrome_trace(self) -> str:
        """Returns the timeline as JSON for chrome://tracing and ui.perfetto.dev."""

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
    pace: Literal["synchronous", "free"] = "synchronous",
    forwarding: Literal["cut-through", "store-and-forward"] = "cut-through",
    skew: tuple[float, int] | None = None,
    eager: int | None = None,
    segment: int | None = None,
    details: bool = True,
) -> Outcome:
    """Runs a schedule on a model of the network. `ringroad.lab.simulate` calls it, and says what the arguments
    mean.

    Args:
        schedule: The schedule; it is verified.
        topology: The network.
        bytes: The length of the vector in bytes.
        late: Tuples of a rank and the seconds by which it enters the call late.
        slow_ranks: Tuples of a rank and how many times as long its processor takes.
        slow_links: Tuples of source, target, and the fraction of their bandwidth that the links have.
        failed_links: Pairs of source and target whose links carry nothing.
        model: The cost model; None: the default one.
        pace: "synchronous" or "free".
        forwarding: "cut-through" or "store-and-forward".
        skew: Up to how many seconds all ranks are late, and the seed of the random numbers.
        eager: Messages of more bytes are not sent before their receiver has room.
        segment: The most bytes of one message.
        details: Whether events and the loads of single steps are kept.

    Returns:
        An `Outcome`.

    Raises:
        ScheduleError: The schedule is wrong or has too many ranks.
        TopologyError: Failed links leave no path.
        ValueError: Another argument is invalid.
    """

@final
class Profile:
    """What `ringroad tune` measured on a network: times, the cost model that fits them best, and rules
    that follow.
    """

    @staticmethod
    def read(path: str | PathLike[str]) -> Profile:
        """Reads a file that `ringroad tune` wrote.

        Args:
            path: The file.

        Returns:
            The profile.

        Raises:
            ConfigError: The file cannot be read, is no profile, or has another version. Measure again.
        """
    @staticmethod
    def from_json(text: str) -> Profile:
        """Reads what `to_json` wrote.

        Args:
            text: The JSON.

        Returns:
            The profile.

        Raises:
            ConfigError: The text is no profile, or has another version.
        """
    def to_json(self) -> str:
        """Returns the profile as JSON, as it is in files."""
    def to_csv(self) -> str:
        """Returns the rules as lines for RINGROAD_TUNER_FILE and for NCCL's tuner plugin."""
    def explain(self, collective: str, bytes: int, *, consistent: bool = True) -> Explanation:
        """Returns which algorithm a communicator on this network chooses, and why.

        Args:
            collective: For example "allreduce".
            bytes: The length of the vector in bytes.
            consistent: True: choose only among algorithms that give all ranks the same bits after a sum of floats.

        Returns:
            An `Explanation`; `print` shows it in words.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: No algorithm performs it on this network.
        """
    def compare(self, collective: str, sizes: Sequence[int]) -> Overview:
        """Returns what a communicator on this network chooses for all sizes, and explains the choice for some of them.

        Args:
            collective: For example "allreduce".
            sizes: The lengths of the vector in bytes.

        Returns:
            An `Overview`, with what `explain` returns for each size.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: No algorithm performs it on this network.
        """
    def switch_points(self, collective: str = "allreduce", consistent: bool = True) -> list[tuple[int, str]]:
        """Returns the algorithm of every range of sizes.

        Args:
            collective: For example "allreduce".
            consistent: True: only algorithms that give all ranks the same bits after a sum of floats.

        Returns:
            Tuples of a number of bytes and the algorithm that is used from there on, in ascending order.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: No algorithm performs it on this network.
        """
    @property
    def topology(self) -> str:
        """The spec of the network."""
    @property
    def place(self) -> str:
        """The network, the transport and the machines, in words."""
    @property
    def file_name(self) -> str:
        """The file name under which communicators look for the profile of this network and these machines."""
    @property
    def model(self) -> CostModel:
        """The `CostModel` that fits the measurements best."""
    @property
    def errors(self) -> tuple[float, float, float]:
        """How far the model is from the measured times, as fractions of these: the median, nine tenths, and
        the worst.
        """
    @property
    def rules(self) -> list[tuple[CollectiveName, int, int, str]]:
        """Tuples of a collective, the smallest and the largest number of bytes, and the algorithm that was
        measured to be the fastest.
        """
    @property
    def measurements(self) -> list[tuple[CollectiveName, str, int, float]]:
        """Tuples of a collective, an algorithm, a number of bytes, and seconds."""

# ------------------------------------------------------------------------------------------------ running

class Store(Protocol):
    """A key-value store that all ranks can reach, such as torch's TCPStore.

    `get` returns None or raises KeyError if there is no such key. It need not if the store has torch's method `check`.
    """

    def set(self, key: str, value: bytes, /) -> object: ...
    def get(self, key: str, /) -> bytes | None: ...

@final
class MemoryStore:
    """A store for ranks that are threads of one process. All of them pass the same object.

    Example:
        >>> store = ringroad.MemoryStore()
        >>> with ringroad.Communicator(store, rank=0, size=1) as comm:
        ...     comm.size
        1
    """

    def __new__(cls) -> MemoryStore: ...

@final
class FileStore:
    """A store in a directory that all ranks can reach. Use a new directory for every job.

    Args:
        path: The directory. It is made if it does not exist.

    Raises:
        StoreError: The directory cannot be made or used. The message says why.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = ringroad.FileStore(folder)
        ...     with ringroad.Communicator(store, rank=0, size=1) as comm:
        ...         comm.size
        1
    """

    def __new__(cls, path: str | PathLike[str]) -> FileStore: ...

@final
class RollCall:
    """The ranks of a job that come in time, and what they tell each other.

    Args:
        store: Where they meet.
        rank: The number of this rank.
        size: The number of ranks.
        timeout: Seconds that rank 0 waits for the others.
        word: What this rank says when it comes.

    Raises:
        TimeoutError: Rank 0 does not come in time.
        StoreError: The store fails.
    """

    def __new__(
        cls, store: Store | MemoryStore | FileStore | TcpStore, rank: int, size: int, timeout: float, word: str
    ) -> RollCall: ...
    @property
    def words(self) -> list[str | None]:
        """What each rank said, by rank; None of those that did not come."""
    def tell(self, kind: str, text: str) -> None:
        """Publishes a text of this rank under a name.

        Args:
            kind: The name.
            text: The text.
        """
    def look(self, kind: str, rank: int) -> str | None:
        """Returns the text that a rank has published under a name, or None.

        Args:
            kind: The name.
            rank: The rank that published it.
        """

@final
class TcpStore:
    """A store in the process of rank 0, which the other ranks reach over TCP. Its server runs until rank 0's
    process ends.

    `ringroad.init` makes it from RINGROAD_STORE, or from what the launcher says.

    Args:
        host: Rank 0's host, as a name or an address. If it is loopback, only processes of this machine
            reach the store.
        port: A free port there; or a sequence of ports, of which rank 0 takes the first one that is free.
        rank: The number of this rank. Rank 0 serves, the others connect.
        job: Any text that only ranks of this job have, so that they meet no others.
        timeout: Seconds within which rank 0 must be found. None: RINGROAD_TIMEOUT, or 300.
        settings: Values of RINGROAD_* variables, by name, as for `Communicator`. Whoever connects must
            have the same RINGROAD_SECRET.

    Raises:
        TimeoutError: Rank 0 was not found in time. The message names host and port.
        StoreError: The port belongs to another process, or the secrets differ.
        ValueError: `port` is 0 or empty, or `timeout` or a setting is invalid.
        TypeError: `port` is neither a port nor a sequence of ports.
        ConfigError: A setting has a value that cannot be used.
    """

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
    def set(self, key: str, value: bytes) -> None:
        """Stores a value for all ranks.

        Args:
            key: Its name. Keys of ringroad's own begin with "ringroad".
            value: The bytes. They replace an earlier value.

        Raises:
            StoreError: Rank 0's process cannot be reached.
        """
    def get(self, key: str) -> bytes | None:
        """Returns the value of a key at once.

        Args:
            key: The name of the value.

        Returns:
            The bytes, or None if no rank has stored a value.

        Raises:
            StoreError: Rank 0's process cannot be reached.
        """

@final
class Work(Generic[_Result_co]):
    """An asynchronous call: what a call with `async_op=True` returns.

    Keep the arrays of the call as they are until it is complete. The call goes on even if the `Work` is
    dropped.

    Example:
        >>> a, b = ringroad.Communicator.in_process(2)
        >>> work = a.allreduce(np.array([1.0]), async_op=True)
        >>> other = b.allreduce(np.array([2.0]), async_op=True)
        >>> work.result(), other.result()
        (array([3.]), array([3.]))
    """

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the call is complete.

        Args:
            timeout: Seconds to wait. None: until the call's own deadline.

        Returns:
            True.

        Raises:
            TimeoutError: The call is not complete after `timeout` seconds; it goes on until its own
                deadline, and can be waited for again. Or its own deadline has passed.
            ValueError: `timeout` is not above 0.
            RingroadError: The call failed; this is what a blocking call would have raised.
        """
    def is_completed(self) -> bool:
        """Returns whether the call has ended, with or without success. Does not block."""
    def is_success(self) -> bool:
        """Returns whether the call has ended with success. Does not block."""
    def exception(self) -> Exception | None:
        """Returns the error with which the call failed; None if it succeeded or has not ended. Does not block."""
    def result(self) -> _Result_co:
        """Waits until the call is complete and returns its result.

        Returns:
            What the blocking call would have returned: an array, or None.

        Raises:
            RingroadError: The call failed; this is what a blocking call would have raised.
        """
    def on_complete(self, callback: Callable[[Exception | None], object]) -> None:
        """Calls a function once when the call ends.

        The function runs on a thread that is only for such functions, or at once if the call has ended
        already. It may wait for other calls. While one function takes long, those of other calls run on
        other threads.

        Args:
            callback: It is passed None, or the error with which the call failed. What it returns is
                ignored; what it raises is reported by `sys.unraisablehook`.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> work = alone.barrier(async_op=True)
            >>> work.wait()
            True
            >>> work.on_complete(lambda error: print("failed" if error else "done"))
            done
        """
    @property
    def source(self) -> int | None:
        """The rank that sent the message of a `recv`. None for other calls, and until a `recv` from any rank
        has a message.
        """
    @property
    def algorithm(self) -> str:
        """The name of the algorithm that the call runs."""
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class PreparedCall:
    """A collective on certain arrays that is prepared once and started often: what `Communicator.prepare`
    returns.

    Every start reads the arrays' values of that moment and writes the same output. All ranks start it
    together, or make the same call in the usual way.

    Example:
        >>> a, b = ringroad.Communicator.in_process(2)
        >>> x, y = np.zeros(2), np.zeros(2)
        >>> calls = a.prepare("allreduce", x, x), b.prepare("allreduce", y, y)
        >>> for step in range(3):
        ...     x.fill(step)
        ...     y.fill(10 * step)
        ...     works = [call.start() for call in calls]
        ...     results = [work.result() for work in works]
        >>> x
        array([22., 22.])
    """

    def start(self) -> Work[NDArray[Any] | None]:
        """Starts the call.

        Returns:
            A `Work`, as a call with `async_op=True` returns it.

        Raises:
            ValueError: The last start has not ended, or another thread runs the call.
            AbortedError: The communicator failed, was aborted or was closed.
        """
    def run(self) -> NDArray[Any] | None:
        """Makes the call and waits for its end.

        Returns:
            The output; None on ranks that have none.

        Raises:
            ValueError: A start has not ended, or another thread runs the call.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.
        """
    @property
    def algorithm(self) -> str:
        """The name of the algorithm that the call runs."""

@final
class Communicator:
    """A group of `size` processes that call collectives together, all of them in the same order.

    Arrays are NumPy arrays of float16, float32, float64, bfloat16 (of ml_dtypes), int8 to int64, uint8 to
    uint64, bool, complex64 or complex128. Blocks of arrays lie along the first axis. An input may also be
    a number, a list, or whatever else `numpy.asarray` takes; if it is not C-contiguous, a copy is sent.
    Results are always arrays, of no dimension where the input was a number. An array that is written to,
    as `out` or in place, is C-contiguous.

    Use a communicator in a `with` block, or `close` it.

    A call that is refused (TypeError, ValueError, ScheduleError) sends nothing and changes nothing.
    After MismatchError, TimeoutError, PeerError and AbortedError the communicator cannot be used any
    more on any rank: call `shrink`, or make a new one.

    `ringroad.init` makes the communicator of a job. The constructor is for programs that know rank,
    size and store themselves. It is collective: every rank calls it.

    Args:
        store: Where the ranks find each other: a `FileStore`, a `TcpStore`, a `MemoryStore`, or a store
            of torch.distributed; the same for all ranks.
        rank: The number of this rank, from 0 to `size - 1`.
        size: The number of ranks.
        timeout: Seconds within which all ranks must come; also the default of every later call. None:
            RINGROAD_TIMEOUT, or 300.
        topology: The network, as a `Topology` or a spec such as "torus:4x4". None: RINGROAD_TOPOLOGY,
            or what is detected. Rank 0's value counts.
        algorithm: The algorithms to choose among, as in RINGROAD_ALGO: "ring,swing" or "^bucket". None:
            RINGROAD_ALGO, or all. Rank 0's value counts.
        deterministic: "size-invariant": floats are added in the same order for every vector length.
            None: RINGROAD_DETERMINISTIC. Rank 0's value counts.
        settings: Values of RINGROAD_* variables for this communicator, by name. They override the
            environment. `ringroad info` lists all variables.
        name: The communicator's name in messages; the same on all ranks.
        ucx_wheel: The path of a `libucp.so.0` to use where the system has no UCX.
        members: The ranks of a job that are ranks 0, 1 and so on here, if these are a part of the job:
            RINGROAD_TOPOLOGY, which describes the job, then counts with its `Topology.induced(members)`.

    Raises:
        ConfigError: A setting has a value that cannot be used, or `algorithm` names an unknown one.
        ValueError: `rank`, `size`, `timeout` or `deterministic` is invalid, or `settings` names a
            variable that does not exist.
        TypeError: `store` has no methods `set` and `get`.
        TopologyError: The topology is malformed, or has another number of ranks.
        ScheduleError: None of the algorithms can run here.
        TimeoutError: Ranks did not come in time. The message names them.
        PeerError: A rank died or gave up meanwhile. The message names it.
        StoreError: The store failed.
        TransportError: UCX is needed and missing, or the network failed.

    Example:
        >>> with ringroad.Communicator(ringroad.MemoryStore(), rank=0, size=1) as comm:
        ...     comm.allreduce(np.array([1, 2]))
        array([1, 2])
    """

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
        ucx_wheel: str | PathLike[str] | None = None,
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
    ) -> list[Communicator]:
        """Makes the communicators of `size` ranks that are threads of this process, for tests and notebooks.

        Args:
            size: The number of ranks.
            timeout: The default of every call, in seconds. None: RINGROAD_TIMEOUT, or 300.
            topology: The network, as for `Communicator`.
            algorithm: The algorithms to choose among, as for `Communicator`.
            deterministic: "size-invariant" or None, as for `Communicator`.

        Returns:
            A communicator for each rank. Use each in a thread of its own, or make calls with
            `async_op=True`.

        Raises:
            ValueError: `size` or another argument is invalid.
            ConfigError: A RINGROAD_* variable has a value that cannot be used, or `algorithm` names an
                unknown one.
            TopologyError: The topology is malformed, or has another number of ranks.
            ScheduleError: None of the algorithms can run here.

        Example:
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> comms = ringroad.Communicator.in_process(3)
            >>> with ThreadPoolExecutor(3) as pool:
            ...     [int(total) for total in pool.map(lambda comm: comm.allreduce(np.array(comm.rank)), comms)]
            [3, 3, 3]
        """
    @property
    def rank(self) -> int:
        """The number of this rank, from 0 to `size - 1`."""
    @property
    def size(self) -> int:
        """The number of ranks."""
    @property
    def name(self) -> str:
        """The communicator's name, as messages have it."""
    @property
    def meeting(self) -> str:
        """16 hexadecimal digits, the same on all ranks, by which this communicator differs from all others of
        its name.
        """
    @property
    def timeout(self) -> float:
        """Seconds after which a call fails that states no `timeout` of its own."""
    @property
    def topology(self) -> str:
        """The spec of the network, such as "torus:4x4", as rank 0 was told or has detected it."""
    @property
    def network(self) -> NetworkView:
        """The network as the ranks see it now, a `ringroad._network.NetworkView`: its topology, where that comes
        from, how a name that was given differs from it, and what has changed since the communicator was
        made.
        """
    @property
    def has_switches(self) -> bool:
        """Whether switches or hosts' memories join the ranks. If not, ranks pass on messages that go farther
        than to a neighbour.
        """
    @property
    def transport(self) -> Transport:
        """What carries the bytes, a `ringroad._network.Transport`. As text it is for example `shared memory` or
        `ucx 1.22.0 (cma, posix, tcp; devices eth0)`.
        """
    @property
    def hosts(self) -> list[str]:
        """The name of each rank's host, by rank."""
    @overload
    def empty(self, shape: int | tuple[int, ...], dtype: None = None) -> NDArray[np.float64]:
        """Makes an array, of any content, in memory that the other ranks of this host can read.

        Use it like `numpy.empty`. Collectives copy less if their arrays are such: other ranks reduce
        straight out of `send`, and read a long result from where it was computed. The memory is freed with
        the array; some of it stays reserved for the next arrays. A forked child shares it.

        Args:
            shape: The lengths of the axes, or one number.
            dtype: Anything that `numpy.dtype` takes; float64 unless stated.

        Returns:
            A NumPy array.

        Raises:
            MemoryError: There is not enough shared memory left. The message says how much was needed.
            ValueError: `shape` is invalid.
            TypeError: `dtype` is invalid.
            AbortedError: This process was forked from the one that made the communicator.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> array = alone.empty((2, 3), np.float32)
            >>> array.shape, str(array.dtype)
            ((2, 3), 'float32')
        """
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
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]:
        """Reduces an array over all ranks, element by element. Every rank gets the whole result.

        After a sum of floats all ranks hold the same bits, unless `algorithm` names one that is not
        `consistent`.

        Args:
            send: This rank's contribution; the same shape and dtype on all ranks.
            out: An array for the result, of the shape and dtype of `send`. `send` itself: in place. None: a
                new array.
            op: "sum", "product", "min", "max", "avg", "premul_sum", "band", "bor" or "bxor". Complex arrays
                have no "min" and "max". "avg" and "premul_sum" are for floats and complex numbers only, the
                bitwise operations for integers and bool only.
            factor: This rank's array is multiplied by it before the sum. "premul_sum" needs it; no other
                operation takes it. Ranks may pass different factors.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            `out`, or the new array. With `async_op=True` a `Work` whose `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            Two ranks in one process; the first call does not block, since nobody else would make the second.

            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.allreduce(np.array([1.0, 2.0]), async_op=True)
            >>> b.allreduce(np.array([10.0, 20.0]))
            array([11., 22.])
            >>> work.result()
            array([11., 22.])
        """
    @overload
    def allreduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[True],
    ) -> Work[NDArray[_Scalar]]: ...
    @overload
    def allreduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
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
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]:
        """Reduces an array over all ranks. Each rank gets one block of the result.

        Args:
            send: `size` blocks along the first axis; the same shape and dtype on all ranks. With `counts` it has
                `sum(counts)` rows.
            out: An array for the result: the shape of this rank's block, the dtype of `send`. This rank's block
                of `send` itself: in place. None: a new array.
            counts: The number of rows (entries of the first axis) of each rank's block; the same on all ranks.
                None: blocks of equal length.
            op: "sum", "product", "min", "max", "avg", "premul_sum", "band", "bor" or "bxor". Complex arrays
                have no "min" and "max". "avg" and "premul_sum" are for floats and complex numbers only, the
                bitwise operations for integers and bool only.
            factor: This rank's array is multiplied by it before the sum. "premul_sum" needs it; no other
                operation takes it. Ranks may pass different factors.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            Block `rank` of the reduced array. With `async_op=True` a `Work` whose `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.reduce_scatter(np.array([1, 2, 3, 4]), async_op=True)
            >>> b.reduce_scatter(np.array([10, 20, 30, 40]))
            array([33, 44])
            >>> work.result()
            array([11, 22])
            >>> work = a.reduce_scatter(np.array([1, 2, 3]), counts=[1, 2], async_op=True)
            >>> b.reduce_scatter(np.array([10, 20, 30]), counts=[1, 2])
            array([22, 33])
        """
    @overload
    def reduce_scatter(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: Sequence[int] | None = None,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
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
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
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
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]:
        """Concatenates the arrays of all ranks. Every rank gets the whole result.

        Args:
            send: This rank's block; the same shape and dtype on all ranks. With `counts` it has `counts[rank]`
                rows.
            out: An array for the result: all blocks along the first axis, the dtype of `send`. `send` may be this
                rank's block of it: in place. None: a new array.
            counts: The number of rows (entries of the first axis) of each rank's block; the same on all ranks.
                None: blocks of equal length.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            The blocks along the first axis, that of rank 0 first. Arrays of no dimension become a vector of
            `size` elements. With `async_op=True` a `Work` whose `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.allgather(np.array([1, 2]), async_op=True)
            >>> b.allgather(np.array([10, 20]))
            array([ 1,  2, 10, 20])
            >>> work = a.allgather(np.array([1, 2, 3]), counts=[3, 1], async_op=True)
            >>> b.allgather(np.array([10]), counts=[3, 1])
            array([ 1,  2,  3, 10])
        """
    @overload
    def allgather(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: Sequence[int] | None = None,
        algorithm: By = None,
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
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]:
        """Sends a block from every rank to every rank.

        Args:
            send: `size` blocks along the first axis, block `r` for rank `r`; the same dtype on all ranks. Without
                `counts` all ranks pass the same shape.
            out: An array for the result, of as many rows as this rank receives and the dtype of `send`. `send`
                itself: in place, only without `counts`. None: a new array.
            counts: `counts[s][t]` is the number of rows (entries of the first axis) that rank `s` sends to rank
                `t`; shape `(size, size)`, the same on all ranks. None: blocks of equal length.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            `size` blocks along the first axis; block `r` came from rank `r`. With `async_op=True` a `Work`
            whose `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.alltoall(np.array([1, 2]), async_op=True)
            >>> b.alltoall(np.array([10, 20]))
            array([ 2, 20])
            >>> work.result()
            array([ 1, 10])
            >>> counts = [[1, 2], [0, 1]]
            >>> work = a.alltoall(np.array([1, 2, 3]), counts=counts, async_op=True)
            >>> b.alltoall(np.array([10]), counts=counts)
            array([ 2,  3, 10])
        """
    @overload
    def alltoall(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        counts: ArrayLike | None = None,
        algorithm: By = None,
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
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]:
        """Copies the array of one rank to all ranks, in place.

        Args:
            array: At the root, what is sent; elsewhere it is overwritten. The same shape and dtype on all
                ranks.
            root: The rank that sends.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            `array`. With `async_op=True` a `Work` whose `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.broadcast(np.array([1, 2]), async_op=True)
            >>> b.broadcast(np.zeros(2, int))
            array([1, 2])
            >>> work.wait()
            True
        """
    @overload
    def broadcast(
        self,
        array: NDArray[_Scalar],
        root: int = 0,
        *,
        algorithm: By = None,
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
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar] | None:
        """Reduces an array over all ranks, element by element. One rank gets the result.

        Args:
            send: This rank's contribution; the same shape and dtype on all ranks.
            out: At the root, an array for the result, of the shape and dtype of `send`. `send` itself: in
                place. None: a new array. Other ranks need none.
            root: The rank that gets the result.
            op: "sum", "product", "min", "max", "avg", "premul_sum", "band", "bor" or "bxor". Complex arrays
                have no "min" and "max". "avg" and "premul_sum" are for floats and complex numbers only, the
                bitwise operations for integers and bool only.
            factor: This rank's array is multiplied by it before the sum. "premul_sum" needs it; no other
                operation takes it. Ranks may pass different factors.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            The reduced array at the root, None on other ranks. With `async_op=True` a `Work` whose
            `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = b.reduce(np.array([10, 20]), async_op=True)
            >>> a.reduce(np.array([1, 2]))
            array([11, 22])
            >>> work.result() is None
            True
        """
    @overload
    def reduce(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        root: int = 0,
        *,
        op: Op = "sum",
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
        op: Op = "sum",
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
    ) -> NDArray[_Scalar] | None:
        """Concatenates the arrays of all ranks. One rank gets the result.

        Args:
            send: This rank's block; the same shape and dtype on all ranks. With `counts` it has `counts[rank]`
                rows.
            out: At the root, an array for the result: all blocks along the first axis, the dtype of `send`.
                `send` may be this rank's block of it: in place. None: a new array. Other ranks need none.
            root: The rank that gets the result.
            counts: The number of rows (entries of the first axis) of each rank's block; the same on all ranks.
                None: blocks of equal length.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            At the root the blocks along the first axis, that of rank 0 first; None on other ranks. With
            `async_op=True` a `Work` whose `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = b.gather(np.array([10, 20]), async_op=True)
            >>> a.gather(np.array([1, 2]))
            array([ 1,  2, 10, 20])
            >>> work = b.gather(np.array([10]), counts=[3, 1], async_op=True)
            >>> a.gather(np.array([1, 2, 3]), counts=[3, 1])
            array([ 1,  2,  3, 10])
        """
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
    ) -> NDArray[_Scalar]:
        """Sends each rank one block of an array that one rank has.

        Args:
            send: At the root, `size` blocks along the first axis, block `r` for rank `r`; with `counts` they have
                `sum(counts)` rows. Other ranks pass None.
            out: An array for this rank's block; with `counts` it has `counts[rank]` rows. This rank's block of
                `send` itself: in place. The root may pass None for a new array; other ranks must pass an array,
                since only the root knows the shape.
            root: The rank that sends.
            counts: The number of rows (entries of the first axis) of each rank's block; the same on all ranks.
                None: blocks of equal length.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            This rank's block. With `async_op=True` a `Work` whose `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.scatter(np.array([1, 2, 3, 4]), async_op=True)
            >>> b.scatter(None, np.zeros(2, int))
            array([3, 4])
            >>> work.result()
            array([1, 2])
            >>> work = a.scatter(np.array([1, 2, 3, 4]), counts=[3, 1], async_op=True)
            >>> b.scatter(None, np.zeros(1, int), counts=[3, 1])
            array([4])
        """
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
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]:
        """Reduces an array over the ranks up to this one, element by element (an inclusive prefix sum).

        By the same algorithm, floats are added in the same order in every run.

        Args:
            send: This rank's contribution; the same shape and dtype on all ranks.
            out: An array for the result, of the shape and dtype of `send`. `send` itself: in place. None: a
                new array.
            op: "sum", "product", "min", "max", "premul_sum", "band", "bor" or "bxor". Complex arrays have no
                "min" and "max". "premul_sum" is for floats and complex numbers only, the bitwise operations for
                integers and bool only.
            factor: This rank's array is multiplied by it before the sum. "premul_sum" needs it; no other
                operation takes it. Ranks may pass different factors.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            The reduction of the arrays of ranks 0 to `rank`. With `async_op=True` a `Work` whose `result()`
            returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.scan(np.array([1, 2]), async_op=True)
            >>> b.scan(np.array([10, 20]))
            array([11, 22])
            >>> work.result()
            array([1, 2])
        """
    @overload
    def scan(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: Op = "sum",
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
        op: Op = "sum",
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
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar] | None:
        """Reduces an array over the ranks before this one, element by element (an exclusive prefix sum).

        By the same algorithm, floats are added in the same order in every run.

        Args:
            send: This rank's contribution; the same shape and dtype on all ranks.
            out: An array for the result, of the shape and dtype of `send`. `send` itself: in place. None: a
                new array. Rank 0 needs none, and its `out` stays as it is.
            op: "sum", "product", "min", "max", "premul_sum", "band", "bor" or "bxor". Complex arrays have no
                "min" and "max". "premul_sum" is for floats and complex numbers only, the bitwise operations for
                integers and bool only.
            factor: This rank's array is multiplied by it before the sum. "premul_sum" needs it; no other
                operation takes it. Ranks may pass different factors.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            The reduction of the arrays of ranks 0 to `rank - 1`; None on rank 0. With `async_op=True` a `Work`
            whose `result()` returns it.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            Where each rank's rows begin in a common file:

            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.exscan(300, async_op=True)
            >>> b.exscan(200)
            array(300)
            >>> work.result() is None
            True
        """
    @overload
    def exscan(
        self,
        send: NDArray[_Scalar] | _Plain,
        out: NDArray[_Scalar] | None = None,
        *,
        op: Op = "sum",
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
        op: Op = "sum",
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
    ) -> None:
        """Sends an array to one rank, which receives it with `recv`.

        The receiver's array has the same dtype and as many elements; its shape does not count.

        The call completes when the array may be used again. A message of 2 MiB or more is not sent before
        its receiver has called `recv`.

        Args:
            array: What is sent.
            peer: The rank that receives; not this one.
            tag: From 0 to 2**28 - 1; a `recv` takes messages of its own tag only.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            None. With `async_op=True` a `Work`.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> a.send(np.array([1, 2]), peer=1)
            >>> b.recv(np.zeros(2, int), peer=0)
            array([1, 2])
        """
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
        out: NDArray[_Scalar],
        peer: int | None = None,
        tag: int = 0,
        *,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> NDArray[_Scalar]:
        """Receives an array that another rank has sent with `send`.

        Args:
            out: Where the message is written. It has the dtype of the array that is sent and as many elements; its
                shape does not count.
            peer: The rank that sends. None: any rank; the first message with this tag is received.
            tag: From 0 to 2**28 - 1, as the sender passed it.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            `out`. With `async_op=True` a `Work` whose `result()` returns it; its `source` is the rank that
            sent.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = b.recv(np.zeros(2, int), async_op=True)
            >>> a.send(np.array([1, 2]), peer=1)
            >>> work.result(), work.source
            (array([1, 2]), 0)
        """
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
    def barrier(
        self,
        *,
        timeout: float | None = None,
        async_op: Literal[False] = False,
    ) -> None:
        """Waits until all ranks have called it.

        Args:
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.
            async_op: True: return a `Work` at once instead of waiting. Until the work is complete, do not write to
                any array of the call, and do not read its result.

        Returns:
            None. With `async_op=True` a `Work`.

        Raises:
            ValueError: `timeout` is not above 0.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> work = a.barrier(async_op=True)
            >>> b.barrier()
            >>> work.wait()
            True
        """
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
    def _discover(self, budget: float, timeout: float | None) -> str:
        """What `ringroad.discover` returns, as JSON."""
    def _part(self, ranks: Sequence[int]) -> Topology | None:
        """The part on which these ranks stand of the network that was given or found out. None if none was, or if it
        cannot be made; then the first of the ranks says so on stderr.
        """
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
    def algorithm_for(self, collective: str, bytes: int, *, dtype: str = "float32", op: Op = "sum") -> str:
        """Returns the name of the algorithm that a call runs. Sends nothing.

        Args:
            collective: For example "allreduce".
            bytes: The length of the whole vector in bytes: of `send` for an allreduce, of all ranks' blocks
                together for a collective with blocks.
            dtype: The elements' type, such as "float32".
            op: The reduction. It matters, like `dtype`, because sums of floats depend on the order.

        Returns:
            The algorithm's name, such as "ring" or "generalized:2".

        Raises:
            ValueError: A name is unknown; the message lists the known ones.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> alone.algorithm_for("allreduce", 1 << 20) == alone.explain("allreduce", 1 << 20).algorithm
            True
        """
    def explain(self, collective: str, bytes: int, *, dtype: str = "float32", op: Op = "sum") -> Explanation:
        """Explains why a call runs the algorithm that it runs. Sends nothing.

        It computes the costs of all candidates, which takes seconds on networks of thousands of ranks: do
        not call it before every collective.

        Args:
            collective: For example "allreduce".
            bytes: The length of the whole vector in bytes.
            dtype: The elements' type, such as "float32".
            op: The reduction.

        Returns:
            An `Explanation`; `print` shows it in words.

        Raises:
            ValueError: A name is unknown; the message lists the known ones.
            ScheduleError: No algorithm performs the collective on this network.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2, topology="ring:2")
            >>> found = a.explain("allreduce", 1 << 20)
            >>> found.algorithm == a.algorithm_for("allreduce", 1 << 20)
            True
        """
    @property
    def model(self) -> CostModel:
        """The `CostModel` with which rank 0 chose the algorithms: its own, or that of the profile it read."""
    @property
    def segment(self) -> int:
        """The most bytes that one message over a network has; longer ones are cut."""
    @property
    def profile(self) -> str | None:
        """The path of the profile (see `ringroad tune`) that rank 0 read; None if it found none."""
    def contestants(self, collective: str = "allreduce") -> list[str]:
        """Returns the algorithms among which the choice for floats is made.

        Of algorithms that cost the same, only the first in the catalogue is in the list.

        Args:
            collective: For example "allreduce".

        Returns:
            The algorithms' names.

        Raises:
            ValueError: The collective is unknown.
            ScheduleError: No algorithm performs it on this network.
        """
    def calibrate(self, measurements: Sequence[tuple[str, str, int, float]]) -> Profile:
        """Makes a profile of this network and these machines from measured times.

        Fits the cost model to the measurements. `ringroad tune` measures and calls this.

        Args:
            measurements: Tuples of a collective, an algorithm, the vector's bytes, and seconds.

        Returns:
            A `Profile`.

        Raises:
            ValueError: A collective is unknown.
            ScheduleError: An algorithm is unknown, or does not run on this network.
            ConfigError: There are no measurements, or a time is not above 0.
        """
    def switch_points(self, collective: str = "allreduce") -> list[tuple[int, str]]:
        """Returns the algorithm of every range of sizes, for floats.

        Args:
            collective: For example "allreduce".

        Returns:
            Tuples of a number of bytes and the algorithm that is used from there on, in ascending order.

        Raises:
            ValueError: The collective is unknown.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> points = a.switch_points("allreduce")
            >>> points[0] == (0, a.algorithm_for("allreduce", 0))
            True
        """
    @property
    def handles(self) -> list[str | None]:
        """The handles of the ranks' processes, by rank: `ringroad.regroup` finds the processes by them.

        None stands for a rank that cannot listen on a port, and for ranks that are threads of one process.
        """
    def agree(self, flag: bool, *, timeout: float | None = None) -> bool:
        """Asks all ranks that are left whether all of them say yes. All get the same answer.

        All ranks that are left call it, equally often. The answer is the same even if ranks die meanwhile.
        It also works after failures and aborts. The algorithm is single-decree Paxos (Lamport, The
        part-time parliament, ACM TOCS 16(2), 1998), in which every rank that is left must accept.

        Args:
            flag: Whether this rank says yes.
            timeout: Seconds to wait for the others. None: the communicator's `timeout`.

        Returns:
            True if every rank that is left passed True.

        Raises:
            TimeoutError: A rank runs but does not call this. The message names it.
            AbortedError: The others took this rank for dead, since it had not answered for seconds; it
                should end.
            TransportError: A rank cannot listen on a port, so that the others cannot reach it.
            ValueError: The ranks are threads of one process: they are lost together.
        """
    def survivors(self, *, timeout: float | None = None) -> list[int]:
        """Returns the ranks that are left, as all of them agree. All of them call it, like `agree`.

        Args:
            timeout: Seconds to wait for the others. None: the communicator's `timeout`.

        Returns:
            The ranks that are left, in ascending order; the same list on all of them.

        Raises:
            TimeoutError: A rank runs but does not call this. The message names it.
            AbortedError: The others took this rank for dead, since it had not answered for seconds; it
                should end.
            TransportError: A rank cannot listen on a port, so that the others cannot reach it.
            ValueError: The ranks are threads of one process: they are lost together.
        """
    def shrink(self, *, timeout: float | None = None, quorum: int | Literal["majority"] | None = None) -> Communicator:
        """Makes a communicator of the ranks that are left, in the same order.

        All of them call it, usually after a PeerError. Neither the store nor any particular rank has to be
        there still. This communicator cannot be used afterwards. Of a topology that was given, the part on
        which the ranks stand is kept.

        A rank counts as lost if its process has ended, or if it has not answered for 6 seconds while this rank
        was awake. If the time is up before all others have come, nothing is decided, and all can call it again.

        Args:
            timeout: Seconds to wait for the others. None: the communicator's `timeout`.
            quorum: The fewest ranks that may go on, or "majority": more than half of this communicator's. With
                a majority, at most one part of a network that was cut goes on. None: any number.

        Returns:
            The new communicator.

        Raises:
            TimeoutError: A rank runs but does not call this. The message names it.
            AbortedError: The others took this rank for dead, since it had not answered for seconds, or fewer
                ranks are left than the quorum. This process should end.
            TransportError: A rank cannot listen on a port, or the network failed.
            ValueError: The ranks are threads of one process: they are lost together. Or the quorum makes no
                sense.

        Example:
            A training loop that goes on when a rank is lost::

                try:
                    comm.allreduce(gradient, out=gradient)
                except ringroad.PeerError:
                    comm = comm.shrink()
        """
    def abort(self, reason: str = "") -> None:
        """Fails every call in flight on every rank. The communicator cannot be used afterwards.

        Args:
            reason: Why, for the others' messages.

        Raises:
            AbortedError: This process is a forked child, which cannot end its parent's calls.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> alone.abort("the input is corrupt")
            >>> try:
            ...     alone.barrier()
            ... except ringroad.AbortedError as error:
            ...     print("the input is corrupt" in str(error))
            True
        """
    def lost(self) -> list[tuple[int, str]]:
        """Returns the ranks that are known to have died.

        A death on this host is noticed soon; one on another host is noticed when a connection breaks. Ranks
        that only gave up or closed are not listed. It works after a failure, too.

        Returns:
            Tuples of a rank and how its death is known, in words.

        Raises:
            AbortedError: This process was forked from the one that made the communicator.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> alone.lost()
            []
        """
    @overload
    def split(
        self,
        color: int,
        key: int = 0,
        *,
        topology: str | Topology | None = None,
        timeout: float | None = None,
    ) -> Communicator:
        """Divides the ranks among new communicators: those that pass the same colour form one.

        It is collective: all ranks call it. The new communicators have connections of their own. They go on
        when this one is closed or fails, and this one when they do; a rank that dies is lost to all that it
        belongs to.

        Args:
            color: A whole number from 0 on. None: this rank joins no new communicator.
            key: Ranks are numbered by their keys, equal keys by their ranks here.
            topology: The network of the new communicator, as for `Communicator`; its rank 0's value counts.
                None: the part of this communicator's network on which the ranks stand, if that was given
                (see `Topology.induced`), or what is detected.
            timeout: Seconds to wait for the others. None: the communicator's `timeout`.

        Returns:
            The new communicator, with this one's settings and `timeout`. Its name is this one's name, the
            number of the split, and the colour: `world.0.1`. None without a colour.

        Raises:
            ValueError: `color` is negative.
            TopologyError: `topology` is malformed, or has another number of ranks.
            ScheduleError: None of the algorithms of this communicator's `algorithm` can run there.
            TimeoutError: Ranks did not come in time. The message names them.
            PeerError: A rank died or gave up meanwhile. The message names it.
            MismatchError: Other ranks called something else.
            AbortedError: This communicator has failed.
            TransportError: A rank cannot listen on a port, or the network failed.

        Example:
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> comms = ringroad.Communicator.in_process(4)
            >>> def sum_of_half(comm):
            ...     with comm.split(comm.rank // 2) as half:
            ...         return int(half.allreduce(np.array(comm.rank)))
            >>> with ThreadPoolExecutor(4) as pool:
            ...     list(pool.map(sum_of_half, comms))
            [1, 1, 5, 5]
        """
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
    def dup(self, *, timeout: float | None = None) -> Communicator:
        """Makes another communicator of the same ranks, on the same network.

        It is collective: all ranks call it. Use it where a library must not disturb the order of its
        caller's calls. It is a `split` in which all ranks pass the same colour.

        Args:
            timeout: Seconds to wait for the others. None: the communicator's `timeout`.

        Returns:
            The new communicator.

        Raises:
            TimeoutError: Ranks did not come in time. The message names them.
            PeerError: A rank died or gave up meanwhile. The message names it.
            MismatchError: Other ranks called something else.
            AbortedError: This communicator has failed.
            TransportError: A rank cannot listen on a port, or the network failed.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> other = alone.dup()
            >>> alone.close()
            >>> other.allreduce(np.array([1, 2]))
            array([1, 2])
        """
    def prepare(
        self,
        collective: CollectiveName,
        send: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
        *,
        counts: ArrayLike | None = None,
        root: int = 0,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
    ) -> PreparedCall:
        """Prepares a collective on certain arrays, to start it often.

        Arguments are checked, the algorithm is chosen and its schedule made now, so that the first start takes
        no longer than the others. It sends nothing: other ranks need not prepare their calls.

        Args:
            collective: Its name, such as "allreduce" or "alltoall".
            send: The input, as for the collective's method; for a broadcast, the array. It must be a
                C-contiguous array, since every start reads it. Ranks without an input pass None.
            out: The output, as for the collective's method. None: a new array, which every start overwrites.
            counts: The numbers of rows, as for the collective's method. None: blocks of equal length.
            root: The root of a broadcast, reduce, gather or scatter.
            op: The reduction of an allreduce, reduce-scatter or reduce.
            factor: This rank's factor in a "premul_sum".
            algorithm: The name of the algorithm to run, a `Schedule` of your own, or the path of its file; the
                same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which a start fails. None: the communicator's `timeout`.

        Returns:
            The prepared call. It keeps the arrays and the communicator alive.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network.
            AbortedError: This process was forked from the one that made the communicator.

        Example:
            >>> (alone,) = ringroad.Communicator.in_process(1)
            >>> x = np.arange(3)
            >>> call = alone.prepare("allreduce", x, op="max")
            >>> call.run()
            array([0, 1, 2])
            >>> x += 10
            >>> call.start().result()
            array([10, 11, 12])
        """
    def broadcast_object(self, obj: Any = None, root: int = 0, *, timeout: float | None = None) -> Any:
        """Sends a Python object from one rank to all ranks.

        Objects are pickled. Unpickling can run any code that a rank of the job sends.

        Args:
            obj: At the root, any object that can be pickled. Other ranks need not pass one.
            root: The rank that sends.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Returns:
            `obj` itself at the root, a copy on other ranks.

        Raises:
            ValueError: An argument has a wrong value, such as a rank that does not exist. Nothing was sent.
            Exception: Whatever pickle raises for an object. Nothing was sent if it cannot be pickled; if it cannot
                be unpickled, the call has ended.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     cluster.run(lambda comm: comm.broadcast_object({"lr": 0.1} if comm.rank == 0 else None))
            [{'lr': 0.1}, {'lr': 0.1}]
        """
    def allgather_object(self, obj: Any, *, timeout: float | None = None) -> list[Any]:
        """Collects one Python object of each rank. Every rank gets all of them.

        Objects are pickled. Unpickling can run any code that a rank of the job sends.

        Args:
            obj: Any object that can be pickled. Ranks may pass objects of different types and sizes.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Returns:
            A list of copies, by rank.

        Raises:
            ValueError: An argument has a wrong value, such as a rank that does not exist. Nothing was sent.
            Exception: Whatever pickle raises for an object. Nothing was sent if it cannot be pickled; if it cannot
                be unpickled, the call has ended.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> with ringroad.local(3) as cluster:
            ...     cluster.run(lambda comm: comm.allgather_object("x" * comm.rank))[0]
            ['', 'x', 'xx']
        """
    def gather_object(self, obj: Any, root: int = 0, *, timeout: float | None = None) -> list[Any] | None:
        """Collects one Python object of each rank at one rank.

        Objects are pickled. Unpickling can run any code that a rank of the job sends.

        Args:
            obj: Any object that can be pickled. Ranks may pass objects of different types and sizes.
            root: The rank that gets the objects.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Returns:
            At the root a list of copies, by rank; None on other ranks.

        Raises:
            ValueError: An argument has a wrong value, such as a rank that does not exist. Nothing was sent.
            Exception: Whatever pickle raises for an object. Nothing was sent if it cannot be pickled; if it cannot
                be unpickled, the call has ended.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     cluster.run(lambda comm: comm.gather_object((comm.rank, "done")))
            [[(0, 'done'), (1, 'done')], None]
        """
    def scatter_object(
        self, objects: Sequence[Any] | None = None, root: int = 0, *, timeout: float | None = None
    ) -> Any:
        """Sends each rank one Python object of a list that one rank has.

        Objects are pickled. Unpickling can run any code that a rank of the job sends.

        Args:
            objects: At the root, one object for each rank. Other ranks need not pass a list.
            root: The rank that sends.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Returns:
            A copy of object `rank` of the root's list.

        Raises:
            ValueError: An argument has a wrong value, such as a rank that does not exist. Nothing was sent.
            Exception: Whatever pickle raises for an object. Nothing was sent if it cannot be pickled; if it cannot
                be unpickled, the call has ended.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     cluster.run(lambda comm: comm.scatter_object(["a", {"b": 1}] if comm.rank == 0 else None))
            ['a', {'b': 1}]
        """
    def alltoall_object(self, objects: Sequence[Any], *, timeout: float | None = None) -> list[Any]:
        """Sends a Python object from every rank to every rank.

        Objects are pickled. Unpickling can run any code that a rank of the job sends.

        Args:
            objects: One object for each rank.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Returns:
            A list of copies; entry `r` came from rank `r`.

        Raises:
            ValueError: An argument has a wrong value, such as a rank that does not exist. Nothing was sent.
            Exception: Whatever pickle raises for an object. Nothing was sent if it cannot be pickled; if it cannot
                be unpickled, the call has ended.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     cluster.run(lambda comm: comm.alltoall_object([f"{comm.rank} to {to}" for to in range(2)]))
            [['0 to 0', '1 to 0'], ['0 to 1', '1 to 1']]
        """
    def send_object(self, obj: Any, peer: int, tag: int = 0, *, timeout: float | None = None) -> None:
        """Sends a Python object to one rank, which receives it with `recv_object`.

        The object is pickled and sent as two messages. The call completes as `send` does.

        Args:
            obj: Any object that can be pickled.
            peer: The rank that receives; not this one.
            tag: From 0 to 2**28 - 1; a `recv_object` takes objects of its own tag only. Do not use it for
                arrays at the same time.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Raises:
            ValueError: An argument has a wrong value, such as a rank that does not exist. Nothing was sent.
            Exception: Whatever pickle raises for an object. Nothing was sent if it cannot be pickled; if it cannot
                be unpickled, the call has ended.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> a.send_object({"step": 7}, peer=1)
            >>> b.recv_object(peer=0)
            {'step': 7}
        """
    def recv_object(self, peer: int | None = None, tag: int = 0, *, timeout: float | None = None) -> Any:
        """Receives a Python object that another rank has sent with `send_object`.

        Unpickling can run any code that a rank of the job sends.

        Args:
            peer: The rank that sends. None: any rank; the first object with this tag is received.
            tag: From 0 to 2**28 - 1, as the sender passed it.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Returns:
            A copy of the object.

        Raises:
            ValueError: An argument has a wrong value, such as a rank that does not exist. Nothing was sent.
            Exception: Whatever pickle raises for an object. Nothing was sent if it cannot be pickled; if it cannot
                be unpickled, the call has ended.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> a, b = ringroad.Communicator.in_process(2)
            >>> b.send_object(["any", "object"], peer=0, tag=3)
            >>> a.recv_object(tag=3)
            ['any', 'object']
        """
    def allreduce_coalesced(
        self,
        arrays: Sequence[NDArray[Any] | _Plain],
        out: Sequence[NDArray[Any]] | None = None,
        *,
        op: Op = "sum",
        factor: float | None = None,
        algorithm: By = None,
        timeout: float | None = None,
    ) -> list[NDArray[Any]]:
        """Reduces several arrays over all ranks in one call. Every rank gets all results.

        The arrays are packed side by side into memory that other ranks read, so that many short arrays take
        little longer than one. Arrays of each dtype make one allreduce.

        Args:
            arrays: This rank's contributions: arrays, or numbers and lists as for `allreduce`. Their number,
                order, shapes and dtypes are the same on all ranks.
            out: An array for each result, of the shape and dtype of its input; it may be strided. `arrays`
                itself: in place. None: new arrays.
            op: "sum", "product", "min", "max", "avg", "premul_sum", "band", "bor" or "bxor". Complex arrays
                have no "min" and "max". "avg" and "premul_sum" are for floats and complex numbers only, the
                bitwise operations for integers and bool only.
            factor: This rank's array is multiplied by it before the sum. "premul_sum" needs it; no other
                operation takes it. Ranks may pass different factors.
            algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
                its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Returns:
            A list: the arrays of `out`, or new arrays that share memory.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     cluster.run(lambda comm: comm.allreduce_coalesced([np.ones(2), [1, 2, 3]]))[0]
            [array([2., 2.]), array([2, 4, 6])]
        """
    def broadcast_coalesced(
        self,
        arrays: Sequence[NDArray[Any]],
        root: int = 0,
        *,
        algorithm: By = None,
        timeout: float | None = None,
    ) -> list[NDArray[Any]]:
        """Copies several arrays of one rank to all ranks in one call, in place.

        The arrays are packed side by side into memory that other ranks read, so that many short arrays take
        little longer than one. Arrays of each dtype make one broadcast.

        Args:
            arrays: At the root, what is sent; elsewhere they are overwritten. They may be strided. Their
                number, order, shapes and dtypes are the same on all ranks.
            root: The rank that sends.
            algorithm: The name of the algorithm to run, such as "binomial", a `Schedule` of your own, or the
                path of its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
            timeout: Seconds after which the call fails. None: the communicator's `timeout`.

        Returns:
            A list of the arrays.

        Raises:
            TypeError: An input cannot be made a NumPy array, what is written to is none, or this call does not
                support the dtype. Nothing was sent.
            ValueError: An argument has the wrong shape or value, or an array that is written to is not C-contiguous
                or is read-only. Nothing was sent; correct the argument and call again.
            ScheduleError: `algorithm` is unknown, or does not run on this network. Nothing was sent.
            MismatchError: Ranks made different calls. The message lists what each rank called.
            TimeoutError: The call did not complete in time. The message names the ranks that are missing.
            PeerError: Another rank died, left or closed its communicator. Call `shrink` to continue without it.
            AbortedError: The communicator failed or was aborted earlier. Make a new one, or call `shrink`.
            TransportError: The network failed.
            MemoryError: There is not enough memory for messages.

        Example:
            >>> with ringroad.local(2) as cluster:
            ...     cluster.run(lambda comm: comm.broadcast_coalesced([np.full(2, comm.rank), np.ones(1)], root=1))[0]
            [array([1, 1]), array([1.])]
        """
    def _start_trace(self) -> None:
        """Starts to record what this rank does. The other ranks are not told."""
    def _end_trace(self) -> str:
        """Stops recording. Returns what was recorded, as JSON for ui.perfetto.dev."""
    def check_process(self) -> None:
        """Raises an error in a process that was forked from the one that made the communicator.

        A forked child can make communicators of its own, but can neither call nor wait with those that it
        inherited. If its parent uses UCX, its own connect only ranks of one host. Its parent's communicators stay
        usable, whatever the child does.

        Raises:
            AbortedError: This process is a forked child.
        """
    def close(self) -> None:
        """Closes the connections. Later calls fail on all ranks; closing again does nothing.

        In a forked child it only releases the child's copies: the connections are its parent's.
        """
    def __enter__(self) -> Communicator: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

# ------------------------------------------------------------------------------------------------ information

def handle() -> str:
    """Returns a text by which other processes find this one, to form a group with it.

    Each call returns a new handle. Bring the handles of all processes together in any way, for example
    in a file, and pass them to `ringroad.regroup`. Whoever holds a handle can join this process's
    groups; if RINGROAD_SECRET is set, they also need the secret.

    Returns:
        The handle, a short text of printable characters.

    Raises:
        TransportError: This process cannot listen on a port.
        ConfigError: A RINGROAD_* variable has a value that cannot be used.

    Example:
        >>> with ringroad.regroup([ringroad.handle()]) as comm:
        ...     comm.size
        1
    """

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
    ucx_wheel: str | PathLike[str] | None = None,
) -> Communicator:
    """Makes a communicator of the processes that issued some handles. `ringroad.regroup` calls it.

    Args:
        handles: A handle for each rank.
        sort: Whether to put the handles into an order that all ranks find; else the list's order
            counts.
        own: This process's handle, if it issued several of them.
        uuid: Tells this attempt from others with the same handles.
        timeout: Seconds to wait for the others, and the default of later calls.
        topology: As for `Communicator`.
        algorithm: As for `Communicator`.
        deterministic: As for `Communicator`.
        ucx_wheel: As for `Communicator`.

    Returns:
        The communicator.

    Raises:
        PeerError: A process has ended or does not answer. The message names it.
        TimeoutError: A process runs but does not call this.
        ValueError: A handle is malformed, or none or several of them are this process's.
    """

@final
class Setting:
    """One RINGROAD_* variable: its value and its meaning."""

    @property
    def name(self) -> str:
        """The name of the variable."""
    @property
    def value(self) -> str | None:
        """The value as written; "set" if it is secret, None if it is unset and has no default."""
    @property
    def unit(self) -> str:
        """The unit of the value; empty for most variables."""
    @property
    def origin(self) -> Literal["default", "environment"]:
        """Where the value is from: "default" or "environment"."""
    @property
    def default(self) -> str | None:
        """The value that counts if the variable is unset; None if leaving it unset has a meaning of its own."""
    @property
    def values(self) -> str:
        """What can be written, in words."""
    @property
    def choices(self) -> list[str]:
        """All words that can be written; empty if the values are not a list of words."""
    @property
    def help(self) -> str:
        """What the variable is for, and what leaving it unset means."""

@final
class Config:
    """The settings of this process: the RINGROAD_* variables of the environment, and `settings`, which
    override them.

    Args:
        settings: Values by the names of the variables.

    Raises:
        ConfigError: A value cannot be used. The message says what can be written.
        ValueError: `settings` names a variable that does not exist.
    """

    def __new__(cls, settings: Mapping[str, str] | None = None) -> Config: ...
    @staticmethod
    def defaults() -> Config:
        """Returns the settings that hold if no variable is set."""
    @property
    def settings(self) -> list[Setting]:
        """A `Setting` for each variable."""
    @property
    def warnings(self) -> list[str]:
        """A line for each RINGROAD_* variable of the environment that does not exist."""
    @property
    def store(self) -> str | tuple[str, int] | None:
        """The directory in which ranks meet, or the host and the port at which rank 0 listens; None if
        RINGROAD_STORE names none.
        """
    @property
    def tcp_ports(self) -> tuple[int, int] | None:
        """The first and the last TCP port that RINGROAD_TCP_PORTS permits; None if it is unset."""

    @property
    def profiles(self) -> str | None:
        """The directory in which communicators look for profiles, unless RINGROAD_PROFILE names a file; None if nothing
        is kept.
        """
    @property
    def timeout(self) -> float:
        """The default timeout of calls, in seconds."""
    @property
    def profile(self) -> str | None:
        """The path of the profile that RINGROAD_PROFILE names; None if it names none."""

def reductions() -> dict[str, list[str]]:
    """Returns the dtypes that each reduction supports, by its name. "sum" supports all."""

def machine() -> str:
    """Returns what is known of this machine, and the numbers that were measured on others, as JSON."""

def read_bytes(text: str) -> int:
    """Reads a number of bytes.

    Args:
        text: The number, `8`, `64KiB`, `1.5MiB`, `2MB` or `4M`. KiB, MiB, GiB and TiB are powers of 1024, and KB,
            MB, GB and TB powers of 1000. Letters alone are powers of 1024.

    Returns:
        The number, of 63 bits at most.

    Raises:
        ValueError: The text is no number of bytes.

    Example:
        >>> from ringroad._native import read_bytes
        >>> read_bytes("64KiB")
        65536
    """

def read_bandwidth(text: str) -> float:
    """Reads a bandwidth.

    Args:
        text: The bandwidth in bits or bytes per second, `100Gbit/s`, `100Gbit` or `12.5GB/s`, or a number of
            bytes per second; G is 10^9.

    Returns:
        Bytes per second.

    Raises:
        ValueError: The text is no bandwidth.

    Example:
        >>> from ringroad._native import read_bandwidth
        >>> read_bandwidth("200Mbit/s")
        25000000.0
    """

def read_seconds(text: str) -> float:
    """Reads a time.

    Args:
        text: The time, such as `10us`, `500ns`, `1.5ms` or `2s`, or a number of seconds.

    Returns:
        Seconds.

    Raises:
        ValueError: The text is no time.

    Example:
        >>> from ringroad._native import read_seconds
        >>> read_seconds("1.5ms")
        0.0015
    """

def read_file(path: str | PathLike[str], most: int | None = None) -> bytes:
    """Reads a file that a user names: a regular file, to which a path need not lead.

    Args:
        path: The file.
        most: The most bytes that it may have. None: 256 MiB.

    Returns:
        The content.

    Raises:
        OSError: The file cannot be read, is no regular file, or is longer.
    """

def ucx_info(wheel: str | PathLike[str] | None = None) -> dict[str, str]:
    """Returns which UCX library would be used.

    Args:
        wheel: The path of a `libucp.so.0` to use where the system has no UCX, or an older one.

    Returns:
        The keys "path", "version", "origin" and "UCX_TLS"; and "why", if there was a choice.

    Raises:
        TransportError: There is no UCX that can be used. The message says what to install.
    """

def bfb_cost(topology: Topology | str | int, collective: str) -> Any:
    """Returns the cost of breadth-first broadcast (algorithm `bfb`). `ringroad.synthesis.bfb_cost` calls it.

    Args:
        topology: The network.
        collective: "allgather", "reduce_scatter" or "allreduce".

    Returns:
        A `BreadthFirst`.

    Raises:
        ScheduleError: The network or the collective does not suit the algorithm.
        ValueError: The collective is unknown.
        TopologyError: The topology is malformed.
    """
