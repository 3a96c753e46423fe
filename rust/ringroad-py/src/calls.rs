//! The part that all calls of a communicator share: keyword arguments, and blocking or returning a `Work`.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyAny;
use ringroad_core::algorithms::{self, Member};
use ringroad_runtime::{given, Called, ReduceOp, Request, Work};

use crate::communicator::PyCommunicator;
use crate::errors::{raise, schedule_error, whole};
use crate::schedule::PySchedule;
use crate::work::{duration, wait_until, PyWork};

/// A schedule of the user's own, or the path of its file.
#[derive(FromPyObject)]
pub enum Given<'py> {
    Schedule(PyRef<'py, PySchedule>),
    File(PathBuf),
}

impl Given<'_> {
    fn member(self, py: Python<'_>) -> PyResult<Member> {
        match self {
            Given::Schedule(schedule) => {
                let schedule = &schedule.0;
                py.detach(|| algorithms::given::add(schedule)).map_err(schedule_error)
            }
            Given::File(path) => py.detach(|| given::read(&path)).map_err(raise),
        }
    }
}

/// The members of schedules of the user's own.
pub fn members(py: Python<'_>, schedules: Vec<Given<'_>>) -> PyResult<Vec<Member>> {
    schedules.into_iter().map(|given| given.member(py)).collect()
}

/// The argument `algorithm=` of a call.
#[derive(FromPyObject)]
pub enum By<'py> {
    Name(PyBackedStr),
    Given(Given<'py>),
}

impl By<'_> {
    fn member(self, py: Python<'_>) -> PyResult<Member> {
        match self {
            By::Name(name) => match name.strip_prefix("file:") {
                Some(path) => Given::File(path.into()).member(py),
                None => algorithms::find(&name).map_err(raise),
            },
            By::Given(given) => given.member(py),
        }
    }
}

/// The keyword arguments that all calls take.
pub struct How<'py> {
    pub algorithm: Option<By<'py>>,
    pub timeout: Option<f64>,
    pub async_op: bool,
}

/// Reads `op=` and `factor=`: the reduction, and the factor of this rank's data.
pub fn reduction(op: &str, factor: Option<f64>) -> PyResult<(ReduceOp, f64)> {
    let op: ReduceOp = op.parse().map_err(raise)?;
    Ok((op, op.factor(factor).map_err(raise)?))
}

pub fn root(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole(object, "root")
}

pub fn peer(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole(object, "peer")
}

pub fn any_peer(object: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    (!object.is_none()).then(|| peer(object)).transpose()
}

pub fn tag(object: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole(object, "tag")
}

pub fn elements(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole(object, "elements")
}

impl PyCommunicator {
    /// Makes a call. Returns its result, or with `async_op=True` its `Work`.
    pub fn run(
        &self,
        py: Python<'_>,
        mut request: Request,
        how: How<'_>,
        result: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        request.key.algorithm = how.algorithm.map(|by| by.member(py)).transpose()?;
        request.timeout = duration(how.timeout)?;
        if how.async_op {
            let work = py.detach(|| self.0.start(request).inspect(Work::in_background)).map_err(raise)?;
            return Ok(Py::new(py, PyWork { work, result })?.into_any());
        }
        if let Called::InFlight(work) = py.detach(|| self.0.call(request)).map_err(raise)? {
            if let Err(interrupt) = wait_until(py, &work, None) {
                // The caller may now reuse the arrays, so the call must stop on all ranks.
                let _ = py.detach(|| self.0.abort("interrupted by a signal"));
                return Err(interrupt);
            }
            work.result().unwrap_or(Ok(())).map_err(raise)?;
        }
        Ok(result.unwrap_or_else(|| py.None()))
    }
}

#[pymethods]
impl PyCommunicator {
    /// Waits until all ranks have called it.
    ///
    /// Args:
    #[doc = call_arguments!()]
    ///
    /// Returns:
    ///     None. With `async_op=True` a `Work`.
    ///
    /// Raises:
    ///     ValueError: `timeout` is not above 0.
    #[doc = call_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.barrier(async_op=True)
    ///     >>> b.barrier()
    ///     >>> work.wait()
    ///     True
    #[pyo3(signature = (*, timeout=None, async_op=false))]
    fn barrier(&self, py: Python<'_>, timeout: Option<f64>, async_op: bool) -> PyResult<Py<PyAny>> {
        self.run(py, Request::barrier(), How { algorithm: None, timeout, async_op }, None)
    }
}
