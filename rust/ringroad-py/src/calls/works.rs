//! Functions of several `Work`s.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_runtime::Work;

use super::work::PyWork;
use crate::arguments::{duration, refused, Number};
use crate::interpreter::errors::timeout as timed_out;
use crate::interpreter::signals::{handle_signals, SLICE};

/// Reads an iterable of `Work`s.
fn works<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyWork>>> {
    let work = |item: PyResult<Bound<'py, PyAny>>| {
        let item = item?;
        let found = item.cast::<PyWork>().cloned();
        found.map_err(|error| refused(&item, "a ringroad.Work as each item of the list", error.into()))
    };
    let items = object.try_iter().map_err(|error| refused(object, "a list of ringroad.Work", error))?;
    items.map(work).collect()
}

/// Waits until all calls are complete.
///
/// Args:
///     works: The `Work` objects of the calls, also of several communicators.
///     timeout: Seconds to wait for all of them. None: until each call's own deadline.
///
/// Returns:
///     A list of their results.
///
/// Raises:
///     TimeoutError: A call is not complete after `timeout` seconds; it goes on until its own deadline.
///     ValueError: `timeout` is not above 0.
///     RingroadError: A call failed; the first error, once all calls have ended.
///
/// Example:
///     >>> a, b = ringroad.Communicator.in_process(2)
///     >>> works = [comm.allreduce(np.ones(2), async_op=True) for comm in (a, b)]
///     >>> ringroad.waitall(works)
///     [array([2., 2.]), array([2., 2.])]
#[pyfunction]
#[pyo3(signature = (works, timeout=None))]
pub fn waitall(
    py: Python<'_>,
    #[pyo3(from_py_with = works)] works: Vec<Bound<'_, PyWork>>,
    timeout: Option<Number>,
) -> PyResult<Vec<Option<Py<PyAny>>>> {
    let limit = duration(timeout)?;
    let end = limit.map(|limit| Instant::now() + limit);
    let mut results = Vec::new();
    for work in &works {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        results.push(work.get().finish(py, left));
        // The time has passed, or a signal has interrupted the wait.
        if work.get().work.result().is_none() {
            break;
        }
    }
    results.into_iter().collect()
}

/// Waits until one of several calls is complete. It spends no more of the processor than `Work.wait`.
///
/// Args:
///     works: The `Work` objects of the calls, also of several communicators.
///     timeout: Seconds to wait. None: until a call's own deadline.
///
/// Returns:
///     The index of the first call in the list that has ended, with or without success.
///
/// Raises:
///     TimeoutError: No call is complete after `timeout` seconds; they go on until their own deadlines.
///     ValueError: `timeout` is not above 0, or there are no works.
///
/// Example:
///     >>> a, b = ringroad.Communicator.in_process(2)
///     >>> works = [a.recv(np.zeros(1), 1, tag, async_op=True) for tag in (0, 1)]
///     >>> b.send(5.0, 0, tag=1)
///     >>> index = ringroad.waitany(works)
///     >>> index, works[index].result()
///     (1, array([5.]))
#[pyfunction]
#[pyo3(signature = (works, timeout=None))]
pub fn waitany(
    py: Python<'_>,
    #[pyo3(from_py_with = works)] works: Vec<Bound<'_, PyWork>>,
    timeout: Option<Number>,
) -> PyResult<usize> {
    let limit = duration(timeout)?;
    let end = limit.map(|limit| Instant::now() + limit);
    let all: Vec<&Work> = works.iter().map(|work| &*work.get().work).collect();
    let first = all.first().ok_or_else(|| PyValueError::new_err("there are no works to wait for"))?;
    py.detach(|| first.wake_by(&all));
    loop {
        let slice = Instant::now() + SLICE;
        let until = end.map_or(slice, |end| end.min(slice));
        if let Some(index) = py.detach(|| Work::wait_any(&all, until)) {
            works[index].get().is_completed(py)?;
            return Ok(index);
        }
        handle_signals(py)?;
        if end.is_some_and(|end| Instant::now() >= end) {
            let seconds = limit.unwrap_or_default().as_secs_f64();
            let count = all.len();
            return Err(timed_out(format!(
                "none of {count} calls has ended within {seconds:.3} s; they go on until their own deadlines"
            )));
        }
    }
}

/// Says which of several calls are complete, and lets all of them proceed. Does not block.
///
/// Args:
///     works: The `Work` objects of the calls, also of several communicators.
///
/// Returns:
///     A list of the indices of all calls that have ended, with or without success; possibly none.
///
/// Example:
///     >>> a, b = ringroad.Communicator.in_process(2)
///     >>> works = [a.recv(np.zeros(1), 1, tag, async_op=True) for tag in (0, 1)]
///     >>> b.send(5.0, 0, tag=1)
///     >>> ringroad.testsome(works)
///     [1]
#[pyfunction]
pub fn testsome(
    py: Python<'_>,
    #[pyo3(from_py_with = works)] works: Vec<Bound<'_, PyWork>>,
) -> PyResult<Vec<usize>> {
    let mut ended = Vec::new();
    for (index, work) in works.iter().enumerate() {
        if work.get().is_completed(py)? {
            ended.push(index);
        }
    }
    Ok(ended)
}
