//! Runs searches and other long work without the GIL. Python code can follow searches, and end them.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_core::synthesis::alltoall::Progress;
use ringroad_core::synthesis::Budget;

/// Work without a progress function checks for signals at most this often.
const LISTEN: Duration = Duration::from_millis(100);

/// Runs work without the GIL that asks now and then whether it may go on, until a signal handler raises.
pub fn listening<T: Send>(py: Python<'_>, work: impl FnOnce(Budget<'_>) -> T + Send) -> PyResult<T> {
    let (start, next) = (Instant::now(), AtomicU64::new(0));
    let refused = OnceLock::new();
    let go_on = || {
        let now = start.elapsed().as_millis() as u64;
        if now >= next.load(Ordering::Relaxed) {
            next.store(now + LISTEN.as_millis() as u64, Ordering::Relaxed);
            let _ = Python::attach(|py| py.check_signals()).map_err(|error| refused.set(error));
        }
        refused.get().is_none()
    };
    let done = py.detach(|| work(Budget::new(&go_on)));
    refused.into_inner().map_or(Ok(done), Err)
}

/// Does work that cannot be ended in a thread of its own. If a signal handler raises, it is left behind.
pub fn beside<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (done, mut result) = channel();
    let thread = thread::Builder::new().name("ringroad-work".to_owned());
    let thread = thread.spawn(move || done.send(work()).is_ok())?;
    loop {
        let waits = &mut result;
        match py.detach(move || waits.recv_timeout(LISTEN)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(_) => unreachable!("it has sent its result"),
            },
        }
    }
}

/// A search calls this after each look at all pairs, and ends if it returns false.
pub type SearchCallback<'a> = &'a mut dyn FnMut(&Progress) -> bool;

/// Runs a search until it ends by itself, `budget` seconds have passed, or `progress` or a signal handler raises.
pub fn watched<T: Send>(
    py: Python<'_>,
    gap: f64,
    budget: Option<f64>,
    progress: Option<Py<PyAny>>,
    search: impl FnOnce(SearchCallback<'_>) -> T + Send,
) -> PyResult<T> {
    if !(0.0..1.0).contains(&gap) {
        return Err(PyValueError::new_err(format!("gap is a fraction from 0 to 1, not {gap}")));
    }
    let budget = match budget.map(Duration::try_from_secs_f64) {
        Some(Err(_)) => return Err(PyValueError::new_err("budget is a number of seconds, and not negative")),
        Some(Ok(budget)) => Some(budget),
        None => None,
    };
    let (start, mut listened) = (Instant::now(), Instant::now());
    let mut refused: Option<PyErr> = None;
    let found = py.detach(|| {
        search(&mut |now: &Progress| {
            if progress.is_some() || listened.elapsed() > LISTEN {
                listened = Instant::now();
                let heard = Python::attach(|py| {
                    py.check_signals()?;
                    match &progress {
                        Some(progress) => {
                            progress.call1(py, (now.iteration, now.load, now.bound)).map(|_| ())
                        }
                        None => Ok(()),
                    }
                });
                refused = heard.err();
            }
            refused.is_none() && budget.is_none_or(|budget| start.elapsed() < budget)
        })
    });
    match refused {
        Some(refused) => Err(refused),
        None => Ok(found),
    }
}
