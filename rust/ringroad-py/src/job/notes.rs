//! Notes that processes leave for each other, for `ringroad.elastic`.

use std::borrow::Cow;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ringroad_runtime::bootstrap::{self, Handle};
use ringroad_runtime::config::{Config, Secret};
use ringroad_runtime::Error;

use crate::arguments::{duration, Number, Plain, Text};
use crate::interpreter::errors::raise;

/// How long the process behind a handle may take to answer, if the caller does not say so.
const DEFAULT_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The notes in this process, and the way to those of other processes, by their handles.
#[pyclass(name = "Notes", module = "ringroad._native", frozen)]
pub struct PyNotes(bootstrap::Notes);

#[pymethods]
impl PyNotes {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let config = Config::from_env().map_err(raise)?;
        let notes = py.detach(|| bootstrap::Notes::for_process(config.secret.as_ref().map(Secret::reveal)));
        let failed = |error| raise(Error::Transport(format!("cannot listen for other processes: {error}")));
        Ok(PyNotes(notes.map_err(failed)?))
    }

    /// Leaves a note in this process.
    fn keep(&self, key: Text<'_>, note: Plain<Cow<'_, [u8]>>) -> PyResult<()> {
        self.0.keep(key.0, &note.0).map_err(raise)
    }

    /// Returns the notes in this process whose keys begin with a text, in no order.
    fn kept<'py>(&self, py: Python<'py>, prefix: Text<'_>) -> Vec<Bound<'py, PyBytes>> {
        self.0.kept(prefix.0).iter().map(|note| PyBytes::new(py, note)).collect()
    }

    /// Removes the notes in this process whose keys begin with a text.
    fn forget(&self, prefix: Text<'_>) {
        self.0.forget(prefix.0);
    }

    /// Leaves a note in the process behind a handle. PeerError: it has certainly ended. TimeoutError: it does not answer.
    #[pyo3(signature = (handle, key, note, timeout=None))]
    fn leave(
        &self,
        py: Python<'_>,
        handle: Text<'_>,
        key: Text<'_>,
        note: Plain<Cow<'_, [u8]>>,
        timeout: Option<Number>,
    ) -> PyResult<()> {
        let (handle, within) = (parse(handle.0)?, duration(timeout)?.unwrap_or(DEFAULT_ANSWER_TIMEOUT));
        py.detach(|| self.0.leave(&handle, key.0, &note.0, within)).map_err(raise)
    }

    /// Returns the note of this key in the process behind a handle, or None. Raises as `leave`.
    #[pyo3(signature = (handle, key, timeout=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        handle: Text<'_>,
        key: Text<'_>,
        timeout: Option<Number>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (handle, within) = (parse(handle.0)?, duration(timeout)?.unwrap_or(DEFAULT_ANSWER_TIMEOUT));
        let note = py.detach(|| self.0.read(&handle, key.0, within)).map_err(raise)?;
        Ok(note.map(|note| PyBytes::new(py, &note)))
    }
}

fn parse(text: &str) -> PyResult<Handle> {
    Handle::parse(text).map_err(PyValueError::new_err)
}
