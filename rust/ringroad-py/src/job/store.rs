//! Stores: those of ringroad, and Python objects with the methods of torch's stores.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::call::PyCallArgs;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyException, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ringroad_runtime::bootstrap::{FileStore, JobPlace, JobStore, MemoryStore, Store, StoreError};
use ringroad_runtime::communicator::{GoOn, Heeding};
use ringroad_runtime::config::{Config, Secret};
use ringroad_runtime::Error;

use crate::arguments::{argument, argument_type, duration, shown, Count, Number, Plain};
use crate::interpreter::errors::raise;
use crate::interpreter::shutdown::{is_ending, waiting};
use crate::interpreter::signals::{handle_signals, may_call};

/// A store for ranks that are threads of one process. All of them pass the same object.
///
/// Example:
///     >>> store = ringroad.MemoryStore()
///     >>> with ringroad.Communicator(store, rank=0, size=1) as comm:
///     ...     comm.size
///     1
#[pyclass(name = "MemoryStore", module = "ringroad", frozen)]
pub struct PyMemoryStore(Arc<MemoryStore>);

#[pymethods]
impl PyMemoryStore {
    #[new]
    fn new() -> Self {
        PyMemoryStore(Arc::new(MemoryStore::new()))
    }
}

/// A store in a directory that all ranks can reach. Use a new directory for every job.
///
/// Args:
///     path: The directory. It is made if it does not exist.
///
/// Raises:
///     StoreError: The directory cannot be made or used. The message says why.
///
/// Example:
///     >>> import tempfile
///     >>> with tempfile.TemporaryDirectory() as folder:
///     ...     store = ringroad.FileStore(folder)
///     ...     with ringroad.Communicator(store, rank=0, size=1) as comm:
///     ...         comm.size
///     1
#[pyclass(name = "FileStore", module = "ringroad", frozen)]
pub struct PyFileStore(Arc<FileStore>);

#[pymethods]
impl PyFileStore {
    #[new]
    fn new(path: Plain<std::path::PathBuf>) -> PyResult<Self> {
        Ok(PyFileStore(Arc::new(FileStore::open(path.0).map_err(raise)?)))
    }
}

/// A store in the process of rank 0, which the other ranks reach over TCP. Its server runs until rank 0's
/// process ends.
///
/// `ringroad.init` makes it from RINGROAD_STORE, or from what the launcher says.
///
/// Args:
///     host: Rank 0's host, as a name or an address. If it is loopback, only processes of this machine
///         reach the store.
///     port: A free port there; or a sequence of ports, of which rank 0 takes the first one that is free.
///     rank: The number of this rank. Rank 0 serves, the others connect.
///     job: Any text that only ranks of this job have, so that they meet no others.
///     timeout: Seconds within which rank 0 must be found. None: RINGROAD_TIMEOUT, or 300.
///     settings: Values of RINGROAD_* variables, by name, as for `Communicator`. A process that connects must
///         have the same RINGROAD_SECRET.
///
/// Raises:
///     TimeoutError: Rank 0 was not found in time. The message names host and port.
///     StoreError: The port belongs to another process, or the secrets differ.
///     ValueError: `port` is 0 or empty, or `timeout` or a setting is invalid.
///     TypeError: `port` is neither a port nor a sequence of ports.
///     ConfigError: A setting has a value that cannot be used.
#[pyclass(name = "TcpStore", module = "ringroad", frozen)]
pub struct PyTcpStore(Arc<JobStore>);

pub enum StorePorts {
    One(u16),
    Several(Vec<u16>),
}

argument_type! {own StorePorts, "a port or a list of ports, each from 0 to 65535", |object| {
    match Vec::read(object) {
        Ok(ports) => Ok(StorePorts::Several(ports)),
        Err(_) => Ok(StorePorts::One(object.extract()?)),
    }
}}

