//! `AlltoallFlow`: the rate of an all-to-all on a network, and its paths.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use ringroad_core::synthesis::alltoall::{
    concurrent_flow, held_by_relays, relayed, Concurrent, Demands, Limits, MOST_CHUNKS,
};
use ringroad_core::synthesis::{Budget, Digraph};
use ringroad_lab::alltoall::{paths, FlowReport};

use super::synthesis::SYNTHESIS;
use crate::arguments::{Count, Number, Plain};
use crate::interpreter::errors::{schedule_error, value_error};
use crate::interpreter::watch::watched;
use crate::results::object;
use crate::values::schedule::PySchedule;
use crate::values::topology::TopologyArgument;

/// A flow that meets all demands of an all-to-all. `ringroad.lab.synthesis.AlltoallFlow` shows it.
#[pyclass(name = "AlltoallFlow", module = "ringroad.lab.synthesis", frozen)]
pub struct PyAlltoallFlow {
    network: Digraph,
    flow: Concurrent,
}

/// A schedule; the number of chunks of a block; the most chunks that a rank holds for others at once; and by which
/// fractions the busiest link and all steps together exceed the bound.
type RelayedTuple = (PySchedule, usize, usize, f64, f64);

/// Finds a flow for an all-to-all. `ringroad.lab.synthesis.alltoall_flow` calls it, and says what the
/// arguments mean.
#[pyfunction]
#[pyo3(signature = (topology, demands, gap, budget, progress))]
pub fn alltoall_flow(
    py: Python<'_>,
    topology: TopologyArgument<'_>,
    demands: Option<Plain<Vec<f64>>>,
    gap: Number,
    budget: Option<Number>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyAlltoallFlow> {
    let topology = topology.resolve()?;
    let network = Digraph::with_switches(&topology);
    let demands = match Plain::inner(demands) {
        None => Demands::Uniform,
        Some(demands) => Demands::matrix(network.ranks(), demands).map_err(value_error)?,
    };
    let flow = watched(py, gap.0, Plain::inner(budget), progress, |go_on| {
        concurrent_flow(&network, &demands, gap.0, go_on)
    })?;
    let flow = flow.map_err(schedule_error)?;
    Ok(PyAlltoallFlow { network, flow })
}

#[pymethods]
impl PyAlltoallFlow {
    /// What the flow is: the fields of `ringroad.lab.synthesis.AlltoallFlow`.
    fn report<'py>(&self, py: Python<'py>, times: Number) -> PyResult<Bound<'py, PyAny>> {
        object(py, SYNTHESIS, &FlowReport::from_flow(&self.flow, &self.network, times.0))
    }

    /// Makes a schedule of the flow, in which ranks relay chunks of blocks along its paths.
    fn schedule(
        &self,
        py: Python<'_>,
        steps: Option<Count>,
        pieces: Option<Count>,
    ) -> PyResult<RelayedTuple> {
        let (ranks, limits) =
            (self.network.ranks(), Limits { pieces: Plain::inner(pieces), steps: Plain::inner(steps) });
        if self.network.nodes() > ranks {
            return Err(PyValueError::new_err(
                "there are switches, which forward messages by routes and not in steps; use the algorithm direct",
            ));
        }
        if ranks * ranks > MOST_CHUNKS || limits.pieces == Some(0) {
            return Err(PyValueError::new_err(format!(
                "{} blocks cannot be cut into {} pieces each; a schedule has from 1 to {MOST_CHUNKS} chunks",
                ranks * ranks,
                limits.pieces.unwrap_or(1)
            )));
        }
        py.detach(|| {
            let made = relayed("flow", &self.network, &self.flow, limits, Budget::UNLIMITED)
                .expect("nothing ends it");
            let held = held_by_relays(&made.schedule);
            // One rank has nothing to send.
            let over = |full: f64| if full > 0.0 { (full / self.flow.bound - 1.0).max(0.0) } else { 0.0 };
            Ok((PySchedule(made.schedule), made.pieces, held, over(made.load), over(made.length)))
        })
    }

    /// Returns the paths of what one rank sends, by target.
    fn paths<'py>(&self, py: Python<'py>, source: Count) -> PyResult<Bound<'py, PyAny>> {
        let ranks = self.network.ranks();
        if source.0 >= ranks {
            return Err(PyIndexError::new_err(format!("there are {ranks} ranks, numbered from 0")));
        }
        object(py, SYNTHESIS, &paths(&self.flow, &self.network, source.0))
    }
}
