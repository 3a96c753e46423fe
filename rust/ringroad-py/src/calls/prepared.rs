//! `PreparedCall`: a collective that is prepared once and started often.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringroad_core::Collective;
use ringroad_runtime::calls::call::Prepared;
use ringroad_runtime::Request;

use super::collectives::OnArrays;
use super::run::{precision, CallOptions};
use super::work::PyWork;
use crate::arguments::{argument, duration, Number, Text};
use crate::arrays::array::Array;
use crate::arrays::operation::{OpArgument, PLAIN};
use crate::communicator::PyCommunicator;
use crate::interpreter::errors::raise;
use crate::values::given::By;

/// A collective on certain arrays that is prepared once and started often: what `Communicator.prepare`
/// returns.
///
/// Every start reads the arrays' values of that moment and writes the same output. All ranks start it
/// together, or make the same call in the usual way.
///
/// Example:
///     >>> a, b = ringroad.Communicator.in_process(2)
///     >>> x, y = np.zeros(2), np.zeros(2)
///     >>> calls = a.prepare("allreduce", x, x), b.prepare("allreduce", y, y)
///     >>> for step in range(3):
///     ...     x.fill(step)
///     ...     y.fill(10 * step)
///     ...     works = [call.start() for call in calls]
///     ...     results = [work.result() for work in works]
///     >>> x
///     array([22., 22.])
#[pyclass(name = "PreparedCall", module = "ringroad", frozen)]
pub struct PyPreparedCall {
    communicator: Py<PyCommunicator>,
    call: OnArrays,
    prepared: Arc<Prepared>,
    timeout: Option<Number>,
    last: Mutex<Last>,
}

/// How far the last start has come.
#[derive(Default)]
enum Last {
    #[default]
    Nothing,
    /// A thread is about to start the call, or waits for its end.
    Starting,
    Started(Py<PyWork>),
}

impl Last {
    fn has_ended(&self) -> bool {
        match self {
            Last::Nothing => true,
            Last::Starting => false,
            Last::Started(work) => work.get().work.result().is_some(),
        }
    }
}

impl PyPreparedCall {
    fn make(&self, py: Python<'_>, async_op: bool) -> PyResult<Py<PyAny>> {
        if !self.begin() {
            return Err(PyValueError::new_err(format!(
                "{} has been started and has not ended; wait for its Work before the next start",
                self.prepared
            )));
        }
        let outcome = self.call.outcome(py);
        let mut request = Request { prepared: Some(self.prepared.clone()), ..self.call.request(py) };
        let precision = self.prepared.key.precision;
        let how = CallOptions { algorithm: None, precision, timeout: self.timeout, async_op };
        let made = self.communicator.get().run_to(py, &mut request, how, outcome);
        let work = made.as_ref().ok().and_then(|made| made.bind(py).cast::<PyWork>().ok());
        self.set(work.map_or(Last::Nothing, |work| Last::Started(work.clone().unbind())));
        made
    }

    /// Notes that this thread starts the call. Returns whether it may.
    fn begin(&self) -> bool {
        let ended = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.has_ended().then(|| std::mem::replace(&mut *last, Last::Starting))
        };
        ended.is_some()
    }

    /// What was there before is dropped after the lock is released, since that may run Python code.
    fn set(&self, new: Last) {
        let _old = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *last, new)
        };
    }
}

#[pymethods]
impl PyPreparedCall {
    /// Starts the call.
    ///
    /// Returns:
    ///     A `Work`, as a call with `async_op=True` returns it.
    ///
    /// Raises:
    ///     ValueError: The last start has not ended, or another thread runs the call.
    ///     AbortedError: The communicator failed, was aborted or was closed.
    fn start(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.make(py, true)
    }

    /// Makes the call and waits for its end.
    ///
    /// Returns:
    ///     The output; None on ranks that have none.
    ///
    /// Raises:
    ///     ValueError: A start has not ended, or another thread runs the call.
    #[doc = call_errors!()]
    fn run(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.make(py, false)
    }

