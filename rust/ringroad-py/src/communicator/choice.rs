//! The choice of algorithms: which one a call runs, why, and profiles of measured times.

use pyo3::prelude::*;
use ringroad_core::algorithms::{self, Member};
use ringroad_core::cost::Measurement;

use super::PyCommunicator;
use crate::arguments::{argument, Length, Plain, Text};
use crate::arrays::operation::OpArgument;
use crate::interpreter::errors::raise;
use crate::results::object;
use crate::values::cost::{PyCostModel, COSTS};
use crate::values::profile::PyProfile;

#[pymethods]
impl PyCommunicator {
    /// Returns the name of the algorithm that a call runs. Sends nothing.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     bytes: The length of the whole vector, a number of bytes or a text such as "1MiB": of `send` for an
    ///         allreduce, of all ranks' blocks together for a collective with blocks.
    ///     dtype: The elements' type, such as "float32".
    ///     op: The reduction, as in the call. It matters, like `dtype`, because sums of floats depend on the order.
    ///
    /// Returns:
    ///     The algorithm's name, such as "ring" or "generalized:2".
    ///
    /// Raises:
    ///     ValueError: A name is unknown; the message lists the known ones.
    ///     ScheduleError: No algorithm combines values in the order of the ranks, which `op` needs.
    ///
    /// Example:
    ///     >>> (alone,) = ringroad.Communicator.in_process(1)
    ///     >>> alone.algorithm_for("allreduce", 1 << 20) == alone.explain("allreduce", 1 << 20).algorithm
    ///     True
    #[pyo3(signature = (collective, bytes, *, dtype=None, op=OpArgument::sum()), text_signature = "($self, collective, bytes, *, dtype=\"float32\", op=\"sum\")")]
    fn algorithm_for(
        &self,
        py: Python<'_>,
        collective: Text<'_>,
        bytes: Length,
        dtype: Option<Bound<'_, PyAny>>,
        op: OpArgument<'_>,
    ) -> PyResult<String> {
        let collective = collective.parse().map_err(raise)?;
        let (op, dtype) = op.kind(py, dtype)?;
        py.detach(|| self.0.algorithm_for(collective, bytes.0, op, dtype)).map_err(raise)
    }

    /// Explains why a call runs the algorithm that it runs. Sends nothing.
    ///
    /// It computes the costs of all candidates, which takes seconds on networks of thousands of ranks: do
    /// not call it before every collective.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     bytes: The length of the whole vector: a number of bytes, or a text such as "1MiB".
    ///     dtype: The elements' type, such as "float32".
    ///     op: The reduction, as in the call. One that does not commute has candidates of its own.
    ///
    /// Returns:
    ///     An `Explanation`; `print` shows it in words.
    ///
    /// Raises:
    ///     ValueError: A name is unknown; the message lists the known ones.
    ///     ScheduleError: No algorithm performs the collective on this network.
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2, topology="ring:2")
    ///     >>> found = a.explain("allreduce", 1 << 20)
    ///     >>> found.algorithm == a.algorithm_for("allreduce", 1 << 20)
    ///     True
    #[pyo3(signature = (collective, bytes, *, dtype=None, op=OpArgument::sum()), text_signature = "($self, collective, bytes, *, dtype=\"float32\", op=\"sum\")")]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        collective: Text<'_>,
        bytes: Length,
        dtype: Option<Bound<'py, PyAny>>,
        op: OpArgument<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let collective = collective.parse().map_err(raise)?;
        let (op, dtype) = op.kind(py, dtype)?;
        let found = py.detach(|| self.0.explain(collective, bytes.0, op, dtype)).map_err(raise)?;
        object(py, COSTS, &found)
    }

    /// The `CostModel` with which rank 0 chose the algorithms: its own, or that of the profile it read.
    #[getter]
    fn model(&self, py: Python<'_>) -> PyCostModel {
        PyCostModel(py.detach(|| self.0.choices()).model)
    }

    /// The most bytes that one message over a network has; longer ones are cut.
    #[getter(_segment)]
    fn segment(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.choices()).lowering.segment
    }

    /// The path of the profile (see `ringroad tune`) that rank 0 read; None if it found none.
    #[getter]
    fn profile(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.0.choices()).profile
    }

    /// The names of the algorithms among which the choice for floats is made.
    #[pyo3(name = "_candidates")]
    fn candidates(&self, py: Python<'_>, collective: Text<'_>) -> PyResult<Vec<String>> {
        let collective = collective.parse().map_err(raise)?;
        let found = py.detach(|| self.0.choices().distinct_candidates(collective)).map_err(raise)?;
        Ok(found.iter().map(Member::name).collect())
    }

    /// A profile with the cost model that fits these measurements: collective, algorithm, bytes, and seconds.
    #[pyo3(name = "_calibrate")]
    fn calibrate(
        &self,
        py: Python<'_>,
        measurements: Plain<Vec<(String, String, u64, f64)>>,
    ) -> PyResult<PyProfile> {
        let measurement = |(collective, algorithm, bytes, seconds): (String, String, u64, f64)| {
            let collective = collective.parse().map_err(raise)?;
            let algorithm = algorithms::find(&algorithm).map_err(raise)?;
            Ok(Measurement { collective, algorithm, bytes, seconds })
        };
        let measurements = measurements.0.into_iter().map(measurement).collect::<PyResult<_>>()?;
        let made = py.detach(|| self.0.calibrate(measurements));
        made.map(PyProfile).map_err(raise)
    }

    /// Returns the algorithm of every range of sizes, for floats.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///
    /// Returns:
    ///     Tuples of a number of bytes and the algorithm that is used from there on, in ascending order.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> points = a.switch_points("allreduce")
    ///     >>> points[0] == (0, a.algorithm_for("allreduce", 0))
    ///     True
    #[pyo3(signature = (collective="allreduce"))]
    fn switch_points(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument)] collective: &str,
    ) -> PyResult<Vec<(u64, String)>> {
        let choices = py.detach(|| self.0.choices());
        let ranges = choices.switch_points(collective.parse().map_err(raise)?);
        Ok(ranges.iter().map(|r| (r.from_bytes, r.algorithm.name())).collect())
    }
}
