//! Stores: ours, and whatever Python object behaves like torch's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ringroad_runtime::bootstrap::{FileStore, MemoryStore, Store, StoreError};

use crate::errors::raise;

/// A store for threads of one process.
#[pyclass(name = "MemoryStore", module = "ringroad", frozen)]
pub struct PyMemoryStore(Arc<MemoryStore>);

#[pymethods]
impl PyMemoryStore {
    #[new]
    fn new() -> Self {
        PyMemoryStore(Arc::new(MemoryStore::new()))
    }
}

/// A store in a directory that all ranks share.
#[pyclass(name = "FileStore", module = "ringroad", frozen)]
pub struct PyFileStore(Arc<FileStore>);

#[pymethods]
impl PyFileStore {
    #[new]
    fn new(path: std::path::PathBuf) -> PyResult<Self> {
        Ok(PyFileStore(Arc::new(FileStore::open(path).map_err(raise)?)))
    }
}

/// The store that a Python object is.
pub fn store_of(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Store>> {
    if let Ok(store) = object.cast::<PyMemoryStore>() {
        return Ok(store.get().0.clone());
    }
    if let Ok(store) = object.cast::<PyFileStore>() {
        return Ok(store.get().0.clone());
    }
    for method in ["set", "get"] {
        if !object.hasattr(method)? {
            let text = format!(
                "{} is no store: it has no method {method}; pass a ringroad.FileStore, a ringroad.MemoryStore or a \
                 torch.distributed store",
                object.get_type().name()?
            );
            return Err(PyTypeError::new_err(text));
        }
    }
    let checks = object.hasattr("check")?;
    Ok(Arc::new(Foreign { object: object.clone().unbind(), checks }))
}

/// A Python object with the methods of a torch.distributed store. Where it has `check`, that tells whether a key is
/// there; otherwise `get` must return None or raise KeyError.
struct Foreign {
    object: Py<PyAny>,
    checks: bool,
}

/// More stores than stand for each other.
const LAYERS: usize = 16;
/// How often to look for a key.
const LOOK: Duration = Duration::from_millis(2);

impl Foreign {
    fn failed(action: &str, key: &str, error: &PyErr) -> StoreError {
        StoreError::Failed { action: format!("{action} {key:?}"), reason: error.to_string() }
    }
}

impl Store for Foreign {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        Python::attach(|py| {
            let result = self.object.call_method1(py, "set", (key, PyBytes::new(py, value)));
            result.map(drop).map_err(|e| Foreign::failed("set", key, &e))
        })
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let get = |py: Python<'_>| -> PyResult<Option<Vec<u8>>> {
            if self.checks && !self.object.call_method1(py, "check", (vec![key],))?.extract::<bool>(py)? {
                return Ok(None);
            }
            match self.object.call_method1(py, "get", (key,)) {
                Ok(value) => value.extract(py),
                Err(error) if error.is_instance_of::<PyKeyError>(py) => Ok(None),
                Err(error) => Err(error),
            }
        };
        Python::attach(|py| get(py).map_err(|e| Foreign::failed("get", key, &e)))
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
            // So that Ctrl-C works.
            Python::attach(|py| py.check_signals()).map_err(|e| Foreign::failed("wait for", key, &e))?;
            std::thread::sleep(LOOK);
        }
    }

    /// As torch's TCPStore tells it, or the store that a PrefixStore stands for.
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
