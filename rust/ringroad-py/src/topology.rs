//! `Topology`.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ringroad_core::topology::{kinds, names_a_file, operands, operators, Link, Routes, Routing};
use ringroad_core::Topology;
use ringroad_runtime::Error;

use crate::errors::raise;

/// The Python module that knows networkx and files.
const GRAPHS: &str = "ringroad._graphs";
/// Beyond this many steps of a search a diameter is not computed unasked.
const QUICK: usize = 50_000_000;

/// A directed multigraph of ranks, switches and links.
#[pyclass(name = "Topology", module = "ringroad", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct PyTopology(pub Topology);

/// (source, target, bandwidth, capacity, latency, extra latency).
type Properties = (usize, usize, f64, f64, f64, f64);
/// An operator, its operands, and what follows them.
type Operands = (String, Vec<String>, Vec<String>);
/// Examples or names, and what they are.
type Listed = Vec<(&'static str, String)>;
/// (hops, latency, shares of links).
type Route = (usize, f64, Vec<(usize, f64)>);

#[pymethods]
impl PyTopology {
    #[new]
    #[pyo3(signature = (spec, *, bandwidth=None, latency=None, processing=None, routing=None))]
    fn new(
        py: Python<'_>,
        spec: Source,
        bandwidth: Option<f64>,
        latency: Option<f64>,
        processing: Option<f64>,
        routing: Option<&str>,
    ) -> PyResult<Self> {
        let links = PyTopology(spec.read(py)?).with_links(bandwidth, latency, processing, None)?;
        links.with_routing_named(routing)
    }

    #[staticmethod]
    #[pyo3(signature = (graph, *, name=None, dimensions=None))]
    fn from_graph(
        graph: &Bound<'_, PyAny>,
        name: Option<&str>,
        dimensions: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        let arguments = PyDict::new(graph.py());
        arguments.set_item("name", name)?;
        arguments.set_item("dimensions", dimensions)?;
        let made = graph.py().import(GRAPHS)?.call_method("from_graph", (graph,), Some(&arguments))?;
        Ok(made.cast::<PyTopology>()?.get().clone())
    }

    fn to_graph<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(GRAPHS)?.call_method1("to_graph", (slf,))
    }

    fn save(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.py().import(GRAPHS)?.call_method1("save", (slf, path)).map(|_| ())
    }

    #[staticmethod]
    fn _from_links(
        name: &str,
        ranks: usize,
        nodes: usize,
        links: Vec<Properties>,
        dimensions: Vec<usize>,
    ) -> PyResult<Self> {
        let link = |(source, target, bandwidth, capacity, latency, extra_latency)| Link {
            source,
            target,
            bandwidth,
            capacity,
            latency,
            extra_latency,
        };
        let links = links.into_iter().map(link).collect();
        let graph = Topology::from_links(name, ranks, nodes, links);
        graph.and_then(|graph| graph.with_dimensions(&dimensions)).map(PyTopology).map_err(raise)
    }

    fn _links(&self) -> Vec<Properties> {
        let link = |l: &Link| (l.source, l.target, l.bandwidth, l.capacity, l.latency, l.extra_latency);
        self.0.links().iter().map(link).collect()
    }

    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map(PyTopology).map_err(|e| raise(Error::Topology(e.to_string())))
    }

    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|e| raise(Error::Topology(e.to_string())))
    }

    #[pyo3(signature = (*, bandwidth=None, latency=None, processing=None, memory=None))]
    fn with_links(
        &self,
        bandwidth: Option<f64>,
        latency: Option<f64>,
        processing: Option<f64>,
        memory: Option<f64>,
    ) -> PyResult<Self> {
        let mut topology = self.0.clone().with_links(bandwidth, latency).map_err(raise)?;
        if let Some(seconds) = processing {
            topology = topology.with_processing(seconds).map_err(raise)?;
        }
        if let (Some(memory), Some(link)) = (memory, topology.links().first()) {
            let capacity = memory / link.bandwidth;
            topology = topology.with_hosts(Some(capacity), None).map_err(raise)?;
        }
        Ok(PyTopology(topology))
    }

    fn with_routing(&self, routing: &str) -> PyResult<Self> {
        self.clone().with_routing_named(Some(routing))
    }

    fn line(&self) -> PyResult<Self> {
        self.0.line().map(PyTopology).map_err(raise)
    }

    fn line_graph(&self) -> PyResult<Self> {
        self.0.line_graph().map(PyTopology).map_err(raise)
    }

    fn degree_expansion(&self, n: usize) -> PyResult<Self> {
        self.0.degree_expansion(n).map(PyTopology).map_err(raise)
    }

    fn power(&self, n: usize) -> PyResult<Self> {
        self.0.power(n).map(PyTopology).map_err(raise)
    }

    #[pyo3(signature = (*others))]
    fn product(&self, others: Vec<TopologyArgument<'_>>) -> PyResult<Self> {
        let others =
            others.into_iter().map(TopologyArgument::resolve).collect::<PyResult<Vec<Topology>>>()?;
        let factors: Vec<&Topology> = [&self.0].into_iter().chain(&others).collect();
        Topology::product(&factors).map(PyTopology).map_err(raise)
    }

    fn transpose(&self) -> PyResult<Self> {
        self.0.transpose().map(PyTopology).map_err(raise)
    }

    fn bidirectional(&self) -> PyResult<Self> {
        self.0.bidirectional().map(PyTopology).map_err(raise)
    }

    #[pyo3(signature = (pairs, *, directed=false))]
    fn without_links(&self, pairs: Vec<(usize, usize)>, directed: bool) -> PyResult<Self> {
        let left = if directed { self.0.without_directions(&pairs) } else { self.0.without_links(&pairs) };
        left.map(PyTopology).map_err(raise)
    }

    fn behind_cards(&self, capacity: f64) -> PyResult<Self> {
        self.0.behind_cards(capacity).map(PyTopology).map_err(raise)
    }

    #[staticmethod]
    fn _kinds() -> (Listed, Listed, Listed) {
        let operators = operators().map(|operator| (operator.example, operator.summary.to_owned()));
        let routings = Routing::ALL.map(|routing| (routing.name(), routing.summary().to_owned()));
        (kinds(), operators.collect(), routings.into())
    }

    fn _operands(&self) -> Option<Operands> {
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
        let spec = self.0.spec();
        let (operator, operands, parameters) = operands(&spec)?;
        Some((operator.to_owned(), owned(operands), owned(parameters)))
    }

    #[getter]
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.digest())
    }

    #[getter]
    fn is_cayley(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.is_cayley())
    }

    #[getter]
    fn spec(&self) -> String {
        self.0.spec()
    }

    #[getter]
    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    #[getter]
    fn nodes(&self) -> usize {
        self.0.nodes()
    }

    #[getter]
    fn per_host(&self) -> usize {
        self.0.per_host()
    }

    #[getter]
    fn dimensions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dimensions())
    }

    #[getter]
    fn routing(&self) -> &'static str {
        self.0.routing().name()
    }

    #[getter]
    fn degree(&self) -> usize {
        self.0.max_degree()
    }

    #[getter]
    fn diameter(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.diameter())
    }

    #[getter]
    fn links(&self) -> Vec<(usize, usize, f64, f64)> {
        self.0.links().iter().map(|l| (l.source, l.target, l.bytes_per_second(), l.seconds())).collect()
    }

    fn coordinates<'py>(&self, py: Python<'py>, rank: usize) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.coordinates(rank))
    }

    fn route(&self, source: usize, destination: usize) -> PyResult<Route> {
        let route = Routes::new(&self.0).route(source, destination);
        let route = route.map_err(|e| raise(Error::Topology(e.to_string())))?;
        Ok((route.hops, route.latency, route.shares.clone()))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<PyTopology>().getattr("from_json")?, (self.to_json()?,)))
    }

    fn __repr__(&self) -> String {
        format!("Topology('{}')", self.0.spec())
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let topology = &slf.get().0;
        let quick = topology.ranks().saturating_mul(topology.links().len()) <= QUICK;
        slf.py().import(GRAPHS)?.call_method1("html", (slf, quick))
    }
}

