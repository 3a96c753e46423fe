//! What elements become in a message with a wire format, for adapters that keep the difference.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use ringroad_runtime::calls::call::MemorySpan;
use ringroad_runtime::kernels;
use ringroad_runtime::DType;

use super::array::check_address;
use crate::arguments::argument;
use crate::calls::run::wire_named;
use crate::interpreter::errors::raise;

/// Rounds elements in memory, as a message in this format that begins there does.
///
/// Args:
///     wire: The format.
///     address: Where they are.
///     elements: How many there are.
///     dtype: Their type.
///
/// Raises:
///     TypeError: Elements of this type are always sent exactly.
///     ValueError: There is no such format or type, or no memory can be there.
#[pyfunction]
#[pyo3(name = "_round_raw")]
pub fn round_raw(
    py: Python<'_>,
    #[pyo3(from_py_with = argument)] wire: &str,
    #[pyo3(from_py_with = argument)] address: usize,
    #[pyo3(from_py_with = argument)] elements: usize,
    #[pyo3(from_py_with = argument)] dtype: &str,
) -> PyResult<()> {
    let wire = wire_named(wire)?;
    let dtype: DType = dtype.parse().map_err(raise)?;
    if !kernels::wire::supports(dtype) {
        return Err(PyTypeError::new_err(format!("{dtype} is always sent exactly")));
    }
    let bytes = elements.saturating_mul(dtype.size());
    check_address("address", MemorySpan { address, bytes })?;
    if bytes > 0 {
        // SAFETY: the caller, `ringroad.torch`, passes the address of a tensor of this length, which it keeps alive, and
        // which nobody else uses meanwhile.
        let memory = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
        py.detach(|| kernels::wire::round(wire, dtype, memory));
    }
    Ok(())
}
