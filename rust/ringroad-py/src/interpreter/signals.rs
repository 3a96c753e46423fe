//! Handlers of signals, which Python runs while calls wait.

use std::cell::Cell;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The time between two checks for Ctrl-C and other signals.
pub const SLICE: Duration = Duration::from_millis(100);

thread_local! {
    /// Whether this thread runs handlers of signals while a call of its own waits.
    static HANDLES: Cell<bool> = const { Cell::new(false) };
}

/// Runs the handlers of signals that have come, while a call of this thread waits.
pub fn handle_signals(py: Python<'_>) -> PyResult<()> {
    let before = HANDLES.replace(true);
    let handled = py.check_signals();
    HANDLES.set(before);
    handled
}

/// RuntimeError: a handler makes a call while another one waits.
pub fn may_call() -> PyResult<()> {
    if HANDLES.get() {
        return Err(PyRuntimeError::new_err(
            "ringroad: a signal handler makes this call while another call of its thread waits, and other ranks would \
             mistake one for the other: set a flag in the handler, and make the call once the other one has ended",
        ));
    }
    Ok(())
}
