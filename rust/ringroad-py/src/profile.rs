//! `Profile`: measured costs.

use std::path::PathBuf;

use pyo3::prelude::*;
use ringroad_core::cost::{write_rules, Rule};
use ringroad_runtime::config;
use ringroad_runtime::profile::Profile;

use crate::cost::PyCostModel;
use crate::errors::raise;
use crate::explanation::PyExplanation;

/// What was measured in a place, and what follows from it.
#[pyclass(name = "Profile", module = "ringroad", frozen)]
pub struct PyProfile(pub Profile);

#[pymethods]
impl PyProfile {
    #[staticmethod]
    fn read(path: PathBuf) -> PyResult<Self> {
        let unusable = |reason| ringroad_runtime::Error::Config(format!("{}: {reason}", path.display()));
        Profile::read(&path).map(PyProfile).map_err(|reason| raise(unusable(reason)))
    }

    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        Profile::from_json(text)
            .map(PyProfile)
            .map_err(|reason| raise(ringroad_runtime::Error::Config(reason)))
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn to_csv(&self) -> String {
        let ranks = self.0.place.topology.ranks();
        let nodes = ranks / self.0.place.per_host.max(1);
        let here = |rule: &Rule| Rule { nodes: Some(nodes), ranks: Some(ranks), ..rule.clone() };
        write_rules(&self.0.rules.iter().map(here).collect::<Vec<_>>())
    }

    #[pyo3(signature = (collective, bytes, consistent=true))]
    fn choice(
        &self,
        py: Python<'_>,
        collective: &str,
        bytes: u64,
        consistent: bool,
    ) -> PyResult<PyExplanation> {
        let collective = collective.parse().map_err(raise)?;
        let found = py.detach(|| self.0.explain(collective, bytes, !consistent)).map_err(raise)?;
        Ok(PyExplanation::new(self.0.fit.model, found))
    }

    #[pyo3(signature = (collective="allreduce", consistent=true))]
    fn switch_points(
        &self,
        py: Python<'_>,
        collective: &str,
        consistent: bool,
    ) -> PyResult<Vec<(u64, String)>> {
        let collective = collective.parse().map_err(raise)?;
        let ranges = py.detach(|| self.0.switch_points(collective, !consistent)).map_err(raise)?;
        Ok(ranges.into_iter().map(|range| (range.from_bytes, range.algorithm.name())).collect())
    }

    #[getter]
    fn topology(&self) -> String {
        self.0.place.topology.spec()
    }

    #[getter]
    fn place(&self) -> String {
        self.0.place.to_string()
    }

    #[getter]
    fn file_name(&self) -> String {
        self.0.place.file_name()
    }

    #[getter]
    fn model(&self) -> PyCostModel {
        PyCostModel(self.0.fit.model)
    }

    #[getter]
    fn errors(&self) -> (f64, f64, f64) {
        let fit = &self.0.fit;
        (fit.median_error, fit.p90_error, fit.worst_error)
    }

    #[getter]
    fn rules(&self) -> Vec<(&'static str, u64, u64, String)> {
        let rules = self.0.rules.iter();
        rules.map(|r| (r.collective.name(), r.from_bytes, r.to_bytes, r.algorithm.name())).collect()
    }

    #[getter]
    fn measurements(&self) -> Vec<(&'static str, String, u64, f64)> {
        let all = self.0.measurements.iter();
        all.map(|m| (m.collective.name(), m.algorithm.name(), m.bytes, m.seconds)).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Profile of {}: {} measurements>", self.0.place, self.0.measurements.len())
    }
}

/// Where profiles are stored.
#[pyfunction]
pub fn profile_directory() -> Option<String> {
    config::profiles().map(|path| path.display().to_string())
}
