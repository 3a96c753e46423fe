//! Values that Python code makes once for the whole process.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

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
        // Unlike `get_or_init`, this keeps the interpreter while it stores the value.
        let _ = self.0.set(py, make()?);
        Ok(self.0.get(py).expect("it was set"))
    }
}

impl Once<Py<PyAny>> {
    /// What a module has under this name.
    pub fn import<'py>(&self, py: Python<'py>, module: &str, name: &str) -> PyResult<&Bound<'py, PyAny>> {
        let found = self.get_or_try_init(py, || Ok(py.import(module)?.getattr(name)?.unbind()))?;
        Ok(found.bind(py))
    }
}

/// The lock that `os.fork` waits for.
static FORKS: Once<Py<PyAny>> = Once::new();

/// Lets `os.fork` wait for those that run `without_forks`.
pub fn register(py: Python<'_>) -> PyResult<()> {
    let lock =
        FORKS.get_or_try_init(py, || Ok(py.import("threading")?.getattr("RLock")?.call0()?.unbind()))?;
    let method = |name| lock.bind(py).getattr(name);
    let hooks = PyDict::new(py);
    hooks.set_item("before", method("acquire")?)?;
    hooks.set_item("after_in_parent", method("release")?)?;
    hooks.set_item("after_in_child", method("release")?)?;
    py.import("os")?.getattr("register_at_fork")?.call((), Some(&hooks))?;
    Ok(())
}

/// Calls `make`, which makes values once that other threads wait for. Meanwhile no child is forked off, where nobody would
/// make them. `make` must import nothing that is not imported yet: the thread that forks could hold the lock of a module.
pub fn without_forks<R>(py: Python<'_>, make: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let Some(lock) = FORKS.0.get(py) else { return make() };
    lock.call_method0(py, "acquire")?;
    let made = make();
    lock.call_method0(py, "release")?;
    made
}
