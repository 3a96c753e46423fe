//! The topology finder.

use pyo3::prelude::*;
use ringroad_lab::finder::Wanted;

use crate::arguments::{Count, Length, Number, Plain, Text};
use crate::interpreter::errors::{raise, value_error};
use crate::results::object;

/// Searches for networks. `ringroad.lab.find` calls it, and says what the arguments mean.
#[pyfunction]
pub fn find_networks<'py>(
    py: Python<'py>,
    ranks: Count,
    degrees: Plain<Vec<usize>>,
    bidirectional: Plain<bool>,
    collective: Text<'_>,
    alpha: Number,
    bytes: Length,
    bandwidth: Number,
) -> PyResult<Bound<'py, PyAny>> {
    let collective = collective.parse().map_err(raise)?;
    let wanted = Wanted {
        ranks: ranks.0,
        degrees: degrees.0,
        bidirectional: bidirectional.0,
        collective,
        alpha: alpha.0,
        bytes: bytes.0,
        bandwidth: bandwidth.0,
    };
    let found = py.detach(|| wanted.search());
    let found = found.map_err(value_error)?;
    object(py, "ringroad.lab._finding", &found)
}

/// Returns the fewest steps in which a rank can reach all others, by the Moore bound.
#[pyfunction]
pub fn moore_steps(ranks: Count, degree: Count, bidirectional: Plain<bool>) -> Option<usize> {
    ringroad_core::topology::moore_steps(ranks.0, degree.0, bidirectional.0)
}
