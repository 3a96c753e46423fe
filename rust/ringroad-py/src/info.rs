//! What `ringroad info` shows.

use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use ringroad_runtime::config::{Config, Origin};
use ucx_sys::LoadOptions;

use crate::errors::raise;

fn config(environ: Option<HashMap<String, String>>) -> PyResult<Config> {
    match environ {
        Some(variables) => Config::read(variables).map_err(raise),
        None => Config::from_env().map_err(raise),
    }
}

/// Every setting as (variable, value with unit, origin, meaning).
#[pyfunction]
#[pyo3(signature = (environ=None))]
pub fn settings(
    environ: Option<HashMap<String, String>>,
) -> PyResult<Vec<(String, String, &'static str, String)>> {
    let rows = config(environ)?.entries().into_iter().map(|entry| {
        let origin = match entry.origin {
            Origin::Default => "default",
            Origin::Environment => "environment",
        };
        let unit = if entry.value == "unset" { "" } else { entry.unit };
        let value = format!("{} {unit}", entry.value).trim_end().to_owned();
        (entry.name.to_owned(), value, origin, entry.meaning.to_owned())
    });
    Ok(rows.collect())
}

/// One line for each variable that does not exist.
#[pyfunction]
pub fn settings_warnings() -> PyResult<Vec<String>> {
    Ok(config(None)?.warnings)
}

/// The UCX that would be used.
#[pyfunction]
#[pyo3(signature = (wheel=None))]
pub fn ucx_info(py: Python<'_>, wheel: Option<PathBuf>) -> PyResult<HashMap<&'static str, String>> {
    let explicit = config(None)?.ucx_library;
    let options = LoadOptions { explicit, wheel, environment: true, ..LoadOptions::default() };
    let ucx = py.detach(|| ucx_sys::load(&options)).map_err(raise)?;
    Ok(HashMap::from([
        ("path", ucx.path.display().to_string()),
        ("version", ucx.version_string.clone()),
        ("origin", format!("{:?}", ucx.origin)),
        ("UCX_TLS", std::env::var("UCX_TLS").unwrap_or_default()),
    ]))
}
