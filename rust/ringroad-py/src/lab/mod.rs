//! What `ringroad.lab` calls, and the methods that the laboratory adds. Nothing else of the extension uses it.

mod alltoall;
mod finder;
mod formats;
mod routes;
mod simulate;
mod synthesis;

use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<simulate::PyOutcome>()?;
    module.add_class::<alltoall::PyAlltoallFlow>()?;
    module.add_class::<routes::PyRoutingTable>()?;
    module.add_function(wrap_pyfunction!(finder::find_networks, module)?)?;
    module.add_function(wrap_pyfunction!(finder::moore_steps, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(synthesis::bfb_cost, module)?)?;
    module.add_function(wrap_pyfunction!(alltoall::alltoall_flow, module)?)?;
    module.add_function(wrap_pyfunction!(routes::balanced_routes, module)?)?;
    module.add_function(wrap_pyfunction!(routes::least_load, module)?)?;
    module.add_function(wrap_pyfunction!(routes::plain_routes, module)?)
}
