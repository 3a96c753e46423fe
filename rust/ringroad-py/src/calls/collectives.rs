//! Calls on NumPy arrays.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::IntoPyObjectExt;
use ringroad_core::Collective;
use ringroad_runtime::calls::call::MemorySpan;
use ringroad_runtime::communicator::CallShape;
use ringroad_runtime::{CallKey, DType, Function, Memory, Operation, Precision, Request};

use super::received::{CallOutcome, Landing};
use super::run::{precision, CallOptions};
use crate::arguments::{argument, shown, Number, Text};
use crate::arrays::array::{memory, Array, Owner};
use crate::arrays::number;
use crate::arrays::operation::{OpArgument, UntypedReduction, PLAIN};
use crate::communicator::PyCommunicator;
use crate::interpreter::errors::raise;
use crate::values::given::By;

/// From this many bytes on, input and output are kept alive separately.
const APART: usize = 64 << 10;

/// Makes an array of an argument of this name.
type Read<'py> = fn(&Bound<'py, PyAny>, &str) -> PyResult<Array<'py>>;

/// A collective on arrays, before it is made.
pub struct OnArrays {
    pub key: CallKey,
    factor: f64,
    function: Option<Arc<dyn Function>>,
    sides: [(MemorySpan, Owner); 2],
    result: Option<Py<PyAny>>,
    /// An output that is not C-contiguous.
    landing: Option<Landing>,
    /// A whole number that is reduced exactly. It has memory of its own.
    number: Option<(Py<PyAny>, &'static str)>,
}

impl OnArrays {
    pub fn request(&self, py: Python<'_>) -> Request {
        let [input, output] = match &self.number {
            None => self.sides.each_ref().map(|(side, owner)| memory(*side, owner.clone())),
            Some((number, _)) => {
                let output = self.result.as_ref().map(|_| Memory::zeroed(number::DTYPE.size()));
                [number::memory(number.bind(py)), output.unwrap_or_else(Memory::nothing)]
            }
        };
        let mut request = Request::from_key(self.key.clone(), input, output);
        (request.factor, request.function) = (self.factor, self.function.clone());
        request
    }

    /// What the call returns.
    pub fn outcome(&self, py: Python<'_>) -> CallOutcome {
        match (&self.result, &self.number) {
            (Some(result), Some((_, what))) => CallOutcome::Number(result.clone_ref(py), what),
            (result, _) => CallOutcome::Known(result.as_ref().map(|result| result.clone_ref(py))),
        }
    }
}

/// What a reduction takes for an input. Python's bools count, as they do in Python.
fn counted<'py>(array: Array<'py>, object: &Bound<'py, PyAny>) -> PyResult<Array<'py>> {
    match array.dtype == DType::Bool && !object.hasattr("dtype")? {
        true => array.as_int64(),
        false => Ok(array),
    }
}

/// The sides of a call with memory of its own.
fn nothing() -> [(MemorySpan, Owner); 2] {
    [(); 2].map(|()| (MemorySpan { address: 0, bytes: 0 }, Arc::new(()) as Owner))
}

impl PyCommunicator {
    /// Runs a collective on arrays, and allocates the output if the caller passed none.
    fn collective(
        &self,
        py: Python<'_>,
        collective: Collective,
        send: Option<&Bound<'_, PyAny>>,
        out: Option<&Bound<'_, PyAny>>,
        counts: Option<&Bound<'_, PyAny>>,
        reduction: UntypedReduction,
        how: CallOptions<'_>,
    ) -> PyResult<Py<PyAny>> {
        // Usually the call ends before this function drops its share of the arrays. That share is then the last one, and
        // the arrays are released here, while the GIL is held.
        let read = [Array::input, Array::landing];
        let mut call = self.on_arrays(read, collective, send, out, counts, reduction)?;
        let outcome = call.landing.take().map_or_else(|| call.outcome(py), CallOutcome::Written);
        self.run_to(py, &mut call.request(py), how, outcome)
    }

