//! `RoutingTable`: one path for each pair of ranks of a network.

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use ringroad_core::topology::RoutingTable;
use ringroad_core::Topology;
use ringroad_lab::routes::{self as lab, BalancedRoutes, Channels, NoRoutes, RouteFacts};
use ringroad_runtime::error::Error;

use crate::arguments::{Count, Number, Plain, Text};
use crate::interpreter::errors::{raise, schedule_error};
use crate::interpreter::watch::watched;
use crate::results::object;
use crate::values::topology::{PyTopology, TopologyArgument};

/// One path for each pair of ranks of a network. `ringroad.lab.routes.Routes` shows it.
#[pyclass(name = "RoutingTable", module = "ringroad.lab.routes", frozen)]
pub struct PyRoutingTable {
    topology: Topology,
    table: Arc<RoutingTable>,
}

/// The Python module with the classes of these results.
const ROUTES: &str = "ringroad.lab.routes";

impl PyRoutingTable {
    /// Checks the table against the topology, like a table from a file.
    fn checked(topology: Topology, table: RoutingTable) -> PyResult<PyRoutingTable> {
        let table = Arc::new(table);
        let topology = topology.with_routes(table.clone()).map_err(raise)?;
        Ok(PyRoutingTable { topology, table })
    }
}

fn no_routes(error: NoRoutes) -> PyErr {
    match error {
        NoRoutes::Unsuitable(error) => schedule_error(error),
        other => raise(Error::Topology(other.to_string())),
    }
}

/// Finds one path for each pair such that links are loaded evenly. `ringroad.lab.routes.balanced` calls it.
#[pyfunction]
pub fn balanced_routes(
    py: Python<'_>,
    topology: TopologyArgument<'_>,
    gap: Number,
    budget: Option<Number>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(PyRoutingTable, f64)> {
    let topology = topology.resolve()?;
    let found = watched(py, gap.0, Plain::inner(budget), progress, |go_on| {
        lab::balanced_routes(&topology, gap.0, go_on)
    })?;
    let BalancedRoutes { table, bound } = found.map_err(no_routes)?;
    Ok((py.detach(|| PyRoutingTable::checked(topology, table))?, bound))
}

/// Returns the seconds that the busiest link takes at least for a byte of each pair, with any routes.
#[pyfunction]
pub fn least_load(
    py: Python<'_>,
    topology: TopologyArgument<'_>,
    gap: Number,
    budget: Option<Number>,
    progress: Option<Py<PyAny>>,
) -> PyResult<f64> {
    let topology = topology.resolve()?;
    let found =
        watched(py, gap.0, Plain::inner(budget), progress, |go_on| lab::least_load(&topology, gap.0, go_on))?;
    found.map_err(no_routes)
}

/// Makes routes by a rule.
#[pyfunction]
pub fn plain_routes(
    py: Python<'_>,
    topology: TopologyArgument<'_>,
    method: Text<'_>,
) -> PyResult<PyRoutingTable> {
    let topology = topology.resolve()?;
    let make = match method.0 {
        "shortest" => lab::shortest,
        "up-down" => lab::up_down,
        "own" => RoutingTable::from_topology,
        _ => {
            return Err(PyValueError::new_err(format!(
                "unknown method {:?}; expected one of: shortest, up-down, own",
                method.0
            )))
        }
    };
    py.detach(|| PyRoutingTable::checked(topology.clone(), make(&topology).map_err(raise)?))
}

#[pymethods]
impl PyRoutingTable {
    /// The network with these routes.
    #[getter]
    fn topology(&self) -> PyTopology {
        PyTopology(self.topology.clone())
    }

    /// Returns what the routes are: the fields of `ringroad.lab.routes.Routes`.
    fn facts<'py>(&self, py: Python<'py>, bound: Option<Number>) -> PyResult<Bound<'py, PyAny>> {
        object(
            py,
            ROUTES,
            &py.detach(|| RouteFacts::from_table(&self.table, &self.topology, Plain::inner(bound))),
        )
    }

    /// Returns the hops of one path.
    fn path<'py>(&self, py: Python<'py>, source: Count, target: Count) -> PyResult<Bound<'py, PyAny>> {
        let ranks = self.table.ranks();
        if source.0.max(target.0) >= ranks {
            return Err(PyIndexError::new_err(format!("there are {ranks} ranks, numbered from 0")));
        }
        object(py, ROUTES, &lab::path_of(&self.table, &self.topology, source.0, target.0))
    }

    /// Returns the same paths on virtual channels on which messages cannot deadlock.
    fn with_channels(&self, py: Python<'_>, way: Text<'_>) -> PyResult<PyRoutingTable> {
        let way = match way.0 {
            "turns" => Channels::Turns,
            "lash" => Channels::Lash,
            _ => {
                return Err(PyValueError::new_err(format!("channels must be turns or lash, not {:?}", way.0)))
            }
        };
        py.detach(|| {
            let made = lab::with_channels(&self.table, &self.topology, way).map_err(no_routes)?;
            PyRoutingTable::checked(self.topology.clone(), made)
        })
    }

    /// Returns the lines of a CSV file for the paths of one source.
    fn csv(&self, source: Count) -> String {
        lab::csv(&self.table, &self.topology, source.0)
    }
}
