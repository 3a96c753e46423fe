//! `Work`: an asynchronous call.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_runtime::Work;

use crate::errors::{raise, timeout};

/// How long to wait before looking whether Ctrl-C was pressed.
const SLICE: Duration = Duration::from_millis(100);

/// An asynchronous call.
#[pyclass(name = "Work", module = "ringroad", frozen)]
pub struct PyWork {
    pub work: Work,
    /// What the call returns when it has ended.
    pub result: Option<Py<PyAny>>,
}

/// Waits inline with the GIL released; returns whether the call has ended by `until`.
pub fn wait_until(py: Python<'_>, work: &Work, until: Option<Instant>) -> PyResult<bool> {
    while work.result().is_none() {
        let slice = Instant::now() + SLICE;
        if py.detach(|| work.wait_until(until.map_or(slice, |u| u.min(slice)))) {
            return Ok(true);
        }
        py.check_signals()?;
        if until.is_some_and(|u| Instant::now() >= u) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Seconds as given from Python.
pub fn duration(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    match seconds {
        None => Ok(None),
        Some(seconds) if seconds > 0.0 && seconds <= 365.0 * 86400.0 => {
            Ok(Some(Duration::from_secs_f64(seconds)))
        }
        Some(seconds) => Err(PyValueError::new_err(format!(
            "timeout must be a number of seconds above 0 and up to a year, not {seconds:e}"
        ))),
    }
}

impl PyWork {
    fn outcome(&self) -> PyResult<()> {
        self.work.result().unwrap_or(Ok(())).map_err(raise)
    }
}

#[pymethods]
impl PyWork {
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = duration(timeout)?;
        if !wait_until(py, &self.work, limit.map(|l| Instant::now() + l))? {
            return Err(self::timeout(format!(
                "{} has not ended within {:.3} s; it goes on until its own deadline",
                self.work.call(),
                limit.unwrap_or_default().as_secs_f64()
            )));
        }
        self.outcome()?;
        Ok(true)
    }

    fn is_completed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.work.is_completed())
    }

    fn is_success(&self) -> bool {
        matches!(self.work.result(), Some(Ok(())))
    }

    fn exception(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match self.work.result() {
            Some(Err(error)) => Some(raise(error).into_value(py).into_any()),
            _ => None,
        }
    }

    fn result(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.wait(py, None)?;
        Ok(self.result.as_ref().map(|r| r.clone_ref(py)))
    }

    fn on_complete(&self, py: Python<'_>, callback: Py<PyAny>) {
        let run = move |result: ringroad_runtime::Result<()>| {
            Python::attach(|py| {
                let argument = result.err().map(|error| raise(error).into_value(py));
                if let Err(error) = callback.call1(py, (argument,)) {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        };
        py.detach(|| self.work.on_complete(run));
    }

    #[getter]
    fn source(&self) -> Option<usize> {
        self.work.source()
    }

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
