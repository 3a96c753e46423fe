//! `Algorithm` and the catalogue.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ringroad_core::algorithms::{catalogue, Algorithm};
use ringroad_core::Collective;

use crate::errors::raise;

/// An entry of the catalogue.
#[pyclass(name = "Algorithm", module = "ringroad", frozen)]
pub struct PyAlgorithm(&'static Algorithm);

#[pymethods]
impl PyAlgorithm {
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }

    #[getter]
    fn summary(&self) -> &'static str {
        self.0.summary
    }

    #[getter]
    fn source(&self) -> &'static str {
        self.0.source
    }

    /// For which numbers of ranks; where collectives differ, each with its own.
    #[getter]
    fn requirement(&self) -> String {
        let first = self.0.offers[0].requirement;
        if self.0.offers.iter().all(|o| o.requirement == first) {
            return first.to_string();
        }
        let each: Vec<String> =
            self.0.offers.iter().map(|o| format!("{}: {}", o.collective.name(), o.requirement)).collect();
        each.join("; ")
    }

    #[getter]
    fn ports(&self) -> usize {
        self.0.ports
    }

    #[getter]
    fn collectives<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.collectives().map(Collective::name).collect::<Vec<_>>())
    }

    fn consistent(&self, ranks: usize) -> bool {
        self.0.consistent(ranks)
    }

    #[pyo3(signature = (ranks, collective="allreduce"))]
    fn cost_line(&self, ranks: usize, collective: &str) -> PyResult<(usize, f64)> {
        let line =
            self.0.cost_line(ranks, collective.parse::<Collective>().map_err(raise)?).map_err(raise)?;
        Ok((line.steps, line.sent))
    }

    fn __repr__(&self) -> String {
        format!("Algorithm('{}')", self.0.name)
    }
}

/// The catalogue.
#[pyfunction]
pub fn algorithms() -> Vec<PyAlgorithm> {
    catalogue().iter().map(PyAlgorithm).collect()
}
