//! What a call returns, once it has ended: arrays that were written, and what came with a message.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyEllipsis, PySlice, PyString};
use ringroad_runtime::{DType, Memory, Message, PROC_NULL};

use crate::arguments::number_of;
use crate::arrays::array::{self, Array};
use crate::arrays::number;
use crate::interpreter::once::Once;

/// Shorter messages are copied: an array of the memory itself takes longer to make.
const COPIED: usize = 64 << 10;

/// NumPy's type of the elements of a message. Types that kernels do not know count as bytes, whether the receive knew the
/// type or not.
fn descr(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    static DTYPE: Once<Py<PyAny>> = Once::new();
    let kind = match dtype {
        DType::BF16 => py.import("ml_dtypes")?.getattr("bfloat16")?,
        DType::Opaque(_) => PyString::new(py, DType::OF_BYTES.name()).into_any(),
        known => PyString::new(py, known.name()).into_any(),
    };
    DTYPE.import(py, "numpy", "dtype")?.call1((kind,))
}

/// The `ringroad.results.Message` that says this.
pub fn described<'py>(py: Python<'py>, message: &Message) -> PyResult<Bound<'py, PyAny>> {
    static MESSAGE: Once<Py<PyAny>> = Once::new();
    let dtype = descr(py, message.dtype)?;
    let size = if let DType::Opaque(_) = message.dtype { 1 } else { message.dtype.size() };
    let class = MESSAGE.import(py, "ringroad._messages", "Message")?;
    class.call1((number_of(message.source), message.tag, message.bytes / size, dtype))
}

/// The pickle of an object.
pub fn pickled<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    static DUMPS: Once<Py<PyAny>> = Once::new();
    let latest = -1;
    Ok(DUMPS.import(object.py(), "pickle", "dumps")?.call1((object, latest))?.cast_into()?)
}

/// The bytes of this memory, as Python's buffers.
fn buffer(py: Python<'_>, memory: Memory) -> PyResult<Bound<'_, PyAny>> {
    match memory.bytes() < COPIED {
        true => Ok(PyByteArray::new(py, &memory.to_vec::<u8>()).into_any()),
        false => array::of_bytes(py, memory),
    }
}

/// The object whose pickle is in this memory.
fn unpickled(py: Python<'_>, memory: Memory) -> PyResult<Bound<'_, PyAny>> {
    static LOADS: Once<Py<PyAny>> = Once::new();
    LOADS.import(py, "pickle", "loads")?.call1((buffer(py, memory)?,))
}

/// An array of the elements in this memory; of types that kernels do not know, of their bytes.
fn array_of(py: Python<'_>, memory: Memory, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    static FROM_BUFFER: Once<Py<PyAny>> = Once::new();
    let known = if let DType::Opaque(_) = dtype { DType::U8 } else { dtype };
    let from_buffer = FROM_BUFFER.import(py, "numpy", "frombuffer")?;
    from_buffer.call1((buffer(py, memory)?, descr(py, known)?))
}

/// The arrays of a receive, or an output that is not C-contiguous.
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

    /// The part of `out` that was written, of which so many bytes came. Copies it there if it came beside.
    fn result(&self, py: Python<'_>, bytes: usize) -> PyResult<Py<PyAny>> {
        let fill = || {
            let (out, count) = (self.out.bind(py), bytes / self.bytes);
            if count == self.elements {
                self.beside.iter().try_for_each(|array| out.set_item(PyEllipsis::get(py), array))?;
                return Ok(self.out.clone_ref(py));
            }
            let range = PySlice::new(py, 0, count as isize, 1);
            let came = self.beside.as_ref().unwrap_or(&self.out).bind(py);
            let came = came.call_method1("reshape", (-1,))?.get_item(&range)?;
            if self.beside.is_some() {
                out.getattr("flat")?.set_item(&range, &came)?;
            }
            Ok(came.unbind())
        };
        self.result.get_or_try_init(py, fill).map(|result| result.clone_ref(py))
    }
}

/// What a call returns.
pub enum CallOutcome {
    /// This, or nothing.
    Known(Option<Py<PyAny>>),
    /// What a message fills.
    Received(Landing),
    /// An output that is not C-contiguous.
    Written(Landing),
    /// This array, filled with a number, which the call of this name has computed exactly.
    Number(Py<PyAny>, &'static str),
    /// A new array of what a message has brought, or the object.
    Brought { is_object: bool, result: PyOnceLock<Py<PyAny>> },
}

impl CallOutcome {
    /// What a message of unknown length brings.
    pub fn brought(is_object: bool) -> CallOutcome {
        CallOutcome::Brought { is_object, result: PyOnceLock::new() }
    }

    /// What the call returns that has ended well, with this output. A receive has taken this message.
    pub fn result(
        &self,
        py: Python<'_>,
        message: Option<Message>,
        output: impl FnOnce() -> Memory,
    ) -> PyResult<Option<Py<PyAny>>> {
        let came = message.filter(|message| message.source != PROC_NULL);
        match (self, came) {
            (CallOutcome::Known(result), _) => Ok(result.as_ref().map(|result| result.clone_ref(py))),
            (CallOutcome::Received(landing), Some(message)) => landing.result(py, message.bytes).map(Some),
            (CallOutcome::Received(landing), None) => Ok(Some(landing.out.clone_ref(py))),
            (CallOutcome::Written(landing), _) => {
                landing.result(py, landing.elements * landing.bytes).map(Some)
            }
            (CallOutcome::Number(out, what), _) => {
                out.call_method1(py, "fill", (number::result(&output(), what)?,))?;
                Ok(Some(out.clone_ref(py)))
            }
            (CallOutcome::Brought { .. }, None) => Ok(None),
            (CallOutcome::Brought { is_object, result }, Some(message)) => {
                let make = || match is_object {
                    true => unpickled(py, output()).map(Bound::unbind),
                    false => array_of(py, output(), message.dtype).map(Bound::unbind),
                };
                result.get_or_try_init(py, make).map(|result| Some(result.clone_ref(py)))
            }
        }
    }

    /// Whether something is left to write when the call has ended.
    pub fn is_beside(&self) -> bool {
        match self {
            CallOutcome::Received(landing) => landing.beside.is_some(),
            CallOutcome::Written(_) | CallOutcome::Number(..) => true,
            CallOutcome::Known(_) | CallOutcome::Brought { .. } => false,
        }
    }
}
