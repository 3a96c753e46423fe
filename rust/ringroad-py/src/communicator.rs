//! `Communicator`: arrays in, arrays out.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use ringroad_core::collective::Holding;
use ringroad_core::cost::Measurement;
use ringroad_core::plan::Counts;
use ringroad_core::Collective;
use ringroad_runtime::bootstrap::Handle;
use ringroad_runtime::config::Config;
use ringroad_runtime::planner::Choices;
use ringroad_runtime::profile::Profile;
use ringroad_runtime::{Called, Communicator, DType, Memory, Operation, Options, ReduceOp, Request, Work};

use crate::array::{self, check_address, memory, Array, Owner};
use crate::cost::PyCostModel;
use crate::errors::{raise, whole};
use crate::explanation::PyExplanation;
use crate::profile::PyProfile;
use crate::regroup::interruptible;
use crate::shutdown;
use crate::store::store_of;
use crate::tensor::Tensor;
use crate::topology::TopologyArgument;
use crate::work::{duration, wait_until, PyWork};

/// Arrays of so many bytes are kept alive each on its own.
const APART: usize = 64 << 10;

/// A group of processes that call collectives together.
#[pyclass(name = "Communicator", module = "ringroad", frozen, weakref)]
pub struct PyCommunicator(Communicator);

/// What the keyword arguments of a call say.
struct How {
    op: ReduceOp,
    algorithm: Option<String>,
    timeout: Option<f64>,
    async_op: bool,
    /// Rows of each rank's block, where they differ.
    counts: Option<Vec<usize>>,
}

impl How {
    fn new(algorithm: Option<String>, timeout: Option<f64>, async_op: bool) -> How {
        How { op: ReduceOp::Sum, algorithm, timeout, async_op, counts: None }
    }

    fn uneven(self, counts: Vec<usize>) -> How {
        How { counts: Some(counts), ..self }
    }

    fn reducing(self, op: &str, factor: Option<f64>) -> PyResult<How> {
        Ok(How { op: reduce_op(op, factor)?, ..self })
    }
}

fn reduce_op(op: &str, factor: Option<f64>) -> PyResult<ReduceOp> {
    match (op, factor) {
        ("premul_sum", Some(factor)) => Ok(ReduceOp::PremulSum(factor)),
        ("premul_sum", None) => Err(PyValueError::new_err("op='premul_sum' needs factor=")),
        (_, Some(_)) => Err(PyValueError::new_err(format!("factor= goes with op='premul_sum', not {op:?}"))),
        (op, None) => op.parse().map_err(raise),
    }
}

fn root(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole(object, "root")
}

fn peer(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole(object, "peer")
}

fn any_peer(object: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    (!object.is_none()).then(|| peer(object)).transpose()
}

fn tag(object: &Bound<'_, PyAny>) -> PyResult<u32> {
    whole(object, "tag")
}

fn elements(object: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole(object, "elements")
}

/// So many elements in bytes.
fn bytes_of(elements: usize, blocks: usize, dtype: DType) -> PyResult<usize> {
    let bytes = elements.checked_mul(blocks).and_then(|elements| elements.checked_mul(dtype.size()));
    bytes.ok_or_else(|| PyValueError::new_err(format!("elements is too large: {elements}")))
}

/// `peer` is `None` for whoever sends first.
fn receive(peer: Option<usize>, tag: u32) -> Operation {
    peer.map_or(Operation::ReceiveAny { tag }, |peer| Operation::Receive { peer, tag })
}

pub fn options(
    timeout: Option<f64>,
    topology: Option<TopologyArgument<'_>>,
    algorithm: Option<String>,
    deterministic: Option<&str>,
    name: String,
) -> PyResult<Options> {
    let topology = topology.map(TopologyArgument::resolve).transpose()?;
    let size_invariant = match deterministic {
        None => None,
        Some("size-invariant") => Some(true),
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "deterministic={other:?} makes no sense; write \"size-invariant\" or None"
            )));
        }
    };
    Ok(Options { name, timeout: duration(timeout)?, topology, algorithm, size_invariant })
}

