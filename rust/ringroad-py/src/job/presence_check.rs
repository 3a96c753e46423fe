//! A presence check of the ranks of a job, for `ringroad doctor`.

use std::sync::Arc;

use pyo3::prelude::*;
use ringroad_runtime::bootstrap::PresenceCheck;
use ringroad_runtime::config::{Config, Secret};

use super::store::{store_of, Listening};
use crate::arguments::{duration, Count, Number, Plain};
use crate::interpreter::errors::raise;
use crate::interpreter::shutdown::waiting;

/// The ranks of a job that come in time, and what they tell each other.
#[pyclass(name = "PresenceCheck", module = "ringroad._native", frozen)]
pub struct PyPresenceCheck {
    call: PresenceCheck,
    listening: Arc<Listening>,
}

#[pymethods]
impl PyPresenceCheck {
    #[new]
    fn new(
        py: Python<'_>,
        store: &Bound<'_, PyAny>,
        rank: Count,
        size: Count,
        timeout: Number,
        word: Plain<String>,
    ) -> PyResult<Self> {
        let config = Config::from_env().map_err(raise)?;
        let patience = duration(Some(timeout))?.unwrap_or(config.timeout);
        let secret = config.secret.as_ref().map(Secret::reveal);
        let (store, listening) = store_of(store)?;
        let call = waiting(py, || {
            PresenceCheck::hold(&store, "presence-check", rank.0, size.0, secret, patience, &word.0)
        });
        let call = listening.outcome(py, call)?;
        Ok(PyPresenceCheck { call, listening })
    }

    /// What each rank said, by rank; None of those that did not come.
    #[getter]
    fn words(&self) -> Vec<Option<String>> {
        self.call.words().to_vec()
    }

    /// Publishes a text of this rank under a name.
    fn tell(&self, py: Python<'_>, kind: Plain<String>, text: Plain<String>) -> PyResult<()> {
        self.listening.outcome(py, py.detach(|| self.call.tell(&kind.0, &text.0)))
    }

    /// Returns the text that a rank has published under a name, or None.
    fn published_text(&self, py: Python<'_>, kind: Plain<String>, rank: Count) -> PyResult<Option<String>> {
        self.listening.outcome(py, py.detach(|| self.call.published_text(&kind.0, rank.0)))
    }
}