    /// Checks the arrays of a collective. `read` makes arrays of its input and of its output; `counts` are the numbers of
    /// rows of blocks that differ in length.
    pub fn on_arrays<'py>(
        &self,
        read: [Read<'py>; 2],
        collective: Collective,
        send: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        counts: Option<&Bound<'py, PyAny>>,
        reduction: UntypedReduction,
    ) -> PyResult<OnArrays> {
        let rank = self.0.rank();
        let rows = counts.map(|counts| self.rows(collective, counts)).transpose()?;
        let [has_input, has_output] = self.0.takes(collective).map_err(raise)?;
        let [sent, written] = match collective {
            Collective::Broadcast { .. } => ["array"; 2],
            _ => ["send", "out"],
        };
        let exactly = reduction.exactly().filter(|_| collective.reduces() && !collective.has_blocks());
        let beyond = send.filter(|object| exactly.is_some() && number::is_beyond(object));
        let send = match send.filter(|_| has_input) {
            Some(object) if beyond.is_some() => Some(read[0](&0.into_bound_py_any(object.py())?, sent)?),
            Some(object) if collective.reduces() && !reduction.is_own() => {
                Some(counted(read[0](object, sent)?, object)?)
            }
            Some(object) => Some(read[0](object, sent)?),
            None if has_input => {
                return Err(PyTypeError::new_err(format!("rank {rank} must pass send to {collective}")));
            }
            None => None,
        };
        let given = send.as_ref().map(|send| self.0.given(collective, send.shape(), rows.as_deref()));
        let given = given.transpose().map_err(raise)?;
        let passed = out.filter(|_| has_output);
        let out = match (passed, &send, &given) {
            _ if !has_output => {
                if let (Collective::Exscan, Some(object), Some(send), Some(given)) =
                    (collective, out, &send, &given)
                {
                    // Other ranks get a result there: what they refuse is refused here, too.
                    let out = read[1](object, written)?;
                    given.check(send.dtype, (out.dtype, out.shape())).map_err(raise)?;
                }
                None
            }
            // The call is in place.
            (Some(object), Some(array), _) if array.is(object) => {
                array.check_writable(written)?;
                Some(array.clone())
            }
            (Some(object), ..) => Some(read[1](object, written)?),
            (None, Some(send), Some(given)) => Some(send.empty(&given.result)?),
            (None, ..) => {
                return Err(PyTypeError::new_err(format!(
                    "rank {rank} must pass out to {collective}, since only the root knows the shape"
                )));
            }
        };
        let (dtype, elements, counts) = match (&send, given, &out) {
            (Some(send), Some(given), out) => {
                if let Some(out) = out {
                    given.check(send.dtype, (out.dtype, out.shape())).map_err(raise)?;
                }
                let CallShape { elements, counts, .. } = given;
                (send.dtype, elements, counts)
            }
            (_, _, Some(out)) => {
                let given =
                    self.0.given_by_output(collective, out.shape(), rows.as_deref()).map_err(raise)?;
                (out.dtype, given.elements, given.counts)
            }
            _ => unreachable!("every rank has an input or an output"),
        };
        let mut key = CallKey::new(Operation::Collective(collective), dtype, elements);
        let function;
        (key.op, function) = match send.as_ref().or(out.as_ref()) {
            Some(array) => reduction.for_dtype(|| array.descr())?,
            None => unreachable!("every rank has an input or an output"),
        };
        key.counts = counts;
        let landing = match (passed, &out) {
            (Some(object), Some(array)) if !array.is(object) => {
                Some(Landing::new(object.clone().unbind(), array))
            }
            _ => None,
        };
        let result = out.as_ref().map(Array::object);
        let number = send.as_ref().filter(|send| send.dtype == DType::I64 && send.shape().is_empty());
        let (number, function, sides) = match (exactly, number) {
            (Some((op, function)), Some(array)) => {
                (key.op, key.dtype) = (op, number::DTYPE);
                let number = beyond.map_or_else(|| array.object(), |beyond| beyond.clone().unbind());
                (Some((number, collective.name())), Some(Arc::new(function) as _), nothing())
            }
            _ => (None, function, self.sides(&mut key, send, out)?),
        };
        Ok(OnArrays { key, factor: reduction.factor, function, sides, result, landing, number })
    }

