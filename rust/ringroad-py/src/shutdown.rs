//! Closes all communicators at exit, so that none of their threads outlives the interpreter.

use parking_lot::Mutex;
use pyo3::prelude::*;
use ringroad_runtime::communicator::Closer;

static CLOSERS: Mutex<Vec<Closer>> = Mutex::new(Vec::new());

/// Adds a communicator to those that are closed at exit.
pub fn remember(closer: Closer) {
    let mut closers = CLOSERS.lock();
    closers.retain(Closer::is_needed);
    closers.push(closer);
}

#[pyfunction]
fn _close_all(py: Python<'_>) {
    let closers = std::mem::take(&mut *CLOSERS.lock());
    py.detach(|| closers.iter().for_each(Closer::close));
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let close_all = wrap_pyfunction!(_close_all, module)?;
    module.py().import("atexit")?.call_method1("register", (close_all,))?;
    Ok(())
}
