//! `CostModel`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_core::cost::{rules_of_table, write_rules, Candidate, CostModel, Rule, ScheduleCost};
use ringroad_core::selection::{Choice, Contest};
use ringroad_core::topology::Routes;
use ringroad_core::{Collective, Schedule, Topology};
use ringroad_runtime::choice::choices::candidates;
use ringroad_runtime::kernels::wire::supports;
use ringroad_runtime::DType;

use super::given::{members, UserSchedule};
use super::topology::TopologyArgument;
use crate::arguments::{argument, argument_type, Length, Lengths, Number, Plain, Text};
use crate::interpreter::errors::raise;
use crate::interpreter::notebook::{hash, shown};
use crate::results::object;

/// The Python module with the classes of these results.
pub const COSTS: &str = "ringroad._costs";

/// The candidates for a collective on a network, and the choice among them.
struct Compared {
    topology: Topology,
    candidates: Vec<Candidate>,
    choice: Choice,
}

impl Compared {
    fn new(
        py: Python<'_>,
        model: &CostModel,
        collective: &str,
        topology: TopologyArgument<'_>,
        schedules: Vec<UserSchedule<'_>>,
    ) -> PyResult<Compared> {
        let (collective, topology) = (collective.parse::<Collective>().map_err(raise)?, topology.resolve()?);
        let given = members(py, schedules)?;
        let candidates = py.detach(|| candidates(&topology, model, collective, &given)).map_err(raise)?;
        let choice = Choice::by_cost(collective, model, &candidates).map_err(raise)?;
        Ok(Compared { topology, candidates, choice })
    }

    fn contest<'a>(&'a self, model: &'a CostModel) -> Contest<'a> {
        let Compared { topology, candidates, choice } = self;
        Contest { topology, model, candidates, choice }
    }
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
///     codec_cost: Seconds to encode or decode a byte of the vector, where messages have a wire format; 0
///         unless stated.
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

argument_type! {&'a CostModel, "a ringroad.CostModel", |object| Ok(&object.cast::<PyCostModel>()?.get().0)}

#[pymethods]
impl PyCostModel {
    /// Returns the cost of a schedule on a network.
    ///
    /// Args:
    ///     schedule: The schedule.
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring; with at least as
    ///         many ranks as the schedule.
    ///     bytes: The length of the vector: a number of bytes, or a text such as "1MiB".
    ///     blocks: The lengths of the ranks' blocks, in any unit, if they differ (reduce_scatter, allgather,
    ///         gather and scatter), or of the blocks of all pairs of ranks in an alltoall, by source, then by
    ///         target; `bytes` is then the mean of what ranks send. Blocks of length 0 are not sent. None: equal
    ///         blocks.
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
        schedule: Plain<&Schedule>,
        topology: TopologyArgument<'_>,
        bytes: Length,
        blocks: Option<Plain<Vec<usize>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (schedule, topology) = (schedule.0, &topology.resolve()?);
        let routes = &mut Routes::new(topology);
        let cost = py.detach(|| match &blocks {
            None => ScheduleCost::with_routes(schedule, routes),
            Some(lengths) => ScheduleCost::with_blocks(schedule, lengths, routes),
        });
        let cost = cost.map_err(raise)?;
        object(py, COSTS, &self.0.cost(&cost, schedule.collective, topology, bytes.0))
    }

    /// Returns which algorithm this model chooses, why, and what all others cost.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     bytes: The length of the vector: a number of bytes, or a text such as "1MiB".
    ///     bit_identical: True: choose only among algorithms that give all ranks the same bits after a sum of floats.
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
    ///     >>> found = ringroad.CostModel().explain("allreduce", "torus:8x8", 1 << 20)
    ///     >>> found.algorithm, found.runner_up
    ///     ('bfb-ring', 'nested:1')
    ///     >>> found.candidates[0].algorithm, found.candidates[0].ratio
    ///     ('bfb-ring', 1.0)
    #[pyo3(signature = (collective, topology, bytes, *, bit_identical=true, schedules=Vec::new()))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        collective: Text<'_>,
        topology: TopologyArgument<'py>,
        bytes: Length,
        #[pyo3(from_py_with = argument)] bit_identical: bool,
        #[pyo3(from_py_with = argument)] schedules: Vec<UserSchedule<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = Compared::new(py, &self.0, collective.0, topology, schedules)?;
        object(py, COSTS, &found.contest(&self.0).explain(bytes.0, !bit_identical))
    }

