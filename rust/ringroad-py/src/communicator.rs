//! `Communicator`: how one is made, what it says of itself, and how it ends.

use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ringroad_runtime::bootstrap::Handle;
use ringroad_runtime::config::Config;
use ringroad_runtime::{Communicator, Options};

use crate::array;
use crate::errors::raise;
use crate::regroup::interruptible;
use crate::shutdown;
use crate::store::store_of;
use crate::topology::TopologyArgument;
use crate::work::duration;

/// A group of processes that call collectives together.
#[pyclass(name = "Communicator", module = "ringroad", frozen, weakref)]
pub struct PyCommunicator(pub Communicator);

pub fn options(
    timeout: Option<f64>,
    topology: Option<TopologyArgument<'_>>,
    algorithm: Option<String>,
    deterministic: Option<&str>,
    name: String,
) -> PyResult<Options> {
    let topology = topology.map(TopologyArgument::resolve).transpose()?;
    let size_invariant = match deterministic {
        None => None,
        Some("size-invariant") => Some(true),
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "deterministic={other:?} makes no sense; write \"size-invariant\" or None"
            )));
        }
    };
    Ok(Options { name, timeout: duration(timeout)?, topology, algorithm, size_invariant })
}

impl PyCommunicator {
    pub fn new(communicator: Communicator) -> PyCommunicator {
        shutdown::remember(communicator.closer());
        PyCommunicator(communicator)
    }
}

#[pymethods]
impl PyCommunicator {
    #[new]
    #[pyo3(signature = (store, rank, size, *, timeout=None, topology=None, algorithm=None, deterministic=None, settings=None, name="world".to_owned(), ucx_wheel=None))]
    fn connect(
        py: Python<'_>,
        store: &Bound<'_, PyAny>,
        rank: usize,
        size: usize,
        timeout: Option<f64>,
        topology: Option<TopologyArgument<'_>>,
        algorithm: Option<String>,
        deterministic: Option<&str>,
        settings: Option<HashMap<String, String>>,
        name: String,
        ucx_wheel: Option<PathBuf>,
    ) -> PyResult<Self> {
        let store = store_of(store)?;
        let config = Config::from_arguments(settings.unwrap_or_default()).map_err(raise)?;
        let options = options(timeout, topology, algorithm, deterministic, name)?;
        let communicator =
            py.detach(|| Communicator::connect(store.clone(), rank, size, ucx_wheel, &config, &options));
        Ok(PyCommunicator::new(store.outcome(py, communicator)?))
    }

    #[staticmethod]
    #[pyo3(signature = (size, *, timeout=None, topology=None, algorithm=None, deterministic=None))]
    fn in_process(
        size: usize,
        timeout: Option<f64>,
        topology: Option<TopologyArgument<'_>>,
        algorithm: Option<String>,
        deterministic: Option<&str>,
    ) -> PyResult<Vec<Self>> {
        let config = Config::from_env().map_err(raise)?;
        let options = options(timeout, topology, algorithm, deterministic, String::new())?;
        let group = Communicator::in_process(size, &config, &options).map_err(raise)?;
        Ok(group.into_iter().map(PyCommunicator::new).collect())
    }

    #[getter]
    fn rank(&self) -> usize {
        self.0.rank()
    }

    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn meeting(&self) -> String {
        format!("{:016x}", self.0.cards()[0].instance)
    }

    #[getter]
    fn timeout(&self) -> f64 {
        self.0.timeout().as_secs_f64()
    }

    #[getter]
    fn topology(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.choices()).topology.spec()
    }

    #[getter]
    fn has_switches(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.choices()).topology.nodes() > self.0.size()
    }

    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.transport()).map_err(raise)
    }

    #[getter]
    fn hosts(&self) -> Vec<String> {
        self.0.cards().iter().map(|c| c.host.clone()).collect()
    }

    #[pyo3(signature = (shape, dtype=None))]
    fn empty<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let double = PyString::new(py, "float64").into_any();
        array::empty(py, shape, dtype.unwrap_or(&double), |bytes| {
            py.detach(|| self.0.memory(bytes)).map_err(raise)
        })
    }

    #[getter]
    fn handles(&self) -> Vec<Option<String>> {
        self.0.handles().into_iter().map(|handle| handle.map(Handle::to_text)).collect()
    }

    #[pyo3(signature = (flag, *, timeout=None))]
    fn agree(&self, py: Python<'_>, flag: bool, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = duration(timeout)?;
        Ok(interruptible(py, |go_on| self.0.agree(flag, timeout, go_on))?.vote)
    }

    #[pyo3(signature = (*, timeout=None))]
    fn survivors(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<usize>> {
        let timeout = duration(timeout)?;
        Ok(interruptible(py, |go_on| self.0.agree(true, timeout, go_on))?.alive)
    }

    #[pyo3(signature = (*, timeout=None))]
    fn shrink(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<PyCommunicator> {
        let timeout = duration(timeout)?;
        interruptible(py, |go_on| self.0.shrink(timeout, go_on)).map(PyCommunicator::new)
    }

    fn trace(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        slf.py().import("ringroad.tracing")?.getattr("Trace")?.call_method1("of", (slf,))
    }

    #[pyo3(name = "_start_trace")]
    fn start_trace(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.start_trace()).map_err(raise)
    }

    #[pyo3(name = "_end_trace")]
    fn end_trace(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.end_trace().map(|recorded| recorded.to_chrome())).map_err(raise)
    }

    fn check_process(&self) -> PyResult<()> {
        self.0.check_process().map_err(raise)
    }

    fn lost(&self, py: Python<'_>) -> PyResult<Vec<(usize, String)>> {
        py.detach(|| self.0.lost()).map_err(raise)
    }

    #[pyo3(signature = (reason=""))]
    fn abort(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        py.detach(|| self.0.abort(reason)).map_err(raise)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, py: Python<'_>, _arguments: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<Communicator {:?}: rank {} of {}>", self.0.name(), self.0.rank(), self.0.size())
    }
}
