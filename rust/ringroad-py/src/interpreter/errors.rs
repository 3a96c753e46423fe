//! The Python exceptions, and the exception of each Rust error.

use pyo3::exceptions::{
    PyConnectionError, PyMemoryError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use ringroad_runtime::Error;

/// An exception class that this module defines.
struct Exception {
    name: &'static str,
    doc: &'static str,
    class: PyOnceLock<Py<PyType>>,
}

impl Exception {
    const fn new(name: &'static str, doc: &'static str) -> Exception {
        Exception { name, doc, class: PyOnceLock::new() }
    }

    fn define(&self, module: &Bound<'_, PyModule>, bases: &[&Bound<'_, PyType>]) -> PyResult<()> {
        let py = module.py();
        let namespace = PyDict::new(py);
        namespace.set_item("__module__", "ringroad")?;
        namespace.set_item("__doc__", self.doc)?;
        let class = py.get_type::<PyType>().call1((self.name, PyTuple::new(py, bases)?, namespace))?;
        let class = class.cast_into::<PyType>()?;
        module.add(self.name, &class)?;
        let _ = self.class.set(py, class.unbind());
        Ok(())
    }

    fn with(&self, message: String) -> PyErr {
        Python::attach(|py| match self.class.get(py) {
            Some(class) => PyErr::from_type(class.bind(py).clone(), message),
            None => PyRuntimeError::new_err(message),
        })
    }
}

static BASE: Exception = Exception::new(
    "RingroadError",
    "The base class of ringroad's own errors.

Bad arguments raise ValueError or TypeError, a lack of memory MemoryError. Messages name rank, host, process,
call and step, and say what to do.

Example:
    >>> try:
    ...     ringroad.Topology(\"thorus:4x4\")
    ... except ringroad.RingroadError as error:
    ...     print(type(error).__name__)
    TopologyError",
);
static TIMEOUT: Exception = Exception::new(
    "TimeoutError",
    "A call did not complete before its deadline. The message names the ranks that are missing.

Look at those ranks: they may hang, have made fewer calls, or need a longer `timeout`. The communicator cannot
be used any more, unless it was `Work.wait` that raised the error; call `shrink` or make a new one.",
);
static PEER: Exception = Exception::new(
    "PeerError",
    "A member is lost: another rank died, closed its communicator, or left it during a call, over a signal for
example. The message names it.

Later calls on the communicator raise it, too. It cannot be used any more, but the process can: call `shrink` to
continue with the ranks that are left.",
);
static MISMATCH: Exception = Exception::new(
    "MismatchError",
    "Ranks made different calls. The message lists what each rank called.

Correct the program: all ranks make the same calls in the same order, with the same shapes, dtypes and roots.
Ranks are compared by the messages of their calls. Of a rank whose call has none, such as a gather of its empty
block, others notice only that it made another call that has some.
The communicator cannot be used any more.",
);
static ABORTED: Exception = Exception::new(
    "AbortedError",
    "The communicator was aborted, is closed, failed earlier other than by a loss (`PeerError`), or belongs to the
parent of a forked process.

Make a new communicator, or call `shrink` if it is not closed here. The message has the reason.",
);
static TRANSPORT: Exception = Exception::new(
    "TransportError",
    "UCX is missing or cannot be used, or the network or the system refused something.

The message says what to install, permit or set.",
);
static STORE: Exception = Exception::new(
    "StoreError",
    "The store at which ranks meet failed. Its own error is the `__cause__`, if it raised one.

See whether this rank can reach the store's host and port, or may write in its directory, and whether another job
uses the same. The message says which.",
);
static CONFIG: Exception = Exception::new(
    "ConfigError",
    "A RINGROAD_* variable or an option has a value that cannot be used, or one that is needed is not set.

The message says what can be written. `ringroad info` lists all variables.",
);
static SCHEDULE: Exception = Exception::new(
    "ScheduleError",
    "A schedule is malformed or wrong, or an algorithm is unknown or does not run on a network.

The message names rank, chunk and step of a wrong schedule, or algorithms that can be used.",
);
static TOPOLOGY: Exception = Exception::new(
    "TopologyError",
    "A topology is malformed, or does not have what is asked of it.

The message shows a valid spec.",
);

/// Adds the exception classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    BASE.define(module, &[&py.get_type::<PyRuntimeError>()])?;
    let base = module.getattr(BASE.name)?.cast_into::<PyType>()?;
    let value = py.get_type::<PyValueError>();
    TIMEOUT.define(module, &[&base, &py.get_type::<PyTimeoutError>()])?;
    PEER.define(module, &[&base, &py.get_type::<PyConnectionError>()])?;
    for exception in [&MISMATCH, &ABORTED, &TRANSPORT, &STORE] {
        exception.define(module, &[&base])?;
    }
    for exception in [&CONFIG, &SCHEDULE, &TOPOLOGY] {
        exception.define(module, &[&base, &value])?;
    }
    Ok(())
}

/// Makes the exception for an error of the runtime.
pub fn raise(error: impl Into<Error>) -> PyErr {
    match error.into() {
        Error::Argument(text) => PyValueError::new_err(text),
        Error::Type(text) => PyTypeError::new_err(text),
        Error::Timeout(text) => TIMEOUT.with(text),
        Error::Peer { message, .. } => PEER.with(message),
        Error::Mismatch(text) => MISMATCH.with(text),
        Error::Aborted(text) => ABORTED.with(text),
        Error::Memory(text) => PyMemoryError::new_err(text),
        Error::Transport(text) => TRANSPORT.with(text),
        Error::Store(text) => STORE.with(text),
        Error::Config(text) => CONFIG.with(text),
        Error::Schedule(text) => SCHEDULE.with(text),
        Error::Topology(text) => TOPOLOGY.with(text),
        other => BASE.with(other.to_string()),
    }
}

/// Makes a ValueError from any error.
pub fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Makes a ScheduleError from any error of the core about schedules.
pub fn schedule_error(error: impl std::fmt::Display) -> PyErr {
    SCHEDULE.with(error.to_string())
}

/// Makes the TimeoutError of a wait that ended before its call.
pub fn timeout(text: String) -> PyErr {
    TIMEOUT.with(text)
}

/// The error for an attribute that an object does not have.
pub fn missing(owner: &Bound<'_, PyAny>, name: &str) -> PyErr {
    let missing = owner.py().import("ringroad._mpi_names").and_then(|names| names.getattr("missing"));
    missing.and_then(|missing| missing.call1((owner, name))).map_or_else(|error| error, PyErr::from_value)
}