    /// The memory of the input and of the output, with their owners. Notes whether the call is in place.
    fn sides(
        &self,
        key: &mut CallKey,
        send: Option<Array<'_>>,
        out: Option<Array<'_>>,
    ) -> PyResult<[(MemorySpan, Owner); 2]> {
        let address = |array: &Option<Array<'_>>| array.as_ref().map_or(0, Array::address);
        let addresses = [address(&send), address(&out)];
        let located = key.locate(self.0.rank(), self.0.size(), addresses).map_err(raise)?;
        let [input, output] = located.ok_or_else(|| {
            PyValueError::new_err(
                "send and out overlap; they must be apart, or equal, or one must be this rank's block of the other",
            )
        })?;
        // Short arrays and overlapping arrays share one owner. A long input has its own, because other ranks may read it
        // after the call.
        let owner: Owner = Arc::new([send.as_ref().map(Array::object), out.as_ref().map(Array::object)]);
        let lend = |side: MemorySpan, array: Option<Array<'_>>, owner: Owner| match array {
            Some(array) if side.bytes >= APART && !key.in_place => (side, Arc::new(array.object()) as Owner),
            _ => (side, owner),
        };
        Ok([lend(input, send, owner.clone()), lend(output, out, owner)])
    }

    /// Reads the numbers of rows of all blocks: of each rank, or of each source and target.
    #[inline(never)] // so that calls without counts stay short
    pub fn rows(&self, collective: Collective, counts: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let size = self.0.size();
        let refused = |all: String| {
            let counts = shown(counts);
            PyValueError::new_err(format!("counts must be {all} whole numbers from 0 on, not {counts}"))
        };
        if collective != Collective::Alltoall {
            return argument(counts).map_err(|_| refused(size.to_string()));
        }
        let rows = argument::<Vec<Vec<i64>>>(counts).map_err(|_| refused(format!("{size} by {size}")))?;
        self.0.pairs(&rows).map_err(raise)
    }
}

