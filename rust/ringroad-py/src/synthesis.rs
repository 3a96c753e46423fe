//! Functions of `ringroad.lab.synthesis`: costs of schedules for a graph, without building the schedules.

use pyo3::prelude::*;
use ringroad_core::synthesis::bfb;
use ringroad_core::Collective;

use crate::arguments::argument;
use crate::errors::{raise, schedule_error};
use crate::topology::TopologyArgument;

/// Steps, and numerator and denominator of the bandwidth term.
type Cost = (usize, u128, u128);

/// Returns the cost of breadth-first broadcast (algorithm `bfb`) without building its schedule.
///
/// Args:
///     topology: The network.
///     collective: "allgather", "reduce_scatter" or "allreduce".
///
/// Returns:
///     The number of steps, and numerator and denominator of what all links of a rank carry, in
///     vectors.
///
/// Raises:
///     ScheduleError: The network or the collective does not suit the algorithm.
///     ValueError: The collective is unknown.
///     TopologyError: The topology is malformed.
#[pyfunction]
pub fn bfb_cost(
    py: Python<'_>,
    #[pyo3(from_py_with = argument)] topology: TopologyArgument<'_>,
    #[pyo3(from_py_with = argument)] collective: &str,
) -> PyResult<Cost> {
    let (topology, collective) = (topology.resolve()?, collective.parse().map_err(raise)?);
    let [gather, scatter] = py.detach(|| bfb::costs(&topology)).map_err(schedule_error)?;
    let of = |costs: &[&bfb::Cost]| {
        let bandwidth = costs.iter().map(|cost| cost.bandwidth()).sum::<ringroad_core::synthesis::Ratio>();
        let steps = costs.iter().map(|cost| cost.loads.len()).sum();
        (steps, bandwidth.numerator(), bandwidth.denominator())
    };
    match collective {
        Collective::Allgather => Ok(of(&[&gather])),
        Collective::ReduceScatter => Ok(of(&[&scatter])),
        Collective::Allreduce => Ok(of(&[&scatter, &gather])),
        other => Err(schedule_error(format!(
            "bfb performs no {other}; choose allgather, reduce_scatter or allreduce"
        ))),
    }
}