#[pymethods]
impl PyTcpStore {
    #[new]
    #[pyo3(signature = (host, port, rank, *, job="", timeout=None, settings=None))]
    fn new(
        py: Python<'_>,
        host: Plain<String>,
        port: StorePorts,
        rank: Count,
        #[pyo3(from_py_with = argument)] job: &str,
        timeout: Option<Number>,
        settings: Option<Plain<HashMap<String, String>>>,
    ) -> PyResult<Self> {
        let config = Config::from_arguments(Plain::inner(settings).unwrap_or_default()).map_err(raise)?;
        let timeout = duration(timeout)?.unwrap_or(config.timeout);
        let ports = match port {
            StorePorts::One(port) => vec![port],
            StorePorts::Several(ports) => ports,
        };
        let place = JobPlace { host: host.0, ports, job: job.to_owned() };
        let secret = config.secret.as_ref().map(Secret::reveal);
        let listening = Listening::default();
        let store = waiting(py, || JobStore::open(&place, rank.0, secret, timeout, || listening.go_on()));
        Ok(PyTcpStore(Arc::new(listening.outcome(py, store)?)))
    }

    /// Stores a value for all ranks.
    ///
    /// Args:
    ///     key: Its name. Keys of ringroad's own begin with "ringroad".
    ///     value: The bytes. They replace an earlier value.
    ///
    /// Raises:
    ///     StoreError: Rank 0's process cannot be reached.
    fn set(&self, py: Python<'_>, key: Plain<String>, value: Plain<Cow<'_, [u8]>>) -> PyResult<()> {
        py.detach(|| self.0.set(&key.0, &value.0)).map_err(|error| raise(Error::from(error)))
    }

    /// Returns the value of a key at once.
    ///
    /// Args:
    ///     key: The name of the value.
    ///
    /// Returns:
    ///     The bytes, or None if no rank has stored a value.
    ///
    /// Raises:
    ///     StoreError: Rank 0's process cannot be reached.
    fn get(&self, py: Python<'_>, key: Plain<String>) -> PyResult<Option<Py<PyBytes>>> {
        let value = py.detach(|| self.0.get(&key.0)).map_err(|error| raise(Error::from(error)))?;
        Ok(value.map(|bytes| PyBytes::new(py, &bytes).unbind()))
    }
}

/// Checks for Python's signals, such as Ctrl-C, while somebody waits for other ranks. It keeps the exception of a signal
/// handler or of a Python store. True: it is raised as it is; false: it becomes the cause of a StoreError.
#[derive(Default)]
pub struct Listening(Mutex<Option<(PyErr, bool)>>);

impl Listening {
    fn go_on(&self) -> Result<(), StoreError> {
        // A method of a Python store may have raised it before.
        if is_ending() || matches!(*self.0.lock().expect("nothing panics under this lock"), Some((_, true))) {
            return Err(StoreError::Interrupted);
        }
        Python::attach(|py| {
            handle_signals(py).map_err(|error| {
                self.keep(error, true);
                StoreError::Interrupted
            })
        })
    }

    fn keep(&self, error: PyErr, as_it_is: bool) {
        // An earlier one is dropped after the lock is released, since that may run Python code.
        let _earlier = self.0.lock().expect("nothing panics under this lock").replace((error, as_it_is));
    }

    /// The result of a call that waited, with the exception of Python code where there was one.
    pub fn outcome<T>(&self, py: Python<'_>, result: Result<T, impl Into<Error>>) -> PyResult<T> {
        let raised = self.0.lock().expect("nothing panics under this lock").take();
        match (raised, result.map_err(Into::into)) {
            (Some((raised, true)), _) => Err(raised),
            (Some((cause, false)), Err(error @ Error::Store(_))) => {
                let error = raise(error);
                error.set_cause(py, Some(cause));
                Err(error)
            }
            (_, result) => result.map_err(raise),
        }
    }
}

/// Something that listens, and the function by which the runtime asks it.
fn listening() -> (Arc<Listening>, GoOn) {
    let listening = Arc::new(Listening::default());
    let asked = listening.clone();
    (listening, Arc::new(move || asked.go_on()))
}

/// Runs a function that waits for other ranks. A signal interrupts it, and the exception of its handler is raised.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    run: impl Send + FnOnce(&GoOn) -> ringroad_runtime::Result<T>,
) -> PyResult<T> {
    may_call()?;
    let (listening, go_on) = listening();
    let made = waiting(py, || run(&go_on));
    listening.outcome(py, made)
}