impl PyCommunicator {
    pub fn new(communicator: Communicator) -> PyCommunicator {
        shutdown::remember(communicator.closer());
        PyCommunicator(communicator)
    }

    /// Runs a request; returns its result, or the handle of the call.
    fn run(
        &self,
        py: Python<'_>,
        mut request: Request,
        how: How,
        result: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        request.op = how.op;
        request.algorithm = how.algorithm;
        request.timeout = duration(how.timeout)?;
        if how.async_op {
            let work = py.detach(|| self.0.start(request).inspect(Work::in_background)).map_err(raise)?;
            return Ok(Py::new(py, PyWork { work, result })?.into_any());
        }
        if let Called::InFlight(work) = py.detach(|| self.0.call(request)).map_err(raise)? {
            if let Err(interrupt) = wait_until(py, &work, None) {
                // The caller takes the arrays back, so the call must not go on, here or anywhere.
                let _ = py.detach(|| self.0.abort("interrupted by a signal"));
                return Err(interrupt);
            }
            work.result().unwrap_or(Ok(())).map_err(raise)?;
        }
        Ok(result.unwrap_or_else(|| py.None()))
    }

    /// Runs a collective on blocks of memory: `elements` are the vector's, or a block's.
    fn run_blocks(
        &self,
        py: Python<'_>,
        collective: Collective,
        [input, output]: [usize; 2],
        elements: usize,
        dtype: DType,
        owner: Owner,
        how: How,
    ) -> PyResult<Py<PyAny>> {
        let block = bytes_of(elements, 1, dtype)?;
        let whole = bytes_of(elements, collective.blocks_per_vector(self.0.size()), dtype)?;
        let bytes = |holding| match holding {
            Holding::Nothing => 0,
            Holding::Block(_) => block,
            Holding::Whole => whole,
        };
        let (from, to) = (bytes(collective.input(self.0.rank())), bytes(collective.output(self.0.rank())));
        let sides = (collective.input(self.0.rank()), collective.output(self.0.rank()));
        let before = self.0.rank() * block;
        check_address("input", input, from)?;
        check_address("output", output, to)?;
        let in_place =
            from > 0 && to > 0 && in_place((input, input + from), (output, output + to), sides, before)?;
        let (input, output) = if in_place {
            let (address, bytes) = if from > to { (input, from) } else { (output, to) };
            (Memory::nothing(), memory(address, bytes, owner))
        } else {
            (memory(input, from, owner.clone()), memory(output, to, owner))
        };
        let mut request = Request::new(Operation::Collective(collective), dtype, elements, input, output);
        request.in_place = in_place;
        self.run(py, request, how, None)
    }

