//! The part that all calls of a communicator share: keyword arguments, and blocking or returning a `Work`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use ringroad_runtime::{Called, MaxError, Memory, Message, Precision, Request, Work};

use super::received::CallOutcome;
use super::work::{wait_until, PyWork};
use crate::arguments::{argument, duration, Number, Plain, Text};
use crate::communicator::PyCommunicator;
use crate::interpreter::detached::Detached;
use crate::interpreter::errors::raise;
use crate::interpreter::signals::may_call;
use crate::values::given::By;

/// The keyword arguments that all calls take.
pub struct CallOptions<'py> {
    pub algorithm: Option<By<'py>>,
    pub precision: Precision,
    pub timeout: Option<Number>,
    pub async_op: bool,
}

/// Reads `wire=` and `max_error=`: how exactly elements are sent.
pub fn precision(wire: Option<Text<'_>>, max_error: Option<Number>) -> PyResult<Precision> {
    Ok(match (Plain::inner(wire), Plain::inner(max_error)) {
        (None, None) => Precision::Exact,
        (Some(name), None) => Precision::named(name).map_err(raise)?,
        (None, Some(error)) => Precision::Within(MaxError::new(error).map_err(raise)?),
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err("pass wire= or max_error=, not both"));
        }
    })
}

/// How a call is made that takes neither an algorithm nor a wire format.
pub fn plainly<'py>(timeout: Option<Number>, async_op: bool) -> CallOptions<'py> {
    CallOptions { algorithm: None, precision: Precision::Exact, timeout, async_op }
}

/// The exception for an error of a call. A function that reduces may have been interrupted by Ctrl-C, which says more than
/// that the call has failed.
fn raised(py: Python<'_>, error: ringroad_runtime::Error) -> PyErr {
    py.check_signals().err().unwrap_or_else(|| raise(error))
}

impl PyCommunicator {
    /// Makes a call without a result. Returns None, or with `async_op=True` its `Work`.
    pub fn run(&self, py: Python<'_>, request: &mut Request, how: CallOptions<'_>) -> PyResult<Py<PyAny>> {
        self.run_to(py, request, how, CallOutcome::Known(None))
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
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        self.run(py, &mut Request::barrier(), plainly(timeout, async_op))
    }
}
