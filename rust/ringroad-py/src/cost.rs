//! `CostModel` and what it says: `Cost`, `Candidate`.

use pyo3::prelude::*;
use ringroad_core::cost::{rank, Candidate, CostModel, Deficiencies, Ranked, ScheduleCost, SwitchTable};
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Topology};
use ringroad_runtime::planner::{candidates, explain};

use crate::errors::raise;
use crate::explanation::PyExplanation;
use crate::schedule::PySchedule;
use crate::topology::PyTopology;

/// What the model says of a schedule on a topology.
#[pyclass(name = "Cost", module = "ringroad", frozen, subclass, get_all)]
pub struct PyCost {
    seconds: f64,
    fixed: f64,
    per_byte: f64,
    steps: usize,
    hops: usize,
    link_load: f64,
    max_link_load: f64,
    latency_deficiency: f64,
    bandwidth_deficiency: f64,
    congestion_deficiency: f64,
    worst_link: f64,
}

impl PyCost {
    pub fn new(
        model: &CostModel,
        cost: &ScheduleCost,
        collective: Collective,
        topology: &Topology,
        bytes: u64,
    ) -> PyCost {
        let Deficiencies { latency, bandwidth, congestion, worst_link } =
            cost.deficiencies(collective, topology);
        PyCost {
            seconds: model.seconds(cost, bytes),
            fixed: model.fixed(cost),
            per_byte: model.per_byte(cost),
            steps: cost.steps.len(),
            hops: cost.hops(),
            link_load: cost.link_load(),
            max_link_load: cost.busiest_link,
            latency_deficiency: latency,
            bandwidth_deficiency: bandwidth,
            congestion_deficiency: congestion,
            worst_link,
        }
    }
}

/// A row of `explain`.
#[pyclass(name = "Candidate", module = "ringroad", frozen, extends = PyCost, get_all)]
pub struct PyCandidate {
    algorithm: String,
    consistent: bool,
    ratio: f64,
}

impl PyCandidate {
    pub fn make(py: Python<'_>, cost: PyCost, row: Ranked) -> PyResult<Py<PyCandidate>> {
        let more = PyCandidate { algorithm: row.member.name(), consistent: row.consistent, ratio: row.ratio };
        Py::new(py, PyClassInitializer::from(cost).add_subclass(more))
    }
}

/// The cost model.
#[pyclass(name = "CostModel", module = "ringroad", frozen)]
pub struct PyCostModel(pub CostModel);

