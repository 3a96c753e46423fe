//! The topology finder.

use pyo3::prelude::*;
use ringroad_lab::finder::Wanted;

use crate::arguments::{argument, length};
use crate::interpreter::errors::raise;
use crate::results::object;

/// Searches for networks. `ringroad.lab.find` calls it, and says what the arguments mean.
#[pyfunction]
pub fn find_networks<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = argument)] ranks: usize,
    #[pyo3(from_py_with = argument)] degrees: Vec<usize>,
    #[pyo3(from_py_with = argument)] bidirectional: bool,
    #[pyo3(from_py_with = argument)] collective: &str,
    #[pyo3(from_py_with = argument)] alpha: f64,
    #[pyo3(from_py_with = length)] bytes: u64,
    #[pyo3(from_py_with = argument)] bandwidth: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let collective = collective.parse().map_err(raise)?;
    let wanted = Wanted { ranks, degrees, bidirectional, collective, alpha, bytes, bandwidth };
    let found = py.detach(|| wanted.search());
    let found = found.map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    object(py, "ringroad.lab._finding", &found)
}

/// Returns the fewest steps in which a rank can reach all others, by the Moore bound.
#[pyfunction]
pub fn moore_steps(
    #[pyo3(from_py_with = argument)] ranks: usize,
    #[pyo3(from_py_with = argument)] degree: usize,
    #[pyo3(from_py_with = argument)] bidirectional: bool,
) -> Option<usize> {
    ringroad_core::topology::moore_steps(ranks, degree, bidirectional)
}
