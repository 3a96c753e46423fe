//! Closes all communicators at exit, so that none of their threads outlives the interpreter.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use ringroad_runtime::communicator::Closer;

fn closers() -> MutexGuard<'static, Vec<Closer>> {
    static CLOSERS: Mutex<Vec<Closer>> = Mutex::new(Vec::new());
    CLOSERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a communicator to those that are closed at exit.
pub fn remember(closer: Closer) {
    let mut closers = closers();
    closers.retain(Closer::is_needed);
    closers.push(closer);
}

#[pyfunction]
fn _close_all(py: Python<'_>) {
    let closers = std::mem::take(&mut *closers());
    py.detach(|| closers.iter().for_each(Closer::close));
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let close_all = wrap_pyfunction!(_close_all, module)?;
    module.py().import("atexit")?.call_method1("register", (close_all,))?;
    Ok(())
}
