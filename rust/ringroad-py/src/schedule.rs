//! `Schedule`.

use pyo3::prelude::*;
use ringroad_core::plan::LowerOptions;
use ringroad_core::synthesis::alltoall::held_by_relays;
use ringroad_core::{algorithms, Action, Collective, Plan, Schedule};

use crate::errors::{raise, schedule_error};
use crate::topology::TopologyArgument;

/// Step, source, destination, chunks, action, port, from which slot, into which slot.
type SendTuple = (usize, usize, usize, Vec<usize>, &'static str, usize, usize, usize);
/// Step, rank, chunks, action, from which slot, into which slot.
type LocalTuple = (usize, usize, Vec<usize>, &'static str, usize, usize);

fn word(action: Action) -> &'static str {
    match action {
        Action::Reduce => "reduce",
        Action::Copy => "copy",
    }
}

/// Who sends which chunks to whom in which step, for all ranks.
#[pyclass(name = "Schedule", module = "ringroad", frozen, eq)]
#[derive(PartialEq)]
pub struct PySchedule(pub Schedule);

#[pymethods]
impl PySchedule {
    #[staticmethod]
    #[pyo3(signature = (algorithm, topology, collective="allreduce", root=0))]
    fn build(
        py: Python<'_>,
        algorithm: &str,
        topology: TopologyArgument<'_>,
        collective: &str,
        root: usize,
    ) -> PyResult<Self> {
        let collective = collective.parse::<Collective>().map_err(raise)?.with_root(root);
        let (member, topology) = (algorithms::find(algorithm).map_err(raise)?, topology.resolve()?);
        py.detach(|| member.build(&topology, collective)).map(PySchedule).map_err(raise)
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

    fn on_slice(&self, index: usize) -> PyResult<Self> {
        self.0.on_slice(index).map(PySchedule).map_err(schedule_error)
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

    #[getter]
    fn slots(&self) -> usize {
        self.0.slots()
    }

    #[getter]
    fn symmetric(&self) -> bool {
        self.0.symmetry.is_some()
    }

    fn expand(&self, py: Python<'_>) -> Self {
        PySchedule(py.detach(|| self.0.expand()))
    }

    fn sends(&self) -> Vec<SendTuple> {
        let schedule = self.0.expand();
        let steps = schedule.steps.iter().enumerate();
        steps
            .flat_map(|(step, s)| s.sends.iter().map(move |send| (step, send)))
            .map(|(step, s)| {
                let chunks = s.chunks.iter().collect();
                (step, s.source, s.destination, chunks, word(s.action), s.port, s.from, s.into)
            })
            .collect()
    }

    fn locals(&self) -> Vec<LocalTuple> {
        let schedule = self.0.expand();
        let steps = schedule.steps.iter().enumerate();
        steps
            .flat_map(|(step, s)| s.locals.iter().map(move |local| (step, local)))
            .map(|(step, l)| (step, l.rank, l.chunks.iter().collect(), word(l.action), l.from, l.into))
            .collect()
    }

    /// How many operations `rank` performs for blocks of so many bytes, and the scratch memory that takes.
    #[pyo3(signature = (rank, count, itemsize=4))]
    fn lower(&self, py: Python<'_>, rank: usize, count: usize, itemsize: usize) -> PyResult<(usize, usize)> {
        let plan = py.detach(|| Plan::lower(&self.0, rank, count, itemsize, &LowerOptions::default()));
        let plan = plan.map_err(schedule_error)?;
        Ok((plan.operations().len(), plan.scratch()))
    }

    #[getter]
    fn held_for_others(&self, py: Python<'_>) -> f64 {
        match self.0.collective {
            Collective::Alltoall => {
                let held = py.detach(|| held_by_relays(&self.0));
                held as f64 / self.0.chunks_per_vector() as f64
            }
            _ => 0.0,
        }
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
