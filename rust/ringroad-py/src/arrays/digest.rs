//! The digest of an array.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ringroad_runtime::kernels;

use super::array::Array;

/// Returns 128 bits that tell what an array holds, the same on every machine (XXH3; not cryptographic).
///
/// It reads the array where it lies, and other threads run meanwhile; they must not write to it.
///
/// Example:
///     >>> from ringroad import _native
///     >>> _native.digest(np.arange(3)) == _native.digest(np.array([0, 1, 2]))
///     True
#[pyfunction]
pub fn digest<'py>(py: Python<'py>, array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let array = Array::new(array, "array")?;
    let bytes = array.bytes();
    Ok(PyBytes::new(py, &py.detach(|| kernels::digest(bytes))))
}