    /// A collective on arrays: checks shapes, makes the output where there is none, and sees what is in place.
    fn collective(
        &self,
        py: Python<'_>,
        collective: Collective,
        send: Option<&Bound<'_, PyAny>>,
        out: Option<&Bound<'_, PyAny>>,
        how: How,
    ) -> PyResult<Py<PyAny>> {
        let (rank, size) = (self.0.rank(), self.0.size());
        if let Some(root) = collective.root().filter(|root| *root >= size) {
            return Err(PyValueError::new_err(format!("root {root} is not one of the ranks 0..{size}")));
        }
        let (input, output) = (collective.input(rank), collective.output(rank));
        let send = match send {
            Some(object) if input != Holding::Nothing => Some(Array::new(object, "send")?),
            None if input != Holding::Nothing => {
                return Err(PyTypeError::new_err(format!("rank {rank} must pass send to {collective}")));
            }
            _ => None,
        };
        let counts = how.counts.as_deref();
        let (elements, shape) = match (counts, &send) {
            (Some(counts), Some(send)) => {
                let (elements, shape) = self.uneven_shapes(collective, send, counts)?;
                (elements, Cow::Owned(shape))
            }
            _ => self.shapes(collective, send.as_ref())?,
        };
        // The elements that lie before this rank's block, of a collective that may be in place.
        let row = |send: &Array<'_>| send.shape()[1..].iter().product::<usize>();
        let counts: Option<Arc<[usize]>> = counts
            .zip(send.as_ref())
            .map(|(c, send)| c.iter().map(|count| count.saturating_mul(row(send))).collect());
        let before = match &counts {
            // Not in place.
            Some(_) if collective == Collective::Alltoall => 0,
            Some(counts) => counts[..rank].iter().sum(),
            None => rank * elements,
        };
        let out = match (out, output, &send) {
            (_, Holding::Nothing, _) => None,
            // In place.
            (Some(object), _, Some(array)) if array.is(object) => {
                array.check_writable("out")?;
                Some(array.clone())
            }
            (Some(object), ..) => Some(Array::writable(object, "out")?),
            (None, _, Some(send)) => Some(send.empty(&shape)?),
            (None, _, None) => {
                return Err(PyTypeError::new_err(format!(
                    "rank {rank} must pass out to {collective}, since only the root knows the shape"
                )));
            }
        };
        let (dtype, elements) = match (&send, &out) {
            (Some(send), Some(out)) => {
                if out.dtype != send.dtype || *out.shape() != *shape {
                    return Err(PyValueError::new_err(format!(
                        "out must be {} of shape {shape:?}, not {} of shape {:?}",
                        send.dtype,
                        out.dtype,
                        out.shape()
                    )));
                }
                (send.dtype, elements)
            }
            (Some(send), None) => (send.dtype, elements),
            (None, Some(out)) => (out.dtype, out.elements),
            (None, None) => unreachable!("every rank has an input or an output"),
        };
        let in_place = match (&send, &out) {
            (Some(send), Some(out)) if send.bytes() > 0 => {
                in_place(send.range(), out.range(), (input, output), before * dtype.size())?
            }
            _ => false,
        };
        let result = out.as_ref().map(Array::object);
        // Mostly the call ends before these are dropped, so that their share is the last one and goes while the GIL is
        // held. Short arrays have one owner; of long ones others may go on reading the input after the call.
        let owner: Owner = Arc::new([send.as_ref().map(Array::object), out.as_ref().map(Array::object)]);
        let take = |array: Option<Array<'_>>, owner: Owner| match array {
            None => Memory::nothing(),
            Some(array) if array.bytes() < APART => array.memory(owner),
            Some(array) => array.memory(Arc::new(array.object())),
        };
        let (input, output) = if in_place {
            let larger = if matches!(output, Holding::Block(_)) { send } else { out };
            (Memory::nothing(), take(larger, owner))
        } else {
            (take(send, owner.clone()), take(out, owner))
        };
        let mut request = Request::new(Operation::Collective(collective), dtype, elements, input, output);
        (request.in_place, request.counts) = (in_place, counts);
        self.run(py, request, how, result)
    }

    /// As [`PyCommunicator::shapes`], where blocks have so many rows each.
    fn uneven_shapes(
        &self,
        collective: Collective,
        send: &Array<'_>,
        counts: &[usize],
    ) -> PyResult<(usize, Vec<usize>)> {
        let (rank, size) = (self.0.rank(), self.0.size());
        let each = Counts::PerBlock(counts);
        if !each.fits(collective, size) {
            let what = format!("counts must have one number for each of {size} ranks, not {}", counts.len());
            return Err(PyValueError::new_err(what));
        }
        let lengths = each.total(collective, size).and(each.lengths(collective, size, rank));
        let [expected, result] =
            lengths.ok_or_else(|| PyValueError::new_err("the sum of counts is too large"))?;
        match send.shape() {
            [first, rest @ ..] if *first == expected => {
                let shape = [&[result], rest].concat();
                Ok((0, shape))
            }
            other => Err(PyValueError::new_err(format!(
                "rank {rank} must pass {expected} rows as counts say, not an array of shape {other:?}"
            ))),
        }
    }

    /// The counts of all pairs, by source, then by target.
    fn matrix(&self, counts: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let size = self.0.size();
        let bad = |what: String| {
            PyValueError::new_err(format!("counts must be {size} by {size} whole numbers from 0 on, {what}"))
        };
        let rows: Vec<Vec<i64>> = counts.extract().map_err(|error| bad(format!("but: {error}")))?;
        if rows.len() != size || rows.iter().any(|row| row.len() != size) {
            let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
            return Err(bad(format!("by source, then by target, not rows of {lengths:?}")));
        }
        let whole = |(place, count): (usize, i64)| {
            let (source, target) = (place / size, place % size);
            let error = || bad(format!("but rank {source} has {count} for rank {target}"));
            usize::try_from(count).map_err(|_| error())
        };
        rows.into_iter().flatten().enumerate().map(whole).collect()
    }

    /// How many elements the call has (see [`Request`]), and the shape of the output.
    fn shapes<'a>(
        &self,
        collective: Collective,
        send: Option<&'a Array<'_>>,
    ) -> PyResult<(usize, Cow<'a, [usize]>)> {
        let (rank, size) = (self.0.rank(), self.0.size());
        let Some(send) = send else { return Ok((0, Cow::Borrowed(&[]))) };
        let shape = send.shape();
        match (collective.input(rank), collective.has_blocks()) {
            (Holding::Whole, true) => {
                let Some(first) = shape.first().filter(|first| **first % size == 0) else {
                    return Err(PyValueError::new_err(format!(
                        "{collective} over {size} ranks needs a first axis that is a multiple of {size}; send has shape {shape:?}"
                    )));
                };
                let mut out = Cow::Borrowed(shape);
                if collective != Collective::Alltoall {
                    out.to_mut()[0] = first / size;
                }
                Ok((send.elements / size, out))
            }
            (Holding::Block(_), _) => {
                let out = match shape {
                    [first, rest @ ..] => [&[first * size], rest].concat(),
                    [] => vec![size],
                };
                Ok((send.elements, Cow::Owned(out)))
            }
            _ => Ok((send.elements, Cow::Borrowed(shape))),
        }
    }

    fn message(
        &self,
        py: Python<'_>,
        operation: Operation,
        array: Array<'_>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let sends = matches!(operation, Operation::Send { .. });
        let owner: Owner = Arc::new(array.object());
        let memory = array.memory(owner.clone());
        let (input, output) = if sends { (memory, Memory::nothing()) } else { (Memory::nothing(), memory) };
        let request = Request::new(operation, array.dtype, array.elements, input, output);
        let result = (!sends).then(|| array.object());
        self.run(py, request, How::new(None, timeout, async_op), result)
    }
}

