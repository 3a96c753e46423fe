//! Calls on Python objects and on lists of arrays. Between two ranks an object is a message; `ringroad._objects` and
//! `ringroad._coalesced` make the others of calls on arrays.

use std::sync::Arc;

use pyo3::prelude::*;
use ringroad_runtime::calls::call::MemorySpan;
use ringroad_runtime::{DType, Memory, Opaque, Operation, Request};

use super::messages::bringing;
use super::received::{pickled, CallOutcome};
use super::run::plainly;
use crate::arguments::{argument, AnyTag, Number, PeerArgument, SourceArgument};
use crate::arrays::array::memory;
use crate::arrays::operation::OpArgument;
use crate::communicator::PyCommunicator;

/// The type as which an object is sent, so that it is no message for those that receive arrays of a type.
const OBJECT: DType = DType::Opaque(&Opaque { bytes: 1, name: "bytes of an object" });

/// The send of an object.
fn sending(object: &Bound<'_, PyAny>, PeerArgument(peer): PeerArgument, tag: u32) -> PyResult<Request> {
    let pickle = pickled(object)?;
    let side = MemorySpan { address: pickle.as_bytes().as_ptr() as usize, bytes: pickle.as_bytes().len() };
    let input = memory(side, Arc::new(pickle.unbind()));
    Ok(Request::new(Operation::Send { peer, tag }, OBJECT, side.bytes, input, Memory::nothing()))
}

/// The Python module that makes such calls of calls on arrays.
const OBJECTS: &str = "ringroad._objects";

