//! `Config`, `Setting`, and what `ringroad info` shows of the machine and of UCX.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use ringroad_core::units;
use ringroad_runtime::config::{
    AllowedValues, Config, ProfileSource, Scope, SettingEntry, StoreSource, ValueOrigin,
};
use ringroad_runtime::os::files;
use ringroad_runtime::os::machine::MachineReport;
use ringroad_runtime::transport::ucx;
use ringroad_runtime::{DType, ReduceOp};

use crate::arguments::{Count, Plain, Text};
use crate::interpreter::errors::{raise, value_error};

/// One RINGROAD_* variable: its value and its meaning.
#[pyclass(name = "Setting", module = "ringroad", frozen)]
pub struct PySetting(SettingEntry);

#[pymethods]
impl PySetting {
    /// The name of the variable.
    #[getter]
    fn name(&self) -> &str {
        self.0.setting.name
    }

    /// The value as written; "set" if it is secret, None if it is unset and has no default.
    #[getter]
    fn value(&self) -> Option<&str> {
        self.0.value.as_deref()
    }

    /// The unit of the value; empty for most variables.
    #[getter]
    fn unit(&self) -> &str {
        self.0.setting.unit
    }

    /// Where the value is from: "default" or "environment".
    #[getter]
    fn origin(&self) -> &str {
        match self.0.origin {
            ValueOrigin::Default => "default",
            ValueOrigin::Environment => "environment",
        }
    }

    /// The value that counts if the variable is unset; None if leaving it unset has a meaning of its own.
    #[getter]
    fn default(&self) -> Option<&str> {
        self.0.setting.default
    }

    /// What can be written, in words.
    #[getter]
    fn values(&self) -> String {
        self.0.setting.values.to_string()
    }

    /// All words that can be written; empty if the values are not a list of words.
    #[getter]
    fn choices(&self) -> &[&str] {
        match self.0.setting.values {
            AllowedValues::OneOf(names) => names,
            AllowedValues::Words(_) => &[],
        }
    }

    /// What the variable is for, and what leaving it unset means.
    #[getter]
    fn help(&self) -> &str {
        self.0.setting.help
    }

    /// "job" if it belongs to the job's own network or files, "rank" if ranks may also differ in it, else "any".
    #[getter]
    fn _scope(&self) -> &str {
        match self.0.setting.scope {
            Scope::Job => "job",
            Scope::Rank => "rank",
            Scope::Any => "any",
        }
    }
}

/// The settings of this process: the RINGROAD_* variables of the environment, and `settings`, which
/// override them.
///
/// Args:
///     settings: Values by the names of the variables.
///
/// Raises:
///     ConfigError: A value cannot be used. The message says what can be written.
///     ValueError: `settings` names a variable that does not exist.
#[pyclass(name = "Config", module = "ringroad", frozen)]
pub struct PyConfig(Config);

#[pymethods]
impl PyConfig {
    #[new]
    #[pyo3(signature = (settings=None))]
    fn new(settings: Option<Plain<HashMap<String, String>>>) -> PyResult<PyConfig> {
        Config::from_arguments(Plain::inner(settings).unwrap_or_default()).map(PyConfig).map_err(raise)
    }

    /// Returns the settings that hold if no variable is set.
    #[staticmethod]
    fn defaults() -> PyConfig {
        PyConfig(Config::default())
    }

    /// A `Setting` for each variable.
    #[getter]
    fn settings(&self) -> Vec<PySetting> {
        self.0.entries().into_iter().map(PySetting).collect()
    }

    /// A line for each RINGROAD_* variable of the environment that does not exist.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// The directory in which ranks meet, or the host and the port at which rank 0 listens; None if
    /// RINGROAD_STORE names none.
    #[getter]
    fn store<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match &self.0.store {
            None => None,
            Some(StoreSource::Directory(path)) => {
                Some(path.display().to_string().into_pyobject(py)?.into_any())
            }
            Some(StoreSource::Server(host, port)) => Some((host, *port).into_pyobject(py)?.into_any()),
        })
    }

    /// The first and the last TCP port that RINGROAD_TCP_PORTS permits; None if it is unset.
    #[getter]
    fn tcp_ports(&self) -> Option<(u16, u16)> {
        self.0.tcp_ports
    }

    /// The signal at which a process writes how its job stands, "USR1" or "USR2"; None if RINGROAD_SIGNAL names none.
    #[getter]
    fn signal(&self) -> Option<&str> {
        self.0.signal.map(|signal| signal.name())
    }

    /// The default timeout of calls, in seconds.
    #[getter]
    fn timeout(&self) -> f64 {
        self.0.timeout.as_secs_f64()
    }

    /// The directory in which communicators look for profiles, unless RINGROAD_PROFILE names a file; None if nothing
    /// is kept.
    #[getter]
    fn profiles(&self) -> Option<String> {
        self.0.profiles().map(|path| path.display().to_string())
    }

    /// The path of the profile that RINGROAD_PROFILE names; None if it names none.
    #[getter]
    fn profile(&self) -> Option<String> {
        match &self.0.profile {
            ProfileSource::File(path) => Some(path.display().to_string()),
            ProfileSource::None | ProfileSource::Stored => None,
        }
    }
}

