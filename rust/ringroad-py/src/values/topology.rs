//! `Topology`.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ringroad_core::topology::{kinds, names_a_file, operators, Link, Routes, Routing};
use ringroad_core::Topology;
use ringroad_runtime::Error;

use crate::arguments::{argument, argument_type, Count, Number, Plain, Text};
use crate::interpreter::errors::raise;
use crate::interpreter::notebook::{hash, shown};
use crate::interpreter::watch::beside;
use crate::results::object;

/// The Python module for networkx graphs and files.
const GRAPHS: &str = "ringroad._graphs";

/// A network: ranks, switches, and the directed links between them.
///
/// A spec names a family with its sizes, such as "ring:8", "torus:4x4", "mesh:4x4",
/// "twisted-torus:8x4", "hyperx:4x4", "hammingmesh:2x2:4x4", "hypercube:4", "switch:16",
/// "fattree:4x8:2", "hosts:2x4" (2 hosts of 4 ranks) or "hosts:1,2,3" (hosts of 1, 2 and 3); a graph
/// without a grid, such as "circulant:16:3,4", "kautz:4:1", "petersen" or
/// "cayley:z64*z16^11:34.1,14.14"; or what an operator makes of these, such as "line(petersen)" or
/// "without(torus:4x4, 0-1)". `ringroad topology` lists all families. A routing may follow:
/// "torus:4x4,routing=single-path"; rates of all links, of cables and of links:
/// "ring:9,bandwidth=200Mbit/s,latency=20us,0-1=50Mbit/s,2>3=10Mbit/s"; and where the ranks stand, if not
/// in the network's own order: "torus:2x2@2,0,1,3". A path of a file stands for the graph in it.
///
/// Topologies are values: they compare equal by their links, grid and routing, and can be pickled. Wherever
/// one is an argument, a spec, the path of a file or a number of ranks may stand for it.
///
/// Args:
///     spec: The spec, or the path of a file: .json, .graphml, .gml, .csv, .edges, .edgelist or .txt. A
///         number of ranks stands for a ring; a `Topology` is taken as it is.
///     bandwidth: Of every link in one direction, in bytes per second; 12.5e9 unless stated.
///     latency: Of every link, in seconds, with what the node at its end needs to pass a message on;
///         0.5e-6 unless stated.
///     processing: Seconds that every node needs in addition to pass a message on, where `latency` does
///         not include them.
///     routing: "minimal" (spread over all shortest paths, the default), "dimension-ordered" (on grids)
///         or "single-path".
///
/// Raises:
///     TopologyError: The spec is malformed, or the sizes, numbers or routing do not fit. The message
///         shows a valid spec.
///     OSError: The file cannot be read.
///     ImportError: The file's format needs networkx, which is not installed.
///
/// Example:
///     >>> torus = ringroad.Topology("torus:4x4", bandwidth=25e9)
///     >>> torus.ranks, torus.degree, torus.diameter, torus.dimensions
///     (16, 4, 4, (4, 4))
#[pyclass(name = "Topology", module = "ringroad", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct PyTopology(pub Topology);

