//! `AlltoallFlow`: the rate of an all-to-all on a network, and its paths.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use ringroad_core::synthesis::alltoall::{
    concurrent_flow, held_by_relays, relayed, Bounds, Concurrent, Demands, Ended, Limits, MOST_CHUNKS,
};
use ringroad_core::synthesis::{Budget, Network};

use crate::arguments::argument;
use crate::errors::schedule_error;
use crate::schedule::PySchedule;
use crate::topology::TopologyArgument;
use crate::watch::watched;

/// A flow that meets all demands of an all-to-all. `ringroad.lab.synthesis.AlltoallFlow` shows it.
#[pyclass(name = "AlltoallFlow", module = "ringroad.lab.synthesis", frozen)]
pub struct PyAlltoallFlow {
    network: Network,
    flow: Concurrent,
}

/// A schedule; the number of chunks of a block; the most chunks that a rank holds for others at once; and by which
/// fractions the busiest link and all steps together exceed the bound.
type Relayed = (PySchedule, usize, usize, f64, f64);

/// Finds a flow for an all-to-all. `ringroad.lab.synthesis.alltoall_flow` calls it, and says what the
/// arguments mean.
///
/// Args:
///     topology: The network.
///     demands: Bytes of each pair by source, then by target. None: one of each pair.
///     gap: The search ends when the load exceeds the bound by at most this fraction.
///     budget: The search ends after this many seconds.
///     progress: Called with the number of sweeps, the load and the bound.
///
/// Returns:
///     An `AlltoallFlow`.
///
/// Raises:
///     ValueError: A number is invalid.
///     ScheduleError: Ranks cannot reach each other.
///     TopologyError: The topology is malformed.
#[pyfunction]
#[pyo3(signature = (topology, demands, gap, budget, progress))]
pub fn alltoall_flow(
    py: Python<'_>,
    #[pyo3(from_py_with = argument)] topology: TopologyArgument<'_>,
    #[pyo3(from_py_with = argument)] demands: Option<Vec<f64>>,
    #[pyo3(from_py_with = argument)] gap: f64,
    #[pyo3(from_py_with = argument)] budget: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyAlltoallFlow> {
    let topology = topology.resolve()?;
    let network = Network::with_switches(&topology);
    let demands = match demands {
        None => Demands::Uniform,
        Some(demands) => Demands::matrix(network.ranks(), demands)
            .map_err(|error| PyValueError::new_err(error.to_string()))?,
    };
    let flow = watched(py, gap, budget, progress, |go_on| concurrent_flow(&network, &demands, gap, go_on))?;
    let flow = flow.map_err(schedule_error)?;
    Ok(PyAlltoallFlow { network, flow })
}

#[pymethods]
impl PyAlltoallFlow {
    /// The number of ranks.
    #[getter]
    fn ranks(&self) -> usize {
        self.network.ranks()
    }

    /// The seconds that the busiest link is busy, for demands in bytes.
    #[getter]
    fn load(&self) -> f64 {
        self.flow.load / self.network.unit()
    }

    /// The seconds that the busiest link is busy in any flow, at least.
    #[getter]
    fn bound(&self) -> f64 {
        self.flow.bound / self.network.unit()
    }

    /// How far `load` exceeds `bound`, as a fraction of it.
    #[getter]
    fn gap(&self) -> f64 {
        self.flow.gap()
    }

    /// How often the search looked at all pairs; 0 if all ranks look alike.
    #[getter]
    fn sweeps(&self) -> usize {
        self.flow.sweeps
    }

    /// Why the search ended: "exact", "gap", "budget" or "stuck".
    #[getter]
    fn ended(&self) -> &'static str {
        match self.flow.ended {
            Ended::Exact => "exact",
            Ended::Near => "gap",
            Ended::Asked => "budget",
            Ended::Stuck => "stuck",
        }
    }

    /// Bounds on how often a second all demands can be met: by distances, by single ranks, by halves of the
    /// network, and by the number of links. None for those that do not apply.
    #[getter]
    fn bounds(&self) -> [Option<f64>; 4] {
        let Bounds { distance, rank, bisection, degree } = self.flow.bounds;
        [Some(distance), Some(rank), bisection, degree].map(|bound| Some(bound? * self.network.unit()))
    }

    /// Returns all links, parallel ones together: source, target, bytes per second, and seconds busy.
    fn links(&self) -> Vec<(usize, usize, f64, f64)> {
        let link = |(arc, load): (&ringroad_core::synthesis::Arc, &f64)| {
            (arc.source, arc.target, arc.bandwidth, load / arc.bandwidth)
        };
        self.network.arcs().iter().zip(&self.flow.loads).map(link).collect()
    }

    /// Makes a schedule of the flow, in which ranks relay chunks of blocks along its paths.
    ///
    /// Args:
    ///     steps: The most steps. None: as many as it takes.
    ///     pieces: The most chunks of a block. None: as many as it takes.
    ///
    /// Returns:
    ///     The schedule, the number of chunks of a block, the most chunks that a rank holds for others at once,
    ///     and by which fractions the busiest link and all steps together exceed the bound.
    ///
    /// Raises:
    ///     ValueError: The network has switches, or there would be too many chunks.
    fn schedule(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument)] steps: Option<usize>,
        #[pyo3(from_py_with = argument)] pieces: Option<usize>,
    ) -> PyResult<Relayed> {
        let ranks = self.network.ranks();
        if self.network.nodes() > ranks {
            return Err(PyValueError::new_err(
                "there are switches, which forward messages by routes and not in steps; use the algorithm direct",
            ));
        }
        if ranks * ranks > MOST_CHUNKS || pieces == Some(0) {
            return Err(PyValueError::new_err(format!(
                "{} blocks cannot be cut into {} pieces each; a schedule has from 1 to {MOST_CHUNKS} chunks",
                ranks * ranks,
                pieces.unwrap_or(1)
            )));
        }
        py.detach(|| {
            let made =
                relayed("flow", &self.network, &self.flow, Limits { pieces, steps }, Budget::UNLIMITED)
                    .expect("nothing ends it");
            let held = held_by_relays(&made.schedule);
            // One rank has nothing to send.
            let over = |full: f64| if full > 0.0 { (full / self.flow.bound - 1.0).max(0.0) } else { 0.0 };
            Ok((PySchedule(made.schedule), made.pieces, held, over(made.load), over(made.length)))
        })
    }

    /// Returns the paths of what one rank sends.
    ///
    /// Args:
    ///     source: The rank.
    ///
    /// Returns:
    ///     Tuples of a target, the share of the pair's demand, and the ranks on the path.
    ///
    /// Raises:
    ///     IndexError: There is no such rank.
    fn ways(
        &self,
        #[pyo3(from_py_with = argument)] source: usize,
    ) -> PyResult<Vec<(usize, f64, Vec<usize>)>> {
        if source >= self.network.ranks() {
            return Err(PyIndexError::new_err(format!(
                "there are {} ranks, numbered from 0",
                self.network.ranks()
            )));
        }
        let mut ways = Vec::new();
        self.flow.ways(source, |target, share, arcs| {
            let next = arcs.iter().map(|arc| self.network.arcs()[*arc as usize].target);
            ways.push((target, share, std::iter::once(source).chain(next).collect()));
        });
        Ok(ways)
    }
}
