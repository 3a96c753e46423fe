//! The memory of calls: NumPy arrays, and addresses that Python passes.

use std::any::Any;
use std::sync::Arc;

use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyTuple};
use pyo3::PyTypeInfo;
use ringroad_runtime::calls::call::MemorySpan;
use ringroad_runtime::{DType, Memory, Opaque};

use super::interned::{NAMES, TYPES};
use crate::arguments::shown;
use crate::interpreter::once::{without_forks, Once};

/// `NPY_ARRAY_WRITEABLE`, which is part of NumPy's stable ABI.
const WRITEABLE: i32 = 0x0400;

/// Keeps the arrays of a call alive.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// The functions of NumPy that calls use.
pub struct Numpy {
    as_array: Py<PyAny>,
    empty: Py<PyAny>,
}

impl Numpy {
    /// Imports them at the first time, and what tells arrays from other objects. While the interpreter ends, that would
    /// be too late: then the import fails, and the numpy crate panics.
    pub fn get(py: Python<'_>) -> PyResult<&Numpy> {
        static NUMPY: Once<Numpy> = Once::new();
        NUMPY.get_or_try_init(py, || {
            let numpy = py.import("numpy")?;
            without_forks(py, || {
                numpy::get_array_module(py)?;
                <PyUntypedArray as PyTypeInfo>::type_object(py);
                Ok(())
            })?;
            let function = |name| numpy.getattr(name).map(Bound::unbind);
            Ok(Numpy { as_array: function("asarray")?, empty: function("empty")? })
        })
    }
}

/// A NumPy array that can take part in a call: it is C-contiguous and has a supported dtype. It is the caller's own,
/// or, for an input, a contiguous copy.
#[derive(Clone)]
pub struct Array<'py> {
    object: Bound<'py, PyUntypedArray>,
    start: usize,
    pub dtype: DType,
    pub elements: usize,
    flags: i32,
}

impl<'py> Array<'py> {
    /// The input that `object` is: an array, or what `numpy.asarray` makes one of, such as a number or a list. What is
    /// not C-contiguous is copied. Errors call it by the name of its argument, `name`.
    pub fn input(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Array<'py>> {
        let py = object.py();
        let numpy = Numpy::get(py)?;
        match object.cast::<PyUntypedArray>() {
            Ok(array) if array.is_c_contiguous() => return Array::new(object, name),
            Ok(array) => refuse_masked(array, name)?,
            Err(_) if object.is_none() => return Err(not_an_array(object, name)),
            Err(_) => {}
        }
        let make = || -> PyResult<Bound<'py, PyAny>> {
            let made = numpy.as_array.bind(py).call1((object,))?;
            match made.cast::<PyUntypedArray>() {
                Ok(array) if !array.is_c_contiguous() => made.call_method1("copy", ("C",)),
                _ => Ok(made),
            }
        };
        let made = make().map_err(|error| {
            let refused = PyTypeError::new_err(format!("{name} cannot be made a NumPy array: {error}"));
            refused.set_cause(py, Some(error));
            refused
        })?;
        Array::new(&made, name)
    }

    /// Checks that `object` is such an array itself. Errors call it by the name of its argument, `name`.
    pub fn new(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Array<'py>> {
        Numpy::get(object.py())?;
        let array = object.cast::<PyUntypedArray>().map_err(|_| not_an_array(object, name))?;
        refuse_masked(array, name)?;
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err(format!(
                "{name} is not C-contiguous, so that no result can be written there; pass a contiguous array, and copy \
                 from it"
            )));
        }
        Ok(Array::with(array, dtype_of(&array.dtype(), name)?))
    }

    fn with(array: &Bound<'py, PyUntypedArray>, dtype: DType) -> Array<'py> {
        let (start, flags) = fields(array);
        Array { start, dtype, elements: array.len(), flags, object: array.clone() }
    }

    /// As [`Array::new`], and checks that the array can be written.
    pub fn writable(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Array<'py>> {
        let array = Array::new(object, name)?;
        array.check_writable(name)?;
        Ok(array)
    }

    /// Where what is written to `object` arrives: in the array itself, or in a new one if it is not C-contiguous. Errors call
    /// it `name`.
    pub fn landing(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Array<'py>> {
        let numpy = Numpy::get(object.py())?;
        match object.cast::<PyUntypedArray>() {
            Ok(array) if !array.is_c_contiguous() => {
                refuse_masked(array, name)?;
                dtype_of(&array.dtype(), name)?;
                check_flags(fields(array).1, name)?;
                let checks = object.py().import("ringroad._arrays")?;
                checks.call_method1("require_distinct", (array, name))?;
                let shape = PyTuple::new(object.py(), array.shape())?;
                Array::new(&numpy.empty.bind(object.py()).call1((shape, array.dtype()))?, name)
            }
            _ => Array::writable(object, name),
        }
    }

    /// Returns an error if the array is read-only.
    pub fn check_writable(&self, name: &str) -> PyResult<()> {
        check_flags(self.flags, name)
    }

    /// Whether the two have memory in common.
    pub fn overlaps(&self, other: &Array<'_>) -> bool {
        let end = |array: &Array<'_>| array.start + array.elements * array.dtype.size();
        self.start < end(other) && other.start < end(self)
    }

    /// A copy as int64.
    pub fn as_int64(&self) -> PyResult<Array<'py>> {
        Array::new(&self.object.call_method1("astype", ("int64",))?, "array")
    }

    /// A copy of its own.
    pub fn copy(&self) -> PyResult<Array<'py>> {
        Array::new(&self.object.call_method0("copy")?, "array")
    }

    /// Whether `object` is the same Python object as this array.
    pub fn is(&self, object: &Bound<'py, PyAny>) -> bool {
        self.object.is(object)
    }

    pub fn py(&self) -> Python<'py> {
        self.object.py()
    }

    pub fn shape(&self) -> &[usize] {
        self.object.shape()
    }

    /// Makes a new array of this one's dtype.
    pub fn empty(&self, shape: &[usize]) -> PyResult<Array<'py>> {
        let py = self.object.py();
        let empty = Numpy::get(py)?.empty.bind(py);
        let made = empty.call1((PyTuple::new(py, shape)?, self.object.dtype()))?;
        Ok(Array::with(made.cast()?, self.dtype))
    }

    pub fn object(&self) -> Py<PyAny> {
        self.object.clone().into_any().unbind()
    }

    /// NumPy's type of the elements.
    pub fn descr(&self) -> Bound<'py, PyArrayDescr> {
        self.object.dtype()
    }

    /// The address of the first byte.
    pub fn address(&self) -> usize {
        self.start
    }

    /// The array's bytes.
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.elements * self.dtype.size();
        if bytes == 0 {
            return &[];
        }
        // SAFETY: the address is that of a live array, which `self` keeps alive, and all its bytes are initialized. As
        // for every call, the docstrings forbid the caller to write to them meanwhile.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, bytes) }
    }

    /// The array's memory, for one call. `owner` keeps the array alive.
    pub fn memory(&self, owner: Owner) -> Memory {
        memory(MemorySpan { address: self.start, bytes: self.elements * self.dtype.size() }, owner)
    }
}