/// (source, target, bandwidth, capacity, latency, extra latency).
type Properties = (usize, usize, f64, f64, f64, f64);
/// Examples or names, and what they are.
type Listed = Vec<(&'static str, String)>;
/// (hops, latency, shares of links).
type RouteTuple = (usize, f64, Vec<(usize, f64)>);

argument_type! {&'a Topology, "a ringroad.Topology", |object| Ok(&object.cast::<PyTopology>()?.get().0)}

#[pymethods]
impl PyTopology {
    #[new]
    #[pyo3(signature = (spec, *, bandwidth=None, latency=None, processing=None, routing=None))]
    fn new(
        spec: TopologyArgument<'_>,
        bandwidth: Option<Number>,
        latency: Option<Number>,
        processing: Option<Number>,
        routing: Option<Text<'_>>,
    ) -> PyResult<Self> {
        let links = PyTopology(spec.resolve()?).with_links(bandwidth, latency, processing, None)?;
        links.with_routing_named(Plain::inner(routing))
    }

    /// Makes a topology of a networkx graph.
    ///
    /// Args:
    ///     graph: Any networkx graph; an edge of an undirected graph is a link in each direction. A node is
    ///         a rank, or a switch if its attribute `kind` is "switch"; `rank` states a rank's number, and
    ///         `processing` the seconds it needs to pass a message on. Edges may state `bandwidth` (bytes
    ///         per second), `capacity` (a factor of it), `latency` and `extra_latency` (seconds).
    ///     name: The graph's name in the spec.
    ///     dimensions: The grid that algorithms take for a torus. None: the graph's attribute `dimensions`,
    ///         such as "4x4", or no grid.
    ///
    /// Returns:
    ///     The topology. Its spec is `graph:` and the name.
    ///
    /// Raises:
    ///     TopologyError: The graph has no ranks, or an attribute is invalid. The message names it.
    ///
    /// Example:
    ///     >>> import networkx
    ///     >>> ringroad.Topology.from_graph(networkx.cycle_graph(5), name="five").ranks
    ///     5
    #[staticmethod]
    #[pyo3(signature = (graph, *, name=None, dimensions=None))]
    fn from_graph(
        graph: &Bound<'_, PyAny>,
        name: Option<Text<'_>>,
        dimensions: Option<Plain<Vec<usize>>>,
    ) -> PyResult<Self> {
        let arguments = PyDict::new(graph.py());
        arguments.set_item("name", name)?;
        arguments.set_item("dimensions", dimensions)?;
        let made = graph.py().import(GRAPHS)?.call_method("from_graph", (graph,), Some(&arguments))?;
        Ok(made.cast::<PyTopology>()?.get().clone())
    }

    /// Returns a networkx.MultiDiGraph with the attributes that `from_graph` reads.
    ///
    /// Raises:
    ///     ImportError: networkx is not installed.
    fn to_graph<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(GRAPHS)?.call_method1("to_graph", (slf,))
    }

    /// Writes a file whose path can stand for the topology.
    ///
    /// Args:
    ///     path: Ends in .json, which keeps family and routing, or in .graphml, which other programs read.
    ///
    /// Raises:
    ///     ValueError: The name ends in something else.
    ///     OSError: The file cannot be written.
    ///     ImportError: .graphml needs networkx, which is not installed.
    fn save(slf: &Bound<'_, Self>, path: Plain<PathBuf>) -> PyResult<()> {
        slf.py().import(GRAPHS)?.call_method1("save", (slf, path.0)).map(|_| ())
    }

    /// Makes a topology of links, each with source, target, bandwidth, capacity, latency and extra latency.
    #[staticmethod]
    fn _from_links(
        name: Text<'_>,
        ranks: Count,
        nodes: Count,
        links: Plain<Vec<Properties>>,
        dimensions: Plain<Vec<usize>>,
    ) -> PyResult<Self> {
        let link = |(source, target, bandwidth, capacity, latency, extra_latency)| Link {
            source,
            target,
            bandwidth,
            capacity,
            latency,
            extra_latency,
        };
        let links = links.0.into_iter().map(link).collect();
        let graph = Topology::from_links(name.0, ranks.0, nodes.0, links);
        graph.and_then(|graph| graph.with_dimensions(&dimensions.0)).map(PyTopology).map_err(raise)
    }

    /// Returns the links with source, target, bandwidth, capacity, latency and extra latency.
    fn _links(&self) -> Vec<Properties> {
        let link = |l: &Link| (l.source, l.target, l.bandwidth, l.capacity, l.latency, l.extra_latency);
        self.0.links().iter().map(link).collect()
    }

    /// Returns the same network with this bandwidth for the fastest link, and for the others in proportion.
    fn _with_fastest_link(&self, bandwidth: Number) -> PyResult<Self> {
        let fastest = self.0.links().iter().map(|link| link.bandwidth).fold(0.0, f64::max);
        let made = self.0.clone().map_links(|_, link| link.bandwidth *= bandwidth.0 / fastest);
        made.map(PyTopology).map_err(raise)
    }

    /// Reads what `to_json` wrote.
    ///
    /// Args:
    ///     text: The JSON.
    ///
    /// Returns:
    ///     The topology.
    ///
    /// Raises:
    ///     TopologyError: The text is not a topology. The message says why.
    #[staticmethod]
    fn from_json(text: Text<'_>) -> PyResult<Self> {
        serde_json::from_str(text.0).map(PyTopology).map_err(|e| raise(Error::Topology(e.to_string())))
    }

    /// Returns the topology as JSON, with its links and routes if the spec does not say them.
    ///
    /// Example:
    ///     >>> ring = ringroad.Topology("ring:4")
    ///     >>> ringroad.Topology.from_json(ring.to_json()) == ring
    ///     True
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|e| raise(Error::Topology(e.to_string())))
    }

    /// Returns the same network with other links. None leaves a property as it is.
    ///
    /// Args:
    ///     bandwidth: Of every link, in bytes per second. Links with more capacity than others still have
    ///         it.
    ///     latency: Of every link, in seconds.
    ///     processing: Seconds that every node needs in addition to pass a message on.
    ///     memory: Bytes per second between a rank and the memory of its host; only networks of hosts have
    ///         it.
    ///
    /// Returns:
    ///     The new topology.
    ///
    /// Raises:
    ///     TopologyError: A number is negative, or a bandwidth is 0.
    #[pyo3(signature = (*, bandwidth=None, latency=None, processing=None, memory=None))]
    fn with_links(
        &self,
        bandwidth: Option<Number>,
        latency: Option<Number>,
        processing: Option<Number>,
        memory: Option<Number>,
    ) -> PyResult<Self> {
        let mut topology =
            self.0.clone().with_links(Plain::inner(bandwidth), Plain::inner(latency)).map_err(raise)?;
        if let Some(Plain(seconds)) = processing {
            topology = topology.with_processing(seconds).map_err(raise)?;
        }
        if let (Some(Plain(memory)), Some(link)) = (memory, topology.links().first()) {
            let capacity = memory / link.bandwidth;
            topology = topology.with_hosts(Some(capacity), None).map_err(raise)?;
        }
        Ok(PyTopology(topology))
    }

    /// Returns the same network with another routing. `ringroad.lab.routes` makes tables of routes.
    ///
    /// Args:
    ///     routing: "minimal", "dimension-ordered" or "single-path".
    ///
    /// Returns:
    ///     The new topology.
    ///
    /// Raises:
    ///     TopologyError: The routing is unknown, or the network has no dimensions for "dimension-ordered".
    fn with_routing(&self, routing: Text<'_>) -> PyResult<Self> {
        self.clone().with_routing_named(Some(routing.0))
    }

    /// Returns the line digraph: a rank for each link, with a link to each link that starts where this one
    /// ends.
    ///
    /// Ranks have the numbers of the links. This is one of the expansions of Zhao et al. (arXiv
    /// 2202.03356).
    ///
    /// Raises:
    ///     TopologyError: The network has switches, or the result would be too large.
    ///
    /// Example:
    ///     >>> ringroad.Topology("complete:3").line().ranks
    ///     6
    fn line(&self) -> PyResult<Self> {
        self.0.line().map(PyTopology).map_err(raise)
    }

    /// Returns the line graph: a rank for each cable, with a cable to each cable that shares an end.
    ///
    /// A cable is a link in each direction; ranks are numbered by the cables' first links.
    ///
    /// Raises:
    ///     TopologyError: A link has none back, the network has switches, or the result would be too large.
    fn line_graph(&self) -> PyResult<Self> {
        self.0.line_graph().map(PyTopology).map_err(raise)
    }

    /// Returns `n` copies of every rank, each linked to all copies of the rank's neighbours.
    ///
    /// Copy i of rank v is rank v*n + i. This is one of the expansions of Zhao et al. (arXiv 2202.03356).
    ///
    /// Args:
    ///     n: The number of copies.
    ///
    /// Raises:
    ///     TopologyError: The network has switches, or the result would be too large.
    fn degree_expansion(&self, n: Count) -> PyResult<Self> {
        self.0.degree_expansion(n.0).map(PyTopology).map_err(raise)
    }

    /// Returns the Cartesian product of `n` times this network. `product` says more.
    ///
    /// Args:
    ///     n: The number of factors.
    ///
    /// Raises:
    ///     TopologyError: The network has switches, or the result would be too large.
    fn power(&self, n: Count) -> PyResult<Self> {
        self.0.power(n.0).map(PyTopology).map_err(raise)
    }

    /// Returns the Cartesian product of this network and others.
    ///
    /// Ranks are numbered like the elements of a C array, those of the last factor fastest. The ports of
    /// the first factor come first.
    ///
    /// Args:
    ///     others: Topologies, specs, or numbers of ranks, which stand for rings.
    ///
    /// Raises:
    ///     TopologyError: A network has switches, or the result would be too large.
    ///
    /// Example:
    ///     >>> ringroad.Topology("ring:4").product("complete:3").ranks
    ///     12
    #[pyo3(signature = (*others))]
    fn product(&self, others: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let others: Vec<TopologyArgument<'_>> = argument(others)?;
        let others =
            others.into_iter().map(TopologyArgument::resolve).collect::<PyResult<Vec<Topology>>>()?;
        let factors: Vec<&Topology> = [&self.0].into_iter().chain(&others).collect();
        Topology::product(&factors).map(PyTopology).map_err(raise)
    }

    /// Returns the network with all links turned round. Links keep their numbers.
    fn transpose(&self) -> PyResult<Self> {
        self.0.transpose().map(PyTopology).map_err(raise)
    }

    /// Returns the network with a second link, turned round, for each link.
    fn bidirectional(&self) -> PyResult<Self> {
        self.0.bidirectional().map(PyTopology).map_err(raise)
    }

    /// Returns the part of this network on which some ranks stand: the links on shortest paths between them.
    ///
    /// Other ranks on these paths become switches. What is a ring, torus, mesh, switch or hosts has the
    /// spec of one. Subgroups use this where RINGROAD_TOPOLOGY describes the job.
    ///
    /// Args:
    ///     ranks: The ranks; they are numbered anew in this order.
    ///
    /// Raises:
    ///     TopologyError: A rank is given twice or does not exist, or the search for paths would take long.
    ///
    /// Example:
    ///     >>> torus = ringroad.Topology("torus:4x4")
    ///     >>> torus.induced([1, 5, 9, 13]).spec, torus.induced([5, 6, 9, 10]).spec
    ///     ('ring:4', 'mesh:2x2')
    fn induced(&self, ranks: Plain<Vec<usize>>) -> PyResult<Self> {
        self.0.induced(&ranks.0).map(PyTopology).map_err(raise)
    }

    /// Returns the same network with its ranks in another order.
    ///
    /// Algorithms for the network run in any order of ranks.
    ///
    /// Args:
    ///     positions: For every rank, which rank of this network stands where it is to stand.
    ///
    /// Raises:
    ///     TopologyError: These are not the numbers of all ranks, each once.
    ///
    /// Example:
    ///     >>> placed = ringroad.Topology("torus:2x2").placed([2, 0, 1, 3])
    ///     >>> placed.spec, placed.coordinates(0), placed.base.coordinates(2)
    ///     ('torus:2x2@2,0,1,3', (1, 0), (1, 0))
    fn placed(&self, positions: Plain<Vec<usize>>) -> PyResult<Self> {
        self.0.clone().placed(&positions.0).map(PyTopology).map_err(raise)
    }

    /// The position of each rank on `base`; None if ranks are in the network's own order.
    #[getter]
    fn positions(&self) -> Option<Vec<usize>> {
        self.0.positions().map(<[usize]>::to_vec)
    }

    /// The network on which the ranks are placed; the network itself if they are in its own order.
    #[getter]
    fn base(&self) -> Self {
        PyTopology(self.0.base().clone())
    }

    /// Returns the network without some links. A grid stays a grid.
    ///
    /// Args:
    ///     pairs: Pairs of nodes. All links between them are removed.
    ///     directed: True: only those from the first node to the second are removed.
    ///
    /// Raises:
    ///     TopologyError: Two nodes have no link between them, or ranks would be cut off.
    ///
    /// Example:
    ///     >>> torus = ringroad.Topology("torus:4x4").without_links([(0, 1)])
    ///     >>> torus.spec, torus.dimensions
    ///     ('without(torus:4x4, 0-1)', (4, 4))
    #[pyo3(signature = (pairs, *, directed=false))]
    fn without_links(
        &self,
        pairs: Plain<Vec<(usize, usize)>>,
        #[pyo3(from_py_with = argument)] directed: bool,
    ) -> PyResult<Self> {
        let left =
            if directed { self.0.without_directions(&pairs.0) } else { self.0.without_links(&pairs.0) };
        left.map(PyTopology).map_err(raise)
    }

    /// Returns the network with a NIC for every rank.
    ///
    /// The network's links join the NICs, and NICs pass on messages for other ranks. This is the host
    /// bottleneck of Basu et al., HPDC 2024. Its spec is `bottleneck(torus:4x4, 2)`.
    ///
    /// Args:
    ///     capacity: The bandwidth between rank and NIC in each direction, in units of the rank's first
    ///         link.
    ///
    /// Raises:
    ///     TopologyError: `capacity` is not above 0.
    fn behind_nics(&self, capacity: Number) -> PyResult<Self> {
        self.0.behind_nics(capacity.0).map(PyTopology).map_err(raise)
    }

    /// Returns what `ringroad topology` lists: families, operators and routings, each with what it is.
    #[staticmethod]
    fn _kinds() -> (Listed, Listed, Listed) {
        let operators = operators().map(|operator| (operator.example, operator.summary.to_owned()));
        let routings = Routing::ALL.map(|routing| (routing.name(), routing.summary().to_owned()));
        (kinds(), operators.collect(), routings.into())
    }

    /// The network of which the operator `without` has made this one; None if its spec does not say its links.
    fn _whole(&self) -> Option<PyTopology> {
        self.0.base().whole().map(PyTopology)
    }

    /// Where nodes and links lie in a picture, with y downwards: `nodes`, and `wraps`, links with the directions in
    /// which they leave the grid.
    fn _drawing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, GRAPHS, &py.detach(|| self.0.drawing()))
    }

    /// Returns what the network is: what `ringroad topology --json` prints.
    #[pyo3(signature = (*, diameter=true))]
    fn _facts<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = argument)] diameter: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let topology = self.0.clone();
        object(py, GRAPHS, &beside(py, move || topology.facts(diameter))?)
    }

    /// 32 hexadecimal digits, the same on every machine. They differ if ranks, grid, links or routing
    /// differ.
    #[getter]
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.digest())
    }

    /// Whether the ranks are the elements of a group, and the n-th link of every rank multiplies by the
    /// same element.
    #[getter]
    fn is_cayley(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.is_cayley())
    }

    /// The spec that the network is known by. Networks of files and graphs are called `graph:name`.
    #[getter]
    fn spec(&self) -> String {
        self.0.spec()
    }

    /// The number of ranks.
    #[getter]
    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    /// The number of ranks, switches and hosts' memories together. Ranks have the lowest numbers.
    #[getter]
    fn nodes(&self) -> usize {
        self.0.nodes()
    }

    /// The number of ranks that share the memory of a host; 1 if each has a host of its own, or if hosts
    /// have different numbers of ranks.
    #[getter]
    fn per_host(&self) -> usize {
        self.0.per_host()
    }

    /// The host of each rank.
    #[getter]
    fn hosts(&self) -> Vec<usize> {
        self.0.hosts_of_ranks()
    }

    /// The lengths of the grid that algorithms take for a torus; empty if the ranks form none.
    #[getter]
    fn dimensions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dimensions())
    }

    /// How messages choose among paths: "minimal", "dimension-ordered", "single-path" or "table".
    #[getter]
    fn routing(&self) -> &'static str {
        self.0.routing().name()
    }

    /// The largest number of links that leave a rank.
    #[getter]
    fn degree(&self) -> usize {
        self.0.max_degree()
    }

    /// The largest number of hops on a shortest path between two ranks, hops to and from switches included.
    #[getter]
    fn diameter(&self, py: Python<'_>) -> PyResult<usize> {
        let topology = self.0.clone();
        beside(py, move || topology.diameter())
    }

    /// Tuples of source, target, bandwidth in bytes per second, and latency in seconds; one for each link.
    #[getter]
    fn links(&self) -> Vec<(usize, usize, f64, f64)> {
        self.0.links().iter().map(|l| (l.source, l.target, l.bytes_per_second(), l.seconds())).collect()
    }

    /// Returns the place of a rank on the grid.
    ///
    /// Args:
    ///     rank: The rank.
    ///
    /// Returns:
    ///     A coordinate for each dimension; empty if there is no grid.
    ///
    /// Example:
    ///     >>> ringroad.Topology("torus:4x4").coordinates(6)
    ///     (1, 2)
    fn coordinates<'py>(&self, py: Python<'py>, rank: Count) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.coordinates(rank.0))
    }

    /// Returns the route of a message from one rank to another.
    ///
    /// Args:
    ///     source: The rank that sends.
    ///     destination: The rank that receives.
    ///
    /// Returns:
    ///     A tuple of the number of hops, the latency in seconds, and a list of the links used: each with
    ///     its index in `links` and the share of the bytes that it carries.
    ///
    /// Raises:
    ///     TopologyError: There is no route, or a rank is out of range.
    ///
    /// Example:
    ///     >>> hops, latency, shares = ringroad.Topology("ring:4").route(0, 2)
    ///     >>> hops, [share for _, share in shares]
    ///     (2, [0.5, 0.5, 0.5, 0.5])
    fn route(&self, source: Count, destination: Count) -> PyResult<RouteTuple> {
        let route = Routes::new(&self.0).route(source.0, destination.0);
        let route = route.map_err(|e| raise(Error::Topology(e.to_string())))?;
        Ok((route.hops, route.latency, route.shares.clone()))
    }

    /// Returns the port by which a message from one rank to another leaves.
    ///
    /// On a grid, port 2d leads to the rank whose coordinate in dimension d is one higher, and 2d + 1 to the
    /// one that is one lower, around the end. A message to a rank further away leaves by the port of the
    /// shorter way in the first dimension in which the ranks differ. Without a grid all ports count as one, 0.
    ///
    /// Args:
    ///     source: The rank that sends.
    ///     destination: The rank that receives.
    ///
    /// Raises:
    ///     TopologyError: A rank is out of range.
    ///
    /// Example:
    ///     >>> torus = ringroad.Topology("torus:4x4")
    ///     >>> torus.port_towards(0, 1), torus.port_towards(0, 12), torus.port_towards(0, 2)
    ///     (2, 1, 2)
    fn port_towards(&self, source: Plain<isize>, destination: Plain<isize>) -> PyResult<usize> {
        let ranks = self.0.ranks();
        let rank = |number: isize| {
            usize::try_from(number).ok().filter(|rank| *rank < ranks).ok_or_else(|| {
                raise(Error::Topology(format!("there is no rank {number}, only 0 to {}", ranks - 1)))
            })
        };
        Ok(self.0.port_towards(rank(source.0)?, rank(destination.0)?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<PyTopology>().getattr("from_json")?, (self.to_json()?,)))
    }

    fn __repr__(&self) -> String {
        format!("Topology('{}')", self.0.spec())
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0.spec())
    }

    /// Returns the links as a pandas.DataFrame with a row for each.
    ///
    /// Raises:
    ///     ImportError: pandas is not installed.
    fn df<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "df")
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "html")
    }
}