#[pymethods]
impl PyCommunicator {
    /// Sends a Python object from one rank to all ranks.
    ///
    /// Objects are pickled. Unpickling can run any code that a rank of the job sends.
    ///
    /// Args:
    ///     obj: At the root, any object that can be pickled. Other ranks need not pass one.
    ///     root: The rank that sends.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     `obj` itself at the root, a copy on other ranks.
    ///
    /// Raises:
    #[doc = object_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(2) as cluster:
    ///     ...     cluster.run(lambda comm: comm.broadcast_object({"lr": 0.1} if comm.rank == 0 else None))
    ///     [{'lr': 0.1}, {'lr': 0.1}]
    #[pyo3(signature = (obj=None, root=0, *, timeout=None))]
    fn broadcast_object<'py>(
        slf: &Bound<'py, Self>,
        obj: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = argument)] root: usize,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(OBJECTS)?.call_method1("broadcast_object", (slf, obj, root, timeout))
    }

    /// Collects one Python object of each rank. Every rank gets all of them.
    ///
    /// Objects are pickled. Unpickling can run any code that a rank of the job sends.
    ///
    /// Args:
    ///     obj: Any object that can be pickled. Ranks may pass objects of different types and sizes.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A list of copies, by rank.
    ///
    /// Raises:
    #[doc = object_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(3) as cluster:
    ///     ...     cluster.run(lambda comm: comm.allgather_object("x" * comm.rank))[0]
    ///     ['', 'x', 'xx']
    #[pyo3(signature = (obj, *, timeout=None))]
    fn allgather_object<'py>(
        slf: &Bound<'py, Self>,
        obj: Bound<'py, PyAny>,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(OBJECTS)?.call_method1("allgather_object", (slf, obj, timeout))
    }

    /// Collects one Python object of each rank at one rank.
    ///
    /// Objects are pickled. Unpickling can run any code that a rank of the job sends.
    ///
    /// Args:
    ///     obj: Any object that can be pickled. Ranks may pass objects of different types and sizes.
    ///     root: The rank that gets the objects.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     At the root a list of copies, by rank; None on other ranks.
    ///
    /// Raises:
    #[doc = object_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(2) as cluster:
    ///     ...     cluster.run(lambda comm: comm.gather_object((comm.rank, "done")))
    ///     [[(0, 'done'), (1, 'done')], None]
    #[pyo3(signature = (obj, root=0, *, timeout=None))]
    fn gather_object<'py>(
        slf: &Bound<'py, Self>,
        obj: Bound<'py, PyAny>,
        #[pyo3(from_py_with = argument)] root: usize,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(OBJECTS)?.call_method1("gather_object", (slf, obj, root, timeout))
    }

    /// Sends each rank one Python object of a list that one rank has.
    ///
    /// Objects are pickled. Unpickling can run any code that a rank of the job sends.
    ///
    /// Args:
    ///     objects: At the root, one object for each rank. Other ranks need not pass a list.
    ///     root: The rank that sends.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A copy of object `rank` of the root's list.
    ///
    /// Raises:
    #[doc = object_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(2) as cluster:
    ///     ...     cluster.run(lambda comm: comm.scatter_object(["a", {"b": 1}] if comm.rank == 0 else None))
    ///     ['a', {'b': 1}]
    #[pyo3(signature = (objects=None, root=0, *, timeout=None))]
    fn scatter_object<'py>(
        slf: &Bound<'py, Self>,
        objects: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = argument)] root: usize,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(OBJECTS)?.call_method1("scatter_object", (slf, objects, root, timeout))
    }

    /// Sends a Python object from every rank to every rank.
    ///
    /// Objects are pickled. Unpickling can run any code that a rank of the job sends.
    ///
    /// Args:
    ///     objects: One object for each rank.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A list of copies; entry `r` came from rank `r`.
    ///
    /// Raises:
    #[doc = object_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(2) as cluster:
    ///     ...     cluster.run(lambda comm: comm.alltoall_object([f"{comm.rank} to {to}" for to in range(2)]))
    ///     [['0 to 0', '1 to 0'], ['0 to 1', '1 to 1']]
    #[pyo3(signature = (objects, *, timeout=None))]
    fn alltoall_object<'py>(
        slf: &Bound<'py, Self>,
        objects: Bound<'py, PyAny>,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import(OBJECTS)?.call_method1("alltoall_object", (slf, objects, timeout))
    }

    /// Sends a Python object to one rank, which receives it with `recv_object`.
    ///
    /// The object is pickled and sent as one message. The call completes as `send` does.
    ///
    /// Args:
    ///     obj: Any object that can be pickled.
    ///     peer: The rank that receives, which may be this one. `ringroad.PROC_NULL`: nothing is sent.
    ///     tag: From 0 to 2**28 - 1; a `recv_object` takes objects of its own tag only. Do not use it for
    ///         arrays at the same time.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///     async_op: True: return a `Work` at once instead of waiting. The object may be changed at once.
    ///
    /// Returns:
    ///     None. With `async_op=True` a `Work`.
    ///
    /// Raises:
    #[doc = object_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> a.send_object({"step": 7}, peer=1)
    ///     >>> b.recv_object(peer=0)
    ///     {'step': 7}
    #[pyo3(signature = (obj, peer, tag=0, *, timeout=None, async_op=false))]
    fn send_object(
        &self,
        obj: &Bound<'_, PyAny>,
        peer: PeerArgument,
        #[pyo3(from_py_with = argument)] tag: u32,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        self.run(obj.py(), &mut sending(obj, peer, tag)?, plainly(timeout, async_op))
    }

    /// Receives a Python object that a rank has sent with `send_object`.
    ///
    /// Unpickling can run any code that a rank of the job sends.
    ///
    /// Args:
    ///     peer: The rank that sends. None or `ringroad.ANY`: any rank; the first object with this tag is received.
    ///         `ringroad.PROC_NULL`: nothing is received.
    ///     tag: From 0 to 2**28 - 1, as the sender passed it. `ringroad.ANY`: any tag.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///     async_op: True: return a `Work` at once instead of waiting.
    ///
    /// Returns:
    ///     A copy of the object; None from nobody. With `async_op=True` a `Work` whose `result()` returns that.
    ///
    /// Raises:
    #[doc = object_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> b.send_object(["any", "object"], peer=0, tag=3)
    ///     >>> a.recv_object(tag=3)
    ///     ['any', 'object']
    #[pyo3(signature = (peer=SourceArgument(None), tag=AnyTag(Some(0)), *, timeout=None, async_op=false), text_signature = "(self, peer=None, tag=0, *, timeout=None, async_op=False)")]
    fn recv_object(
        &self,
        py: Python<'_>,
        peer: SourceArgument,
        tag: AnyTag,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let mut request = bringing(OBJECT, peer, tag);
        self.run_to(py, &mut request, plainly(timeout, async_op), CallOutcome::brought(true))
    }

    /// Sends a Python object to one rank and receives one from another, or the same, at the same time.
    ///
    /// Objects are pickled. Unpickling can run any code that a rank of the job sends.
    ///
    /// Args:
    ///     obj: Any object that can be pickled.
    ///     destination: The rank that receives it. `ringroad.PROC_NULL`: nothing is sent.
    ///     source: The rank that sends the other object, as for `recv_object`.
    ///     tag: The tag of both objects, from 0 to 2**28 - 1.
    ///     recv_tag: The tag of the object that is received, if it has another; `ringroad.ANY`: any tag.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///     async_op: True: return a `Work` of both at once instead of waiting.
    ///
    /// Returns:
    ///     A copy of the other object; None from nobody. With `async_op=True` a `Work` whose `result()` returns that.
    ///
    /// Raises:
    #[doc = object_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(3) as cluster:
    ///     ...     cluster.run(lambda comm: comm.sendrecv_object(f"from {comm.rank}", (comm.rank + 1) % 3))
    ///     ['from 2', 'from 0', 'from 1']
    #[pyo3(signature = (obj, destination, source=SourceArgument(None), tag=0, *, recv_tag=None, timeout=None, async_op=false), text_signature = "(self, obj, destination, source=None, tag=0, *, recv_tag=None, timeout=None, async_op=False)")]
    fn sendrecv_object(
        &self,
        obj: &Bound<'_, PyAny>,
        destination: PeerArgument,
        source: SourceArgument,
        #[pyo3(from_py_with = argument)] tag: u32,
        recv_tag: Option<AnyTag>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let receive = bringing(OBJECT, source, recv_tag.unwrap_or(AnyTag(Some(tag))));
        let both = [sending(obj, destination, tag)?, receive];
        self.exchange(obj.py(), both, timeout, async_op, CallOutcome::brought(true))
    }

    /// Reduces several arrays over all ranks in one call. Every rank gets all results.
    ///
    /// The arrays are packed side by side into memory that other ranks read, so that many short arrays take
    /// little longer than one. Arrays of each dtype make one allreduce.
    ///
    /// Args:
    ///     arrays: This rank's contributions: arrays, or numbers and lists as for `allreduce`. Their number,
    ///         order, shapes and dtypes are the same on all ranks.
    ///     out: An array for each result, of the shape and dtype of its input; it may be strided. `arrays`
    ///         itself: in place. None: new arrays.
    #[doc = reduction_arguments!()]
    ///     algorithm: The name of the algorithm to run, such as "ring", a `Schedule` of your own, or the path of
    ///         its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A list: the arrays of `out`, or new arrays that share memory.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(2) as cluster:
    ///     ...     cluster.run(lambda comm: comm.allreduce_coalesced([np.ones(2), [1, 2, 3]]))[0]
    ///     [array([2., 2.]), array([2, 4, 6])]
    #[pyo3(signature = (arrays, out=None, *, op=OpArgument::sum(), factor=None, algorithm=None, timeout=None), text_signature = "($self, arrays, out=None, *, op=\"sum\", factor=None, algorithm=None, timeout=None)")]
    fn allreduce_coalesced<'py>(
        slf: &Bound<'py, Self>,
        arrays: Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
        op: OpArgument<'py>,
        factor: Option<Number>,
        algorithm: Option<&Bound<'py, PyAny>>,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let op = op.into_object(slf.py());
        slf.py()
            .import("ringroad._coalesced")?
            .call_method1("allreduce_coalesced", (slf, arrays, out, op, factor, algorithm, timeout))
    }

    /// Copies several arrays of one rank to all ranks in one call, in place.
    ///
    /// The arrays are packed side by side into memory that other ranks read, so that many short arrays take
    /// little longer than one. Arrays of each dtype make one broadcast.
    ///
    /// Args:
    ///     arrays: At the root, what is sent; elsewhere they are overwritten. They may be strided. Their
    ///         number, order, shapes and dtypes are the same on all ranks.
    ///     root: The rank that sends.
    ///     algorithm: The name of the algorithm to run, such as "binomial", a `Schedule` of your own, or the
    ///         path of its file; the same on all ranks. None: the algorithm that `algorithm_for` names.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A list of the arrays.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(2) as cluster:
    ///     ...     cluster.run(lambda comm: comm.broadcast_coalesced([np.full(2, comm.rank), np.ones(1)], root=1))[0]
    ///     [array([1, 1]), array([1.])]
    #[pyo3(signature = (arrays, root=0, *, algorithm=None, timeout=None))]
    fn broadcast_coalesced<'py>(
        slf: &Bound<'py, Self>,
        arrays: Bound<'py, PyAny>,
        #[pyo3(from_py_with = argument)] root: usize,
        algorithm: Option<&Bound<'py, PyAny>>,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("ringroad._coalesced")?
            .call_method1("broadcast_coalesced", (slf, arrays, root, algorithm, timeout))
    }

    /// Checks that all ranks hold the same bits, and says which ranks differ and in which arrays.
    ///
    /// Every rank computes a digest of 128 bits of each array, about as fast as it can read memory, and ranks exchange
    /// one short message if all is well. It finds what broken memory, a missed step or a race has done to replicas. Floats
    /// count by their bits: NaNs may differ, and so do 0 and -0. Any dtype but objects can be compared, whatever the
    /// strides; what is not C-contiguous is copied, one array after the other.
    ///
    /// Args:
    ///     arrays: A list of arrays, or a mapping from names to arrays. Their number, order, names, shapes and dtypes are
    ///         the same on all ranks.
    ///     repair: True: what differs is copied from the lowest rank of the majority (more than half of the ranks,
    ///         for each array) by a broadcast, and compared again. Arrays must then be writable on all ranks.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     A `ReplicaCheck`, the same on all ranks.
    ///
    /// Raises:
    ///     ReplicaError: Ranks passed different arrays, or one that cannot be compared or repaired, or there is no
    ///         majority for a repair. All ranks raise it. The communicator can be used.
    ///     ValueError: `timeout` is not above 0. Nothing was sent.
    #[doc = call_errors!()]
    ///
    /// Example:
    ///     >>> with ringroad.local(3) as cluster:
    ///     ...     print(cluster.run(lambda comm: comm.check_replicas([np.ones(2), np.full(2, comm.rank // 2)]))[0])
    ///     1 of 2 arrays differ
    ///       arrays[1]: rank 2 differs from the others
    #[pyo3(signature = (arrays, *, repair=false, timeout=None))]
    fn check_replicas<'py>(
        slf: &Bound<'py, Self>,
        arrays: Bound<'py, PyAny>,
        #[pyo3(from_py_with = argument)] repair: bool,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("ringroad._replicas")?.call_method1("check_replicas", (slf, arrays, repair, timeout))
    }
}
