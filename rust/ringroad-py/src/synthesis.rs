//! Functions of `ringroad.synthesis`: what schedules that are made for a graph cost, without making them.

use pyo3::prelude::*;
use ringroad_core::synthesis::bfb;
use ringroad_core::Collective;

use crate::errors::{raise, schedule_error};
use crate::topology::TopologyArgument;

/// (steps, numerator, denominator).
type Cost = (usize, u128, u128);

/// Steps of the breadth-first allgather (or reduce-scatter, or both as an allreduce), and what all links of a rank carry
/// in it, in vectors.
#[pyfunction]
pub fn bfb_cost(py: Python<'_>, topology: TopologyArgument<'_>, collective: &str) -> PyResult<Cost> {
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
