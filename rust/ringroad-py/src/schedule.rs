//! `Schedule`.

use pyo3::prelude::*;
use ringroad_core::{algorithms, Action, Collective, Schedule};

use crate::errors::{raise, schedule_error};

/// Step, source, destination, chunks, action, port.
type SendTuple = (usize, usize, usize, Vec<usize>, &'static str, usize);

/// Who sends which chunks to whom in which step, for all ranks.
#[pyclass(name = "Schedule", module = "ringroad", frozen, eq)]
#[derive(PartialEq)]
pub struct PySchedule(pub Schedule);

#[pymethods]
impl PySchedule {
    #[staticmethod]
    #[pyo3(signature = (algorithm, ranks, collective="allreduce", root=0))]
    fn build(algorithm: &str, ranks: usize, collective: &str, root: usize) -> PyResult<Self> {
        let collective = collective.parse::<Collective>().map_err(raise)?.with_root(root);
        let algorithm = algorithms::find(algorithm).map_err(raise)?;
        Ok(PySchedule(algorithm.build(ranks, collective).map_err(raise)?))
    }

    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        Schedule::from_json(text).map(PySchedule).map_err(schedule_error)
    }

    #[staticmethod]
    fn split(name: &str, parts: Vec<Bound<'_, PySchedule>>) -> PyResult<Self> {
        let parts: Vec<Schedule> = parts.iter().map(|p| p.get().0.clone()).collect();
        Schedule::split(name, &parts).map(PySchedule).map_err(schedule_error)
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.verify()).map_err(schedule_error)
    }

    fn reverse(&self) -> PyResult<Self> {
        self.0.reverse().map(PySchedule).map_err(schedule_error)
    }

    fn compose(&self, after: &PySchedule) -> PyResult<Self> {
        self.0.compose(&after.0).map(PySchedule).map_err(schedule_error)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn collective(&self) -> &'static str {
        self.0.collective.name()
    }

    #[getter]
    fn root(&self) -> Option<usize> {
        self.0.collective.root()
    }

    #[getter]
    fn ranks(&self) -> usize {
        self.0.ranks
    }

    #[getter]
    fn chunks(&self) -> usize {
        self.0.chunks
    }

    #[getter]
    fn steps(&self) -> usize {
        self.0.steps.len()
    }

    #[getter]
    fn ports(&self) -> usize {
        self.0.ports()
    }

    #[getter]
    fn max_sent(&self) -> f64 {
        self.0.max_sent()
    }

    fn sends(&self) -> Vec<SendTuple> {
        let steps = self.0.steps.iter().enumerate();
        steps
            .flat_map(|(step, s)| s.sends.iter().map(move |send| (step, send)))
            .map(|(step, s)| {
                let action = if s.action == Action::Reduce { "reduce" } else { "copy" };
                (step, s.source, s.destination, s.chunks.iter().collect(), action, s.port)
            })
            .collect()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<PySchedule>().getattr("from_json")?, (self.0.to_json(),)))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Schedule {}: {} over {} ranks>", self.0.name, self.0.collective, self.0.ranks)
    }
}
