//! Messages between two ranks.

use std::sync::Arc;

use pyo3::prelude::*;
use ringroad_runtime::{Called, DType, Memory, Message, Operation, Request, Work, PROC_NULL};

use super::received::{described, CallOutcome, Landing};
use super::run::plainly;
use super::work::PyWork;
use crate::arguments::{argument, duration, AnyTag, Number, PeerArgument, SourceArgument};
use crate::arrays::array::Array;
use crate::communicator::PyCommunicator;
use crate::interpreter::detached::Detached;
use crate::interpreter::errors::raise;
use crate::interpreter::signals::may_call;

fn sending(array: &Array<'_>, PeerArgument(peer): PeerArgument, tag: u32) -> Request {
    let memory = array.memory(Arc::new(array.object()));
    Request::new(Operation::Send { peer, tag }, array.dtype, array.elements, memory, Memory::nothing())
}

fn receiving(
    array: &Array<'_>,
    SourceArgument(peer): SourceArgument,
    AnyTag(tag): AnyTag,
) -> PyResult<Request> {
    let operation = Operation::message("recv", peer, tag).map_err(raise)?;
    let memory = array.memory(Arc::new(array.object()));
    let request = Request::new(operation, array.dtype, array.elements, Memory::nothing(), memory);
    Ok(Request { shorter: true, ..request })
}

/// A receive of a message of any length, into new memory.
pub fn bringing(dtype: DType, SourceArgument(peer): SourceArgument, AnyTag(tag): AnyTag) -> Request {
    let operation = match peer {
        Some(PROC_NULL) => Operation::Receive { peer: PROC_NULL, tag: tag.unwrap_or(0) },
        _ => Operation::ReceiveAny { peer, tag },
    };
    let mut request = Request::new(operation, dtype, 0, Memory::nothing(), Memory::nothing());
    request.key.allocates = true;
    request
}

impl PyCommunicator {
    /// Waits for a message.
    fn coming(
        &self,
        py: Python<'_>,
        peer: SourceArgument,
        tag: AnyTag,
        timeout: Option<Number>,
    ) -> PyResult<Message> {
        may_call()?;
        let timeout = duration(timeout)?;
        // Most messages of a task farm are there already.
        if let Some(message) = py.detach(|| self.0.glance(peer.0, tag.0)).map_err(raise)? {
            return Ok(message);
        }
        let operation = Operation::Probe { peer: peer.0, tag: tag.0 };
        let request = Request::new(operation, DType::U8, 0, Memory::nothing(), Memory::nothing());
        let request = Request { timeout, ..request };
        let called = py.detach(|| self.0.call(request)).map_err(raise)?;
        let (_, message) = self.ended(py, called)?;
        Ok(message.expect("a probe ends when a message has come"))
    }

    /// Makes a send and a receive at the same time. Returns the outcome of the receive, or a `Work` of both.
    pub fn exchange(
        &self,
        py: Python<'_>,
        [send, receive]: [Request; 2],
        timeout: Option<Number>,
        async_op: bool,
        outcome: CallOutcome,
    ) -> PyResult<Py<PyAny>> {
        let timeout = duration(timeout)?;
        let [send, receive] = [send, receive].map(|request| Request { timeout, ..request });
        if async_op {
            let start = || self.0.start_exchange(send, receive).inspect(Work::let_proceed);
            let work = Detached::new(py.detach(start).map_err(raise)?);
            return Ok(Py::new(py, PyWork { work, outcome })?.into_any());
        }
        let (called, work) = py.detach(|| self.0.exchange(send, receive)).map_err(raise)?;
        let (output, message) = self.ended(py, Called::InFlight(work))?;
        self.ended(py, called)?;
        Ok(outcome.result(py, message, || output)?.unwrap_or_else(|| py.None()))
    }
}