/// The memory at an address that an adapter passed. `owner` keeps it alive.
pub fn memory(side: MemorySpan, owner: Owner) -> Memory {
    let MemorySpan { address, bytes } = side;
    if bytes == 0 {
        return Memory::nothing();
    }
    // SAFETY: the address is that of a NumPy array or a torch tensor, which `owner` keeps alive. The docstrings of
    // calls forbid the caller to touch the memory during a call, as every communication library for Python does.
    unsafe { Memory::foreign(address as *mut u8, bytes, owner) }
}

/// The address of an array's first element, and its flags.
fn fields(array: &Bound<'_, PyUntypedArray>) -> (usize, i32) {
    let raw = array.as_array_ptr();
    // SAFETY: the pointer is that of a live array object, and the GIL is held: its fields can be read.
    unsafe { ((*raw).fields.data as usize, (*raw).fields.flags) }
}

fn check_flags(flags: i32, name: &str) -> PyResult<()> {
    if flags & WRITEABLE != 0 {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{name} is read-only; pass an array that can be written")))
}

fn not_an_array(object: &Bound<'_, PyAny>, name: &str) -> PyErr {
    let found = object.get_type().name().map_or_else(|_| "?".to_owned(), |n| n.to_string());
    PyTypeError::new_err(format!("{name} must be a NumPy array, not {found}"))
}

fn refuse_masked(array: &Bound<'_, PyUntypedArray>, name: &str) -> PyResult<()> {
    static MASKED: Once<Py<PyAny>> = Once::new();
    let exact = array.is_exact_instance_of::<PyUntypedArray>();
    if exact || !array.is_instance(MASKED.import(array.py(), "numpy.ma", "MaskedArray")?)? {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "{name} is a masked array, whose mask would be lost; pass {name}.filled(value), or {name}.data to have all \
         elements"
    )))
}

/// Returns an error if this many bytes cannot be at this address. The message calls the address `name`.
pub fn check_address(name: &str, side: MemorySpan) -> PyResult<()> {
    let MemorySpan { address, bytes } = side;
    if bytes == 0 || (address > 0 && address.checked_add(bytes).is_some_and(|end| end <= isize::MAX as usize))
    {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{name} is {address:#x}, but there cannot be {bytes} bytes at this address"
    )))
}

