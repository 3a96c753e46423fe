//! The Python extension `ringroad._native`: one file for each exported noun, and no logic of its own.
#![deny(unsafe_code)]

#[macro_use]
mod docs;

mod adapters;
mod algorithm;
mod arguments;
#[allow(unsafe_code)]
mod array;
mod calls;
mod choice;
mod collectives;
mod communicator;
mod cost;
mod detached;
mod digest;
mod errors;
mod info;
mod interned;
mod lab;
mod messages;
mod neighbours;
mod notebook;
mod notes;
mod number;
mod objects;
mod once;
mod operation;
mod prepared;
mod presence_check;
mod profile;
mod received;
mod regroup;
mod results;
#[allow(unsafe_code)]
mod rounding;
mod schedule;
mod shutdown;
mod status;
mod store;
#[allow(unsafe_code)]
mod tensor;
mod topology;
mod watch;
mod work;
mod works;

use pyo3::prelude::*;

/// The Rust core of ringroad. Import from `ringroad`; this module is an implementation detail.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("HAS_UCX", ringroad_runtime::transport::HAS_UCX)?;
    errors::register(module)?;
    lab::register(module)?;
    module.add_class::<topology::PyTopology>()?;
    module.add_class::<schedule::PySchedule>()?;
    module.add_class::<algorithm::PyAlgorithm>()?;
    module.add_class::<cost::PyCostModel>()?;
    module.add_class::<profile::PyProfile>()?;
    module.add_function(wrap_pyfunction!(profile::keep_profile, module)?)?;
    module.add_class::<store::PyMemoryStore>()?;
    module.add_class::<store::PyFileStore>()?;
    module.add_class::<store::PyTcpStore>()?;
    module.add_class::<presence_check::PyPresenceCheck>()?;
    module.add_class::<notes::PyNotes>()?;
    module.add_class::<work::PyWork>()?;
    module.add("PROC_NULL", arguments::PROC_NULL)?;
    module.add("ANY", arguments::ANY)?;
    module.add_function(wrap_pyfunction!(works::waitall, module)?)?;
    module.add_function(wrap_pyfunction!(works::waitany, module)?)?;
    module.add_function(wrap_pyfunction!(works::testsome, module)?)?;
    module.add_class::<communicator::PyCommunicator>()?;
    module.add_class::<prepared::PyPreparedCall>()?;
    module.add_function(wrap_pyfunction!(algorithm::algorithms, module)?)?;
    module.add_function(wrap_pyfunction!(algorithm::collective_name, module)?)?;
    module.add_function(wrap_pyfunction!(algorithm::collectives, module)?)?;
    module.add_function(wrap_pyfunction!(digest::digest, module)?)?;
    module.add_function(wrap_pyfunction!(regroup::handle, module)?)?;
    module.add_function(wrap_pyfunction!(regroup::regroup, module)?)?;
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
    module.add_function(wrap_pyfunction!(rounding::round_raw, module)?)?;
    module.add_function(wrap_pyfunction!(status::processes_here, module)?)?;
    module.add_function(wrap_pyfunction!(status::ask_status, module)?)?;
    module.add_function(wrap_pyfunction!(status::ask_status_at, module)?)?;
    module.add_function(wrap_pyfunction!(status::own_status, module)?)?;
    ringroad_runtime::os::files::fill_standard_streams();
    // A child that is forked off while another thread imports it would find half of it.
    module.py().import("ringroad._support.ucx")?;
    ringroad_runtime::transport::notice_forks();
    once::register(module.py())?;
    status::register();
    shutdown::register(module)
}
