//! `Work`: an asynchronous call.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use ringroad_runtime::Work;

use super::received::{described, CallOutcome};
use crate::arguments::{duration, number_of, shown, Number};
use crate::interpreter::detached::Detached;
use crate::interpreter::errors::{missing, raise, timeout};
use crate::interpreter::signals::{handle_signals, SLICE};

/// An asynchronous call: what a call with `async_op=True` returns.
///
/// Keep the arrays of the call as they are until it is complete. The call goes on even if the `Work` is
/// dropped; but a strided array that is written to, or one for the sum or product of whole numbers, is filled only when
/// the `Work` is waited for or asked whether it is complete.
///
/// Example:
///     >>> a, b = ringroad.Communicator.in_process(2)
///     >>> work = a.allreduce(np.array([1.0]), async_op=True)
///     >>> other = b.allreduce(np.array([2.0]), async_op=True)
///     >>> work.result(), other.result()
///     (array([3.]), array([3.]))
#[pyclass(name = "Work", module = "ringroad", frozen, generic)]
pub struct PyWork {
    pub work: Detached<Work>,
    /// What the call returns, once it has ended.
    pub outcome: CallOutcome,
}

/// Waits with the GIL released. Returns whether the call has ended at `until`.
pub fn wait_until(py: Python<'_>, work: &Work, until: Option<Instant>) -> PyResult<bool> {
    while work.result().is_none() {
        let slice = Instant::now() + SLICE;
        if py.detach(|| work.wait_until(until.map_or(slice, |u| u.min(slice)))) {
            return Ok(true);
        }
        handle_signals(py)?;
        if until.is_some_and(|u| Instant::now() >= u) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl PyWork {
    /// Lets the call proceed. Returns how it has ended, or None.
    fn polled(&self, py: Python<'_>) -> Option<ringroad_runtime::Result<()>> {
        py.detach(|| self.work.is_completed());
        self.work.result()
    }

    /// What the call returns; nothing while it has not ended. The error is the call's.
    pub fn outcome(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.work.result() {
            None => Ok(None),
            Some(Err(error)) => Err(raise(error)),
            Some(Ok(())) => self.outcome.result(py, self.work.message(), || self.work.output()),
        }
    }

    /// Waits until the call is complete or `limit` has passed, which raises TimeoutError. Returns what the call returns.
    pub fn finish(&self, py: Python<'_>, limit: Option<Duration>) -> PyResult<Option<Py<PyAny>>> {
        if !wait_until(py, &self.work, limit.map(|l| Instant::now() + l))? {
            return Err(self::timeout(format!(
                "{} has not ended within {:.3} s; it goes on until its own deadline",
                self.work.call(),
                limit.unwrap_or_default().as_secs_f64()
            )));
        }
        self.outcome(py)
    }
}

#[pymethods]
impl PyWork {
    /// Blocks until the call is complete.
    ///
    /// Args:
    ///     timeout: Seconds to wait. None: until the call's own deadline.
    ///
    /// Returns:
    ///     True.
    ///
    /// Raises:
    ///     TimeoutError: The call is not complete after `timeout` seconds; it goes on until its own
    ///         deadline, and can be waited for again. Or its own deadline has passed.
    ///     ValueError: `timeout` is not above 0.
    ///     RingroadError: The call failed; this is what a blocking call would have raised.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Number>) -> PyResult<bool> {
        self.finish(py, duration(timeout)?)?;
        Ok(true)
    }

    /// Returns whether the call has ended, with or without success. Does not block.
    pub fn is_completed(&self, py: Python<'_>) -> PyResult<bool> {
        self.is_success(py)?;
        Ok(self.work.result().is_some())
    }

    /// Returns whether the call has ended with success. Does not block.
    fn is_success(&self, py: Python<'_>) -> PyResult<bool> {
        let success = matches!(self.polled(py), Some(Ok(())));
        if success && self.outcome.is_beside() {
            self.outcome(py)?;
        }
        Ok(success)
    }

    /// Returns the error with which the call failed; None if it succeeded or has not ended. Does not block.
    fn exception(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match self.polled(py) {
            Some(Err(error)) => Some(raise(error).into_value(py).into_any()),
            _ => None,
        }
    }

    /// Waits until the call is complete and returns its result.
    ///
    /// Returns:
    ///     What the blocking call would have returned: an array, or None.
    ///
    /// Raises:
    ///     RingroadError: The call failed; this is what a blocking call would have raised.
    fn result(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.finish(py, None)
    }

    /// Calls a function once when the call ends.
    ///
    /// The function runs on a thread that is only for such functions, or at once if the call has ended
    /// already. It may wait for other calls. While one function takes long, those of other calls run on
    /// other threads. A process that ends waits for them.
    ///
    /// Args:
    ///     callback: It is passed None, or the error with which the call failed. What it returns is
    ///         ignored; what it raises is reported by `sys.unraisablehook`.
    ///
    /// Example:
    ///     >>> (alone,) = ringroad.Communicator.in_process(1)
    ///     >>> work = alone.barrier(async_op=True)
    ///     >>> work.wait()
    ///     True
    ///     >>> work.on_complete(lambda error: print("failed" if error else "done"))
    ///     done
    fn on_complete(slf: &Bound<'_, Self>, callback: Py<PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        if !callback.bind(py).is_callable() {
            let callback = shown(callback.bind(py));
            return Err(PyTypeError::new_err(format!("callback must be a function, not {callback}")));
        }
        let beside = this.outcome.is_beside().then(|| slf.clone().unbind());
        let run = move |result: ringroad_runtime::Result<()>| {
            Python::attach(|py| {
                if let Some(Err(error)) = beside.map(|work| work.get().outcome(py)) {
                    error.write_unraisable(py, None);
                }
                let argument = result.err().map(|error| raise(error).into_value(py));
                if let Err(error) = callback.call1(py, (argument,)) {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        };
        py.detach(|| this.work.on_complete(run));
        Ok(())
    }

    /// The rank that sent the message of a `recv`. None for other calls, and until a `recv` from any rank
    /// has a message.
    #[getter]
    fn source(&self) -> Option<i64> {
        self.work.source().map(number_of)
    }

    /// The message that a `recv` has taken. None for other calls, and until it is known.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.work.message().map(|message| described(py, &message)).transpose()
    }

    /// As that of a communicator.
    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        Err(missing(slf.as_any(), name))
    }

    /// The name of the algorithm that the call runs.
    #[getter]
    fn algorithm(&self) -> &str {
        self.work.algorithm()
    }

    fn __repr__(&self) -> String {
        let state = match self.work.result() {
            None => "in flight",
            Some(Ok(())) => "done",
            Some(Err(_)) => "failed",
        };
        format!("<Work {}: {state}>", self.work.call())
    }
}