#[pymethods]
impl PyCommunicator {
    /// Sends an array to one rank, which receives it with `recv`.
    ///
    /// The receiver's array has the same dtype and at least as many elements; its shape does not count.
    ///
    /// The call completes when the array may be used again. A message of 2 MiB or more is not sent before
    /// its receiver has called `recv`.
    ///
    /// Args:
    ///     array: What is sent.
    ///     peer: The rank that receives, which may be this one. `ringroad.PROC_NULL`: nothing is sent.
    ///     tag: From 0 to 2**28 - 1; a `recv` takes messages of its own tag only.
    #[doc = call_arguments!()]
    ///
    /// Returns:
    ///     None. With `async_op=True` a `Work`.
    ///
    /// Raises:
    #[doc = message_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> a.send(np.array([1, 2]), peer=1)
    ///     >>> b.recv(np.zeros(2, int), peer=0)
    ///     array([1, 2])
    #[pyo3(signature = (array, peer, tag=0, *, timeout=None, async_op=false))]
    fn send(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        peer: PeerArgument,
        #[pyo3(from_py_with = argument)] tag: u32,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let mut request = sending(&Array::input(array, "array")?, peer, tag);
        self.run(py, &mut request, plainly(timeout, async_op))
    }

    /// Receives an array that a rank has sent with `send`.
    ///
    /// Args:
    ///     out: Where the message is written; it may be strided. It has the dtype of the array that is sent and at
    ///         least as many elements; its shape does not count. A shorter message fills its first elements. None: a
    ///         new one-dimensional array of the message's length and dtype; records and other types that are moved as
    ///         bytes come as uint8.
    ///     peer: The rank that sends. None or `ringroad.ANY`: any rank; the first message with this tag is
    ///         received. `ringroad.PROC_NULL`: nothing is received, and `out` stays as it is.
    ///     tag: From 0 to 2**28 - 1, as the sender passed it. `ringroad.ANY`: any tag.
    #[doc = call_arguments!()]
    ///
    /// Returns:
    ///     `out`; if the message is shorter, a one-dimensional array of the elements that came, which shares memory
    ///     with `out` if that is C-contiguous. None if nothing comes from `ringroad.PROC_NULL` and `out` is None. With
    ///     `async_op=True` a `Work` whose `result()` returns that; its `message` says who sent how much, with which tag.
    ///
    /// Raises:
    #[doc = message_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> work = b.recv(np.zeros(5, int), tag=ringroad.ANY, async_op=True)
    ///     >>> a.send(np.array([1, 2]), peer=1, tag=7)
    ///     >>> work.result(), work.message.source, work.message.tag
    ///     (array([1, 2]), 0, 7)
    #[pyo3(signature = (out=None, peer=SourceArgument(None), tag=AnyTag(Some(0)), *, timeout=None, async_op=false), text_signature = "(self, out=None, peer=None, tag=0, *, timeout=None, async_op=False)")]
    fn recv(
        &self,
        py: Python<'_>,
        out: Option<&Bound<'_, PyAny>>,
        peer: SourceArgument,
        tag: AnyTag,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let Some(out) = out else {
            let mut request = bringing(DType::OF_BYTES, peer, tag);
            return self.run_to(py, &mut request, plainly(timeout, async_op), CallOutcome::brought(false));
        };
        let array = Array::landing(out, "out")?;
        let landing = Landing::new(out.clone().unbind(), &array);
        let mut request = receiving(&array, peer, tag)?;
        drop(array);
        self.run_to(py, &mut request, plainly(timeout, async_op), CallOutcome::Received(landing))
    }

