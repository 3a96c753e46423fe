//! The nouns that need no communicator: networks, schedules, algorithms, costs and profiles.

pub mod algorithm;
pub mod cost;
pub mod profile;
pub mod schedule;
pub mod topology;

use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<topology::PyTopology>()?;
    module.add_class::<schedule::PySchedule>()?;
    module.add_class::<algorithm::PyAlgorithm>()?;
    module.add_class::<cost::PyCostModel>()?;
    module.add_class::<profile::PyProfile>()?;
    module.add_function(wrap_pyfunction!(profile::keep_profile, module)?)?;
    module.add_function(wrap_pyfunction!(algorithm::algorithms, module)?)?;
    module.add_function(wrap_pyfunction!(algorithm::collective_name, module)?)?;
    module.add_function(wrap_pyfunction!(algorithm::collectives, module)?)
}
