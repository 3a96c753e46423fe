//! Handles of processes, and communicators of the processes behind them.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_runtime::bootstrap::{Handle, Store};
use ringroad_runtime::communicator::{GoOn, Means};
use ringroad_runtime::config::{Config, Secret};
use ringroad_runtime::network::DISCOVERY;
use ringroad_runtime::{Communicator, Error};

use crate::arguments::argument;
use crate::array::Numpy;
use crate::communicator::{options, PyCommunicator};
use crate::errors::raise;
use crate::info::ucx_wheel;
use crate::shutdown::{counted, waiting};
use crate::store::Listening;
use crate::topology::TopologyArgument;
use crate::work::may_call;

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

/// Runs a function that waits for other ranks. A signal interrupts it, and the exception of its handler is raised.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    run: impl Send + FnOnce(&GoOn) -> ringroad_runtime::Result<T>,
) -> PyResult<T> {
    may_call()?;
    let listening = Arc::new(Listening::without_store());
    let listener = listening.clone();
    let go_on: GoOn = Arc::new(move || listener.go_on());
    let made = waiting(py, || run(&go_on));
    listening.outcome(py, made)
}

/// Makes a communicator of the processes that issued some handles. `ringroad.regroup` calls it.
#[pyfunction]
#[pyo3(signature = (handles, *, sort=false, own=None, uuid=0, timeout=None, topology=None, algorithm=None, deterministic=None))]
pub fn regroup(
    py: Python<'_>,
    #[pyo3(from_py_with = argument)] handles: Vec<String>,
    #[pyo3(from_py_with = argument)] sort: bool,
    #[pyo3(from_py_with = argument)] own: Option<&str>,
    #[pyo3(from_py_with = argument)] uuid: u64,
    #[pyo3(from_py_with = argument)] timeout: Option<f64>,
    #[pyo3(from_py_with = argument)] topology: Option<TopologyArgument<'_>>,
    #[pyo3(from_py_with = argument)] algorithm: Option<String>,
    #[pyo3(from_py_with = argument)] deterministic: Option<&str>,
) -> PyResult<PyCommunicator> {
    let _counted = counted();
    Numpy::get(py)?;
    let parse = |text: &str| Handle::parse(text).map_err(PyValueError::new_err);
    let mut handles = handles.iter().map(|text| parse(text)).collect::<PyResult<Vec<Handle>>>()?;
    if sort {
        handles.sort_unstable();
    }
    let rank = own_rank(&handles, own.map(parse).transpose()?.as_ref())?;
    let config = Config::from_env().map_err(raise)?;
    let options = options(timeout, topology, algorithm, deterministic, String::new())?;
    let means = Means { wheel: ucx_wheel(py)?, config, options, discovery: Some(DISCOVERY) };
    let uuid = uuid.to_string();
    let made = interruptible(py, |go_on| Communicator::regroup(&handles, rank, &uuid, &means, go_on))?;
    Ok(PyCommunicator::new(made))
}
