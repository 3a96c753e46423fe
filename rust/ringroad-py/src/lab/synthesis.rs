//! Functions of `ringroad.lab.synthesis`: costs of schedules for a graph, without building the schedules.

use pyo3::prelude::*;
use ringroad_core::synthesis::bfb::BreadthFirst;

use crate::arguments::Text;
use crate::interpreter::errors::{raise, schedule_error};
use crate::results::object;
use crate::values::topology::TopologyArgument;

/// The Python module with the classes of these results.
pub const SYNTHESIS: &str = "ringroad.lab.synthesis";

/// Returns the cost of breadth-first broadcast (algorithm `bfb`). `ringroad.synthesis.bfb_cost` calls it.
#[pyfunction]
pub fn bfb_cost<'py>(
    py: Python<'py>,
    topology: TopologyArgument<'_>,
    collective: Text<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let (topology, collective) = (topology.resolve()?, collective.parse().map_err(raise)?);
    let cost = py.detach(|| BreadthFirst::from_topology(&topology, collective)).map_err(schedule_error)?;
    object(py, SYNTHESIS, &cost)
}
