//! `Found`: a network that the topology finder knows.

use pyo3::prelude::*;
use ringroad_core::collective::Collective;
use ringroad_core::synthesis::finder::{self, Found};
use ringroad_core::synthesis::Ratio;

/// A network worth knowing.
#[pyclass(name = "Found", module = "ringroad", frozen)]
pub struct PyFound(Found);

#[pymethods]
impl PyFound {
    #[getter]
    fn spec(&self) -> &str {
        &self.0.spec
    }

    #[getter]
    fn ranks(&self) -> usize {
        self.0.ranks
    }

    #[getter]
    fn degree(&self) -> usize {
        self.0.degree
    }

    #[getter]
    fn bidirectional(&self) -> bool {
        self.0.undirected
    }

    /// Steps, and the bandwidth term as numerator and denominator.
    fn cost(&self, collective: &str) -> PyResult<(usize, u128, u128)> {
        let cost = &self.0.cost;
        let (steps, term): (usize, Ratio) = match collective.parse() {
            Ok(Collective::Allreduce) => (2 * cost.steps, cost.allreduce()),
            Ok(Collective::Allgather) => (cost.steps, cost.allgather),
            Ok(Collective::ReduceScatter) => (cost.steps, cost.reduce_scatter),
            _ => {
                return Err(pyo3::exceptions::PyValueError::new_err(format!(
                    "networks are judged by allreduce, allgather or reduce_scatter, not {collective:?}"
                )))
            }
        };
        Ok((steps, term.numerator(), term.denominator()))
    }
}

/// The networks of which no other one is better, the fewest steps first.
#[pyfunction]
pub fn find_networks(
    py: Python<'_>,
    ranks: usize,
    degree: usize,
    bidirectional: bool,
) -> PyResult<Vec<PyFound>> {
    let found = py.detach(|| finder::find(ranks, degree, bidirectional));
    let found = found.map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    Ok(found.into_iter().map(PyFound).collect())
}

/// The fewest steps in which all can be reached; `None` where they cannot.
#[pyfunction]
pub fn moore_steps(ranks: usize, degree: usize, bidirectional: bool) -> Option<usize> {
    let bound = if bidirectional { finder::undirected_moore_steps } else { finder::moore_steps };
    Some(bound(ranks, degree)).filter(|steps| *steps < usize::MAX)
}
