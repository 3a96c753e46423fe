//! `Algorithm` and the catalogue.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ringroad_core::algorithms::{catalogue, find, Algorithm, Member};
use ringroad_core::Collective;

use super::schedule::collective_of;
use super::topology::TopologyArgument;
use crate::arguments::{argument, Count, Plain, Text};
use crate::interpreter::errors::raise;
use crate::interpreter::notebook::shown;

/// An algorithm of the catalogue, or a member of a family of algorithms.
///
/// In its methods a network is a `Topology`, a spec, or a number of ranks, which stands for a ring. Algorithms
/// compare equal by their names, and can be pickled.
///
/// Args:
///     name: Such as "swing", or "generalized:2" for a member. `ringroad.algorithms()` lists all.
///
/// Raises:
///     ScheduleError: The name is unknown. The message suggests another.
///
/// Example:
///     >>> ring = ringroad.Algorithm("ring")
///     >>> ring.cost_line(8)
///     (14, 1.75)
///     >>> ring.supports("torus:4x4", "broadcast")
///     False
#[pyclass(name = "Algorithm", module = "ringroad", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyAlgorithm(Member);

impl PyAlgorithm {
    fn entry(&self) -> &'static Algorithm {
        self.0.algorithm()
    }
}

#[pymethods]
impl PyAlgorithm {
    #[new]
    fn new(name: Text<'_>) -> PyResult<Self> {
        find(name.0).map(PyAlgorithm).map_err(raise)
    }

    /// The name, with the parameter of a member: "generalized:2".
    #[getter]
    fn name(&self) -> String {
        self.0.name()
    }

    /// What the algorithm does, in one line.
    #[getter]
    fn summary(&self) -> &'static str {
        self.entry().summary
    }

    /// The paper that describes the algorithm.
    #[getter]
    fn source(&self) -> &'static str {
        self.entry().source
    }

    /// The collectives that the algorithm can perform.
    #[getter]
    fn collectives<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.entry().collectives().map(Collective::name).collect::<Vec<_>>())
    }

    /// Name and meaning of the parameter by which members of the family differ; None for a single
    /// algorithm.
    #[getter]
    fn parameter(&self) -> Option<(&'static str, &'static str)> {
        self.entry().parameter.as_ref().map(|parameter| (parameter.name, parameter.meaning))
    }

    /// Returns on which networks the algorithm performs a collective, in words.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///
    /// Returns:
    ///     The requirement; None if the algorithm never performs the collective.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    #[pyo3(signature = (collective="allreduce"))]
    fn requirement(
        &self,
        #[pyo3(from_py_with = argument)] collective: &str,
    ) -> PyResult<Option<&'static str>> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        Ok(self.entry().offer(collective).map(|offer| offer.requirement.text))
    }

    /// Returns the largest number of ports by which a rank sends at the same time.
    ///
    /// Args:
    ///     topology: The network.
    ///
    /// Raises:
    ///     TopologyError: The topology is malformed.
    fn ports(&self, topology: TopologyArgument<'_>) -> PyResult<usize> {
        Ok(self.entry().ports.count(&topology.resolve()?))
    }

    /// Returns whether the algorithm performs a collective on a network.
    ///
    /// Args:
    ///     topology: The network.
    ///     collective: For example "allreduce".
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     TopologyError: The topology is malformed.
    #[pyo3(signature = (topology, collective="allreduce"))]
    fn supports(
        &self,
        topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] collective: &str,
    ) -> PyResult<bool> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        Ok(self.0.supports(&topology.resolve()?, collective).is_ok())
    }

    /// Returns whether all ranks end with the same bits after a sum of floats.
    ///
    /// Args:
    ///     topology: The network.
    ///     collective: For example "allreduce".
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     TopologyError: The topology is malformed.
    #[pyo3(signature = (topology, collective="allreduce"))]
    fn bit_identical(
        &self,
        topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] collective: &str,
    ) -> PyResult<bool> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        Ok(self.0.bit_identical(&topology.resolve()?, collective))
    }

    /// Returns the steps and the volume of the schedule, from the closed form and without building it.
    ///
    /// Args:
    ///     topology: The network.
    ///     collective: For example "allreduce".
    ///     root: The rank that sends or receives all, for collectives that have one; 0 if it is not given. The
    ///         figures may depend on it.
    ///
    /// Returns:
    ///     The number of steps, and the most that a rank sends, in units of the vector.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: The algorithm does not perform the collective on this network. The message says
    ///         why and names others that do.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> ringroad.Algorithm("ring").cost_line(8)
    ///     (14, 1.75)
    #[pyo3(signature = (topology, collective="allreduce", root=None))]
    fn cost_line(
        &self,
        topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] collective: &str,
        root: Option<Count>,
    ) -> PyResult<(usize, f64)> {
        let collective = collective_of(collective, root)?;
        let line = self.0.cost_line(&topology.resolve()?, collective).map_err(raise)?;
        Ok((line.steps, line.sent))
    }

    /// Returns the collectives as a pandas.DataFrame with a row for each, and what they require.
    ///
    /// Raises:
    ///     ImportError: pandas is not installed.
    fn df<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "df")
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "html")
    }

    fn __getnewargs__(&self) -> (String,) {
        (self.name(),)
    }

    fn __repr__(&self) -> String {
        format!("Algorithm('{}')", self.0)
    }
}

/// Returns the name of a collective that is written in any way.
#[pyfunction]
pub fn collective_name(text: Text<'_>) -> PyResult<&'static str> {
    Ok(text.parse::<Collective>().map_err(raise)?.name())
}

/// Returns the names of all collectives.
#[pyfunction]
pub fn collectives() -> Vec<&'static str> {
    Collective::ALL.into_iter().map(Collective::name).collect()
}

/// Lists the catalogue of algorithms.
///
/// Args:
///     topology: A `Topology`, a spec, or a number of ranks. With it, families are listed by those of
///         their members that are worth trying on this network.
///
/// Returns:
///     `Algorithm` objects.
///
/// Raises:
///     TopologyError: The topology is malformed.
///
/// Example:
///     >>> ringroad.Algorithm("swing") in ringroad.algorithms()
///     True
///     >>> [a.name for a in ringroad.algorithms(8) if a.name.startswith("generalized:")]
///     ['generalized:0', 'generalized:1', 'generalized:2', 'generalized:3']
#[pyfunction]
#[pyo3(signature = (topology=None))]
pub fn algorithms(topology: Option<TopologyArgument<'_>>) -> PyResult<Vec<PyAlgorithm>> {
    let Some(topology) = topology else {
        return catalogue().map(|algorithm| PyAlgorithm::new(Plain(algorithm.name))).collect();
    };
    let topology = topology.resolve()?;
    Ok(catalogue().flat_map(|algorithm| algorithm.members(&topology)).map(PyAlgorithm).collect())
}
