//! How a job stands: what `ringroad status` asks, and what Python threads do when this process is asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use ringroad_runtime::bootstrap::{self, Handle, Inquiry, JobPlace, Report, Unanswered};
use ringroad_runtime::config::{Config, Secret};
use serde_json::Value;

use crate::arguments::{Number, Plain};
use crate::interpreter::errors::raise;

/// How long threads may keep the GIL.
const GIL_TIMEOUT: Duration = Duration::from_millis(400);

/// What the Python threads of this process do. Another thread takes the GIL for that, if it can be had.
fn stacks() -> Result<Value, String> {
    // Set while a thread waits for the GIL, maybe for ever.
    static IS_WAITING: AtomicBool = AtomicBool::new(false);
    let refused = || Err("a thread keeps the GIL".to_owned());
    if IS_WAITING.swap(true, Ordering::AcqRel) {
        return refused();
    }
    let (tell, heard) = channel();
    let look = move || {
        let read = |py: Python<'_>| -> PyResult<String> {
            py.import("ringroad._status.stacks")?.getattr("stacks")?.call0()?.extract()
        };
        let found = Python::try_attach(|py| read(py).map_err(|error| error.to_string()));
        IS_WAITING.store(false, Ordering::Release);
        let _ = tell.send(found.unwrap_or_else(|| Err("Python is about to end".to_owned())));
    };
    if let Err(error) = thread::Builder::new().name("ringroad-stacks".to_owned()).spawn(look) {
        IS_WAITING.store(false, Ordering::Release);
        return Err(format!("cannot start a thread: {error}"));
    }
    match heard.recv_timeout(GIL_TIMEOUT) {
        Ok(text) => serde_json::from_str(&text?).map_err(|error| error.to_string()),
        Err(RecvTimeoutError::Timeout) => refused(),
        Err(RecvTimeoutError::Disconnected) => Err("looking at them has panicked".to_owned()),
    }
}

pub fn register() {
    bootstrap::stacks_by(stacks);
}

fn seconds(within: f64) -> PyResult<Duration> {
    let within = Duration::try_from_secs_f64(within).ok().filter(|within| !within.is_zero());
    within.ok_or_else(|| PyValueError::new_err("within is a number of seconds above 0"))
}

fn secret() -> PyResult<Option<String>> {
    let config = Config::from_env().map_err(raise)?;
    Ok(config.secret.as_ref().map(Secret::reveal).map(str::to_owned))
}

fn text(report: Vec<u8>) -> String {
    String::from_utf8_lossy(&report).into_owned()
}

/// Returns the processes of this user on this host that can be asked how their jobs stand.
///
/// Returns:
///     Tuples of the process's number, the state that the kernel gives it ("T" if it is stopped), and its handle, None
///     if it does not answer.
///
/// Raises:
///     OSError: The kernel does not list them.
#[pyfunction]
pub fn processes_here(py: Python<'_>) -> PyResult<Vec<(u32, char, Option<String>)>> {
    let found = py.detach(bootstrap::local_processes);
    let found = found.map_err(|error| PyOSError::new_err(format!("/proc/net/unix: {error}")))?;
    Ok(found.into_iter().map(|one| (one.pid, one.state, one.handle.map(|handle| handle.to_text()))).collect())
}

/// What a process answers, why it does not, and whether it has certainly ended.
type ProcessAnswer = (Option<String>, Option<String>, bool);

/// Asks processes how their communicators stand.
///
/// Args:
///     handles: The handles of the processes.
///     members: Whether they say who the other ranks are.
///     within: Seconds that each of them has.
///
/// Returns:
///     For each a tuple of its answer as JSON, why there is none (one of both is None), and whether it has certainly
///     ended.
///
/// Raises:
///     ValueError: A handle is malformed.
///     ConfigError: A RINGROAD_* variable has a value that cannot be used.
#[pyfunction]
pub fn ask_status(
    py: Python<'_>,
    handles: Plain<Vec<String>>,
    members: Plain<bool>,
    within: Number,
) -> PyResult<Vec<ProcessAnswer>> {
    let (secret, within) = (secret()?, seconds(within.0)?);
    let parsed: Result<Vec<Handle>, String> = handles.0.iter().map(|handle| Handle::parse(handle)).collect();
    let handles = parsed.map_err(PyValueError::new_err)?;
    let inquiry = Inquiry { members: members.0, stacks: true };
    let heard = py.detach(|| bootstrap::ask_all(&handles, secret.as_deref(), inquiry, within));
    let all = |answer: Result<Vec<u8>, Unanswered>| match answer {
        Ok(report) => (Some(text(report)), None, false),
        Err((why, has_ended)) => (None, Some(why), has_ended),
    };
    Ok(heard.into_iter().map(all).collect())
}

/// Asks the process that serves a job's store how its communicators stand, and who the other ranks are.
///
/// Args:
///     host: The host.
///     ports: The ports.
///     job: What tells the job from others, as for `TcpStore`.
///     within: Seconds to wait.
///
/// Returns:
///     Its answer as JSON.
///
/// Raises:
///     ValueError: It does not answer. The message says why.
///     ConfigError: A RINGROAD_* variable has a value that cannot be used.
#[pyfunction]
pub fn ask_status_at(
    py: Python<'_>,
    host: Plain<String>,
    ports: Plain<Vec<u16>>,
    job: Plain<String>,
    within: Number,
) -> PyResult<String> {
    let (secret, within) = (secret()?, seconds(within.0)?);
    let place = JobPlace { host: host.0, ports: ports.0, job: job.0 };
    let inquiry = Inquiry { members: true, stacks: true };
    let heard = py.detach(|| bootstrap::ask_at(&place, secret.as_deref(), inquiry, within));
    heard.map(text).map_err(PyValueError::new_err)
}

/// Returns how the communicators of this process stand, as JSON, without the stacks.
///
/// Raises:
///     ConfigError: A RINGROAD_* variable has a value that cannot be used.
#[pyfunction]
pub fn own_status(py: Python<'_>) -> PyResult<String> {
    let secret = secret()?;
    let inquiry = Inquiry { members: true, stacks: false };
    Ok(text(py.detach(|| Report::make(secret.as_deref(), inquiry).to_json())))
}