/// Whether the call is in place, by the addresses of both; `before` are the bytes before this rank's block. Arrays that overlap in any other way are an error.
fn in_place(
    send: (usize, usize),
    out: (usize, usize),
    sides: (Holding, Holding),
    before: usize,
) -> PyResult<bool> {
    if send.0 >= out.1 || out.0 >= send.1 {
        return Ok(false);
    }
    let natural = match sides {
        (Holding::Block(_), Holding::Whole) => send.0 == out.0 + before,
        (Holding::Whole, Holding::Block(_)) => out.0 == send.0 + before,
        _ => send == out,
    };
    if natural {
        Ok(true)
    } else {
        Err(PyValueError::new_err(
            "send and out overlap; they must be apart, or equal, or one must be this rank's block of the other",
        ))
    }
}

#[pymethods]
impl PyCommunicator {
    #[new]
    #[pyo3(signature = (store, rank, size, *, timeout=None, topology=None, algorithm=None, deterministic=None, name="world".to_owned(), ucx_wheel=None))]
    fn connect(
        py: Python<'_>,
        store: &Bound<'_, PyAny>,
        rank: usize,
        size: usize,
        timeout: Option<f64>,
        topology: Option<TopologyArgument<'_>>,
        algorithm: Option<String>,
        deterministic: Option<&str>,
        name: String,
        ucx_wheel: Option<PathBuf>,
    ) -> PyResult<Self> {
        let store = store_of(store)?;
        let config = Config::from_env().map_err(raise)?;
        let options = options(timeout, topology, algorithm, deterministic, name)?;
        let communicator =
            py.detach(|| Communicator::connect(store.clone(), rank, size, ucx_wheel, &config, &options));
        Ok(PyCommunicator::new(store.outcome(py, communicator)?))
    }

