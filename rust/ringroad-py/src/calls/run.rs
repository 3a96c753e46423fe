//! The part that all calls of a communicator share: keyword arguments, and blocking or returning a `Work`.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyAny;
use ringroad_core::algorithms::{self, Member};
use ringroad_core::Wire;
use ringroad_runtime::choice::user_schedules;
use ringroad_runtime::{Called, MaxError, Memory, Message, Precision, ReduceOp, Request, Work};

use super::received::CallOutcome;
use super::work::{duration, may_call, wait_until, PyWork};
use crate::arguments::{argument, Argument};
use crate::communicator::PyCommunicator;
use crate::interpreter::detached::Detached;
use crate::interpreter::errors::{raise, schedule_error};
use crate::values::schedule::PySchedule;

/// A schedule of the user's own, or the path of its file.
pub enum UserSchedule<'py> {
    Schedule(PyRef<'py, PySchedule>),
    File(PathBuf),
}

impl<'py> Argument<'_, 'py> for UserSchedule<'py> {
    fn words() -> String {
        "a ringroad.Schedule or the path of its file".to_owned()
    }

    fn read(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PySchedule>() {
            Ok(schedule) => Ok(UserSchedule::Schedule(schedule.borrow())),
            Err(_) => Ok(UserSchedule::File(object.extract()?)),
        }
    }
}

impl UserSchedule<'_> {
    fn member(self, py: Python<'_>) -> PyResult<Member> {
        match self {
            UserSchedule::Schedule(schedule) => {
                let schedule = &schedule.0;
                py.detach(|| algorithms::given::add(schedule)).map_err(schedule_error)
            }
            UserSchedule::File(path) => py.detach(|| user_schedules::read(&path)).map_err(raise),
        }
    }
}

/// The members of schedules of the user's own.
pub fn members(py: Python<'_>, schedules: Vec<UserSchedule<'_>>) -> PyResult<Vec<Member>> {
    schedules.into_iter().map(|given| given.member(py)).collect()
}

/// The argument `algorithm=` of a call.
pub enum By<'py> {
    Name(PyBackedStr),
    Given(UserSchedule<'py>),
}

impl<'py> Argument<'_, 'py> for By<'py> {
    fn words() -> String {
        "the name of an algorithm, a ringroad.Schedule or the path of its file".to_owned()
    }

    fn read(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        match object.extract() {
            Ok(name) => Ok(By::Name(name)),
            Err(_) => UserSchedule::read(object).map(By::Given),
        }
    }
}

impl By<'_> {
    /// The member that it names.
    pub fn member(self, py: Python<'_>) -> PyResult<Member> {
        match self {
            By::Name(name) => match name.strip_prefix("file:") {
                Some(path) => UserSchedule::File(path.into()).member(py),
                None if name.contains(['/', '.']) => UserSchedule::File((*name).into()).member(py),
                None => algorithms::find(&name).map_err(raise),
            },
            By::Given(given) => given.member(py),
        }
    }
}

/// The keyword arguments that all calls take.
pub struct CallOptions<'py> {
    pub algorithm: Option<By<'py>>,
    pub precision: Precision,
    pub timeout: Option<f64>,
    pub async_op: bool,
}

/// Reads `op=` and `factor=`: the reduction, and the factor of this rank's data.
pub fn reduction(op: &str, factor: Option<f64>) -> PyResult<(ReduceOp, f64)> {
    let op: ReduceOp = op.parse().map_err(raise)?;
    Ok((op, op.factor(factor).map_err(raise)?))
}

/// Reads `wire=` and `max_error=`: how exactly elements are sent.
pub fn precision(wire: Option<&str>, max_error: Option<f64>) -> PyResult<Precision> {
    Ok(match (wire, max_error) {
        (None, None) => Precision::Exact,
        (Some(name), None) => Precision::named(name).map_err(raise)?,
        (None, Some(error)) => Precision::Within(MaxError::new(error).map_err(raise)?),
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err("pass wire= or max_error=, not both"));
        }
    })
}

/// The wire format of this name.
pub fn wire_named(name: &str) -> PyResult<Wire> {
    name.parse::<Wire>().map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The exception for an error of a call. A function that reduces may have been interrupted by Ctrl-C, which says more than
/// that the call has failed.
fn raised(py: Python<'_>, error: ringroad_runtime::Error) -> PyErr {
    py.check_signals().err().unwrap_or_else(|| raise(error))
}

impl PyCommunicator {
    /// Makes a call. Returns its result, or with `async_op=True` its `Work`.
    pub fn run(
        &self,
        py: Python<'_>,
        request: &mut Request,
        how: CallOptions<'_>,
        result: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.run_to(py, request, how, CallOutcome::Known(result))
    }

    /// Makes a call. Returns its outcome, or with `async_op=True` its `Work`.
    pub fn run_to(
        &self,
        py: Python<'_>,
        request: &mut Request,
        how: CallOptions<'_>,
        outcome: CallOutcome,
    ) -> PyResult<Py<PyAny>> {
        may_call()?;
        request.key.algorithm = how.algorithm.map(|by| by.member(py)).transpose()?;
        request.key.precision = how.precision;
        request.timeout = duration(how.timeout)?;
        if how.async_op {
            let work = py.detach(|| self.0.start(request).inspect(Work::let_proceed)).map_err(raise)?;
            return Ok(Py::new(py, PyWork { work: Detached::new(work), outcome })?.into_any());
        }
        let called = py.detach(|| self.0.call(request)).map_err(|error| raised(py, error))?;
        let (output, message) = self.ended(py, called)?;
        Ok(outcome.result(py, message, || output)?.unwrap_or_else(|| py.None()))
    }

    /// Waits for the end of a call. Returns its output, and the message that a receive has taken.
    pub fn ended(&self, py: Python<'_>, called: Called) -> PyResult<(Memory, Option<Message>)> {
        let work = match called {
            Called::Ended(output, message) => return Ok((output, message)),
            Called::InFlight(work) => work,
        };
        if let Err(interrupt) = wait_until(py, &work, None) {
            // The caller may now reuse the arrays, so the call must stop on all ranks.
            let _ = py.detach(|| self.0.interrupt());
            return Err(interrupt);
        }
        work.result().unwrap_or(Ok(())).map_err(|error| raised(py, error))?;
        Ok((work.output(), work.message()))
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
    fn barrier(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument)] timeout: Option<f64>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        self.run(
            py,
            &mut Request::barrier(),
            CallOptions { algorithm: None, precision: Precision::Exact, timeout, async_op },
            None,
        )
    }
}
