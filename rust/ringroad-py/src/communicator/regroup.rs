//! Handles of processes, and communicators of the processes behind them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_runtime::bootstrap::Handle;
use ringroad_runtime::communicator::Means;
use ringroad_runtime::config::{Config, Secret};
use ringroad_runtime::network::DISCOVERY;
use ringroad_runtime::{Communicator, Error};

use super::{options, PyCommunicator};
use crate::arguments::{argument, Number, Plain, Text};
use crate::arrays::array::Numpy;
use crate::interpreter::errors::raise;
use crate::interpreter::shutdown::counted;
use crate::job::info::ucx_wheel;
use crate::job::store::interruptible;
use crate::values::topology::TopologyArgument;

/// Returns a text by which other processes find this one, to form a group with it.
///
/// Each call returns a new handle. Bring the handles of all processes together in any way, for example
/// in a file, and pass them to `ringroad.regroup`. Anyone with a handle can join this process's
/// groups; if RINGROAD_SECRET is set, they also need the secret.
///
/// Returns:
///     The handle, a short text of printable characters.
///
/// Raises:
///     TransportError: This process cannot listen on a port.
///     ConfigError: A RINGROAD_* variable has a value that cannot be used.
///
/// Example:
///     >>> with ringroad.regroup([ringroad.handle()]) as comm:
///     ...     comm.size
///     1
#[pyfunction]
pub fn handle(py: Python<'_>) -> PyResult<String> {
    let config = Config::from_env().map_err(raise)?;
    let issued = py.detach(|| Handle::issue(config.secret.as_ref().map(Secret::reveal), config.tcp_ports));
    let handle =
        issued.map_err(|error| raise(Error::Transport(format!("cannot listen for other ranks: {error}"))))?;
    Ok(handle.to_text())
}

/// Returns the index of this process's handle: `own` if it is given, else the only one that this process issued.
fn own_rank(handles: &[Handle], own: Option<&Handle>) -> PyResult<usize> {
    let is_own = |handle: &Handle| own.map_or_else(|| handle.is_own(), |own| own == handle);
    let mut own = (0..handles.len()).filter(|&index| is_own(&handles[index]));
    match (own.next(), own.next()) {
        (Some(rank), None) => Ok(rank),
        (None, _) => Err(PyValueError::new_err(
            "none of these handles is this process's own; pass what handle() returned",
        )),
        (Some(_), Some(_)) => Err(PyValueError::new_err(
            "this process has issued several of these handles; pass the one to use as own=",
        )),
    }
}

/// Makes a communicator of the processes that issued some handles. `ringroad.regroup` calls it.
#[pyfunction]
#[pyo3(signature = (handles, *, sort=false, own=None, uuid=0, timeout=None, topology=None, algorithm=None, deterministic=None))]
pub fn regroup(
    py: Python<'_>,
    handles: Plain<Vec<String>>,
    #[pyo3(from_py_with = argument)] sort: bool,
    own: Option<Text<'_>>,
    #[pyo3(from_py_with = argument)] uuid: u64,
    timeout: Option<Number>,
    topology: Option<TopologyArgument<'_>>,
    algorithm: Option<Plain<String>>,
    deterministic: Option<Text<'_>>,
) -> PyResult<PyCommunicator> {
    let _counted = counted();
    Numpy::get(py)?;
    let parse = |text: &str| Handle::parse(text).map_err(PyValueError::new_err);
    let mut handles = handles.0.iter().map(|text| parse(text)).collect::<PyResult<Vec<Handle>>>()?;
    if sort {
        handles.sort_unstable();
    }
    let rank = own_rank(&handles, Plain::inner(own).map(parse).transpose()?.as_ref())?;
    let config = Config::from_env().map_err(raise)?;
    let options = options(timeout, topology, algorithm, deterministic, String::new())?;
    let means = Means { wheel: ucx_wheel(py)?, config, options, discovery: Some(DISCOVERY) };
    let uuid = uuid.to_string();
    let made = interruptible(py, |go_on| Communicator::regroup(&handles, rank, &uuid, &means, go_on))?;
    Ok(PyCommunicator::new(made))
}
