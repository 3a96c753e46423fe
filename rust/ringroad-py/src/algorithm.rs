//! `Algorithm` and the catalogue.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ringroad_core::algorithms::{catalogue, find, Algorithm, Member};
use ringroad_core::Collective;

use crate::errors::raise;
use crate::topology::TopologyArgument;

/// An entry of the catalogue, or a member of a family.
#[pyclass(name = "Algorithm", module = "ringroad", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyAlgorithm(Member);

impl PyAlgorithm {
    fn entry(&self) -> &'static Algorithm {
        self.0.algorithm()
    }
}

#[pymethods]
impl PyAlgorithm {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        find(name).map(PyAlgorithm).map_err(raise)
    }

    #[getter]
    fn name(&self) -> String {
        self.0.name()
    }

    #[getter]
    fn summary(&self) -> &'static str {
        self.entry().summary
    }

    #[getter]
    fn source(&self) -> &'static str {
        self.entry().source
    }

    #[getter]
    fn collectives<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.entry().collectives().map(Collective::name).collect::<Vec<_>>())
    }

    #[getter]
    fn parameter(&self) -> Option<(&'static str, &'static str)> {
        self.entry().parameter.as_ref().map(|parameter| (parameter.name, parameter.meaning))
    }

    #[pyo3(signature = (collective="allreduce"))]
    fn requirement(&self, collective: &str) -> PyResult<Option<&'static str>> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        Ok(self.entry().offer(collective).map(|offer| offer.requirement.text))
    }

    fn ports(&self, topology: TopologyArgument<'_>) -> PyResult<usize> {
        Ok(self.entry().ports.count(&topology.resolve()?))
    }

    #[pyo3(signature = (topology, collective="allreduce"))]
    fn supports(&self, topology: TopologyArgument<'_>, collective: &str) -> PyResult<bool> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        Ok(self.0.supports(&topology.resolve()?, collective).is_ok())
    }

    #[pyo3(signature = (topology, collective="allreduce"))]
    fn consistent(&self, topology: TopologyArgument<'_>, collective: &str) -> PyResult<bool> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        Ok(self.0.consistent(&topology.resolve()?, collective))
    }

    #[pyo3(signature = (topology, collective="allreduce"))]
    fn cost_line(&self, topology: TopologyArgument<'_>, collective: &str) -> PyResult<(usize, f64)> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        let line = self.0.cost_line(&topology.resolve()?, collective).map_err(raise)?;
        Ok((line.steps, line.sent))
    }

    fn __repr__(&self) -> String {
        format!("Algorithm('{}')", self.0)
    }
}

/// The catalogue; for a network with the members of every family that are worth trying on it.
#[pyfunction]
#[pyo3(signature = (topology=None))]
pub fn algorithms(topology: Option<TopologyArgument<'_>>) -> PyResult<Vec<PyAlgorithm>> {
    let Some(topology) = topology else {
        return catalogue().map(|algorithm| PyAlgorithm::new(algorithm.name)).collect();
    };
    let topology = topology.resolve()?;
    Ok(catalogue().flat_map(|algorithm| algorithm.members(&topology)).map(PyAlgorithm).collect())
}
