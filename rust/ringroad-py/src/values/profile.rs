//! `Profile`: measured times, and the choices that follow from them.

use std::path::PathBuf;

use pyo3::prelude::*;
use ringroad_core::cost::{write_rules, Rule};
use ringroad_runtime::choice::profile::Profile;

use super::cost::{PyCostModel, COSTS};
use crate::arguments::{argument, Length, Lengths, Plain, Text};
use crate::interpreter::errors::raise;
use crate::results::object;

/// What `ringroad tune` measured on a network: times, the cost model that fits them best, and rules
/// that follow.
#[pyclass(name = "Profile", module = "ringroad.measure", frozen)]
pub struct PyProfile(pub Profile);

#[pymethods]
impl PyProfile {
    /// Reads a file that `ringroad tune` wrote.
    ///
    /// Args:
    ///     path: The file.
    ///
    /// Returns:
    ///     The profile.
    ///
    /// Raises:
    ///     ConfigError: The file cannot be read, is no profile, or has another version. Measure again.
    #[staticmethod]
    fn read(path: Plain<PathBuf>) -> PyResult<Self> {
        let unusable = |reason| ringroad_runtime::Error::Config(format!("{}: {reason}", path.0.display()));
        Profile::read(&path.0).map(PyProfile).map_err(|reason| raise(unusable(reason)))
    }

    /// Reads what `to_json` wrote.
    ///
    /// Args:
    ///     text: The JSON.
    ///
    /// Returns:
    ///     The profile.
    ///
    /// Raises:
    ///     ConfigError: The text is no profile, or has another version.
    #[staticmethod]
    fn from_json(text: Text<'_>) -> PyResult<Self> {
        Profile::from_json(text.0)
            .map(PyProfile)
            .map_err(|reason| raise(ringroad_runtime::Error::Config(reason)))
    }

    /// Returns the profile as JSON, as it is in files.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// Returns the rules as lines for RINGROAD_TUNER_FILE and for NCCL's tuner plugin.
    fn to_csv(&self) -> String {
        let ranks = self.0.place.topology.ranks();
        let nodes = ranks / self.0.place.per_host.max(1);
        let here = |rule: &Rule| Rule { nodes: Some(nodes), ranks: Some(ranks), ..rule.clone() };
        write_rules(&self.0.rules.iter().map(here).collect::<Vec<_>>())
    }

    /// Returns which algorithm a communicator on this network chooses, and why.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     bytes: The length of the vector: a number of bytes, or a text such as "1MiB".
    ///     bit_identical: True: choose only among algorithms that give all ranks the same bits after a sum of floats.
    ///
    /// Returns:
    ///     An `Explanation`; `print` shows it in words.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network.
    #[pyo3(signature = (collective, bytes, *, bit_identical=true))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        collective: Text<'_>,
        bytes: Length,
        #[pyo3(from_py_with = argument)] bit_identical: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let collective = collective.parse().map_err(raise)?;
        let found = py.detach(|| self.0.explain(collective, bytes.0, !bit_identical)).map_err(raise)?;
        object(py, COSTS, &found)
    }

    /// Returns what a communicator on this network chooses for all sizes, and explains the choice for some of them.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     sizes: The lengths of the vector: numbers of bytes, or texts such as "1MiB".
    ///
    /// Returns:
    ///     An `Overview`, with what `explain` returns for each size.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network.
    fn compare<'py>(
        &self,
        py: Python<'py>,
        collective: Text<'_>,
        sizes: Lengths,
    ) -> PyResult<Bound<'py, PyAny>> {
        let collective = collective.parse().map_err(raise)?;
        let found = py.detach(|| self.0.overview(collective, &sizes.0)).map_err(raise)?;
        object(py, COSTS, &found)
    }

    /// Returns the algorithm of every range of sizes.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     bit_identical: True: only algorithms that give all ranks the same bits after a sum of floats.
    ///
    /// Returns:
    ///     Tuples of a number of bytes and the algorithm that is used from there on, in ascending order.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network.
    #[pyo3(signature = (collective="allreduce", bit_identical=true))]
    fn switch_points(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument)] collective: &str,
        #[pyo3(from_py_with = argument)] bit_identical: bool,
    ) -> PyResult<Vec<(u64, String)>> {
        let collective = collective.parse().map_err(raise)?;
        let ranges = py.detach(|| self.0.switch_points(collective, !bit_identical)).map_err(raise)?;
        Ok(ranges.into_iter().map(|range| (range.from_bytes, range.algorithm.name())).collect())
    }

    /// The spec of the network.
    #[getter]
    fn topology(&self) -> String {
        self.0.place.topology.spec()
    }

    /// The network, the transport and the machines, in words.
    #[getter]
    fn place(&self) -> String {
        self.0.place.to_string()
    }

    /// The file name under which communicators look for the profile of this network and these machines.
    #[getter]
    fn file_name(&self) -> String {
        self.0.place.file_name()
    }

    /// The `CostModel` that fits the measurements best.
    #[getter]
    fn model(&self) -> PyCostModel {
        PyCostModel(self.0.fit.model)
    }

    /// How far the model is from the measured times, as fractions of these: the median, nine tenths, and
    /// the worst.
    #[getter]
    fn errors(&self) -> (f64, f64, f64) {
        let fit = &self.0.fit;
        (fit.median_error, fit.p90_error, fit.worst_error)
    }

    /// Tuples of a collective, the smallest and the largest number of bytes, and the algorithm that was
    /// measured to be the fastest.
    #[getter]
    fn rules(&self) -> Vec<(&'static str, u64, u64, String)> {
        let rules = self.0.rules.iter();
        rules.map(|r| (r.collective.name(), r.from_bytes, r.to_bytes, r.algorithm.name())).collect()
    }

    /// Tuples of a collective, an algorithm, a number of bytes, and seconds.
    #[getter]
    fn measurements(&self) -> Vec<(&'static str, String, u64, f64)> {
        let all = self.0.measurements.iter();
        all.map(|m| (m.collective.name(), m.algorithm.name(), m.bytes, m.seconds)).collect()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<PyProfile>().getattr("from_json")?, (self.to_json(),)))
    }

    fn __repr__(&self) -> String {
        format!("<Profile of {}: {} measurements>", self.0.place, self.0.measurements.len())
    }
}

/// Stores a profile where communicators look for it. Without a text it only checks that this is possible.
#[pyfunction]
#[pyo3(signature = (path, text=None))]
pub fn keep_profile(path: Plain<PathBuf>, text: Option<Plain<String>>) -> PyResult<()> {
    Profile::store(&path.0, text.as_ref().map(|text| text.as_str())).map_err(raise)
}