    /// Sends an array to one rank and receives one from another, or the same, at the same time.
    ///
    /// Rings and grids of ranks exchange their borders so: no rank waits for another to receive first.
    ///
    /// Args:
    ///     array: What is sent.
    ///     destination: The rank that receives it. `ringroad.PROC_NULL`: nothing is sent.
    ///     out: Where the other message is written, as for `recv`. `array` itself: in place. None: a new array of
    ///         the shape and dtype of `array`.
    ///     source: The rank that sends the other message. None or `ringroad.ANY`: any rank. `ringroad.PROC_NULL`:
    ///         nothing is received, and `out` stays as it is.
    ///     tag: The tag of both messages, from 0 to 2**28 - 1.
    ///     recv_tag: The tag of the message that is received, if it has another; `ringroad.ANY`: any tag.
    #[doc = call_arguments!()]
    ///
    /// Returns:
    ///     What `recv` returns. None if `source` is `ringroad.PROC_NULL` and `out` is None. With `async_op=True` a `Work`
    ///     that ends when both messages have: its `message` is the one that came.
    ///
    /// Raises:
    #[doc = message_errors!()]
    ///
    /// Example:
    ///     Each rank's number goes once around the ring:
    ///
    ///     >>> with ringroad.local(3) as cluster:
    ///     ...     def shift(comm):
    ///     ...         x = np.array([comm.rank])
    ///     ...         right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ///     ...         return comm.sendrecv(x, right, x, left)
    ///     ...     cluster.run(shift)
    ///     [array([2]), array([0]), array([1])]
    #[pyo3(signature = (array, destination, out=None, source=SourceArgument(None), tag=0, *, recv_tag=None, timeout=None, async_op=false), text_signature = "(self, array, destination, out=None, source=None, tag=0, *, recv_tag=None, timeout=None, async_op=False)")]
    fn sendrecv(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        destination: PeerArgument,
        out: Option<&Bound<'_, PyAny>>,
        source: SourceArgument,
        #[pyo3(from_py_with = argument)] tag: u32,
        recv_tag: Option<AnyTag>,
        timeout: Option<Number>,
        #[pyo3(from_py_with = argument)] async_op: bool,
    ) -> PyResult<Py<PyAny>> {
        let sent = Array::input(array, "array")?;
        let target = match out {
            Some(out) => Array::landing(out, "out")?,
            None => sent.empty(sent.shape())?,
        };
        let landing = Landing::new(out.map_or_else(|| target.object(), |out| out.clone().unbind()), &target);
        let sent = if sent.overlaps(&target) { sent.copy()? } else { sent };
        let send = sending(&sent, destination, tag);
        let receive = receiving(&target, source, recv_tag.unwrap_or(AnyTag(Some(tag))))?;
        let outcome = match (out, source) {
            (None, SourceArgument(Some(PROC_NULL))) => CallOutcome::Known(None),
            _ => CallOutcome::Received(landing),
        };
        self.exchange(py, [send, receive], timeout, async_op, outcome)
    }

    /// Waits until a message has come that `recv` would take, and leaves it there.
    ///
    /// Args:
    ///     peer: The rank that sends. None or `ringroad.ANY`: any rank. `ringroad.PROC_NULL`: an empty message of
    ///         nobody, at once.
    ///     tag: The sender's tag. `ringroad.ANY`: any tag.
    ///     timeout: Seconds after which the call fails. None: the communicator's `timeout`.
    ///
    /// Returns:
    ///     The message's source, tag, number of elements and dtype. Pass source and tag to `recv` to receive this
    ///     message, unless another thread receives messages from there, too.
    ///
    /// Raises:
    ///     ValueError: An argument has a wrong value, such as a rank that does not exist.
    #[doc = call_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> a.send(np.arange(3), peer=1, tag=5)
    ///     >>> b.probe(tag=5).count
    ///     3
    #[pyo3(signature = (peer=SourceArgument(None), tag=AnyTag(Some(0)), *, timeout=None), text_signature = "(self, peer=None, tag=0, *, timeout=None)")]
    fn probe<'py>(
        &self,
        py: Python<'py>,
        peer: SourceArgument,
        tag: AnyTag,
        timeout: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        described(py, &self.coming(py, peer, tag, timeout)?)
    }

    /// Returns the message that `recv` would take, if it has come, and leaves it there. Does not block.
    ///
    /// Args:
    ///     peer: As for `probe`.
    ///     tag: As for `probe`.
    ///
    /// Returns:
    ///     What `probe` returns, or None if no such message has come.
    ///
    /// Raises:
    ///     ValueError: An argument has a wrong value, such as a rank that does not exist.
    #[doc = call_errors!()]
    ///
    /// Example:
    ///     >>> a, b = ringroad.Communicator.in_process(2)
    ///     >>> b.iprobe() is None
    ///     True
    ///     >>> a.send(np.arange(3), peer=1)
    ///     >>> b.iprobe()
    ///     <Message of 3 int64 from rank 0 (tag 0)>
    #[pyo3(signature = (peer=SourceArgument(None), tag=AnyTag(Some(0))), text_signature = "(self, peer=None, tag=0)")]
    fn iprobe<'py>(
        &self,
        py: Python<'py>,
        peer: SourceArgument,
        tag: AnyTag,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = py.detach(|| self.0.glance(peer.0, tag.0)).map_err(raise)?;
        found.map(|message| described(py, &message)).transpose()
    }
}
