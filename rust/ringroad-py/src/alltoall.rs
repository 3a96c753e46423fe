//! `AlltoallFlow`: how much an all-to-all can carry on a network, and along which ways.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use ringroad_core::synthesis::alltoall::{
    concurrent_flow, held_by_relays, relayed, Bounds, Concurrent, Demands, MOST_CHUNKS,
};
use ringroad_core::synthesis::Network;

use crate::errors::schedule_error;
use crate::schedule::PySchedule;
use crate::topology::TopologyArgument;
use crate::watch::watched;

/// A flow that meets all demands of an all-to-all.
#[pyclass(name = "AlltoallFlow", module = "ringroad.synthesis", frozen)]
pub struct PyAlltoallFlow {
    network: Network,
    flow: Concurrent,
    bounds: Bounds,
}

/// The flow of one for each pair, or of demands by source, then by target.
#[pyfunction]
#[pyo3(signature = (topology, demands, gap, budget, progress))]
pub fn alltoall_flow(
    py: Python<'_>,
    topology: TopologyArgument<'_>,
    demands: Option<Vec<f64>>,
    gap: f64,
    budget: Option<f64>,
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
    let bounds = Bounds::of(&network, &demands);
    Ok(PyAlltoallFlow { network, flow, bounds })
}

#[pymethods]
impl PyAlltoallFlow {
    #[getter]
    fn ranks(&self) -> usize {
        self.network.ranks()
    }

    /// How full the busiest link is, in seconds for demands in bytes.
    #[getter]
    fn load(&self) -> f64 {
        self.flow.load / self.network.unit()
    }

    /// How full it must be.
    #[getter]
    fn bound(&self) -> f64 {
        self.flow.bound / self.network.unit()
    }

    #[getter]
    fn gap(&self) -> f64 {
        self.flow.gap()
    }

    #[getter]
    fn sweeps(&self) -> usize {
        self.flow.sweeps
    }

    /// The most that each pair can be given of its demand each second: by distance, by what a rank sends or receives, by
    /// halves of the network, and by the number of links.
    #[getter]
    fn bounds(&self) -> [Option<f64>; 4] {
        let Bounds { distance, rank, bisection, degree } = self.bounds;
        [Some(distance), Some(rank), bisection, degree].map(|bound| Some(bound? * self.network.unit()))
    }

    /// (source, target, bytes per second, how full) of all links, those side by side together.
    fn links(&self) -> Vec<(usize, usize, f64, f64)> {
        let unit = self.network.unit();
        let link = |(arc, load): (&ringroad_core::synthesis::Arc, &f64)| {
            let capacity = arc.capacity as f64 * unit;
            (arc.source, arc.target, capacity, load / capacity)
        };
        self.network.arcs().iter().zip(&self.flow.loads).map(link).collect()
    }

    /// The all-to-all in which blocks, cut into up to `pieces` chunks, are relayed along the ways, in up to `steps` steps; into
    /// how many chunks, and how many of them a rank holds at once for others.
    fn schedule(&self, py: Python<'_>, steps: usize, pieces: usize) -> PyResult<(PySchedule, usize, usize)> {
        let ranks = self.network.ranks();
        if self.network.nodes() > ranks {
            return Err(PyValueError::new_err(
                "there are switches, which pass on what they are given by routes and not in steps; take the algorithm direct",
            ));
        }
        if ranks * ranks > MOST_CHUNKS || pieces == 0 {
            return Err(PyValueError::new_err(format!(
                "{} blocks cannot be cut into {pieces} pieces each; a schedule has from 1 to {MOST_CHUNKS} chunks",
                ranks * ranks
            )));
        }
        py.detach(|| {
            let (made, pieces) = relayed("flow", &self.network, &self.flow, pieces, steps);
            let held = held_by_relays(&made);
            Ok((PySchedule(made), pieces, held))
        })
    }

    /// (target, share, ranks on the way) of all that `source` sends.
    fn ways(&self, source: usize) -> PyResult<Vec<(usize, f64, Vec<usize>)>> {
        if source >= self.network.ranks() {
            return Err(PyIndexError::new_err(format!("there are {} ranks", self.network.ranks())));
        }
        let mut ways = Vec::new();
        self.flow.ways(source, |target, share, arcs| {
            let next = arcs.iter().map(|arc| self.network.arcs()[*arc as usize].target);
            ways.push((target, share, std::iter::once(source).chain(next).collect()));
        });
        Ok(ways)
    }
}
