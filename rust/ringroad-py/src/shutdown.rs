//! Closes all communicators at exit, so that none of their threads outlives the interpreter.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::prelude::*;
use ringroad_runtime::communicator::Closer;

use crate::work::SLICE;

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

/// It also waits until all callbacks have run: an interpreter that ends stops threads as soon as they need it, which takes
/// the process down where those are not its own.
#[pyfunction]
fn _close_all(py: Python<'_>) -> PyResult<()> {
    let closers = std::mem::take(&mut *closers());
    py.detach(|| closers.iter().for_each(Closer::close));
    for closer in &closers {
        while !py.detach(|| closer.wait(Instant::now() + SLICE)) {
            py.check_signals()?;
        }
    }
    Ok(())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let close_all = wrap_pyfunction!(_close_all, module)?;
    module.py().import("atexit")?.call_method1("register", (close_all,))?;
    Ok(())
}