/// Returns the dtypes that each reduction supports, by its name. "sum" supports all.
#[pyfunction]
pub fn reductions() -> BTreeMap<&'static str, Vec<&'static str>> {
    let dtypes =
        |op: ReduceOp| DType::ALL.into_iter().filter(move |dtype| op.supports(*dtype)).map(DType::name);
    ReduceOp::ALL.into_iter().map(|op| (op.name(), dtypes(op).collect())).collect()
}

/// Returns what is known of this machine, as JSON.
#[pyfunction]
pub fn machine(py: Python<'_>) -> PyResult<String> {
    let found = py.detach(MachineReport::detect);
    serde_json::to_string(&found).map_err(value_error)
}

/// Reads a file that a user names: a regular file of at most `most` bytes (256 MiB unless stated), to which a path need
/// not lead. OSError: it is no such file.
#[pyfunction]
#[pyo3(signature = (path, most=None))]
pub fn read_file(py: Python<'_>, path: Plain<PathBuf>, most: Option<Count>) -> PyResult<Cow<'static, [u8]>> {
    let content = py.detach(|| files::read(&path.0, most.map_or(files::MOST_TEXT, |most| most.0 as u64)));
    content.map(Cow::Owned).map_err(|error| match error.raw_os_error() {
        Some(number) => {
            let says = error.to_string();
            let says = says.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, says, path.0.display().to_string()))
        }
        None => PyOSError::new_err(format!("{} cannot be read: {error}", path.0.display())),
    })
}

/// Reads a number of bytes: `8`, `64KiB`, `1.5MiB`, `2MB` or `4M`. KiB, MiB, GiB and TiB are powers of 1024, as letters
/// alone are, and KB, MB, GB and TB powers of 1000.
#[pyfunction]
pub fn read_bytes(text: Text<'_>) -> PyResult<u64> {
    units::bytes(text.0).map_err(value_error)
}

/// Reads bytes per second: bits or bytes, `100Gbit/s`, `100Gbit` or `12.5GB/s`, or a number; G is 10^9.
#[pyfunction]
pub fn read_bandwidth(text: Text<'_>) -> PyResult<f64> {
    units::bandwidth(text.0).map_err(value_error)
}

/// Reads seconds: `10us`, `500ns`, `1.5ms` or `2s`, or a number.
#[pyfunction]
pub fn read_seconds(text: Text<'_>) -> PyResult<f64> {
    units::seconds(text.0).map_err(value_error)
}

/// The UCX that pip has installed, if it has.
pub fn ucx_wheel(py: Python<'_>) -> PyResult<Option<PathBuf>> {
    py.import("ringroad._support.ucx")?.call_method0("_ucx_wheel")?.extract()
}

/// Returns what would carry messages between this host and others like it, and why: `tcp: ` or `ucx`, and the reason.
#[pyfunction]
pub fn between_hosts(py: Python<'_>) -> PyResult<String> {
    let (config, wheel) = (Config::from_env().map_err(raise)?, ucx_wheel(py)?);
    Ok(py.detach(|| ringroad_runtime::communicator::between_hosts(&config, wheel.as_ref())))
}

/// Returns which UCX library would be used: "path", "version", "origin", "UCX_TLS", and "why", if there was a choice. That
/// of the wheel is used where the system has none, or an older one.
#[pyfunction]
pub fn ucx_info(py: Python<'_>) -> PyResult<HashMap<&'static str, String>> {
    let wheel = ucx_wheel(py)?;
    let config = Config::from_env().map_err(raise)?;
    let known = py.detach(|| ucx::library(&config, wheel.as_ref())).map_err(raise)?;
    let tls = ("UCX_TLS", std::env::var("UCX_TLS").unwrap_or_default());
    Ok(known.into_iter().chain([tls]).collect())
}
