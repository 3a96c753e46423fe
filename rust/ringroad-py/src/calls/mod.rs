//! The calls of a communicator.

pub mod adapters;
pub mod collectives;
pub mod messages;
pub mod neighbours;
pub mod objects;
pub mod prepared;
pub mod received;
pub mod run;
pub mod work;
pub mod works;

use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<work::PyWork>()?;
    module.add_class::<prepared::PyPreparedCall>()?;
    module.add_function(wrap_pyfunction!(works::waitall, module)?)?;
    module.add_function(wrap_pyfunction!(works::waitany, module)?)?;
    module.add_function(wrap_pyfunction!(works::testsome, module)?)
}
