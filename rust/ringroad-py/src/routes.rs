//! `RoutingTable`: one path for each pair of ranks of a network.

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use ringroad_core::synthesis::routes as search;
use ringroad_core::synthesis::routes::NoRoutes;
use ringroad_core::topology::{Channels, RoutingTable};
use ringroad_core::Topology;

use crate::errors::{raise, schedule_error};
use crate::topology::{PyTopology, TopologyArgument};
use crate::watch::watched;

/// The paths of all pairs of a topology's ranks.
#[pyclass(name = "RoutingTable", module = "ringroad.routes", frozen)]
pub struct PyRoutingTable {
    topology: Topology,
    table: Arc<RoutingTable>,
}

/// The link, the nodes where it starts and ends, and the channel.
type Hop = (usize, usize, usize, u8);

impl PyRoutingTable {
    /// Checked, like tables from anywhere.
    fn checked(topology: Topology, table: RoutingTable) -> PyResult<PyRoutingTable> {
        let table = Arc::new(table);
        let topology = topology.with_routes(table.clone()).map_err(raise)?;
        Ok(PyRoutingTable { topology, table })
    }
}

fn no_routes(error: NoRoutes) -> PyErr {
    match error {
        NoRoutes::Unsuitable(error) => schedule_error(error),
        NoRoutes::Topology(error) => raise(error),
    }
}

/// Paths that load links as evenly as any flow, or nearly so, and how long the busiest link takes at least for a byte of
/// each pair.
#[pyfunction]
pub fn balanced_routes(
    py: Python<'_>,
    topology: TopologyArgument<'_>,
    gap: f64,
    budget: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(PyRoutingTable, f64)> {
    let topology = topology.resolve()?;
    let found = watched(py, gap, budget, progress, |go_on| search::balanced_routes(&topology, gap, go_on))?;
    let search::BalancedRoutes { table, bound } = found.map_err(no_routes)?;
    Ok((py.detach(|| PyRoutingTable::checked(topology, table))?, bound))
}

/// How long the busiest link takes at least for a byte of each pair, whatever the routes.
#[pyfunction]
pub fn least_load(
    py: Python<'_>,
    topology: TopologyArgument<'_>,
    gap: f64,
    budget: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<f64> {
    let topology = topology.resolve()?;
    let found = watched(py, gap, budget, progress, |go_on| search::least_load(&topology, gap, go_on))?;
    found.map_err(no_routes)
}

/// Single shortest paths (`shortest`), those up and then down (`up-down`), or those that the topology has (`own`).
#[pyfunction]
pub fn plain_routes(
    py: Python<'_>,
    topology: TopologyArgument<'_>,
    method: &str,
) -> PyResult<PyRoutingTable> {
    let topology = topology.resolve()?;
    let make = match method {
        "shortest" => RoutingTable::shortest,
        "up-down" => RoutingTable::up_down,
        "own" => RoutingTable::of,
        _ => return Err(PyValueError::new_err(format!("no routes are made by {method:?}"))),
    };
    py.detach(|| PyRoutingTable::checked(topology.clone(), make(&topology).map_err(raise)?))
}

#[pymethods]
impl PyRoutingTable {
    #[getter]
    fn topology(&self) -> PyTopology {
        PyTopology(self.topology.clone())
    }

    #[getter]
    fn channels(&self) -> usize {
        self.table.channels()
    }

    /// How long the busiest link takes for a byte of each pair.
    #[getter]
    fn load(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.table.load(&self.topology))
    }

    fn counts(&self, py: Python<'_>) -> Vec<u64> {
        py.detach(|| self.table.counts(&self.topology))
    }

    fn path(&self, source: usize, target: usize) -> PyResult<Vec<Hop>> {
        let ranks = self.table.ranks();
        if source.max(target) >= ranks {
            return Err(PyIndexError::new_err(format!("there are {ranks} ranks, numbered from 0")));
        }
        let hop = |(id, channel): (usize, u8)| {
            let link = &self.topology.links()[id];
            (id, link.source, link.target, channel)
        };
        Ok(self.table.hops(source, target).map(hop).collect())
    }

    /// The length of the longest path.
    fn longest(&self, py: Python<'_>) -> usize {
        let ranks = self.table.ranks();
        let hops = |pair: usize| self.table.path(pair / ranks, pair % ranks).len();
        py.detach(|| (0..ranks * ranks).map(hops).max().unwrap_or(0))
    }

    fn with_channels(&self, py: Python<'_>, way: &str) -> PyResult<PyRoutingTable> {
        let way = match way {
            "turns" => Channels::Turns,
            "lash" => Channels::Lash,
            _ => return Err(PyValueError::new_err(format!("channels are by turns or lash, not by {way:?}"))),
        };
        py.detach(|| {
            let made = self.table.with_channels(&self.topology, way).map_err(raise)?;
            PyRoutingTable::checked(self.topology.clone(), made)
        })
    }

    /// Links and channels that may be waited for in a circle.
    fn circle(&self, py: Python<'_>) -> Option<Vec<(usize, u8)>> {
        py.detach(|| self.table.circle())
    }

    /// The lines of a source's paths.
    fn csv(&self, source: usize) -> String {
        self.table.csv(&self.topology, source)
    }
}
