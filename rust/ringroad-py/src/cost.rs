//! `CostModel`, and what makes its results: `Cost` and `Candidate` are classes of Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ringroad_core::cost::{
    rank, rules_of_table, write_rules, Candidate, CostModel, Deficiencies, Ranked, Rule, ScheduleCost,
    SwitchTable,
};
use ringroad_core::selection::explain;
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Topology};
use ringroad_runtime::choice::choices::candidates;

use crate::arguments::argument;
use crate::calls::{members, Given};
use crate::errors::raise;
use crate::explanation::explanation;
use crate::notebook::{hash, shown};
use crate::schedule::PySchedule;
use crate::topology::TopologyArgument;

/// The fields of a `Cost`.
#[derive(IntoPyObject)]
pub struct CostFields {
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

impl CostFields {
    pub fn new(
        model: &CostModel,
        cost: &ScheduleCost,
        collective: Collective,
        topology: &Topology,
        bytes: u64,
    ) -> CostFields {
        let Deficiencies { latency, bandwidth, congestion, worst_link } =
            cost.deficiencies(collective, topology);
        CostFields {
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

    /// Makes a `Candidate`.
    pub fn candidate(self, py: Python<'_>, row: Ranked) -> PyResult<Bound<'_, PyAny>> {
        let fields = self.into_pyobject(py)?;
        fields.set_item("algorithm", row.member.name())?;
        fields.set_item("consistent", row.consistent)?;
        fields.set_item("ratio", row.ratio)?;
        made(&fields, "Candidate")
    }
}

/// The candidates for a collective on a network.
struct Compared {
    collective: Collective,
    topology: Topology,
    candidates: Vec<Candidate>,
}

impl Compared {
    fn new(
        py: Python<'_>,
        collective: &str,
        topology: TopologyArgument<'_>,
        schedules: Vec<Given<'_>>,
    ) -> PyResult<Compared> {
        let (collective, topology) = (collective.parse::<Collective>().map_err(raise)?, topology.resolve()?);
        let given = members(py, schedules)?;
        let candidates = py.detach(|| candidates(&topology, collective, &given)).map_err(raise)?;
        Ok(Compared { collective, topology, candidates })
    }

    /// If `consistent`, without those that may leave ranks with different bits.
    fn only(mut self, consistent: bool) -> Compared {
        self.candidates.retain(|candidate| candidate.consistent || !consistent);
        self
    }
}

/// Makes an object of a class of `ringroad._costs` from its fields.
pub fn made<'py>(fields: &Bound<'py, PyDict>, class: &str) -> PyResult<Bound<'py, PyAny>> {
    fields.py().import("ringroad._costs")?.getattr(class)?.call((), Some(fields))
}

/// The arguments that make a `CostModel`.
#[derive(IntoPyObject)]
struct Parameters {
    step_latency: f64,
    message_latency: f64,
    incast_latency: f64,
    hop_latency: Option<f64>,
    bandwidth: Option<f64>,
    reduce_cost: f64,
    overlapped: bool,
    cores: Option<usize>,
    over_links: bool,
}

/// Predicts how long a schedule takes on a network.
///
/// A step takes `step_latency + hops * hop_latency + bytes / bandwidth`, with the hops of its longest
/// route and the bytes of its most loaded link; a schedule takes the sum over its steps. This is the
/// model of De Sensi et al., Swing, NSDI 2024 (arXiv 2401.09356), section 2.2, extended by the terms
/// below. Models are values: they compare equal by their numbers, and can be pickled.
///
/// Args:
///     step_latency: Seconds to start a step (alpha); 0.5e-6 unless stated.
///     message_latency: Seconds for each message of a rank in a step but the first; 0 unless stated.
///     incast_latency: Seconds for each rank but the first that sends to the same port in a step;
///         0.1e-6 unless stated.
///     hop_latency: Seconds for each hop. None: the latencies of the topology's links.
///     bandwidth: Bytes per second of every link of capacity 1. None: the bandwidths of the topology's
///         links.
///     reduce_cost: Seconds to reduce a byte (gamma); 0 unless stated.
///     overlapped: True: a rank reduces while it receives, so that only the longer of both counts.
///     cores: For ranks that share memory and take turns on this number of cores. Each message then
///         costs `message_latency`, half of it the sender and half the receiver; `bandwidth` is that of
///         copying; the cores share the work of all ranks, but nothing takes less time than the busiest
///         rank needs.
///     over_links: With `cores`: the ranks have hosts of their own, which one machine emulates. The cores
///         then share messages and reductions; bytes pass links, and `bandwidth` is that of links.
///
/// Raises:
///     ValueError: A number is negative or not finite, `bandwidth` or `cores` is 0, or `over_links`
///         is given without `cores`.
///
/// Example:
///     >>> model = ringroad.CostModel(step_latency=1e-6)
///     >>> cost = model.cost(ringroad.Schedule.build("swing", "torus:4x4"), "torus:4x4", 1 << 20)
///     >>> cost.steps, cost.seconds < 1e-3
///     (8, True)
#[pyclass(name = "CostModel", module = "ringroad", frozen, eq)]
#[derive(PartialEq)]
pub struct PyCostModel(pub CostModel);

#[pymethods]
impl PyCostModel {
    #[new]
    #[pyo3(signature = (*, step_latency=None, message_latency=None, incast_latency=None, hop_latency=None,
        bandwidth=None, reduce_cost=None, overlapped=false, cores=None, over_links=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        #[pyo3(from_py_with = argument)] step_latency: Option<f64>,
        #[pyo3(from_py_with = argument)] message_latency: Option<f64>,
        #[pyo3(from_py_with = argument)] incast_latency: Option<f64>,
        #[pyo3(from_py_with = argument)] hop_latency: Option<f64>,
        #[pyo3(from_py_with = argument)] bandwidth: Option<f64>,
        #[pyo3(from_py_with = argument)] reduce_cost: Option<f64>,
        #[pyo3(from_py_with = argument)] overlapped: bool,
        #[pyo3(from_py_with = argument)] cores: Option<usize>,
        #[pyo3(from_py_with = argument)] over_links: bool,
    ) -> PyResult<Self> {
        let negative = |v: &Option<f64>| v.is_some_and(|v| !v.is_finite() || v.is_sign_negative());
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

    /// Seconds to start a step.
    #[getter]
    fn step_latency(&self) -> f64 {
        self.0.step_latency
    }

    /// Seconds for each hop; None: the latencies of the topology's links.
    #[getter]
    fn hop_latency(&self) -> Option<f64> {
        self.0.hop_latency
    }

    /// Bytes per second of every link of capacity 1; None: the bandwidths of the topology's links.
    #[getter]
    fn bandwidth(&self) -> Option<f64> {
        self.0.bandwidth
    }

    /// Seconds for each message of a rank in a step but the first.
    #[getter]
    fn message_latency(&self) -> f64 {
        self.0.message_latency
    }

    /// Seconds for each rank but the first that sends to the same port in a step.
    #[getter]
    fn incast_latency(&self) -> f64 {
        self.0.incast_latency
    }

    /// Seconds to reduce a byte.
    #[getter]
    fn reduce_cost(&self) -> f64 {
        self.0.reduce_cost
    }

    /// Whether a rank reduces while it receives.
    #[getter]
    fn overlapped(&self) -> bool {
        self.0.overlapped
    }

    /// The number of cores on which ranks that share memory take turns; None: each has its own.
    #[getter]
    fn cores(&self) -> Option<usize> {
        self.0.cores
    }

    /// Whether the ranks that share cores have hosts of their own, so that bytes pass links.
    #[getter]
    fn over_links(&self) -> bool {
        self.0.over_links
    }

    /// Returns the cost of a schedule on a network.
    ///
    /// Args:
    ///     schedule: The schedule.
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring; with at least as
    ///         many ranks as the schedule.
    ///     bytes: The length of the vector in bytes.
    ///     blocks: The lengths of the ranks' blocks, in any unit, if they differ (reduce_scatter,
    ///         allgather, gather and scatter only). None: equal blocks.
    ///
    /// Returns:
    ///     A `Cost`.
    ///
    /// Raises:
    ///     ScheduleError: The schedule has more ranks than the topology, or `blocks` does not fit.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> cost = ringroad.CostModel().cost(ringroad.Schedule.build("ring", 8), "ring:8", 1 << 20)
    ///     >>> cost.link_load, cost.bandwidth_deficiency
    ///     (1.75, 1.75)
    #[pyo3(signature = (schedule, topology, bytes, *, blocks=None))]
    fn cost<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = argument)] schedule: &PySchedule,
        #[pyo3(from_py_with = argument)] topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] bytes: u64,
        #[pyo3(from_py_with = argument)] blocks: Option<Vec<usize>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (schedule, topology) = (&schedule.0, &topology.resolve()?);
        let routes = &mut Routes::new(topology);
        let cost = py.detach(|| match &blocks {
            None => ScheduleCost::with_routes(schedule, routes),
            Some(lengths) => ScheduleCost::of_blocks(schedule, lengths, routes),
        });
        let cost = cost.map_err(raise)?;
        let fields = CostFields::new(&self.0, &cost, schedule.collective, topology, bytes);
        made(&fields.into_pyobject(py)?, "Cost")
    }

    /// Returns the costs of all algorithms that perform a collective on a network.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     bytes: The length of the vector in bytes.
    ///     schedules: Schedules of your own that compete: `Schedule` objects, or paths of their files.
    ///
    /// Returns:
    ///     A `Candidate` for each algorithm, the fastest first.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network, or a schedule of your own does not.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> rows = ringroad.CostModel().explain("allreduce", "torus:8x8", 1 << 20)
    ///     >>> rows[0].algorithm, rows[0].ratio
    ///     ('bfb-ring', 1.0)
    #[pyo3(signature = (collective, topology, bytes, *, schedules=Vec::new()))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = argument)] collective: &str,
        #[pyo3(from_py_with = argument)] topology: TopologyArgument<'py>,
        #[pyo3(from_py_with = argument)] bytes: u64,
        #[pyo3(from_py_with = argument)] schedules: Vec<Given<'py>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let rows = self.compare(py, collective, topology, vec![bytes], schedules)?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// Returns the costs of all algorithms for several sizes at once. `explain` says more.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     sizes: The lengths of the vector in bytes.
    ///     schedules: Schedules of your own that compete: `Schedule` objects, or paths of their files.
    ///
    /// Returns:
    ///     For each size what `explain` returns.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network, or a schedule of your own does not.
    ///     TopologyError: The topology is malformed.
    #[pyo3(signature = (collective, topology, sizes, *, schedules=Vec::new()))]
    fn compare<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = argument)] collective: &str,
        #[pyo3(from_py_with = argument)] topology: TopologyArgument<'py>,
        #[pyo3(from_py_with = argument)] sizes: Vec<u64>,
        #[pyo3(from_py_with = argument)] schedules: Vec<Given<'py>>,
    ) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        let Compared { collective, topology, candidates } =
            Compared::new(py, collective, topology, schedules)?;
        let row = |bytes: u64| {
            rank(&self.0, &candidates, bytes).into_iter().map(move |row| (bytes, row)).collect::<Vec<_>>()
        };
        let candidate = |(bytes, row): (u64, Ranked)| {
            let found = candidates
                .iter()
                .find(|c| c.member == row.member)
                .expect("every row is one of the candidates");
            CostFields::new(&self.0, &found.cost, collective, &topology, bytes).candidate(py, row)
        };
        sizes.into_iter().map(|bytes| row(bytes).into_iter().map(candidate).collect()).collect()
    }

    /// Returns which algorithm this model alone chooses, and why.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     bytes: The length of the vector in bytes.
    ///     consistent: True: only algorithms that give all ranks the same bits after a sum of floats.
    ///     schedules: Schedules of your own that compete: `Schedule` objects, or paths of their files.
    ///
    /// Returns:
    ///     An `Explanation`; `print` shows it in words.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network, or a schedule of your own does not.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> found = ringroad.CostModel().choice("allreduce", "torus:8x8", 1 << 20)
    ///     >>> found.algorithm, found.runner_up
    ///     ('bfb-ring', 'nested:1')
    #[pyo3(signature = (collective, topology, bytes, consistent=true, *, schedules=Vec::new()))]
    fn choice<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = argument)] collective: &str,
        #[pyo3(from_py_with = argument)] topology: TopologyArgument<'py>,
        #[pyo3(from_py_with = argument)] bytes: u64,
        #[pyo3(from_py_with = argument)] consistent: bool,
        #[pyo3(from_py_with = argument)] schedules: Vec<Given<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Compared { collective, topology, candidates } =
            Compared::new(py, collective, topology, schedules)?.only(consistent);
        let table = SwitchTable::build(&self.0, &candidates).map_err(raise)?;
        explanation(py, self.0, explain(&topology, &self.0, &candidates, &table, collective, bytes))
    }

    /// Returns the algorithm that this model chooses for every range of sizes.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     consistent: True: only algorithms that give all ranks the same bits after a sum of floats.
    ///     schedules: Schedules of your own that compete: `Schedule` objects, or paths of their files.
    ///
    /// Returns:
    ///     Tuples of a number of bytes and the algorithm that is the fastest from there on, in ascending
    ///     order.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network, or a schedule of your own does not.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> ringroad.CostModel().switch_points("broadcast", "ring:4")[0][0]
    ///     0
    #[pyo3(signature = (collective, topology, consistent=true, *, schedules=Vec::new()))]
    fn switch_points(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument)] collective: &str,
        #[pyo3(from_py_with = argument)] topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] consistent: bool,
        #[pyo3(from_py_with = argument)] schedules: Vec<Given<'_>>,
    ) -> PyResult<Vec<(u64, String)>> {
        let found = Compared::new(py, collective, topology, schedules)?.only(consistent);
        let table = SwitchTable::build(&self.0, &found.candidates).map_err(raise)?;
        Ok(table.ranges().iter().map(|r| (r.from_bytes, r.algorithm.name())).collect())
    }

    /// Returns the choice for every range of sizes as lines for RINGROAD_TUNER_FILE and for NCCL's tuner plugin.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring. The rules hold for its
    ///         numbers of ranks and hosts only.
    ///     consistent: True: only algorithms that give all ranks the same bits after a sum of floats.
    ///
    /// Returns:
    ///     A line of headings, and a line for each range.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> print(ringroad.CostModel().to_csv("broadcast", "ring:4").splitlines()[0])
    ///     collective,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
    #[pyo3(signature = (collective, topology, consistent=true))]
    fn to_csv(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument)] collective: &str,
        #[pyo3(from_py_with = argument)] topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] consistent: bool,
    ) -> PyResult<String> {
        let Compared { collective, topology, candidates } =
            Compared::new(py, collective, topology, Vec::new())?.only(consistent);
        let table = SwitchTable::build(&self.0, &candidates).map_err(raise)?;
        let ranks = topology.ranks();
        let nodes = topology.hosts_of_ranks().into_iter().max().map_or(0, |last| last + 1);
        let here = |rule: Rule| Rule { nodes: Some(nodes), ranks: Some(ranks), ..rule };
        Ok(write_rules(&rules_of_table(collective, &table).into_iter().map(here).collect::<Vec<_>>()))
    }

    /// Returns the parameters as a pandas.DataFrame with one row.
    ///
    /// Raises:
    ///     ImportError: pandas is not installed.
    fn df<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "df")
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "html")
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        shown(slf, "model_text")
    }

    fn __hash__(&self) -> u64 {
        hash(&format!("{:?}", self.0))
    }

    fn __getnewargs_ex__(&self) -> ((), Parameters) {
        let CostModel {
            step_latency,
            message_latency,
            incast_latency,
            hop_latency,
            bandwidth,
            reduce_cost,
            overlapped,
            cores,
            over_links,
        } = self.0;
        let parameters = Parameters {
            step_latency,
            message_latency,
            incast_latency,
            hop_latency,
            bandwidth,
            reduce_cost,
            overlapped,
            cores,
            over_links,
        };
        ((), parameters)
    }
}
