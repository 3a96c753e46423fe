//! What elements become in a message with a wire format, for adapters that keep the difference.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use ringroad_core::Wire;
use ringroad_runtime::calls::call::MemorySpan;
use ringroad_runtime::kernels;
use ringroad_runtime::DType;

use super::array::check_address;
use crate::arguments::{Count, Text};
use crate::interpreter::errors::{raise, value_error};

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
    wire: Text<'_>,
    address: Count,
    elements: Count,
    dtype: Text<'_>,
) -> PyResult<()> {
    let wire = wire.parse::<Wire>().map_err(value_error)?;
    let dtype: DType = dtype.parse().map_err(raise)?;
    if !kernels::wire::supports(dtype) {
        return Err(PyTypeError::new_err(format!("{dtype} is always sent exactly")));
    }
    let bytes = elements.0.saturating_mul(dtype.size());
    check_address("address", MemorySpan { address: address.0, bytes })?;
    if bytes > 0 {
        // SAFETY: the caller, `ringroad.torch`, passes the address of a tensor of this length, which it keeps alive, and
        // which nobody else uses meanwhile.
        let memory = unsafe { std::slice::from_raw_parts_mut(address.0 as *mut u8, bytes) };
        py.detach(|| kernels::wire::round(wire, dtype, memory));
    }
    Ok(())
}