/// The type of the elements of an array that errors call `name`.
pub fn dtype_of(descr: &Bound<'_, PyArrayDescr>, name: &str) -> PyResult<DType> {
    let found = match (descr.kind(), descr.itemsize()) {
        (b'b', 1) => Some(DType::Bool),
        (b'i', 1) => Some(DType::I8),
        (b'i', 2) => Some(DType::I16),
        (b'i', 4) => Some(DType::I32),
        (b'i', 8) => Some(DType::I64),
        (b'u', 1) => Some(DType::U8),
        (b'u', 2) => Some(DType::U16),
        (b'u', 4) => Some(DType::U32),
        (b'u', 8) => Some(DType::U64),
        (b'f', 2) => Some(DType::F16),
        (b'f', 4) => Some(DType::F32),
        (b'f', 8) => Some(DType::F64),
        (b'c', 8) => Some(DType::Complex64),
        (b'c', 16) => Some(DType::Complex128),
        _ => None,
    };
    // Some types of ml_dtypes have the kind and size of a NumPy type. NumPy's own types have numbers below 256.
    let built_in = descr.num() < 256;
    let dtype = if built_in {
        found.filter(|_| descr.is_native_byteorder() != Some(false))
    } else {
        (descr.typeobj().name()? == "bfloat16").then_some(DType::BF16)
    };
    match (dtype, descr.itemsize()) {
        (Some(dtype), _) => Ok(dtype),
        // Not objects, nor texts of variable length, whose elements refer to other memory.
        (None, bytes) if bytes > 0 && OPAQUE.contains(&descr.kind()) && !descr.has_object() => {
            Ok(DType::Opaque(TYPES.get(&Opaque { bytes, name: NAMES.get(&name_of(descr)?) })))
        }
        (None, _) => Err(PyTypeError::new_err(format!(
            "{name} has dtype {descr}, whose elements cannot be sent as bytes; calls that end in _object, such as \
             send_object, take Python objects"
        ))),
    }
}

/// The name of a dtype: what `ringroad._arrays.named` calls it, or NumPy. It does not tell a `recarray` from another
/// array with the same fields.
fn name_of(descr: &Bound<'_, PyArrayDescr>) -> PyResult<String> {
    if !descr.has_fields() {
        let metadata: Option<Bound<'_, PyMapping>> = descr.getattr("metadata")?.extract()?;
        let name = metadata.and_then(|metadata| metadata.get_item("ringroad").ok());
        return name.map_or_else(|| Ok(descr.to_string()), |name| name.extract());
    }
    let numpy = descr.py().import("numpy")?;
    Ok(numpy.getattr("dtype")?.call1(((numpy.getattr("void")?, descr),))?.to_string())
}

/// The kinds of dtypes whose elements are moved as bytes if kernels do not know them.
const OPAQUE: &[u8] = b"VSUMmbiufc";

/// Memory that the other ranks of the host can read, or that belongs to a call, with NumPy's array interface.
#[pyclass(name = "SharedMemory", module = "ringroad._native", frozen)]
struct PySharedMemory {
    memory: Memory,
    writable: bool,
}

#[pymethods]
impl PySharedMemory {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.memory.bytes(),))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.memory.address(), !self.writable))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}

/// A vector of the bytes of this memory.
pub fn of_bytes(py: Python<'_>, memory: Memory) -> PyResult<Bound<'_, PyAny>> {
    let memory = Bound::new(py, PySharedMemory { memory, writable: true })?;
    Numpy::get(py)?.as_array.bind(py).call1((memory,))
}

/// What `numpy.asarray` makes a read-only vector of, of the bytes of this memory.
pub fn operand(py: Python<'_>, memory: Memory) -> PyResult<Bound<'_, PyAny>> {
    Ok(Bound::new(py, PySharedMemory { memory, writable: false })?.into_any())
}

/// Makes an array of `shape` and `dtype` in the memory that `allocate` returns for its number of bytes.
pub fn empty<'py>(
    py: Python<'py>,
    shape: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    allocate: impl FnOnce(usize) -> PyResult<Memory>,
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let dtype = numpy.getattr("dtype")?.call1((dtype,))?;
    dtype_of(dtype.cast()?, "the array")?;
    // NumPy computes the number of bytes, and raises its own errors for invalid shapes. This allocates nothing large.
    let one = numpy.getattr("empty")?.call1(((), &dtype))?;
    let model = numpy.getattr("broadcast_to")?.call1((one, shape)).map_err(|error| {
        if error.is_instance_of::<PyTypeError>(py) {
            return PyTypeError::new_err(format!("shape must be whole numbers, not {}", shown(shape)));
        }
        error
    })?;
    let bytes: usize = model.getattr("nbytes")?.extract()?;
    let array = of_bytes(py, allocate(bytes)?)?;
    array.call_method1("view", (dtype,))?.call_method1("reshape", (shape,))
}