    /// Returns what a collective takes with exact elements and with each wire format that its calls can have, and how large
    /// its error may be.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     bytes: The length of the vector in bytes.
    ///     dtype: The type of its elements.
    ///     max_error: The most by which results may differ from exact ones, as a fraction of the sum of the ranks'
    ///         largest magnitudes; bf16 has no such bound. None: any error.
    ///
    /// Returns:
    ///     A list of `FormatCost`, the fastest first, each with the fastest algorithm within the error.
    ///
    /// Raises:
    ///     ValueError: The collective or the type is unknown.
    ///     ScheduleError: No algorithm performs it on this network.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> network = ringroad.Topology("ring:8,bandwidth=100Mbit/s")
    ///     >>> found = ringroad.CostModel().formats("allreduce", network, 1 << 20, max_error=0.04)
    ///     >>> [row.wire for row in found]
    ///     ['int8', 'f16', 'exact']
    #[pyo3(signature = (collective, topology, bytes, *, dtype="float32", max_error=None))]
    fn formats<'py>(
        &self,
        py: Python<'py>,
        collective: Text<'_>,
        topology: TopologyArgument<'py>,
        bytes: Length,
        #[pyo3(from_py_with = argument)] dtype: &str,
        max_error: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dtype = dtype.parse::<DType>().map_err(raise)?;
        let size = if supports(dtype) { dtype.size() } else { 0 };
        let found = Compared::new(py, &self.0, collective.0, topology, Vec::new())?;
        let most = Plain::inner(max_error).unwrap_or(f64::INFINITY);
        object(py, COSTS, &found.contest(&self.0).formats(bytes.0, size, most))
    }

    /// Returns which algorithms this model chooses for all sizes, and explains the choice for several of them.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     sizes: The lengths of the vector: numbers of bytes, or texts such as "1MiB".
    ///     schedules: Schedules of your own that compete: `Schedule` objects, or paths of their files.
    ///
    /// Returns:
    ///     An `Overview`, with what `explain` returns for each size.
    ///
    /// Raises:
    ///     ValueError: The collective is unknown.
    ///     ScheduleError: No algorithm performs it on this network, or a schedule of your own does not.
    ///     TopologyError: The topology is malformed.
    ///
    /// Example:
    ///     >>> found = ringroad.CostModel().compare("allreduce", "torus:8x8", [8, 1 << 20])
    ///     >>> [size.algorithm for size in found.sizes]
    ///     ['gather-sum', 'bfb-ring']
    #[pyo3(signature = (collective, topology, sizes, *, schedules=Vec::new()))]
    fn compare<'py>(
        &self,
        py: Python<'py>,
        collective: Text<'_>,
        topology: TopologyArgument<'py>,
        sizes: Lengths,
        #[pyo3(from_py_with = argument)] schedules: Vec<UserSchedule<'py>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = Compared::new(py, &self.0, collective.0, topology, schedules)?;
        object(py, COSTS, &found.contest(&self.0).overview(&sizes.0))
    }

    /// Returns the algorithm that this model chooses for every range of sizes.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
    ///     bit_identical: True: only algorithms that give all ranks the same bits after a sum of floats.
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
    #[pyo3(signature = (collective, topology, bit_identical=true, *, schedules=Vec::new()))]
    fn switch_points(
        &self,
        py: Python<'_>,
        collective: Text<'_>,
        topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] bit_identical: bool,
        #[pyo3(from_py_with = argument)] schedules: Vec<UserSchedule<'_>>,
    ) -> PyResult<Vec<(u64, String)>> {
        let found = Compared::new(py, &self.0, collective.0, topology, schedules)?;
        let ranges = found.choice.selection(!bit_identical).table.ranges();
        Ok(ranges.iter().map(|r| (r.from_bytes, r.algorithm.name())).collect())
    }

    /// Returns the choice for every range of sizes as lines for RINGROAD_TUNER_FILE and for NCCL's tuner plugin.
    ///
    /// Args:
    ///     collective: For example "allreduce".
    ///     topology: A `Topology`, a spec, or a number of ranks, which stands for a ring. The rules hold for its
    ///         numbers of ranks and hosts only.
    ///     bit_identical: True: only algorithms that give all ranks the same bits after a sum of floats.
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
    #[pyo3(signature = (collective, topology, bit_identical=true))]
    fn to_csv(
        &self,
        py: Python<'_>,
        collective: Text<'_>,
        topology: TopologyArgument<'_>,
        #[pyo3(from_py_with = argument)] bit_identical: bool,
    ) -> PyResult<String> {
        let Compared { topology, choice, .. } =
            Compared::new(py, &self.0, collective.0, topology, Vec::new())?;
        let table = &choice.selection(!bit_identical).table;
        let ranks = topology.ranks();
        let nodes = topology.hosts_of_ranks().into_iter().max().map_or(0, |last| last + 1);
        let here = |rule: Rule| Rule { nodes: Some(nodes), ranks: Some(ranks), ..rule };
        Ok(write_rules(&rules_of_table(choice.collective, table).into_iter().map(here).collect::<Vec<_>>()))
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

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((), Bound<'py, PyAny>)> {
        Ok(((), object(py, "builtins", &self.0)?))
    }
}

