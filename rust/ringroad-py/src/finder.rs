//! `Found`: a network that the topology finder knows.

use pyo3::prelude::*;
use ringroad_core::collective::Collective;
use ringroad_core::synthesis::finder::{self, Found};
use ringroad_core::synthesis::Ratio;

use crate::arguments::argument;

/// A network that the topology finder knows. `ringroad.lab.find` lists networks with their times.
#[pyclass(name = "Found", module = "ringroad", frozen)]
pub struct PyFound(Found);

#[pymethods]
impl PyFound {
    /// The spec of the network.
    #[getter]
    fn spec(&self) -> &str {
        &self.0.spec
    }

    /// The number of ranks.
    #[getter]
    fn ranks(&self) -> usize {
        self.0.ranks
    }

    /// The most links that leave a rank.
    #[getter]
    fn degree(&self) -> usize {
        self.0.degree
    }

    /// Whether every link has one back.
    #[getter]
    fn bidirectional(&self) -> bool {
        self.0.undirected
    }

    /// Whether all ranks have that many links: a generalised Kautz graph drops its loops.
    #[getter]
    fn regular(&self) -> bool {
        self.0.regular
    }

    /// The algorithm of the cost, "bfb" or "expanded".
    #[getter]
    fn algorithm(&self) -> &'static str {
        self.0.algorithm
    }

    /// Returns the cost of a collective by the algorithm.
    ///
    /// Args:
    ///     collective: "allreduce", "allgather" or "reduce_scatter".
    ///
    /// Returns:
    ///     The number of steps, and numerator and denominator of the bandwidth term.
    ///
    /// Raises:
    ///     ValueError: The collective is another one.
    fn cost(&self, #[pyo3(from_py_with = argument)] collective: &str) -> PyResult<(usize, u128, u128)> {
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

/// Finds the networks of which no other one has both fewer steps and a smaller bandwidth term.
///
/// Args:
///     ranks: The number of ranks.
///     degree: The number of links that leave each rank.
///     bidirectional: Whether every link must have one back.
///
/// Returns:
///     `Found` objects, the fewest steps first.
///
/// Raises:
///     ValueError: There is no such network.
#[pyfunction]
pub fn find_networks(
    py: Python<'_>,
    #[pyo3(from_py_with = argument)] ranks: usize,
    #[pyo3(from_py_with = argument)] degree: usize,
    #[pyo3(from_py_with = argument)] bidirectional: bool,
) -> PyResult<Vec<PyFound>> {
    let found = py.detach(|| finder::find(ranks, degree, bidirectional));
    let found = found.map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    Ok(found.into_iter().map(PyFound).collect())
}

/// Returns the fewest steps in which a rank can reach all others, by the Moore bound.
///
/// Args:
///     ranks: The number of ranks.
///     degree: The number of links that leave each rank.
///     bidirectional: Whether every link has one back.
///
/// Returns:
///     The steps; None if not all ranks can be reached.
#[pyfunction]
pub fn moore_steps(
    #[pyo3(from_py_with = argument)] ranks: usize,
    #[pyo3(from_py_with = argument)] degree: usize,
    #[pyo3(from_py_with = argument)] bidirectional: bool,
) -> Option<usize> {
    let bound = if bidirectional { finder::undirected_moore_steps } else { finder::moore_steps };
    Some(bound(ranks, degree)).filter(|steps| *steps < usize::MAX)
}