/// Makes a store from a Python object, and what listens while it is used. Raises TypeError if the object has no methods
/// `set` and `get`.
pub fn store_of(object: &Bound<'_, PyAny>) -> PyResult<(Arc<dyn Store>, Arc<Listening>)> {
    let (listening, go_on) = listening();
    let store: Arc<dyn Store> = if let Ok(store) = object.cast::<PyMemoryStore>() {
        store.get().0.clone()
    } else if let Ok(store) = object.cast::<PyFileStore>() {
        store.get().0.clone()
    } else if let Ok(store) = object.cast::<PyTcpStore>() {
        store.get().0.clone()
    } else {
        for method in ["set", "get"] {
            if !object.hasattr(method)? {
                let text = format!(
                    "{} is not a store, because it has no method {method}; pass a ringroad.FileStore, a ringroad.TcpStore, a \
                     ringroad.MemoryStore or a torch.distributed store",
                    object.get_type().name()?
                );
                return Err(PyTypeError::new_err(text));
            }
        }
        let checks = object.hasattr("check")?;
        Arc::new(Foreign { object: object.clone().unbind(), checks, listening: listening.clone() })
    };
    Ok((Arc::new(Heeding { store, go_on }), listening))
}

/// A Python object with the methods of a torch.distributed store. If it has a method `check`, that says whether a key
/// exists; else `get` must return None or raise KeyError if it does not.
struct Foreign {
    object: Py<PyAny>,
    checks: bool,
    listening: Arc<Listening>,
}

/// The most stores that wrap each other.
const LAYERS: usize = 16;
/// The time between two looks for a key.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// What a method of the store returns. Raises TypeError if that is not what `words` say.
fn returned<'py, T: FromPyObjectOwned<'py>>(
    store: &Bound<'py, PyAny>,
    method: &str,
    arguments: impl PyCallArgs<'py>,
    words: &str,
) -> PyResult<T> {
    let value = store.call_method1(method, arguments)?;
    value.extract().map_err(|_| {
        let class = store.get_type().name().map_or_else(|_| "the store".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("{class}.{method} must return {words}, not {}", shown(&value)))
    })
}

impl Foreign {
    fn failed(&self, py: Python<'_>, action: &str, key: &str, error: PyErr) -> StoreError {
        let is_failure = error.is_instance_of::<PyException>(py);
        let reason = error.to_string();
        self.listening.keep(error, !is_failure);
        if is_failure {
            StoreError::Failed { action: format!("{action} {key:?}"), reason }
        } else {
            StoreError::Interrupted
        }
    }
}

impl Store for Foreign {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        Python::attach(|py| {
            let result = self.object.call_method1(py, "set", (key, PyBytes::new(py, value)));
            result.map(drop).map_err(|e| self.failed(py, "set", key, e))
        })
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let get = |py: Python<'_>| -> PyResult<Option<Vec<u8>>> {
            let store = self.object.bind(py);
            if self.checks && !returned::<bool>(store, "check", (vec![key],), "True or False")? {
                return Ok(None);
            }
            match returned(store, "get", (key,), "bytes, or None if there is no such key") {
                Err(error) if error.is_instance_of::<PyKeyError>(py) => Ok(None),
                value => value,
            }
        };
        Python::attach(|py| get(py).map_err(|e| self.failed(py, "get", key, e)))
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        let start = Instant::now();
        loop {
            if let Some(value) = self.get(key)? {
                return Ok(value);
            }
            if Instant::now() >= deadline {
                return Err(StoreError::Timeout { key: key.to_owned(), waited: start.elapsed() });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The attribute `host` of torch's TCPStore, also inside of PrefixStores.
    fn host(&self) -> Option<String> {
        Python::attach(|py| {
            let mut store = self.object.bind(py).clone();
            for _ in 0..LAYERS {
                if let Ok(host) = store.getattr("host") {
                    return host.extract().ok();
                }
                store = store.getattr("underlying_store").ok()?;
            }
            None
        })
    }
}
