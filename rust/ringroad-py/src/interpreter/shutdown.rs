//! Closes all communicators at exit, and ends all waits for other ranks, so that none of their threads outlives the
//! interpreter.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{current, park, sleep, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use ringroad_runtime::communicator::Closer;
use ringroad_runtime::os::counted::Counted;

use super::signals::SLICE;

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

/// How many threads wait for other ranks, outside of calls, or are about to.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// Whether these waits are to end.
static ENDING: AtomicBool = AtomicBool::new(false);
/// The thread that ends the interpreter, once its exit has come here. Other threads may no longer take the GIL.
static LAST: OnceLock<ThreadId> = OnceLock::new();
/// How long waits may take to end, also where a busy machine imports modules for them meanwhile.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Counts this thread among those that wait for other ranks or are about to, until the value is dropped: the exit gives it
/// time to return to Python, whose threads may end anywhere. Python code that the library runs on such a thread may not.
pub fn counted() -> Counted<'static> {
    Counted::new(&WAITING)
}

/// Waits for other ranks with the GIL released, and takes it again before the interpreter ends: a thread of which
/// Python disposes while code of this library runs there ends the process. A thread that is too late stays here.
pub fn waiting<T: Send>(py: Python<'_>, wait: impl Send + FnOnce() -> T) -> T {
    let _counted = counted();
    py.detach(|| {
        let result = wait();
        while is_too_late() {
            park();
        }
        result
    })
}

/// Whether the interpreter ends, and this is not the thread that ends it.
fn is_too_late() -> bool {
    LAST.get().is_some_and(|last| *last != current().id())
}

/// Whether waits are to end, since the interpreter does.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst) || is_too_late()
}

/// Closes, ends waits, and waits until all callbacks have run: an interpreter that ends stops threads as soon as they
/// need it, which takes the process down where those are not its own.
#[pyfunction]
fn _close_all(py: Python<'_>) -> PyResult<()> {
    let closers = std::mem::take(&mut *closers());
    py.detach(|| {
        ENDING.store(true, Ordering::SeqCst);
        closers.iter().for_each(Closer::close);
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        while WAITING.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            sleep(Duration::from_millis(1));
        }
        // What this thread calls from now on, at exit too, waits as ever.
        let _ = LAST.set(current().id());
        ENDING.store(false, Ordering::SeqCst);
    });
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