#[pymethods]
impl PyCostModel {
    #[new]
    #[pyo3(signature = (*, step_latency=None, message_latency=None, incast_latency=None, hop_latency=None,
        bandwidth=None, reduce_cost=None, overlapped=false, cores=None, over_links=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        step_latency: Option<f64>,
        message_latency: Option<f64>,
        incast_latency: Option<f64>,
        hop_latency: Option<f64>,
        bandwidth: Option<f64>,
        reduce_cost: Option<f64>,
        overlapped: bool,
        cores: Option<usize>,
        over_links: bool,
    ) -> PyResult<Self> {
        let negative = |v: &Option<f64>| v.is_some_and(|v| !v.is_finite() || v < 0.0);
        let seconds = [
            ("step_latency", step_latency),
            ("message_latency", message_latency),
            ("incast_latency", incast_latency),
            ("hop_latency", hop_latency),
            ("reduce_cost", reduce_cost),
        ];
        for (name, value) in seconds {
            if negative(&value) {
                return Err(pyo3::exceptions::PyValueError::new_err(format!(
                    "{name} must be 0 or more seconds"
                )));
            }
        }
        if negative(&bandwidth) || bandwidth == Some(0.0) {
            return Err(pyo3::exceptions::PyValueError::new_err(
                "bandwidth must be above 0 bytes per second",
            ));
        }
        if cores == Some(0) {
            return Err(pyo3::exceptions::PyValueError::new_err("cores must be 1 or more"));
        }
        if over_links && cores.is_none() {
            return Err(pyo3::exceptions::PyValueError::new_err("over_links goes with cores; give both"));
        }
        let default = CostModel::default();
        Ok(PyCostModel(CostModel {
            step_latency: step_latency.unwrap_or(default.step_latency),
            message_latency: message_latency.unwrap_or(default.message_latency),
            incast_latency: incast_latency.unwrap_or(default.incast_latency),
            hop_latency,
            bandwidth,
            reduce_cost: reduce_cost.unwrap_or(default.reduce_cost),
            overlapped,
            cores,
            over_links,
        }))
    }

    #[getter]
    fn step_latency(&self) -> f64 {
        self.0.step_latency
    }

    #[getter]
    fn hop_latency(&self) -> Option<f64> {
        self.0.hop_latency
    }

    #[getter]
    fn bandwidth(&self) -> Option<f64> {
        self.0.bandwidth
    }

    #[getter]
    fn message_latency(&self) -> f64 {
        self.0.message_latency
    }

    #[getter]
    fn incast_latency(&self) -> f64 {
        self.0.incast_latency
    }

    #[getter]
    fn reduce_cost(&self) -> f64 {
        self.0.reduce_cost
    }

    #[getter]
    fn overlapped(&self) -> bool {
        self.0.overlapped
    }

    #[getter]
    fn cores(&self) -> Option<usize> {
        self.0.cores
    }

    #[getter]
    fn over_links(&self) -> bool {
        self.0.over_links
    }

    #[pyo3(signature = (schedule, topology, bytes, *, blocks=None))]
    fn cost(
        &self,
        py: Python<'_>,
        schedule: &PySchedule,
        topology: &PyTopology,
        bytes: u64,
        blocks: Option<Vec<usize>>,
    ) -> PyResult<PyCost> {
        let (schedule, topology) = (&schedule.0, &topology.0);
        let routes = &mut Routes::new(topology);
        let cost = py.detach(|| match &blocks {
            None => ScheduleCost::with_routes(schedule, routes),
            Some(lengths) => ScheduleCost::of_blocks(schedule, lengths, routes),
        });
        let cost = cost.map_err(raise)?;
        Ok(PyCost::new(&self.0, &cost, schedule.collective, topology, bytes))
    }

    fn explain(
        &self,
        py: Python<'_>,
        collective: &str,
        topology: &PyTopology,
        bytes: u64,
    ) -> PyResult<Vec<Py<PyCandidate>>> {
        let rows = self.compare(py, collective, topology, vec![bytes])?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    fn compare(
        &self,
        py: Python<'_>,
        collective: &str,
        topology: &PyTopology,
        sizes: Vec<u64>,
    ) -> PyResult<Vec<Vec<Py<PyCandidate>>>> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        let all = py.detach(|| candidates(&topology.0, collective)).map_err(raise)?;
        let row = |bytes: u64| {
            rank(&self.0, &all, bytes).into_iter().map(move |row| (bytes, row)).collect::<Vec<_>>()
        };
        let candidate = |(bytes, row): (u64, Ranked)| {
            let found =
                all.iter().find(|c| c.member == row.member).expect("every row is one of the candidates");
            PyCandidate::make(py, PyCost::new(&self.0, &found.cost, collective, &topology.0, bytes), row)
        };
        sizes.into_iter().map(|bytes| row(bytes).into_iter().map(candidate).collect()).collect()
    }

    #[pyo3(signature = (collective, topology, bytes, consistent=true))]
    fn choice(
        &self,
        py: Python<'_>,
        collective: &str,
        topology: &PyTopology,
        bytes: u64,
        consistent: bool,
    ) -> PyResult<PyExplanation> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        let all = py.detach(|| candidates(&topology.0, collective)).map_err(raise)?;
        let some: Vec<Candidate> = all.into_iter().filter(|c| c.consistent || !consistent).collect();
        let table = SwitchTable::build(&self.0, &some).map_err(raise)?;
        Ok(PyExplanation::new(self.0, explain(&topology.0, &self.0, &some, &table, collective, bytes)))
    }

    #[pyo3(signature = (collective, topology, consistent=true))]
    fn switch_points(
        &self,
        py: Python<'_>,
        collective: &str,
        topology: &PyTopology,
        consistent: bool,
    ) -> PyResult<Vec<(u64, String)>> {
        let collective = collective.parse::<Collective>().map_err(raise)?;
        let all = py.detach(|| candidates(&topology.0, collective)).map_err(raise)?;
        let some: Vec<Candidate> = all.into_iter().filter(|c| c.consistent || !consistent).collect();
        let table = SwitchTable::build(&self.0, &some).map_err(raise)?;
        Ok(table.ranges().iter().map(|r| (r.from_bytes, r.algorithm.name())).collect())
    }
}
