//! What a receive has brought: the message, and the array with its elements.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PySlice, PyString};
use ringroad_runtime::{DType, Message, NOBODY};

use crate::arguments::number_of;
use crate::array::Array;

/// The `ringroad.results.Message` that says this.
pub fn described<'py>(py: Python<'py>, message: &Message) -> PyResult<Bound<'py, PyAny>> {
    // Types that kernels do not know count as bytes, whether the receive knew the type or not.
    let known = if let DType::Opaque(_) = message.dtype { DType::OF_BYTES } else { message.dtype };
    let kind = match known {
        DType::BF16 => py.import("ml_dtypes")?.getattr("bfloat16")?,
        known => PyString::new(py, known.name()).into_any(),
    };
    let dtype = py.import("numpy")?.getattr("dtype")?.call1((kind,))?;
    let count = message.bytes / known.size();
    let class = py.import("ringroad._messages")?.getattr("Message")?;
    class.call1((number_of(message.source), message.tag, count, dtype))
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