/// A parameter, and what a caller gives for it; `None` leaves it as it is.
trait Parameter<Given> {
    fn set(&mut self, given: Given);
}

impl<T> Parameter<T> for T {
    fn set(&mut self, given: T) {
        *self = given;
    }
}

impl<T> Parameter<Option<T>> for T {
    fn set(&mut self, given: Option<T>) {
        if let Some(given) = given {
            *self = given;
        }
    }
}

/// ValueError with this text unless a parameter is as it must be.
fn check(is_right: bool, text: impl FnOnce() -> String) -> PyResult<()> {
    is_right.then_some(()).ok_or_else(|| PyValueError::new_err(text()))
}

fn is_amount(given: &f64) -> bool {
    given.is_finite() && given.is_sign_positive()
}

fn seconds(name: &str, given: &Option<f64>) -> PyResult<()> {
    check(given.iter().all(is_amount), || format!("{name} must be 0 or more seconds"))
}

fn rate(name: &str, given: &Option<f64>) -> PyResult<()> {
    check(given.iter().all(|given| is_amount(given) && *given > 0.0), || {
        format!("{name} must be above 0 bytes per second")
    })
}

fn count(name: &str, given: &Option<usize>) -> PyResult<()> {
    check(*given != Some(0), || format!("{name} must be 1 or more"))
}

fn flag(_: &str, _: &bool) -> PyResult<()> {
    Ok(())
}

/// The parameters in the order of the signature: what each is, what it is checked for, what callers give, and the default.
macro_rules! parameters {
    ($($(#[$doc:meta])* $field:ident: $type:ty, $check:ident($given:ty) = $default:tt;)*) => {
        #[pymethods]
        impl PyCostModel {
            #[new]
            #[pyo3(signature = (*, $($field=$default),*))]
            fn new($(#[pyo3(from_py_with = argument)] $field: $given),*) -> PyResult<Self> {
                let mut model = CostModel::default();
                $($check(stringify!($field), &$field)?; model.$field.set($field);)*
                check(model.cores.is_some() || !model.over_links, || {
                    "over_links goes with cores; give both".to_owned()
                })?;
                Ok(PyCostModel(model))
            }

            $($(#[$doc])* #[getter] fn $field(&self) -> $type { self.0.$field })*
        }
    };
}

parameters! {
    /// Seconds to start a step.
    step_latency: f64, seconds(Option<f64>) = None;
    /// Seconds for each message of a rank in a step but the first.
    message_latency: f64, seconds(Option<f64>) = None;
    /// Seconds for each rank but the first that sends to the same port in a step.
    incast_latency: f64, seconds(Option<f64>) = None;
    /// Seconds for each hop; None: the latencies of the topology's links.
    hop_latency: Option<f64>, seconds(Option<f64>) = None;
    /// Bytes per second of every link of capacity 1; None: the bandwidths of the topology's links.
    bandwidth: Option<f64>, rate(Option<f64>) = None;
    /// Seconds to reduce a byte.
    reduce_cost: f64, seconds(Option<f64>) = None;
    /// Seconds to encode or decode a byte of the vector, where messages have a wire format.
    codec_cost: f64, seconds(Option<f64>) = None;
    /// Whether a rank reduces while it receives.
    overlapped: bool, flag(bool) = false;
    /// The number of cores on which ranks that share memory take turns; None: each has its own.
    cores: Option<usize>, count(Option<usize>) = None;
    /// Whether the ranks that share cores have hosts of their own, so that bytes pass links.
    over_links: bool, flag(bool) = false;
}
