//! `Communicator`: its constructors and properties, its trace, and its end.

pub mod choice;
pub mod regroup;

use std::collections::HashMap;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ringroad_runtime::bootstrap::Handle;
use ringroad_runtime::communicator::Means;
use ringroad_runtime::config::Config;
use ringroad_runtime::network::{discover, DISCOVERY};
use ringroad_runtime::{part_of, Communicator, Options};

use crate::arguments::{argument, duration, Count, Number, Plain, Text};
use crate::arrays::array::{self, Numpy};
use crate::interpreter::detached::Detached;
use crate::interpreter::errors::{missing, raise};
use crate::interpreter::shutdown;
use crate::job::info::ucx_wheel;
use crate::job::store::{interruptible, store_of};
use crate::results::object;
use crate::values::topology::{PyTopology, TopologyArgument};

/// A group of `size` processes that call collectives together, all of them in the same order.
///
/// Arrays are NumPy arrays of float16, float32, float64, bfloat16 (of ml_dtypes), int8 to int64, uint8 to
/// uint64, bool, complex64 or complex128. Blocks of arrays lie along the first axis. An input may also be
/// a number, a list, or whatever else `numpy.asarray` takes; if it is not C-contiguous, a copy is sent.
/// Results are always arrays, of no dimension where the input was a number. An array that is written to,
/// as `out` or in place, may have any shape with as many elements; one that is not C-contiguous is copied to
/// at the end. Python's bools count as whole numbers in reductions. Sums and products of whole numbers do not
/// wrap around: they raise OverflowError on all ranks that get them.
///
/// Use a communicator in a `with` block, or `close` it.
///
/// A call that is refused (TypeError, ValueError, ScheduleError) sends nothing and changes nothing.
/// After MismatchError, TimeoutError, PeerError and AbortedError the communicator cannot be used any
/// more on any rank: call `shrink`, or make a new one.
///
/// `ringroad.init` makes the communicator of a job. The constructor is for programs that know rank,
/// size and store themselves. It is collective: every rank calls it.
///
/// Args:
///     store: Where the ranks find each other: a `FileStore`, a `TcpStore`, a `MemoryStore`, or a store
///         of torch.distributed; the same for all ranks.
///     rank: The number of this rank, from 0 to `size - 1`.
///     size: The number of ranks.
///     timeout: Seconds within which all ranks must come; also the default of every later call. None:
///         RINGROAD_TIMEOUT, or 300.
///     topology: The network, as a `Topology` or a spec such as "torus:4x4". None: RINGROAD_TOPOLOGY,
///         or what is detected. Rank 0's value counts.
///     algorithm: The algorithms to choose among, as in RINGROAD_ALGO: "ring,swing" or "^bucket". None:
///         RINGROAD_ALGO, or all. Rank 0's value counts.
///     deterministic: "size-invariant": floats are added in the same order for every vector length.
///         None: RINGROAD_DETERMINISTIC. Rank 0's value counts.
///     settings: Values of RINGROAD_* variables for this communicator, by name. They override the
///         environment. `ringroad info` lists all variables.
///     name: The communicator's name in messages; the same on all ranks.
///     members: The ranks of a job that are ranks 0, 1 and so on here, if these are a part of the job:
///         RINGROAD_TOPOLOGY, which describes the job, then counts with its `Topology.induced(members)`.
///
/// Raises:
///     ConfigError: A setting has a value that cannot be used, or `algorithm` names an unknown one.
///     ValueError: `rank`, `size`, `timeout` or `deterministic` is invalid, or `settings` names a
///         variable that does not exist.
///     TypeError: `store` has no methods `set` and `get`.
///     TopologyError: The topology is malformed, or has another number of ranks.
///     ScheduleError: None of the algorithms can run here.
///     TimeoutError: Ranks did not come in time. The message names them.
///     PeerError: A rank died or gave up meanwhile. The message names it.
///     StoreError: The store failed.
///     TransportError: UCX is needed and missing, or the network failed.
///
/// Example:
///     >>> with ringroad.Communicator(ringroad.MemoryStore(), rank=0, size=1) as comm:
///     ...     comm.allreduce(np.array([1, 2]))
///     array([1, 2])
#[pyclass(name = "Communicator", module = "ringroad", frozen, weakref)]
pub struct PyCommunicator(pub Detached<Communicator>);