#[pymethods]
impl PyCommunicator {
    /// Reduces an array over all ranks, element by element. Every rank gets the whole result.
    ///
    /// After a sum of floats all ranks hold the same bits, unless `algorithm` names one that is not
    /// `bit_identical`.
    ///
    /// Args:
    ///     send: This rank's contribution; the same shape and dtype on all ranks.
    ///     out: An array for the result, of the shape and dtype of `send`. `send` itself: in place. None: a
    ///         new array.
    #[doc = reduction_arguments!()]
    #[doc = collective_arguments!(wire)]
    ///
    /// Returns:
    ///     `out`, or the new array. With `async_op=True` a `Work` whose `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     Two ranks in one process; the first call does not block, since nobody else would make the second.
    ///
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.allreduce(np.array([1.0, 2.0]), async_op=True)
    ///     >>> b.allreduce(np.array([10.0, 20.0]))
    ///     array([11., 22.])
    ///     >>> work.result()
    ///     array([11., 22.])
    #[pyo3(signature = (send, out=None, *, op=OpArgument::sum(), factor=None, algorithm=None, wire=None, max_error=None, timeout=None, async_op=false), text_signature = "($self, send, out=None, *, op=\"sum\", factor=None, algorithm=None, wire=None, max_error=None, timeout=None, async_op=False)")]
    fn allreduce(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: OpArgument<'_>,
        factor: Option<Number>,
        algorithm: Option<By<'_>>,
        wire: Option<Text<'_>>,
        max_error: Option<Number>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: precision(wire, max_error)?, timeout, async_op };
        self.collective(py, Collective::Allreduce, Some(send), out, None, op.reduction(factor)?, how)
    }

    /// Reduces an array over all ranks. Each rank gets one block of the result.
    ///
    /// Args:
    ///     send: `size` blocks along the first axis; the same shape and dtype on all ranks. With `counts` it has
    ///         `sum(counts)` rows.
    ///     out: An array for the result: the shape of this rank's block, the dtype of `send`. This rank's block
    ///         of `send` itself: in place. None: a new array.
    #[doc = counts_argument!()]
    #[doc = reduction_arguments!()]
    #[doc = collective_arguments!(wire)]
    ///
    /// Returns:
    ///     Block `rank` of the reduced array. With `async_op=True` a `Work` whose `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.reduce_scatter(np.array([1, 2, 3, 4]), async_op=True)
    ///     >>> b.reduce_scatter(np.array([10, 20, 30, 40]))
    ///     array([33, 44])
    ///     >>> work.result()
    ///     array([11, 22])
    ///     >>> work = a.reduce_scatter(np.array([1, 2, 3]), counts=[1, 2], async_op=True)
    ///     >>> b.reduce_scatter(np.array([10, 20, 30]), counts=[1, 2])
    ///     array([22, 33])
    #[pyo3(signature = (send, out=None, *, counts=None, op=OpArgument::sum(), factor=None, algorithm=None, wire=None, max_error=None, timeout=None, async_op=false), text_signature = "($self, send, out=None, *, counts=None, op=\"sum\", factor=None, algorithm=None, wire=None, max_error=None, timeout=None, async_op=False)")]
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        counts: Option<&Bound<'_, PyAny>>,
        op: OpArgument<'_>,
        factor: Option<Number>,
        algorithm: Option<By<'_>>,
        wire: Option<Text<'_>>,
        max_error: Option<Number>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: precision(wire, max_error)?, timeout, async_op };
        self.collective(py, Collective::ReduceScatter, Some(send), out, counts, op.reduction(factor)?, how)
    }

    /// Concatenates the arrays of all ranks. Every rank gets the whole result.
    ///
    /// Args:
    ///     send: This rank's block; the same shape and dtype on all ranks. With `counts` it has `counts[rank]`
    ///         rows.
    ///     out: An array for the result: all blocks along the first axis, the dtype of `send`. `send` may be this
    ///         rank's block of it: in place. None: a new array.
    #[doc = counts_argument!()]
    #[doc = collective_arguments!(wire)]
    ///
    /// Returns:
    ///     The blocks along the first axis, that of rank 0 first. Arrays of no dimension become a vector of
    ///     `size` elements. With `async_op=True` a `Work` whose `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.allgather(np.array([1, 2]), async_op=True)
    ///     >>> b.allgather(np.array([10, 20]))
    ///     array([ 1,  2, 10, 20])
    ///     >>> work = a.allgather(np.array([1, 2, 3]), counts=[3, 1], async_op=True)
    ///     >>> b.allgather(np.array([10]), counts=[3, 1])
    ///     array([ 1,  2,  3, 10])
    #[pyo3(signature = (send, out=None, *, counts=None, algorithm=None, wire=None, max_error=None, timeout=None, async_op=false))]
    fn allgather(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        counts: Option<&Bound<'_, PyAny>>,
        algorithm: Option<By<'_>>,
        wire: Option<Text<'_>>,
        max_error: Option<Number>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: precision(wire, max_error)?, timeout, async_op };
        self.collective(py, Collective::Allgather, Some(send), out, counts, PLAIN, how)
    }

    /// Copies the array of one rank to all ranks, in place.
    ///
    /// Args:
    ///     array: At the root, what is sent; elsewhere it is overwritten. The same shape and dtype on all
    ///         ranks.
    ///     root: The rank that sends.
    #[doc = collective_arguments!(wire)]
    ///
    /// Returns:
    ///     `array`. With `async_op=True` a `Work` whose `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.broadcast(np.array([1, 2]), async_op=True)
    ///     >>> b.broadcast(np.zeros(2, int))
    ///     array([1, 2])
    ///     >>> work.wait()
    ///     True
    #[pyo3(signature = (array, root=0, *, algorithm=None, wire=None, max_error=None, timeout=None, async_op=false))]
    fn broadcast(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument)] root: usize,
        algorithm: Option<By<'_>>,
        wire: Option<Text<'_>>,
        max_error: Option<Number>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: precision(wire, max_error)?, timeout, async_op };
        self.collective(py, Collective::Broadcast { root }, Some(array), Some(array), None, PLAIN, how)
    }

    /// Reduces an array over all ranks, element by element. One rank gets the result.
    ///
    /// Args:
    ///     send: This rank's contribution; the same shape and dtype on all ranks.
    ///     out: At the root, an array for the result, of the shape and dtype of `send`. `send` itself: in
    ///         place. None: a new array. Other ranks need none.
    ///     root: The rank that gets the result.
    #[doc = reduction_arguments!()]
    #[doc = collective_arguments!()]
    ///
    /// Returns:
    ///     The reduced array at the root, None on other ranks. With `async_op=True` a `Work` whose
    ///     `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = b.reduce(np.array([10, 20]), async_op=True)
    ///     >>> a.reduce(np.array([1, 2]))
    ///     array([11, 22])
    ///     >>> work.result() is None
    ///     True
    #[pyo3(signature = (send, out=None, root=0, *, op=OpArgument::sum(), factor=None, algorithm=None, timeout=None, async_op=false), text_signature = "($self, send, out=None, root=0, *, op=\"sum\", factor=None, algorithm=None, timeout=None, async_op=False)")]
    fn reduce(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = argument)] root: usize,
        op: OpArgument<'_>,
        factor: Option<Number>,
        algorithm: Option<By<'_>>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: Precision::Exact, timeout, async_op };
        self.collective(py, Collective::Reduce { root }, Some(send), out, None, op.reduction(factor)?, how)
    }

    /// Concatenates the arrays of all ranks. One rank gets the result.
    ///
    /// Args:
    ///     send: This rank's block; the same shape and dtype on all ranks. With `counts` it has `counts[rank]`
    ///         rows.
    ///     out: At the root, an array for the result: all blocks along the first axis, the dtype of `send`.
    ///         `send` may be this rank's block of it: in place. None: a new array. Other ranks need none.
    ///     root: The rank that gets the result.
    #[doc = counts_argument!()]
    #[doc = collective_arguments!()]
    ///
    /// Returns:
    ///     At the root the blocks along the first axis, that of rank 0 first; None on other ranks. With
    ///     `async_op=True` a `Work` whose `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = b.gather(np.array([10, 20]), async_op=True)
    ///     >>> a.gather(np.array([1, 2]))
    ///     array([ 1,  2, 10, 20])
    ///     >>> work = b.gather(np.array([10]), counts=[3, 1], async_op=True)
    ///     >>> a.gather(np.array([1, 2, 3]), counts=[3, 1])
    ///     array([ 1,  2,  3, 10])
    #[pyo3(signature = (send, out=None, root=0, *, counts=None, algorithm=None, timeout=None, async_op=false))]
    fn gather(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = argument)] root: usize,
        counts: Option<&Bound<'_, PyAny>>,
        algorithm: Option<By<'_>>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: Precision::Exact, timeout, async_op };
        self.collective(py, Collective::Gather { root }, Some(send), out, counts, PLAIN, how)
    }

    /// Sends each rank one block of an array that one rank has.
    ///
    /// Args:
    ///     send: At the root, `size` blocks along the first axis, block `r` for rank `r`; with `counts` they have
    ///         `sum(counts)` rows. Other ranks pass None.
    ///     out: An array for this rank's block; with `counts` it has `counts[rank]` rows. This rank's block of
    ///         `send` itself: in place. The root may pass None for a new array; other ranks must pass an array,
    ///         since only the root knows the shape.
    ///     root: The rank that sends.
    #[doc = counts_argument!()]
    #[doc = collective_arguments!()]
    ///
    /// Returns:
    ///     This rank's block. With `async_op=True` a `Work` whose `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.scatter(np.array([1, 2, 3, 4]), async_op=True)
    ///     >>> b.scatter(None, np.zeros(2, int))
    ///     array([3, 4])
    ///     >>> work.result()
    ///     array([1, 2])
    ///     >>> work = a.scatter(np.array([1, 2, 3, 4]), counts=[3, 1], async_op=True)
    ///     >>> b.scatter(None, np.zeros(1, int), counts=[3, 1])
    ///     array([4])
    #[pyo3(signature = (send, out=None, root=0, *, counts=None, algorithm=None, timeout=None, async_op=false))]
    fn scatter(
        &self,
        py: Python<'_>,
        send: Option<&Bound<'_, PyAny>>,
        out: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = argument)] root: usize,
        counts: Option<&Bound<'_, PyAny>>,
        algorithm: Option<By<'_>>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: Precision::Exact, timeout, async_op };
        self.collective(py, Collective::Scatter { root }, send, out, counts, PLAIN, how)
    }

    /// Sends a block from every rank to every rank.
    ///
    /// Args:
    ///     send: `size` blocks along the first axis, block `r` for rank `r`; the same dtype on all ranks. Without
    ///         `counts` all ranks pass the same shape.
    ///     out: An array for the result, of as many rows as this rank receives and the dtype of `send`. `send`
    ///         itself: in place, only without `counts`. None: a new array.
    ///     counts: `counts[s][t]` is the number of rows (entries of the first axis) that rank `s` sends to rank
    ///         `t`; shape `(size, size)`, the same on all ranks. None: blocks of equal length.
    #[doc = collective_arguments!(wire)]
    ///
    /// Returns:
    ///     `size` blocks along the first axis; block `r` came from rank `r`. With `async_op=True` a `Work`
    ///     whose `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.alltoall(np.array([1, 2]), async_op=True)
    ///     >>> b.alltoall(np.array([10, 20]))
    ///     array([ 2, 20])
    ///     >>> work.result()
    ///     array([ 1, 10])
    ///     >>> counts = [[1, 2], [0, 1]]
    ///     >>> work = a.alltoall(np.array([1, 2, 3]), counts=counts, async_op=True)
    ///     >>> b.alltoall(np.array([10]), counts=counts)
    ///     array([ 2,  3, 10])
    #[pyo3(signature = (send, out=None, *, counts=None, algorithm=None, wire=None, max_error=None, timeout=None, async_op=false))]
    fn alltoall(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        counts: Option<&Bound<'_, PyAny>>,
        algorithm: Option<By<'_>>,
        wire: Option<Text<'_>>,
        max_error: Option<Number>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: precision(wire, max_error)?, timeout, async_op };
        self.collective(py, Collective::Alltoall, Some(send), out, counts, PLAIN, how)
    }

    /// Reduces an array over the ranks up to this one, element by element (an inclusive prefix sum).
    ///
    /// By the same algorithm, floats are added in the same order in every run.
    ///
    /// Args:
    ///     send: This rank's contribution; the same shape and dtype on all ranks.
    ///     out: An array for the result, of the shape and dtype of `send`. `send` itself: in place. None: a
    ///         new array.
    #[doc = prefix_arguments!()]
    #[doc = collective_arguments!()]
    ///
    /// Returns:
    ///     The reduction of the arrays of ranks 0 to `rank`. With `async_op=True` a `Work` whose `result()`
    ///     returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.scan(np.array([1, 2]), async_op=True)
    ///     >>> b.scan(np.array([10, 20]))
    ///     array([11, 22])
    ///     >>> work.result()
    ///     array([1, 2])
    #[pyo3(signature = (send, out=None, *, op=OpArgument::sum(), factor=None, algorithm=None, timeout=None, async_op=false), text_signature = "($self, send, out=None, *, op=\"sum\", factor=None, algorithm=None, timeout=None, async_op=False)")]
    fn scan(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: OpArgument<'_>,
        factor: Option<Number>,
        algorithm: Option<By<'_>>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: Precision::Exact, timeout, async_op };
        self.collective(py, Collective::Scan, Some(send), out, None, op.reduction(factor)?, how)
    }

    /// Reduces an array over the ranks before this one, element by element (an exclusive prefix sum).
    ///
    /// By the same algorithm, floats are added in the same order in every run.
    ///
    /// Args:
    ///     send: This rank's contribution; the same shape and dtype on all ranks.
    ///     out: An array for the result, of the shape and dtype of `send`. `send` itself: in place. None: a
    ///         new array. Rank 0 needs none, and its `out` stays as it is.
    #[doc = prefix_arguments!()]
    #[doc = collective_arguments!()]
    ///
    /// Returns:
    ///     The reduction of the arrays of ranks 0 to `rank - 1`; None on rank 0. With `async_op=True` a `Work`
    ///     whose `result()` returns it.
    ///
    /// Raises:
    #[doc = collective_errors!()]
    ///
    /// Example:
    ///     Where each rank's rows begin in a common file:
    ///
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = a.exscan(300, async_op=True)
    ///     >>> b.exscan(200)
    ///     array(300)
    ///     >>> work.result() is None
    ///     True
    #[pyo3(signature = (send, out=None, *, op=OpArgument::sum(), factor=None, algorithm=None, timeout=None, async_op=false), text_signature = "($self, send, out=None, *, op=\"sum\", factor=None, algorithm=None, timeout=None, async_op=False)")]
    fn exscan(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: OpArgument<'_>,
        factor: Option<Number>,
        algorithm: Option<By<'_>>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = CallOptions { algorithm, precision: Precision::Exact, timeout, async_op };
        self.collective(py, Collective::Exscan, Some(send), out, None, op.reduction(factor)?, how)
    }
}
