//! What a receive has brought: the message, and the array with its elements.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PySlice, PyString};
use ringroad_runtime::{DType, Message, NOBODY};

use crate::arguments::number_of;
use crate::array::Array;

/// A message between two ranks, as its receiver sees it: what `probe` and `Work.message` return.
///
/// Example:
///     >>> a, b = ringroad.Communicator.in_process(2)
///     >>> a.send(np.arange(5.0), peer=1, tag=3)
///     >>> message = b.probe(tag=ringroad.ANY)
///     >>> message
///     <Message of 5 float64 from rank 0 (tag 3)>
///     >>> b.recv(np.empty(message.count, message.dtype), message.source, message.tag)
///     array([0., 1., 2., 3., 4.])
#[pyclass(name = "Message", module = "ringroad", frozen, eq)]
#[derive(PartialEq)]
pub struct PyMessage(pub Message);

#[pymethods]
impl PyMessage {
    /// The rank that sent it; `ringroad.NOBODY` if the receive named nobody.
    #[getter]
    fn source(&self) -> i64 {
        number_of(self.0.source)
    }

    /// The tag that the sender gave it.
    #[getter]
    fn tag(&self) -> u32 {
        self.0.tag
    }

    /// The number of its elements; of records and other types that are moved as bytes, the number of bytes.
    #[getter]
    fn count(&self) -> usize {
        self.0.bytes / self.0.dtype.size()
    }

    /// The type of its elements, as a NumPy dtype.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kind = match self.0.dtype {
            DType::BF16 => py.import("ml_dtypes")?.getattr("bfloat16")?,
            dtype => PyString::new(py, dtype.name()).into_any(),
        };
        py.import("numpy")?.getattr("dtype")?.call1((kind,))
    }

    fn __repr__(&self) -> String {
        let (count, dtype, tag) = (self.count(), self.0.dtype, self.0.tag);
        let source =
            if self.0.source == NOBODY { "nobody".to_owned() } else { format!("rank {}", self.0.source) };
        format!("<Message of {count} {dtype} from {source} (tag {tag})>")
    }
}

/// The arrays of a receive.
pub struct Landing {
    /// What the caller passed.
    out: Py<PyAny>,
    /// A C-contiguous array into which the message is received, if `out` is none.
    beside: Option<Py<PyAny>>,
    elements: usize,
    bytes: usize,
    result: PyOnceLock<Py<PyAny>>,
}

impl Landing {
    /// `array` is the memory into which a message for `out` is received.
    pub fn new(out: Py<PyAny>, array: &Array<'_>) -> Landing {
        let beside = (!array.is(out.bind(array.py()))).then(|| array.object());
        let bytes = array.dtype.size();
        Landing { out, beside, elements: array.elements, bytes, result: PyOnceLock::new() }
    }

    /// Whether something is left to do once the message has come.
    pub fn is_beside(&self) -> bool {
        self.beside.is_some()
    }

    /// The part of `out` that the message fills; all of it if there is no message. Copies it there if it came beside.
    pub fn result(&self, py: Python<'_>, message: Option<Message>) -> PyResult<Py<PyAny>> {
        let fill = || {
            let whole = || self.out.clone_ref(py);
            let Some(message) = message.filter(|message| message.source != NOBODY) else {
                return Ok(whole());
            };
            let count = message.bytes / self.bytes;
            let range = PySlice::new(py, 0, count as isize, 1);
            let part = |array: &Py<PyAny>| array.bind(py).call_method1("reshape", (-1,))?.get_item(&range);
            let came = match &self.beside {
                Some(array) => {
                    let came = part(array)?;
                    self.out.bind(py).getattr("flat")?.set_item(&range, &came)?;
                    came
                }
                None if count < self.elements => part(&self.out)?,
                None => return Ok(whole()),
            };
            Ok(if count < self.elements { came.unbind() } else { whole() })
        };
        self.result.get_or_try_init(py, fill).map(|result| result.clone_ref(py))
    }
}

/// What a call returns.
pub enum Outcome {
    /// This, or nothing.
    Known(Option<Py<PyAny>>),
    /// What a message fills.
    Received(Landing),
}

impl Outcome {
    /// What the call returns that has ended well. A receive has taken this message.
    pub fn result(&self, py: Python<'_>, message: Option<Message>) -> PyResult<Option<Py<PyAny>>> {
        match self {
            Outcome::Known(result) => Ok(result.as_ref().map(|result| result.clone_ref(py))),
            Outcome::Received(landing) => landing.result(py, message).map(Some),
        }
    }

    /// Whether something is left to do when the call has ended.
    pub fn is_beside(&self) -> bool {
        matches!(self, Outcome::Received(landing) if landing.is_beside())
    }
}
