//! Values that Python code makes once for the whole process.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// A value that is made when it is first needed. No thread waits for one that makes it: a forked child would wait for ever
/// if it was forked off meanwhile. So two threads may make it at the same time, and the first to end counts.
pub struct Once<T>(PyOnceLock<T>);

impl<T> Once<T> {
    pub const fn new() -> Once<T> {
        Once(PyOnceLock::new())
    }

    pub fn get_or_try_init(&self, py: Python<'_>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&T> {
        if let Some(known) = self.0.get(py) {
            return Ok(known);
        }
        let made = make()?;
        Ok(self.0.get_or_init(py, || made))
    }
}

impl Once<Py<PyAny>> {
    /// What a module has under this name.
    pub fn import<'py>(&self, py: Python<'py>, module: &str, name: &str) -> PyResult<&Bound<'py, PyAny>> {
        let found = self.get_or_try_init(py, || Ok(py.import(module)?.getattr(name)?.unbind()))?;
        Ok(found.bind(py))
    }
}
