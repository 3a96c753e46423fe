//! Which algorithms calls of a communicator run, why, and what measurements say of that.

use pyo3::prelude::*;
use ringroad_core::algorithms::{self, Member};
use ringroad_core::cost::Measurement;

use crate::communicator::PyCommunicator;
use crate::cost::PyCostModel;
use crate::errors::raise;
use crate::explanation::PyExplanation;
use crate::profile::PyProfile;

#[pymethods]
impl PyCommunicator {
    #[pyo3(signature = (collective, bytes, *, dtype="float32", op="sum"))]
    fn algorithm_for(
        &self,
        py: Python<'_>,
        collective: &str,
        bytes: u64,
        dtype: &str,
        op: &str,
    ) -> PyResult<String> {
        let (collective, dtype) = (collective.parse().map_err(raise)?, dtype.parse().map_err(raise)?);
        let op = op.parse().map_err(raise)?;
        Ok(py.detach(|| self.0.algorithm_for(collective, bytes, op, dtype)))
    }

    #[pyo3(signature = (collective, bytes, *, dtype="float32", op="sum"))]
    fn explain(
        &self,
        py: Python<'_>,
        collective: &str,
        bytes: u64,
        dtype: &str,
        op: &str,
    ) -> PyResult<PyExplanation> {
        let (collective, dtype) = (collective.parse().map_err(raise)?, dtype.parse().map_err(raise)?);
        let op = op.parse().map_err(raise)?;
        let (model, found) =
            py.detach(|| (self.0.choices().model, self.0.explain(collective, bytes, op, dtype)));
        Ok(PyExplanation::new(model, found.map_err(raise)?))
    }

    #[getter]
    fn model(&self, py: Python<'_>) -> PyCostModel {
        PyCostModel(py.detach(|| self.0.choices()).model)
    }

    #[getter]
    fn segment(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.choices()).lowering.segment
    }

    #[getter]
    fn profile(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.0.choices()).profile
    }

    #[pyo3(signature = (collective="allreduce"))]
    fn contestants(&self, py: Python<'_>, collective: &str) -> PyResult<Vec<String>> {
        let collective = collective.parse().map_err(raise)?;
        let found = py.detach(|| self.0.choices().contestants(collective)).map_err(raise)?;
        Ok(found.iter().map(Member::name).collect())
    }

    fn calibrate(
        &self,
        py: Python<'_>,
        measurements: Vec<(String, String, u64, f64)>,
    ) -> PyResult<PyProfile> {
        let measurement = |(collective, algorithm, bytes, seconds): (String, String, u64, f64)| {
            let collective = collective.parse().map_err(raise)?;
            let algorithm = algorithms::find(&algorithm).map_err(raise)?;
            Ok(Measurement { collective, algorithm, bytes, seconds })
        };
        let measurements = measurements.into_iter().map(measurement).collect::<PyResult<_>>()?;
        let made = py.detach(|| self.0.calibrate(measurements));
        made.map(PyProfile).map_err(raise)
    }

    #[pyo3(signature = (collective="allreduce"))]
    fn switch_points(&self, py: Python<'_>, collective: &str) -> PyResult<Vec<(u64, String)>> {
        let choices = py.detach(|| self.0.choices());
        let ranges = choices.switch_points(collective.parse().map_err(raise)?);
        Ok(ranges.iter().map(|r| (r.from_bytes, r.algorithm.name())).collect())
    }
}
