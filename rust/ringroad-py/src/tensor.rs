//! Torch tensors as memory for calls, by DLPack's exchange of C structures: it describes a tensor in 50 ns, which is what
//! a single question to it takes in Python.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyType};
use ringroad_runtime::DType;

/// The version of DLPack that the structures below are of; others of the same major version only add to them.
const MAJOR: u32 = 1;
const CPU: i32 = 1;

#[repr(C)]
struct Described {
    data: *mut c_void,
    device: [i32; 2],
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    offset: u64,
}

type Describe = unsafe extern "C" fn(*mut c_void, *mut Described) -> c_int;

/// What torch offers. Functions that are not called are only places here.
#[repr(C)]
struct Exchange {
    major: u32,
    minor: u32,
    older: *const c_void,
    allocate: *const c_void,
    import: *const c_void,
    export: *const c_void,
    describe: Option<Describe>,
    stream: *const c_void,
}

/// The function of the type `torch.Tensor`, which may be asked about objects of this very type.
struct Describer {
    of: Py<PyType>,
    describe: Describe,
    /// Holds the function.
    _capsule: Py<PyCapsule>,
}

/// A tensor's elements, in order, in memory of the host.
pub struct Tensor {
    pub address: usize,
    pub elements: usize,
    pub dtype: DType,
}

impl Tensor {
    /// `None` where `object` is anything else, or torch does not say. Torch does not say either whether the elements are
    /// to be negated (`is_neg`); complex ones, which may be to be conjugated, are left out.
    pub fn new(object: &Bound<'_, PyAny>) -> Option<Tensor> {
        static DESCRIBER: PyOnceLock<Option<Describer>> = PyOnceLock::new();
        let py = object.py();
        let describer = DESCRIBER.get_or_init(py, || describer(py).ok()).as_ref()?;
        if !object.get_type().is(&describer.of) {
            return None;
        }
        let mut found = std::mem::MaybeUninit::<Described>::uninit();
        // SAFETY: a live object of the type that the function is for; it fills the structure, or says that it did not.
        let status = unsafe { (describer.describe)(object.as_ptr().cast(), found.as_mut_ptr()) };
        if status != 0 {
            drop(PyErr::take(py));
            return None;
        }
        // SAFETY: filled in, and the object that owns the shape is alive.
        let tensor = unsafe { block(&found.assume_init()) }?;
        (tensor.address != 0 || tensor.elements == 0).then_some(tensor)
    }
}

/// # Safety
/// The shape and strides have as many numbers as there are dimensions.
unsafe fn block(found: &Described) -> Option<Tensor> {
    if found.device[0] != CPU || found.lanes != 1 {
        return None;
    }
    let dimensions = usize::try_from(found.dimensions).ok()?;
    let (mut elements, mut in_order) = (1, true);
    for dimension in (0..dimensions).rev() {
        // SAFETY: as the caller says.
        let length = unsafe { *found.shape.add(dimension) };
        // SAFETY: likewise, where there are strides; without any the elements are in order.
        let stride = (!found.strides.is_null()).then(|| unsafe { *found.strides.add(dimension) });
        in_order &= length == 1 || stride.is_none_or(|stride| stride == elements);
        elements *= length;
    }
    let dtype = match (found.code, found.bits) {
        (0, 8) => DType::I8,
        (0, 16) => DType::I16,
        (0, 32) => DType::I32,
        (0, 64) => DType::I64,
        (1, 8) => DType::U8,
        (2, 16) => DType::F16,
        (2, 32) => DType::F32,
        (2, 64) => DType::F64,
        (4, 16) => DType::BF16,
        (6, 8) => DType::Bool,
        _ => return None,
    };
    let elements = usize::try_from(elements).ok()?;
    let address = found.data as usize + found.offset as usize;
    (in_order || elements == 0).then_some(Tensor { address, elements, dtype })
}

fn describer(py: Python<'_>) -> PyResult<Describer> {
    let of = py.import("torch")?.getattr("Tensor")?.cast_into::<PyType>()?;
    let capsule = of.getattr("__dlpack_c_exchange_api__")?.cast_into::<PyCapsule>()?;
    let exchange = capsule.pointer_checked(Some(c"dlpack_exchange_api"))?.cast::<Exchange>();
    // SAFETY: what DLPack says a capsule of this name holds, for as long as the type exists.
    let (major, describe) = unsafe { (exchange.as_ref().major, exchange.as_ref().describe) };
    match describe.filter(|_| major == MAJOR) {
        Some(describe) => Ok(Describer { of: of.unbind(), describe, _capsule: capsule.unbind() }),
        None => Err(PyImportError::new_err(format!("torch exchanges tensors by version {major} of DLPack"))),
    }
}