impl PyTopology {
    fn with_routing_named(self, routing: Option<&str>) -> PyResult<Self> {
        let Some(routing) = routing else { return Ok(self) };
        let routing = routing.parse().map_err(raise)?;
        self.0.with_routing(routing).map(PyTopology).map_err(raise)
    }
}

/// A topology as an argument: an object, a spec or the path of a file as text, the number of ranks of a ring, or a path.
pub enum TopologyArgument<'py> {
    Object(Bound<'py, PyTopology>),
    Text(String),
    Ranks(usize),
    Path(PathBuf),
}

argument_type! {own TopologyArgument<'py>, "a ringroad.Topology, a name such as \"torus:4x4\", the path of a file, or the number of ranks of a ring", |object| {
    if let Ok(topology) = object.cast() {
        Ok(TopologyArgument::Object(topology.to_owned()))
    } else if let Ok(text) = object.extract() {
        Ok(TopologyArgument::Text(text))
    } else if let Ok(path) = object.extract() {
        Ok(TopologyArgument::Path(path))
    } else {
        Ok(TopologyArgument::Ranks(object.extract()?))
    }
}}

impl TopologyArgument<'_> {
    pub fn resolve(self) -> PyResult<Topology> {
        match self {
            TopologyArgument::Object(object) => Ok(object.get().0.clone()),
            TopologyArgument::Text(path) if names_a_file(&path) => read_file(Path::new(&path)),
            TopologyArgument::Text(spec) => {
                Python::attach(|py| beside(py, move || Topology::parse(&spec)))?.map_err(raise)
            }
            TopologyArgument::Ranks(ranks) => Topology::ring(ranks).map_err(raise),
            TopologyArgument::Path(path) => read_file(&path),
        }
    }
}

fn read_file(path: &Path) -> PyResult<Topology> {
    Python::attach(|py| {
        let made = py.import(GRAPHS)?.call_method1("read", (path,))?;
        Ok(made.cast::<PyTopology>()?.get().0.clone())
    })
}
