//! Grids and graphs of ranks, and arrays that the ranks of a host share: `ringroad._grids.neighbours`, `ringroad._grids.cart` and
//! `ringroad._grids.shared` make them of other calls.

use pyo3::prelude::*;
use pyo3::types::PyString;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::topology::Routes;
use ringroad_core::Schedule;

use crate::arguments::{argument, Length, Number, Plain};
use crate::communicator::PyCommunicator;
use crate::interpreter::errors::raise;
use crate::results::object;
use crate::values::cost::COSTS;

#[pymethods]
impl PyCommunicator {
    /// Puts the ranks on a grid, on which neighbours exchange blocks and the borders of arrays.
    ///
    /// Ranks stand in row-major order, as `numpy.unravel_index(rank, shape)` says. All ranks call it. Without `reorder` it
    /// sends nothing.
    ///
    /// Args:
    ///     shape: The lengths of the dimensions, whose product is `size`, or one number. A length of 0 is chosen, such
    ///         that the dimensions are as even as possible.
    ///     periodic: Whether the last rank of a dimension is a neighbour of the first: for all dimensions, or for each.
    ///     reorder: True: ranks stand where neighbours reach each other fastest, by what is known of hosts and network.
    ///         The grid then has a communicator of its own, in which ranks have other numbers.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A `Cart`.
    ///
    /// Raises:
    ///     ValueError: `shape` has another number of ranks, or `periodic` another number of dimensions.
    #[doc = call_errors!()]
    ///
    /// Example:
    ///     >>> ranks = ringroad.Communicator.in_process(4)
    ///     >>> cart = ranks[1].cart((2, 2), periodic=(True, False))
    ///     >>> cart.coordinates, cart.shift(0), cart.shift(1) == (0, ringroad.PROC_NULL)
    ///     ((0, 1), (3, 3), True)
    #[pyo3(signature = (shape, *, periodic=None, reorder=false, timeout=None))]
    fn cart<'py>(
        slf: &Bound<'py, Self>,
        shape: &Bound<'py, PyAny>,
        periodic: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = argument)] reorder: bool,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("ringroad._grids.cart")?
            .call_method1("cart", (slf, shape, periodic, reorder, timeout))
    }

    /// Joins the ranks by a graph, along whose edges neighbours exchange blocks.
    ///
    /// It is collective: all ranks call it.
    ///
    /// Args:
    ///     neighbours: The ranks to which this one sends, in the order of its blocks. A rank may occur several times, and
    ///         may name itself.
    ///     sources: The ranks from which this one receives, in the order of the blocks that it gets. None: those that name
    ///         it; if every rank names those that name it, in the order of `neighbours`, otherwise in ascending order.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A `Graph`.
    ///
    /// Raises:
    ///     ValueError: A rank does not exist, or `sources` are not the ranks that name this one. All ranks raise it.
    #[doc = call_errors!()]
    ///
    /// Example:
    ///     Every rank sends to the next, and the last to nobody.
    ///
    ///     >>> with ringroad.local(3) as cluster:
    ///     ...     def received(comm):
    ///     ...         graph = comm.graph([comm.rank + 1] if comm.rank < 2 else [])
    ///     ...         return graph.neighbour_allgather(np.array([10 * comm.rank])).tolist()
    ///     ...     cluster.run(received)
    ///     [[], [[0]], [[10]]]
    #[pyo3(signature = (neighbours, sources=None, *, timeout=None))]
    fn graph<'py>(
        slf: &Bound<'py, Self>,
        neighbours: &Bound<'py, PyAny>,
        sources: Option<&Bound<'py, PyAny>>,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("ringroad._grids.neighbours")?
            .call_method1("graph", (slf, neighbours, sources, timeout))
    }

    /// Makes an array of zeros in memory that all ranks of this host map: what one writes, the others read.
    ///
    /// It is collective: all ranks call it. Each host has an array of its own. Nothing orders the accesses of different
    /// ranks: call `barrier` between the writes of some and the reads or writes of others. The memory has no name that could
    /// stay behind. It lives as long as any rank's array or a view of it does, also when the communicator is closed or other
    /// ranks have died.
    ///
    /// Args:
    ///     shape: The lengths of the axes, or one number; the same on all ranks of a host.
    ///     dtype: Anything that `numpy.dtype` takes, but no Python objects; float64 unless stated; the same on all ranks of
    ///         a host.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A NumPy array.
    ///
    /// Raises:
    ///     ValueError: `shape` is invalid, or ranks of a host passed different ones. All ranks raise it.
    ///     TypeError: `dtype` is invalid, or has objects.
    ///     TransportError: Ranks that name the same host cannot map each other's memory, for example because they run in
    ///         different containers, or there is not enough of it. All ranks raise it.
    #[doc = call_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(3) as cluster:
    ///     ...     def table(comm):
    ///     ...         shared = comm.shared(comm.size, np.int64)
    ///     ...         shared[comm.rank] = 10 * comm.rank
    ///     ...         comm.barrier()
    ///     ...         return shared.tolist()
    ///     ...     cluster.run(table)[0]
    ///     [0, 10, 20]
    #[pyo3(signature = (shape, dtype=None, *, timeout=None))]
    fn shared<'py>(
        slf: &Bound<'py, Self>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, double) = (slf.py(), PyString::new(slf.py(), "float64").into_any());
        py.import("ringroad._grids.shared")?
            .call_method1("shared", (slf, shape, dtype.unwrap_or(&double), timeout))
    }

    /// The `Cost` of a schedule here, for blocks of these lengths and vectors of `bytes` bytes in the mean.
    #[pyo3(name = "_cost")]
    fn cost<'py>(
        &self,
        py: Python<'py>,
        schedule: Plain<&Schedule>,
        bytes: Length,
        blocks: Plain<Vec<usize>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let choices = py.detach(|| self.0.choices());
        let routes = &mut Routes::new(&choices.topology);
        let cost = py.detach(|| ScheduleCost::with_blocks(&schedule, &blocks, routes)).map_err(raise)?;
        object(py, COSTS, &choices.model.cost(&cost, schedule.collective, &choices.topology, bytes.0))
    }
}
