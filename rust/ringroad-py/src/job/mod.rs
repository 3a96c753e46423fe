//! The job around a communicator: its settings, the stores at which its ranks meet, and how it stands.

pub mod info;
pub mod notes;
pub mod presence_check;
pub mod status;
pub mod store;

use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::PyMemoryStore>()?;
    module.add_class::<store::PyFileStore>()?;
    module.add_class::<store::PyTcpStore>()?;
    module.add_class::<presence_check::PyPresenceCheck>()?;
    module.add_class::<notes::PyNotes>()?;
    module.add_class::<info::PySetting>()?;
    module.add_class::<info::PyConfig>()?;
    module.add_function(wrap_pyfunction!(info::reductions, module)?)?;
    module.add_function(wrap_pyfunction!(info::machine, module)?)?;
    module.add_function(wrap_pyfunction!(info::read_file, module)?)?;
    module.add_function(wrap_pyfunction!(info::read_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(info::read_bandwidth, module)?)?;
    module.add_function(wrap_pyfunction!(info::read_seconds, module)?)?;
    module.add_function(wrap_pyfunction!(info::between_hosts, module)?)?;
    module.add_function(wrap_pyfunction!(info::ucx_info, module)?)?;
    module.add_function(wrap_pyfunction!(status::processes_here, module)?)?;
    module.add_function(wrap_pyfunction!(status::ask_status, module)?)?;
    module.add_function(wrap_pyfunction!(status::ask_status_at, module)?)?;
    module.add_function(wrap_pyfunction!(status::own_status, module)?)?;
    status::register();
    Ok(())
}