pub fn options(
    timeout: Option<Number>,
    topology: Option<TopologyArgument<'_>>,
    algorithm: Option<Plain<String>>,
    deterministic: Option<Text<'_>>,
    name: String,
) -> PyResult<Options> {
    let topology = topology.map(TopologyArgument::resolve).transpose()?;
    let size_invariant = match Plain::inner(deterministic) {
        None => None,
        Some("size-invariant") => Some(true),
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "deterministic={other:?} is unknown; expected \"size-invariant\" or None"
            )));
        }
    };
    Ok(Options {
        name,
        timeout: duration(timeout)?,
        topology,
        algorithm: Plain::inner(algorithm),
        size_invariant,
        is_part: false,
    })
}

impl PyCommunicator {
    pub fn new(communicator: Communicator) -> PyCommunicator {
        shutdown::remember(communicator.closer());
        PyCommunicator(Detached::new(communicator))
    }

    /// The fewest ranks that may go on.
    fn quorum(&self, given: &Bound<'_, PyAny>) -> PyResult<usize> {
        if given.extract::<&str>().is_ok_and(|text| text == "majority") {
            return Ok(self.0.size() / 2 + 1);
        }
        given.extract::<usize>().map_err(|_| {
            let text = format!("quorum is {given:?}; pass a number of ranks, \"majority\", or None");
            PyValueError::new_err(text)
        })
    }
}

#[pymethods]
impl PyCommunicator {
    #[new]
    #[pyo3(signature = (store, rank, size, *, timeout=None, topology=None, algorithm=None, deterministic=None, settings=None, name="world".to_owned(), members=None))]
    fn connect(
        py: Python<'_>,
        store: &Bound<'_, PyAny>,
        rank: Count,
        size: Count,
        timeout: Option<Number>,
        topology: Option<TopologyArgument<'_>>,
        algorithm: Option<Plain<String>>,
        deterministic: Option<Text<'_>>,
        settings: Option<Plain<HashMap<String, String>>>,
        #[pyo3(from_py_with = argument)] name: String,
        members: Option<Plain<Vec<usize>>>,
    ) -> PyResult<Self> {
        let _counted = shutdown::counted();
        Numpy::get(py)?;
        let (store, listening) = store_of(store)?;
        let mut config = Config::from_arguments(Plain::inner(settings).unwrap_or_default()).map_err(raise)?;
        if let Some(members) = members {
            let given = config.topology.given().cloned();
            if given.is_some() {
                config.topology = part_of(given, &members, rank.0 == 0).into();
            }
        }
        let options = options(timeout, topology, algorithm, deterministic, name)?;
        let means = Means { wheel: ucx_wheel(py)?, config, options, discovery: Some(DISCOVERY) };
        let communicator =
            shutdown::waiting(py, || means.connect(means.time(), store.clone(), rank.0, size.0));
        Ok(PyCommunicator::new(listening.outcome(py, communicator)?))
    }

    /// Makes the communicators of `size` ranks that are threads of this process, for tests and notebooks.
    ///
    /// Args:
    ///     size: The number of ranks.
    ///     timeout: The default of every call, in seconds. None: RINGROAD_TIMEOUT, or 300.
    ///     topology: The network, as for `Communicator`.
    ///     algorithm: The algorithms to choose among, as for `Communicator`.
    ///     deterministic: "size-invariant" or None, as for `Communicator`.
    ///
    /// Returns:
    ///     A communicator for each rank. Use each in a thread of its own, or make calls with
    ///     `async_op=True`.
    ///
    /// Raises:
    ///     ValueError: `size` or another argument is invalid.
    ///     ConfigError: A RINGROAD_* variable has a value that cannot be used, or `algorithm` names an
    ///         unknown one.
    ///     TopologyError: The topology is malformed, or has another number of ranks.
    ///     ScheduleError: None of the algorithms can run here.
    ///
    /// Example:
    ///     >>> from concurrent.futures import ThreadPoolExecutor
    ///     >>> comms = ringroad.Communicator.in_process(3)
    ///     >>> with ThreadPoolExecutor(3) as pool:
    ///     ...     [int(total) for total in pool.map(lambda comm: comm.allreduce(np.array(comm.rank)), comms)]
    ///     [3, 3, 3]
    #[staticmethod]
    #[pyo3(signature = (size, *, timeout=None, topology=None, algorithm=None, deterministic=None))]
    fn in_process(
        py: Python<'_>,
        size: Count,
        timeout: Option<Number>,
        topology: Option<TopologyArgument<'_>>,
        algorithm: Option<Plain<String>>,
        deterministic: Option<Text<'_>>,
    ) -> PyResult<Vec<Self>> {
        Numpy::get(py)?;
        let config = Config::from_env().map_err(raise)?;
        let options = options(timeout, topology, algorithm, deterministic, String::new())?;
        let group = py.detach(|| Communicator::in_process(size.0, &config, &options)).map_err(raise)?;
        Ok(group.into_iter().map(PyCommunicator::new).collect())
    }