    /// The name of the algorithm that the call runs.
    #[getter]
    fn algorithm(&self) -> &str {
        &self.prepared.algorithm
    }

    fn __repr__(&self) -> String {
        format!("<PreparedCall {}>", self.prepared)
    }
}

#[pymethods]
impl PyCommunicator {
    /// Prepares a collective on certain arrays, to start it often.
    ///
    /// Arguments are checked, the algorithm is chosen and its schedule made now, so that the first start takes
    /// no longer than the others. It sends nothing: other ranks need not prepare their calls.
    ///
    /// Args:
    ///     collective: Its name, such as "allreduce" or "alltoall".
    ///     send: The input, as for the collective's method; for a broadcast, the array. It must be a
    ///         C-contiguous array, since every start reads it. Ranks without an input pass None.
    ///     out: The output, as for the collective's method; C-contiguous. None: a new array, which every start overwrites.
    ///     counts: The numbers of rows, as for the collective's method. None: blocks of equal length. If the
    ///         collective has no blocks, as an allreduce: the lengths of the arrays that lie side by side in
    ///         `send`; ranks that pass others make different calls.
    ///     root: The root of a broadcast, reduce, gather or scatter.
    ///     op: The reduction of an allreduce, reduce-scatter or reduce.
    ///     factor: This rank's factor in a "premul_sum".
    ///     algorithm: The name of the algorithm to run, a `Schedule` of your own, or the path of its file; the
    ///         same on all ranks. None: the algorithm that `algorithm_for` names.
    #[doc = wire_arguments!()]
    ///     timeout: Seconds after which a start fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     The prepared call. It keeps the arrays and the communicator alive.
    ///
    /// Raises:
    #[doc = array_errors!()]
    ///     ScheduleError: `algorithm` is unknown, or does not run on this network.
    ///     AbortedError: This process was forked from the one that made the communicator.
    ///
    /// Example:
    ///     >>> (alone,) = ringroad.Communicator.in_process(1)
    ///     >>> x = np.arange(3)
    ///     >>> call = alone.prepare("allreduce", x, op="max")
    ///     >>> call.run()
    ///     array([0, 1, 2])
    ///     >>> x += 10
    ///     >>> call.start().result()
    ///     array([10, 11, 12])
    #[pyo3(signature = (collective, send=None, out=None, *, counts=None, root=0, op=OpArgument::sum(), factor=None, algorithm=None, wire=None, max_error=None, timeout=None), text_signature = "($self, collective, send=None, out=None, *, counts=None, root=0, op=\"sum\", factor=None, algorithm=None, wire=None, max_error=None, timeout=None)")]
    fn prepare<'py>(
        slf: &Bound<'py, Self>,
        collective: Text<'_>,
        send: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
        counts: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = argument)] root: usize,
        op: OpArgument<'_>,
        factor: Option<Number>,
        algorithm: Option<By<'_>>,
        wire: Option<Text<'_>>,
        max_error: Option<Number>,
        timeout: Option<Number>,
    ) -> PyResult<PyPreparedCall> {
        let communicator = &slf.get().0;
        let collective = collective.parse::<Collective>().map_err(raise)?.with_root(root);
        let reduction = match (collective.reduces(), factor) {
            (true, _) => op.reduction(factor)?,
            (false, None) if op.is_sum() => PLAIN,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "{collective} reduces nothing; it takes no op or factor"
                )))
            }
        };
        let out = match collective {
            Collective::Broadcast { .. } => out.or(send),
            _ => out,
        };
        duration(timeout)?;
        let mut call =
            slf.get().on_arrays([Array::new, Array::writable], collective, send, out, counts, reduction)?;
        call.key.algorithm = algorithm.map(|by| by.member(slf.py())).transpose()?;
        call.key.precision = precision(wire, max_error)?;
        let request = call.request(slf.py());
        let prepared = slf.py().detach(|| communicator.prepare(request)).map_err(raise)?;
        let communicator = slf.clone().unbind();
        Ok(PyPreparedCall { communicator, call, prepared, timeout, last: Mutex::default() })
    }
}
