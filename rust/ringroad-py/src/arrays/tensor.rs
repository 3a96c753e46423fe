//! Torch tensors as the memory of calls. DLPack's C exchange API describes a tensor in 50 ns; in Python, reading a single
//! attribute takes as long.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};
use ringroad_runtime::DType;

use crate::interpreter::once::Once;

/// The major version of DLPack of the structures below. Later versions with this major version only add fields.
const MAJOR: u32 = 1;
const CPU: i32 = 1;
/// Memory below this address may be none: of a part of a tensor without memory, torch gives the offset as the address.
const LOW: usize = 1 << 40;

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

/// DLPack's table of functions. Those that are never called have no type here.
#[repr(C)]
struct DlpackExchange {
    major: u32,
    minor: u32,
    older: *const c_void,
    allocate: *const c_void,
    import: *const c_void,
    export: *const c_void,
    describe: Option<Describe>,
    stream: *const c_void,
}

/// The function that describes tensors. It takes objects of exactly the type `class`, `torch.Tensor`.
struct Describer {
    class: Py<PyType>,
    describe: Describe,
    /// Keeps the function alive.
    _capsule: Py<PyCapsule>,
}

/// A tensor whose elements lie in order in the host's memory.
pub struct Tensor {
    pub address: usize,
    pub elements: usize,
    pub dtype: DType,
}

impl Tensor {
    /// Returns `None` if `object` is not such a tensor, or if torch cannot describe it. The description does not tell
    /// whether the elements must be negated (`is_neg`) or, for complex ones, conjugated. So complex tensors are refused, and
    /// the caller must check `is_neg`.
    pub fn new(object: &Bound<'_, PyAny>) -> Option<Tensor> {
        static DESCRIBER: Once<Option<Describer>> = Once::new();
        let py = object.py();
        let describer = DESCRIBER.get_or_try_init(py, || Ok(describer(py).ok())).ok()?.as_ref()?;
        if !object.get_type().is(&describer.class) {
            return None;
        }
        let mut found = std::mem::MaybeUninit::<Described>::uninit();
        // SAFETY: the object is alive and of the type that the function takes. The function fills the structure, or returns
        // an error.
        let status = unsafe { (describer.describe)(object.as_ptr().cast(), found.as_mut_ptr()) };
        if status != 0 {
            drop(PyErr::take(py));
            return None;
        }
        // SAFETY: the function has filled the structure, and the object that owns the shape is alive.
        let tensor = unsafe { block(&found.assume_init()) }?;
        (tensor.address >= LOW || tensor.elements == 0 || has_memory(object)).then_some(tensor)
    }
}

/// Whether the tensor's storage has memory: it may have been freed.
fn has_memory(tensor: &Bound<'_, PyAny>) -> bool {
    let storage = tensor.call_method0("untyped_storage");
    storage.and_then(|storage| storage.call_method0("data_ptr")?.is_truthy()).unwrap_or(false)
}

/// # Safety
/// `shape`, and `strides` unless it is null, must have as many numbers as `dimensions` says.
unsafe fn block(found: &Described) -> Option<Tensor> {
    if found.device[0] != CPU || found.lanes != 1 {
        return None;
    }
    let dimensions = usize::try_from(found.dimensions).ok()?;
    let (mut elements, mut in_order) = (1, true);
    for dimension in (0..dimensions).rev() {
        // SAFETY: the caller guarantees it.
        let length = unsafe { *found.shape.add(dimension) };
        // SAFETY: the caller guarantees it if there are strides. Without strides the elements are in order.
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
        (1, 16) => DType::U16,
        (1, 32) => DType::U32,
        (1, 64) => DType::U64,
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
    let class = py.import("torch")?.getattr("Tensor")?.cast_into::<PyType>()?;
    let capsule = class.getattr("__dlpack_c_exchange_api__")?.cast_into::<PyCapsule>()?;
    let exchange = capsule.pointer_checked(Some(c"dlpack_exchange_api"))?.cast::<DlpackExchange>();
    // SAFETY: by DLPack's specification a capsule of this name holds this table while the type exists.
    let (major, describe) = unsafe { (exchange.as_ref().major, exchange.as_ref().describe) };
    match describe.filter(|_| major == MAJOR) {
        Some(describe) => Ok(Describer { class: class.unbind(), describe, _capsule: capsule.unbind() }),
        None => Err(PyImportError::new_err(format!("torch has version {major} of DLPack, not {MAJOR}"))),
    }
}