    /// The number of this rank, from 0 to `size - 1`.
    #[getter]
    fn rank(&self) -> usize {
        self.0.rank()
    }

    /// The number of ranks.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    /// The communicator's name, as messages have it.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// 16 hexadecimal digits, the same on all ranks, by which this communicator differs from all others of
    /// its name.
    #[getter]
    fn rendezvous(&self) -> String {
        format!("{:016x}", self.0.endpoints()[0].instance)
    }

    /// Seconds after which a call fails that states no `timeout` of its own.
    #[getter]
    fn timeout(&self) -> f64 {
        self.0.timeout().as_secs_f64()
    }

    /// The spec of the network, such as "torus:4x4", as rank 0 was told or has detected it.
    #[getter]
    fn topology(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.choices()).topology.spec()
    }

    /// Whether switches or hosts' memories join the ranks. If not, ranks pass on messages that go farther
    /// than to a neighbour.
    #[getter(_has_switches)]
    fn has_switches(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.choices()).topology.nodes() > self.0.size()
    }

    /// The network as the ranks see it now, a `ringroad._network.NetworkView`: its topology, where that comes
    /// from, how a name that was given differs from it, and what has changed since the communicator was
    /// made.
    #[getter]
    fn network<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = py.detach(|| self.0.network());
        let text = serde_json::to_string(&view).expect("numbers and text can be written");
        py.import("ringroad._network")?.getattr("NetworkView")?.call_method1("_read", (text,))
    }

    /// What carries the bytes, a `ringroad._network.Transport`. As text it is for example `shared memory` or
    /// `ucx 1.22.0 (cma, posix, tcp; devices eth0)`.
    #[getter]
    fn transport<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, "ringroad._network", &py.detach(|| self.0.transport()).map_err(raise)?)
    }

    /// The name of each rank's host, by rank.
    #[getter]
    fn hosts(&self) -> Vec<String> {
        self.0.endpoints().iter().map(|c| c.host.clone()).collect()
    }

    /// Makes an array, of any content, in memory that the other ranks of this host can read.
    ///
    /// Use it like `numpy.empty`. Collectives copy less if their arrays are such: other ranks reduce
    /// straight out of `send`, and read a long result from where it was computed. The memory is freed with
    /// the array; some of it stays reserved for the next arrays. A forked child shares it.
    ///
    /// Args:
    ///     shape: The lengths of the axes, or one number.
    ///     dtype: Anything that `numpy.dtype` takes; float64 unless stated.
    ///
    /// Returns:
    ///     A NumPy array.
    ///
    /// Raises:
    ///     MemoryError: There is not enough shared memory left. The message says how much was needed.
    ///     ValueError: `shape` is invalid.
    ///     TypeError: `dtype` is invalid.
    ///     AbortedError: This process was forked from the one that made the communicator.
    ///
    /// Example:
    ///     >>> (alone,) = ringroad.Communicator.in_process(1)
    ///     >>> array = alone.empty((2, 3), np.float32)
    ///     >>> array.shape, str(array.dtype)
    ///     ((2, 3), 'float32')
    #[pyo3(signature = (shape, dtype=None))]
    fn empty<'py>(
        &self,
        py: Python<'py>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let double = PyString::new(py, "float64").into_any();
        array::empty(py, shape, dtype.unwrap_or(&double), |bytes| {
            py.detach(|| self.0.memory(bytes)).map_err(raise)
        })
    }

    /// The handles of the ranks' processes, by rank: `ringroad.regroup` finds the processes by them.
    ///
    /// None stands for a rank that cannot listen on a port, and for ranks that are threads of one process.
    #[getter]
    fn handles(&self) -> Vec<Option<String>> {
        self.0.handles().into_iter().map(|handle| handle.map(Handle::to_text)).collect()
    }

    /// Asks all ranks that are left whether all of them say yes. All get the same answer.
    ///
    /// All ranks that are left call it, equally often. The answer is the same even if ranks die meanwhile.
    /// It also works after failures and aborts. The algorithm is single-decree Paxos (Lamport, The
    /// part-time parliament, ACM TOCS 16(2), 1998), in which every rank that is left must accept.
    ///
    /// Args:
    ///     flag: Whether this rank says yes.
    ///     timeout: Seconds to wait for the others. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     True if every rank that is left passed True.
    ///
    /// Raises:
    ///     TimeoutError: A rank runs but does not call this. The message names it.
    ///     AbortedError: The others took this rank for dead, since it had not answered for seconds; it
    ///         should end.
    ///     TransportError: A rank cannot listen on a port, so that the others cannot reach it.
    ///     ValueError: The ranks are threads of one process: they are lost together.
    #[pyo3(signature = (flag, *, timeout=None))]
    fn agree(&self, py: Python<'_>, flag: Plain<bool>, timeout: Option<Number>) -> PyResult<bool> {
        let timeout = duration(timeout)?;
        Ok(interruptible(py, |go_on| self.0.agree(flag.0, false, timeout, go_on))?.vote)
    }

    /// Returns the ranks that are left, as all of them agree. All of them call it, like `agree`.
    ///
    /// Args:
    ///     timeout: Seconds to wait for the others. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     The ranks that are left, in ascending order; the same list on all of them.
    ///
    /// Raises:
    ///     TimeoutError: A rank runs but does not call this. The message names it.
    ///     AbortedError: The others took this rank for dead, since it had not answered for seconds; it
    ///         should end.
    ///     TransportError: A rank cannot listen on a port, so that the others cannot reach it.
    ///     ValueError: The ranks are threads of one process: they are lost together.
    #[pyo3(signature = (*, timeout=None))]
    fn survivors(&self, py: Python<'_>, timeout: Option<Number>) -> PyResult<Vec<usize>> {
        let timeout = duration(timeout)?;
        Ok(interruptible(py, |go_on| self.0.agree(true, false, timeout, go_on))?.alive)
    }

    /// What `agree` and `survivors` return, by one agreement, for which most of the ranks must be left. If fewer are, and
    /// others are silent, these are waited for.
    #[pyo3(name = "_agree")]
    fn agree_on_both(
        &self,
        py: Python<'_>,
        flag: Plain<bool>,
        timeout: Option<Number>,
    ) -> PyResult<(bool, Vec<usize>)> {
        let timeout = duration(timeout)?;
        let decision = interruptible(py, |go_on| self.0.agree(flag.0, true, timeout, go_on))?;
        Ok((decision.vote, decision.alive))
    }

    /// This rank can learn from now on that processes on other machines have certainly ended, for `_agree`.
    #[pyo3(name = "_watch")]
    fn watch(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.watch()).map_err(raise)
    }

    /// Makes a communicator of the ranks that are left, in the same order.
    ///
    /// All of them call it, usually after a PeerError. Neither the store nor any particular rank has to be
    /// there still. This communicator cannot be used afterwards. Of a topology that was given, the part on
    /// which the ranks stand is kept.
    ///
    /// A rank counts as lost if its process has ended, or if it has not answered for 6 seconds while this rank
    /// was awake. If the time is up before all others have come, nothing is decided, and all can call it again.
    ///
    /// Args:
    ///     timeout: Seconds to wait for the others. None: the communicator's `timeout`.
    ///     quorum: The fewest ranks that may go on, or "majority": more than half of this communicator's. With
    ///         a majority, at most one part of a network that was cut goes on. None: any number.
    ///
    /// Returns:
    ///     The new communicator.
    ///
    /// Raises:
    ///     TimeoutError: A rank runs but does not call this. The message names it.
    ///     AbortedError: The others took this rank for dead, since it had not answered for seconds, or fewer
    ///         ranks are left than the quorum. This process should end.
    ///     TransportError: A rank cannot listen on a port, or the network failed.
    ///     ValueError: The ranks are threads of one process: they are lost together. Or the quorum makes no
    ///         sense.
    ///
    /// Example:
    ///     A training loop that goes on when a rank is lost::
    ///
    ///         try:
    ///             comm.allreduce(gradient, out=gradient)
    ///         except ringroad.PeerError:
    ///             comm = comm.shrink()
    #[pyo3(signature = (*, timeout=None, quorum=None))]
    fn shrink(
        &self,
        py: Python<'_>,
        timeout: Option<Number>,
        quorum: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyCommunicator> {
        let timeout = duration(timeout)?;
        let quorum = quorum.map_or(Ok(0), |quorum| self.quorum(quorum))?;
        interruptible(py, |go_on| self.0.shrink(timeout, quorum, go_on)).map(PyCommunicator::new)
    }

    /// Divides the ranks among new communicators: those that pass the same colour form one.
    ///
    /// It is collective: all ranks call it. The new communicators have connections of their own. They go on
    /// when this one is closed or fails, and this one when they do; a rank that dies is lost to all that it
    /// belongs to.
    ///
    /// Args:
    ///     color: A whole number from 0 on. None: this rank joins no new communicator.
    ///     key: Ranks are numbered by their keys, equal keys by their ranks here.
    ///     topology: The network of the new communicator, as for `Communicator`; its rank 0's value counts.
    ///         None: the part of this communicator's network on which the ranks stand, if that was given
    ///         (see `Topology.induced`), or what is detected.
    ///     timeout: Seconds to wait for the others. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     The new communicator, with this one's settings and `timeout`. Its name is this one's name, the
    ///     number of the split, and the colour: `world.0.1`. None without a colour.
    ///
    /// Raises:
    ///     ValueError: `color` is negative.
    ///     TopologyError: `topology` is malformed, or has another number of ranks.
    ///     ScheduleError: None of the algorithms of this communicator's `algorithm` can run there.
    ///     TimeoutError: Ranks did not come in time. The message names them.
    ///     PeerError: A rank died or gave up meanwhile. The message names it.
    ///     MismatchError: Other ranks called something else.
    ///     AbortedError: This communicator has failed.
    ///     TransportError: A rank cannot listen on a port, or the network failed.
    ///
    /// Example:
    ///     >>> from concurrent.futures import ThreadPoolExecutor
    ///     >>> comms = ringroad.Communicator.in_process(4)
    ///     >>> def sum_of_half(comm):
    ///     ...     with comm.split(comm.rank // 2) as half:
    ///     ...         return int(half.allreduce(np.array(comm.rank)))
    ///     >>> with ThreadPoolExecutor(4) as pool:
    ///     ...     list(pool.map(sum_of_half, comms))
    ///     [1, 1, 5, 5]
    #[pyo3(signature = (color, key=0, *, topology=None, timeout=None))]
    fn split(
        &self,
        py: Python<'_>,
        color: Option<Plain<i64>>,
        #[pyo3(from_py_with = argument)] key: i64,
        topology: Option<TopologyArgument<'_>>,
        timeout: Option<Number>,
    ) -> PyResult<Option<PyCommunicator>> {
        let topology = topology.map(TopologyArgument::resolve).transpose()?;
        let timeout = duration(timeout)?;
        let made =
            interruptible(py, |go_on| self.0.split(Plain::inner(color), key, topology, timeout, go_on))?;
        Ok(made.map(PyCommunicator::new))
    }

    /// Makes another communicator of the same ranks, on the same network.
    ///
    /// It is collective: all ranks call it. Use it where a library must not disturb the order of its
    /// caller's calls. It is a `split` in which all ranks pass the same colour.
    ///
    /// Args:
    ///     timeout: Seconds to wait for the others. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     The new communicator.
    ///
    /// Raises:
    ///     TimeoutError: Ranks did not come in time. The message names them.
    ///     PeerError: A rank died or gave up meanwhile. The message names it.
    ///     MismatchError: Other ranks called something else.
    ///     AbortedError: This communicator has failed.
    ///     TransportError: A rank cannot listen on a port, or the network failed.
    ///
    /// Example:
    ///     >>> (alone,) = ringroad.Communicator.in_process(1)
    ///     >>> other = alone.dup()
    ///     >>> alone.close()
    ///     >>> other.allreduce(np.array([1, 2]))
    ///     array([1, 2])
    #[pyo3(signature = (*, timeout=None))]
    fn dup(&self, py: Python<'_>, timeout: Option<Number>) -> PyResult<PyCommunicator> {
        let timeout = duration(timeout)?;
        let made = interruptible(py, |go_on| self.0.split(Some(0), 0, None, timeout, go_on))?;
        Ok(PyCommunicator::new(made.expect("every rank has the same colour")))
    }

    /// The part on which these ranks stand of the network that was given or found out. None if none was, or if it
    /// cannot be made; then the first of the ranks says so on stderr.
    #[pyo3(name = "_part")]
    fn part(&self, ranks: Plain<Vec<usize>>) -> Option<PyTopology> {
        let is_first = ranks.0.first() == Some(&self.0.rank());
        part_of(self.0.known_topology(), &ranks.0, is_first).map(PyTopology)
    }

    /// What `ringroad.discover` returns, as JSON.
    #[pyo3(name = "_discover")]
    fn discover(&self, py: Python<'_>, budget: Number, timeout: Option<Number>) -> PyResult<String> {
        let timeout = duration(timeout)?;
        let budget = Duration::try_from_secs_f64(budget.0).map_err(|_| {
            PyValueError::new_err(format!("budget {} is not a number of seconds, 0 or more", budget.0))
        })?;
        let discovered = interruptible(py, |go_on| discover(&self.0, budget, timeout, go_on))?;
        Ok(serde_json::to_string(&discovered).expect("numbers and text can be written"))
    }

    /// Starts to record what this rank does. The other ranks are not told.
    #[pyo3(name = "_start_trace")]
    fn start_trace(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.start_trace()).map_err(raise)
    }

    /// Stops recording. Returns what was recorded, as JSON for ui.perfetto.dev.
    #[pyo3(name = "_end_trace")]
    fn end_trace(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.end_trace().map(|recorded| recorded.to_chrome())).map_err(raise)
    }

    /// Returns the ranks that are known to have died.
    ///
    /// A death on this host is noticed soon; one on another host is noticed when a connection breaks. Ranks
    /// that only gave up or closed are not listed. It works after a failure, too.
    ///
    /// Returns:
    ///     Tuples of a rank and how its death is known, in words.
    ///
    /// Raises:
    ///     AbortedError: This process was forked from the one that made the communicator.
    ///
    /// Example:
    ///     >>> (alone,) = ringroad.Communicator.in_process(1)
    ///     >>> alone.lost()
    ///     []
    fn lost(&self, py: Python<'_>) -> PyResult<Vec<(usize, String)>> {
        py.detach(|| self.0.lost()).map_err(raise)
    }

    /// Fails every call in flight on every rank. The communicator cannot be used afterwards.
    ///
    /// Args:
    ///     reason: Why, for the others' messages.
    ///
    /// Raises:
    ///     AbortedError: This process is a forked child, which cannot end its parent's calls.
    ///
    /// Example:
    ///     >>> (alone,) = ringroad.Communicator.in_process(1)
    ///     >>> alone.abort("the input is corrupt")
    ///     >>> try:
    ///     ...     alone.barrier()
    ///     ... except ringroad.AbortedError as error:
    ///     ...     print("the input is corrupt" in str(error))
    ///     True
    #[pyo3(signature = (reason=""))]
    fn abort(&self, py: Python<'_>, #[pyo3(from_py_with = argument)] reason: &str) -> PyResult<()> {
        py.detach(|| self.0.abort(reason)).map_err(raise)
    }

    /// Closes the connections. Later calls fail on all ranks; closing again does nothing. A `shrink` of the others does
    /// not wait for this rank: to them it is as if its process had ended.
    ///
    /// In a forked child it only releases the child's copies: the connections are its parent's.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }

    /// Says what mpi4py's names are here. Python asks for names that do not exist.
    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        Err(missing(slf.as_any(), name))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, py: Python<'_>, _arguments: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("<Communicator {:?}: rank {} of {}>", self.0.name(), self.0.rank(), self.0.size())
    }
}