    #[staticmethod]
    #[pyo3(signature = (size, *, timeout=None, topology=None, algorithm=None, deterministic=None))]
    fn in_process(
        size: usize,
        timeout: Option<f64>,
        topology: Option<TopologyArgument<'_>>,
        algorithm: Option<String>,
        deterministic: Option<&str>,
    ) -> PyResult<Vec<Self>> {
        let config = Config::from_env().map_err(raise)?;
        let options = options(timeout, topology, algorithm, deterministic, String::new())?;
        let group = Communicator::in_process(size, &config, &options).map_err(raise)?;
        Ok(group.into_iter().map(PyCommunicator::new).collect())
    }

    #[getter]
    fn rank(&self) -> usize {
        self.0.rank()
    }

    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn meeting(&self) -> String {
        format!("{:016x}", self.0.cards()[0].instance)
    }

    #[getter]
    fn timeout(&self) -> f64 {
        self.0.timeout().as_secs_f64()
    }

    #[getter]
    fn topology(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.choices()).topology.spec()
    }

    #[getter]
    fn has_switches(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.choices()).topology.nodes() > self.0.size()
    }

    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.transport()).map_err(raise)
    }

    #[getter]
    fn hosts(&self) -> Vec<String> {
        self.0.cards().iter().map(|c| c.host.clone()).collect()
    }

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

    #[pyo3(signature = (send, out=None, *, op="sum", factor=None, algorithm=None, timeout=None, async_op=false))]
    fn allreduce(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: &str,
        factor: Option<f64>,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How::new(algorithm, timeout, async_op).reducing(op, factor)?;
        self.collective(py, Collective::Allreduce, Some(send), out, how)
    }

    #[pyo3(signature = (send, out=None, *, op="sum", factor=None, algorithm=None, timeout=None, async_op=false))]
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: &str,
        factor: Option<f64>,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How::new(algorithm, timeout, async_op).reducing(op, factor)?;
        self.collective(py, Collective::ReduceScatter, Some(send), out, how)
    }

    #[pyo3(signature = (send, out=None, *, algorithm=None, timeout=None, async_op=false))]
    fn allgather(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        self.collective(py, Collective::Allgather, Some(send), out, How::new(algorithm, timeout, async_op))
    }

    #[pyo3(signature = (send, counts, out=None, *, op="sum", factor=None, algorithm=None, timeout=None, async_op=false))]
    fn reduce_scatter_v(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        counts: Vec<usize>,
        out: Option<&Bound<'_, PyAny>>,
        op: &str,
        factor: Option<f64>,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How::new(algorithm, timeout, async_op).reducing(op, factor)?.uneven(counts);
        self.collective(py, Collective::ReduceScatter, Some(send), out, how)
    }

    #[pyo3(signature = (send, counts, out=None, *, algorithm=None, timeout=None, async_op=false))]
    fn allgather_v(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        counts: Vec<usize>,
        out: Option<&Bound<'_, PyAny>>,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How::new(algorithm, timeout, async_op).uneven(counts);
        self.collective(py, Collective::Allgather, Some(send), out, how)
    }

    #[pyo3(signature = (send, counts, out=None, *, algorithm=None, timeout=None, async_op=false))]
    fn alltoall_v(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How::new(algorithm, timeout, async_op).uneven(self.matrix(counts)?);
        self.collective(py, Collective::Alltoall, Some(send), out, how)
    }

    #[pyo3(signature = (array, root=0, *, algorithm=None, timeout=None, async_op=false))]
    fn broadcast(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = root)] root: usize,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How::new(algorithm, timeout, async_op);
        self.collective(py, Collective::Broadcast { root }, Some(array), Some(array), how)
    }

    #[pyo3(signature = (send, out=None, root=0, *, op="sum", factor=None, algorithm=None, timeout=None, async_op=false))]
    fn reduce(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = root)] root: usize,
        op: &str,
        factor: Option<f64>,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How::new(algorithm, timeout, async_op).reducing(op, factor)?;
        self.collective(py, Collective::Reduce { root }, Some(send), out, how)
    }

    #[pyo3(signature = (send, out=None, root=0, *, algorithm=None, timeout=None, async_op=false))]
    fn gather(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = root)] root: usize,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How::new(algorithm, timeout, async_op);
        self.collective(py, Collective::Gather { root }, Some(send), out, how)
    }

    #[pyo3(signature = (send, out=None, root=0, *, algorithm=None, timeout=None, async_op=false))]
    fn scatter(
        &self,
        py: Python<'_>,
        send: Option<&Bound<'_, PyAny>>,
        out: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = root)] root: usize,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        self.collective(py, Collective::Scatter { root }, send, out, How::new(algorithm, timeout, async_op))
    }

    #[pyo3(signature = (send, out=None, *, algorithm=None, timeout=None, async_op=false))]
    fn alltoall(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        algorithm: Option<String>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        self.collective(py, Collective::Alltoall, Some(send), out, How::new(algorithm, timeout, async_op))
    }

    #[pyo3(signature = (array, peer, tag=0, *, timeout=None, async_op=false))]
    fn send(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = peer)] peer: usize,
        #[pyo3(from_py_with = tag)] tag: u32,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        self.message(py, Operation::Send { peer, tag }, Array::new(array, "array")?, timeout, async_op)
    }

    #[pyo3(signature = (out, peer=None, tag=0, *, timeout=None, async_op=false))]
    fn recv(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = any_peer)] peer: Option<usize>,
        #[pyo3(from_py_with = tag)] tag: u32,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        self.message(py, receive(peer, tag), Array::writable(out, "out")?, timeout, async_op)
    }

    #[pyo3(signature = (*, timeout=None, async_op=false))]
    fn barrier(&self, py: Python<'_>, timeout: Option<f64>, async_op: bool) -> PyResult<Py<PyAny>> {
        let request = Request::barrier();
        let how = How { op: request.op, ..How::new(None, timeout, async_op) };
        self.run(py, request, how, None)
    }

    #[pyo3(signature = (collective, input, output, elements, dtype, owner, *, op="sum", factor=None, root=0, timeout=None, async_op=false))]
    fn run_raw(
        &self,
        py: Python<'_>,
        collective: &str,
        input: usize,
        output: usize,
        #[pyo3(from_py_with = elements)] elements: usize,
        dtype: &str,
        owner: Py<PyAny>,
        op: &str,
        factor: Option<f64>,
        #[pyo3(from_py_with = root)] root: usize,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let collective = match collective {
            "send" | "recv" => {
                let address = if collective == "send" { input } else { output };
                return self.run_raw_tagged(
                    py,
                    collective,
                    address,
                    elements,
                    dtype,
                    owner,
                    Some(root),
                    0,
                    timeout,
                    async_op,
                );
            }
            "barrier" => return self.barrier(py, timeout, async_op),
            name => name.parse::<Collective>().map_err(raise)?.with_root(root),
        };
        let dtype: DType = dtype.parse().map_err(raise)?;
        let how = How::new(None, timeout, async_op).reducing(op, factor)?;
        self.run_blocks(py, collective, [input, output], elements, dtype, Arc::new(owner), how)
    }

    #[pyo3(signature = (collective, input, output, *, op="sum", factor=None, root=0, timeout=None, async_op=false))]
    fn run_tensors(
        &self,
        py: Python<'_>,
        collective: &str,
        input: &Bound<'_, PyAny>,
        output: &Bound<'_, PyAny>,
        op: &str,
        factor: Option<f64>,
        #[pyo3(from_py_with = root)] root: usize,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let collective = collective.parse::<Collective>().map_err(raise)?.with_root(root);
        let blocks = [Tensor::new(input), Tensor::new(output)];
        let ([Some(from), Some(to)], true) = (&blocks, root < self.0.size()) else {
            return Ok(py.NotImplemented());
        };
        let (rank, per_vector) = (self.0.rank(), collective.blocks_per_vector(self.0.size()));
        // Of a block, as each side has it: they must agree.
        let elements = |tensor: &Tensor, holding| match holding {
            Holding::Nothing => None,
            Holding::Block(_) => Some((tensor.elements, 0)),
            Holding::Whole => Some((tensor.elements / per_vector, tensor.elements % per_vector)),
        };
        let sides = [elements(from, collective.input(rank)), elements(to, collective.output(rank))];
        let agreed = match sides {
            [Some(from), Some(to)] if from != to => None,
            [from, to] => from.or(to),
        };
        let Some((elements, 0)) = agreed.filter(|_| from.dtype == to.dtype) else {
            return Ok(py.NotImplemented());
        };
        let how = How::new(None, timeout, async_op).reducing(op, factor)?;
        let owner = Arc::new((input.clone().unbind(), output.clone().unbind()));
        self.run_blocks(py, collective, [from.address, to.address], elements, from.dtype, owner, how)
    }

    #[pyo3(signature = (input, output, counts, dtype, owner, *, timeout=None, async_op=false))]
    fn run_raw_alltoall_v(
        &self,
        py: Python<'_>,
        input: usize,
        output: usize,
        counts: &Bound<'_, PyAny>,
        dtype: &str,
        owner: Py<PyAny>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let dtype: DType = dtype.parse().map_err(raise)?;
        let counts = self.matrix(counts)?;
        let lengths = Counts::PerBlock(&counts).lengths(Collective::Alltoall, self.0.size(), self.0.rank());
        let bytes = lengths
            .and_then(|[from, to]| Some([from.checked_mul(dtype.size())?, to.checked_mul(dtype.size())?]));
        let [from, to] = bytes.ok_or_else(|| PyValueError::new_err("the sum of counts is too large"))?;
        check_address("input", input, from)?;
        check_address("output", output, to)?;
        let owner: Owner = Arc::new(owner);
        let (input, output) = (memory(input, from, owner.clone()), memory(output, to, owner));
        let mut request = Request::new(Operation::Collective(Collective::Alltoall), dtype, 0, input, output);
        request.counts = Some(counts.into());
        self.run(py, request, How::new(None, timeout, async_op), None)
    }

    #[pyo3(signature = (direction, address, elements, dtype, owner, peer, tag, *, timeout=None, async_op=false))]
    fn run_raw_tagged(
        &self,
        py: Python<'_>,
        direction: &str,
        address: usize,
        #[pyo3(from_py_with = elements)] elements: usize,
        dtype: &str,
        owner: Py<PyAny>,
        #[pyo3(from_py_with = any_peer)] peer: Option<usize>,
        #[pyo3(from_py_with = tag)] tag: u32,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let dtype: DType = dtype.parse().map_err(raise)?;
        let bytes = bytes_of(elements, 1, dtype)?;
        check_address("address", address, bytes)?;
        let data = memory(address, bytes, Arc::new(owner));
        let (operation, input, output) = match direction {
            "send" => {
                let peer = peer.ok_or_else(|| PyTypeError::new_err("send needs a peer"))?;
                (Operation::Send { peer, tag }, data, Memory::nothing())
            }
            "recv" => (receive(peer, tag), Memory::nothing(), data),
            other => {
                return Err(PyValueError::new_err(format!("direction {other:?} is neither send nor recv")))
            }
        };
        let request = Request::new(operation, dtype, elements, input, output);
        self.run(py, request, How::new(None, timeout, async_op), None)
    }

    #[pyo3(signature = (collective, bytes, *, dtype="float32", op="sum"))]
    fn algorithm_for(
        &self,
        py: Python<'_>,
        collective: &str,
        bytes: u64,
        dtype: &str,
        op: &str,
    ) -> PyResult<String> {
        let collective = collective.parse().map_err(raise)?;
        let op = reduce_op(op, (op == "premul_sum").then_some(1.0))?;
        let dtype = dtype.parse().map_err(raise)?;
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
        let collective = collective.parse().map_err(raise)?;
        let op = reduce_op(op, (op == "premul_sum").then_some(1.0))?;
        let dtype = dtype.parse().map_err(raise)?;
        let (model, found) =
            py.detach(|| (self.0.choices().model, self.0.explain(collective, bytes, op, dtype)));
        Ok(PyExplanation::new(model, found.map_err(raise)?))
    }

    #[getter]
    fn model(&self, py: Python<'_>) -> PyCostModel {
        PyCostModel(py.detach(|| self.0.choices()).model)
    }

    #[getter]
    fn profile(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.0.choices()).profile
    }

    #[pyo3(signature = (collective="allreduce"))]
    fn contestants(&self, py: Python<'_>, collective: &str) -> PyResult<Vec<String>> {
        let collective = collective.parse().map_err(raise)?;
        py.detach(|| self.0.choices().contestants(collective)).map_err(raise)
    }

    fn calibrate(
        &self,
        py: Python<'_>,
        measurements: Vec<(String, String, u64, f64)>,
    ) -> PyResult<PyProfile> {
        let measurement = |(collective, algorithm, bytes, seconds): (String, String, u64, f64)| {
            let collective = collective.parse().map_err(raise)?;
            Ok(Measurement { collective, algorithm, bytes, seconds })
        };
        let measurements = measurements.into_iter().map(measurement).collect::<PyResult<_>>()?;
        let made = py.detach(|| {
            let Choices { topology, model, place, .. } = self.0.choices();
            Profile::make(&topology, place, &model, measurements)
        });
        made.map(PyProfile).map_err(raise)
    }

    #[pyo3(signature = (collective="allreduce"))]
    fn switch_points(&self, py: Python<'_>, collective: &str) -> PyResult<Vec<(u64, String)>> {
        let choices = py.detach(|| self.0.choices());
        let ranges = choices.switch_points(collective.parse().map_err(raise)?);
        Ok(ranges.iter().map(|r| (r.from_bytes, r.algorithm.clone())).collect())
    }

    #[getter]
    fn handles(&self) -> Vec<Option<String>> {
        self.0.handles().into_iter().map(|handle| handle.map(Handle::to_text)).collect()
    }

    #[pyo3(signature = (flag, *, timeout=None))]
    fn agree(&self, py: Python<'_>, flag: bool, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = duration(timeout)?;
        Ok(interruptible(py, |go_on| self.0.agree(flag, timeout, go_on))?.vote)
    }

    #[pyo3(signature = (*, timeout=None))]
    fn survivors(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<usize>> {
        let timeout = duration(timeout)?;
        Ok(interruptible(py, |go_on| self.0.agree(true, timeout, go_on))?.alive)
    }

    #[pyo3(signature = (*, timeout=None))]
    fn shrink(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<PyCommunicator> {
        let timeout = duration(timeout)?;
        interruptible(py, |go_on| self.0.shrink(timeout, go_on)).map(PyCommunicator::new)
    }

    fn check_process(&self) -> PyResult<()> {
        self.0.check_process().map_err(raise)
    }

    fn lost(&self, py: Python<'_>) -> PyResult<Vec<(usize, String)>> {
        py.detach(|| self.0.lost()).map_err(raise)
    }

    #[pyo3(signature = (reason=""))]
    fn abort(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        py.detach(|| self.0.abort(reason)).map_err(raise)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
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
