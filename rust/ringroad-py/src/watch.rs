//! Runs searches without the GIL. Python code can follow them and end them.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_core::synthesis::alltoall::Progress;

/// A search without a progress function checks for signals at most this often.
const LISTEN: Duration = Duration::from_millis(100);

/// A search calls this after each look at all pairs, and ends if it returns false.
pub type GoOn<'a> = &'a mut dyn FnMut(&Progress) -> bool;

/// Runs a search until it ends by itself, `budget` seconds have passed, or `progress` or a signal handler raises.
pub fn watched<T: Send>(
    py: Python<'_>,
    gap: f64,
    budget: Option<f64>,
    progress: Option<Py<PyAny>>,
    search: impl FnOnce(GoOn<'_>) -> T + Send,
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
