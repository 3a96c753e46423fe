//! Calls on NumPy arrays: arrays in, arrays out.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use ringroad_core::Collective;
use ringroad_runtime::call::Side;
use ringroad_runtime::communicator::Given;
use ringroad_runtime::{CallKey, Memory, Operation, ReduceOp, Request};

use crate::array::{memory, Array, Owner};
use crate::calls::{any_peer, peer, reduction, root, tag, How};
use crate::communicator::PyCommunicator;
use crate::errors::raise;

/// Arrays of so many bytes are kept alive each on its own.
const APART: usize = 64 << 10;

/// The reduction of calls that reduce nothing.
const PLAIN: (ReduceOp, f64) = (ReduceOp::Sum, 1.0);

impl PyCommunicator {
    /// A collective on arrays; makes the output where there is none. `rows`: how many each block has, where they differ.
    fn collective(
        &self,
        py: Python<'_>,
        collective: Collective,
        send: Option<&Bound<'_, PyAny>>,
        out: Option<&Bound<'_, PyAny>>,
        rows: Option<Vec<usize>>,
        (op, factor): (ReduceOp, f64),
        how: How<'_>,
    ) -> PyResult<Py<PyAny>> {
        let (rank, size) = (self.0.rank(), self.0.size());
        let [has_input, has_output] = self.0.takes(collective).map_err(raise)?;
        let send = match send.filter(|_| has_input) {
            Some(object) => Some(Array::new(object, "send")?),
            None if has_input => {
                return Err(PyTypeError::new_err(format!("rank {rank} must pass send to {collective}")));
            }
            None => None,
        };
        let given = send.as_ref().map(|send| self.0.given(collective, send.shape(), rows.as_deref()));
        let given = given.transpose().map_err(raise)?;
        let out = match (out.filter(|_| has_output), &send, &given) {
            _ if !has_output => None,
            // In place.
            (Some(object), Some(array), _) if array.is(object) => {
                array.check_writable("out")?;
                Some(array.clone())
            }
            (Some(object), ..) => Some(Array::writable(object, "out")?),
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
                let Given { elements, counts, .. } = given;
                (send.dtype, elements, counts)
            }
            (_, _, Some(out)) => (out.dtype, out.elements, None),
            _ => unreachable!("every rank has an input or an output"),
        };
        let mut key = CallKey::new(Operation::Collective(collective), dtype, elements);
        (key.op, key.counts) = (op, counts);
        let address = |array: &Option<Array<'_>>| array.as_ref().map_or(0, Array::address);
        let [input, output] = key.locate(rank, size, [address(&send), address(&out)]).map_err(raise)?;
        let result = out.as_ref().map(Array::object);
        // Mostly the call ends before these are dropped, so that their share is the last one and goes while the GIL is
        // held. Short arrays have one owner, and so have those that overlap; of long ones others may go on reading the
        // input after the call.
        let owner: Owner = Arc::new([send.as_ref().map(Array::object), out.as_ref().map(Array::object)]);
        let lend = |side: Side, array: Option<Array<'_>>, owner: Owner| match array {
            Some(array) if side.bytes >= APART && !key.in_place => memory(side, Arc::new(array.object())),
            _ => memory(side, owner),
        };
        let input = if key.in_place { Memory::nothing() } else { lend(input, send, owner.clone()) };
        let output = lend(output, out, owner);
        let mut request = Request::of(key, input, output);
        request.factor = factor;
        self.run(py, request, how, result)
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
        let data = array.memory(Arc::new(array.object()));
        let (input, output) = if sends { (data, Memory::nothing()) } else { (Memory::nothing(), data) };
        let request = Request::new(operation, array.dtype, array.elements, input, output);
        let result = (!sends).then(|| array.object());
        self.run(py, request, How { algorithm: None, timeout, async_op }, result)
    }

    /// The counts of all pairs, by source, then by target.
    pub fn matrix(&self, counts: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let rows: Vec<Vec<i64>> = counts.extract().map_err(|error| {
            let size = self.0.size();
            PyValueError::new_err(format!(
                "counts must be {size} by {size} whole numbers from 0 on, but: {error}"
            ))
        })?;
        self.0.pairs(&rows).map_err(raise)
    }
}

#[pymethods]
impl PyCommunicator {
    #[pyo3(signature = (send, out=None, *, op="sum", factor=None, algorithm=None, timeout=None, async_op=false))]
    fn allreduce(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: &str,
        factor: Option<f64>,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::Allreduce, Some(send), out, None, reduction(op, factor)?, how)
    }

    #[pyo3(signature = (send, out=None, *, op="sum", factor=None, algorithm=None, timeout=None, async_op=false))]
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        op: &str,
        factor: Option<f64>,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::ReduceScatter, Some(send), out, None, reduction(op, factor)?, how)
    }

    #[pyo3(signature = (send, out=None, *, algorithm=None, timeout=None, async_op=false))]
    fn allgather(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::Allgather, Some(send), out, None, PLAIN, how)
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
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        let reduction = reduction(op, factor)?;
        self.collective(py, Collective::ReduceScatter, Some(send), out, Some(counts), reduction, how)
    }

    #[pyo3(signature = (send, counts, out=None, *, algorithm=None, timeout=None, async_op=false))]
    fn allgather_v(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        counts: Vec<usize>,
        out: Option<&Bound<'_, PyAny>>,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::Allgather, Some(send), out, Some(counts), PLAIN, how)
    }

    #[pyo3(signature = (send, counts, out=None, *, algorithm=None, timeout=None, async_op=false))]
    fn alltoall_v(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let (how, rows) = (How { algorithm, timeout, async_op }, self.matrix(counts)?);
        self.collective(py, Collective::Alltoall, Some(send), out, Some(rows), PLAIN, how)
    }

    #[pyo3(signature = (array, root=0, *, algorithm=None, timeout=None, async_op=false))]
    fn broadcast(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = root)] root: usize,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::Broadcast { root }, Some(array), Some(array), None, PLAIN, how)
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
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::Reduce { root }, Some(send), out, None, reduction(op, factor)?, how)
    }

    #[pyo3(signature = (send, out=None, root=0, *, algorithm=None, timeout=None, async_op=false))]
    fn gather(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = root)] root: usize,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::Gather { root }, Some(send), out, None, PLAIN, how)
    }

    #[pyo3(signature = (send, out=None, root=0, *, algorithm=None, timeout=None, async_op=false))]
    fn scatter(
        &self,
        py: Python<'_>,
        send: Option<&Bound<'_, PyAny>>,
        out: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = root)] root: usize,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::Scatter { root }, send, out, None, PLAIN, how)
    }

    #[pyo3(signature = (send, out=None, *, algorithm=None, timeout=None, async_op=false))]
    fn alltoall(
        &self,
        py: Python<'_>,
        send: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        algorithm: Option<&str>,
        timeout: Option<f64>,
        async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let how = How { algorithm, timeout, async_op };
        self.collective(py, Collective::Alltoall, Some(send), out, None, PLAIN, how)
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
        let operation = Operation::message("recv", peer, tag).map_err(raise)?;
        self.message(py, operation, Array::writable(out, "out")?, timeout, async_op)
    }
}