impl PyTopology {
    fn with_routing_named(self, routing: Option<&str>) -> PyResult<Self> {
        let Some(routing) = routing else { return Ok(self) };
        let routing = routing.parse().map_err(raise)?;
        self.0.with_routing(routing).map(PyTopology).map_err(raise)
    }
}

/// A spec, or a file that describes a graph.
#[derive(FromPyObject)]
enum Source {
    Text(String),
    Path(PathBuf),
}

impl Source {
    fn read(self, py: Python<'_>) -> PyResult<Topology> {
        match self {
            Source::Text(spec) if !names_a_file(&spec) => Topology::parse(&spec).map_err(raise),
            Source::Text(path) => read_file(py, Path::new(&path)),
            Source::Path(path) => read_file(py, &path),
        }
    }
}

fn read_file(py: Python<'_>, path: &Path) -> PyResult<Topology> {
    let made = py.import(GRAPHS)?.call_method1("read", (path,))?;
    Ok(made.cast::<PyTopology>()?.get().0.clone())
}

/// A topology as an argument: an object, a specification, a file's path, or how many ranks make a ring.
#[derive(FromPyObject)]
pub enum TopologyArgument<'py> {
    Object(Bound<'py, PyTopology>),
    Spec(String),
    Ranks(usize),
}

impl TopologyArgument<'_> {
    pub fn resolve(self) -> PyResult<Topology> {
        match self {
            TopologyArgument::Object(object) => Ok(object.get().0.clone()),
            TopologyArgument::Spec(spec) => Python::attach(|py| Source::Text(spec).read(py)),
            TopologyArgument::Ranks(ranks) => Topology::ring(ranks).map_err(raise),
        }
    }
}
