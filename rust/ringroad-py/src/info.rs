//! What `ringroad info` shows.

use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_runtime::config::{Config, Entry, Origin, ProfileSource, Values};
use ringroad_runtime::machine::Machine;
use ucx_sys::LoadOptions;

use crate::errors::raise;

/// A row of the table of settings.
#[pyclass(name = "Setting", module = "ringroad", frozen)]
pub struct PySetting(Entry);

#[pymethods]
impl PySetting {
    #[getter]
    fn name(&self) -> &str {
        self.0.setting.name
    }

    #[getter]
    fn value(&self) -> Option<&str> {
        self.0.value.as_deref()
    }

    #[getter]
    fn unit(&self) -> &str {
        self.0.setting.unit
    }

    #[getter]
    fn origin(&self) -> &str {
        match self.0.origin {
            Origin::Default => "default",
            Origin::Environment => "environment",
        }
    }

    #[getter]
    fn default(&self) -> Option<&str> {
        self.0.setting.default
    }

    #[getter]
    fn values(&self) -> String {
        self.0.setting.values.to_string()
    }

    #[getter]
    fn choices(&self) -> &[&str] {
        match self.0.setting.values {
            Values::OneOf(names) => names,
            Values::Words(_) => &[],
        }
    }

    #[getter]
    fn help(&self) -> &str {
        self.0.setting.help
    }
}

/// What the environment says.
#[pyclass(name = "Config", module = "ringroad", frozen)]
pub struct PyConfig(Config);

#[pymethods]
impl PyConfig {
    #[new]
    #[pyo3(signature = (settings=None))]
    fn new(settings: Option<HashMap<String, String>>) -> PyResult<PyConfig> {
        Config::from_arguments(settings.unwrap_or_default()).map(PyConfig).map_err(raise)
    }

    #[staticmethod]
    fn defaults() -> PyConfig {
        PyConfig(Config::default())
    }

    #[getter]
    fn settings(&self) -> Vec<PySetting> {
        self.0.entries().into_iter().map(PySetting).collect()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    #[getter]
    fn store(&self) -> Option<String> {
        self.0.store.as_ref().map(|path| path.display().to_string())
    }

    #[getter]
    fn timeout(&self) -> f64 {
        self.0.timeout.as_secs_f64()
    }

    #[getter]
    fn profile(&self) -> Option<String> {
        match &self.0.profile {
            ProfileSource::File(path) => Some(path.display().to_string()),
            ProfileSource::None | ProfileSource::Stored(_) => None,
        }
    }
}

/// What is known of the machine, as JSON.
#[pyfunction]
pub fn machine(py: Python<'_>) -> PyResult<String> {
    let found = py.detach(Machine::look);
    serde_json::to_string(&found).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The UCX that would be used.
#[pyfunction]
#[pyo3(signature = (wheel=None))]
pub fn ucx_info(py: Python<'_>, wheel: Option<PathBuf>) -> PyResult<HashMap<&'static str, String>> {
    let explicit = Config::from_env().map_err(raise)?.ucx_library;
    let options = LoadOptions { explicit, wheel, environment: true, ..LoadOptions::default() };
    let ucx = py.detach(|| ucx_sys::load(&options)).map_err(raise)?;
    Ok(HashMap::from([
        ("path", ucx.path.display().to_string()),
        ("version", ucx.version_string.clone()),
        ("origin", format!("{:?}", ucx.origin)),
        ("UCX_TLS", std::env::var("UCX_TLS").unwrap_or_default()),
    ]))
}
