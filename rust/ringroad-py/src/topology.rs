//! `Topology`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ringroad_core::Topology;

use crate::errors::raise;

/// A directed multigraph of ranks, switches and links.
#[pyclass(name = "Topology", module = "ringroad", frozen, eq)]
#[derive(Clone, PartialEq)]
pub struct PyTopology(pub Topology);

#[pymethods]
impl PyTopology {
    #[new]
    #[pyo3(signature = (spec, *, bandwidth=None, latency=None))]
    fn new(spec: &str, bandwidth: Option<f64>, latency: Option<f64>) -> PyResult<Self> {
        let topology = Topology::parse(spec).map_err(raise)?;
        Ok(PyTopology(topology.with_links(bandwidth, latency).map_err(raise)?))
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
    fn dimensions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dimensions())
    }

    #[getter]
    fn links(&self) -> Vec<(usize, usize, f64, f64)> {
        self.0.links().iter().map(|l| (l.source, l.target, l.bytes_per_second(), l.seconds())).collect()
    }

    #[staticmethod]
    fn _from_json(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map(PyTopology).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let text = serde_json::to_string(&self.0).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok((py.get_type::<PyTopology>().getattr("_from_json")?, (text,)))
    }

    fn __repr__(&self) -> String {
        format!("Topology('{}')", self.0.spec())
    }
}

/// A topology as an argument: an object, a specification, or how many ranks make a ring.
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
            TopologyArgument::Spec(spec) => Topology::parse(&spec).map_err(raise),
            TopologyArgument::Ranks(ranks) => Topology::ring(ranks).map_err(raise),
        }
    }
}
