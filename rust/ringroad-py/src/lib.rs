//! The Python extension `ringroad._native`: rooms of one file for each exported noun, and no logic of its own.
#![deny(unsafe_code)]

#[macro_use]
mod docs;

mod arguments;
mod arrays;
mod calls;
mod communicator;
mod interpreter;
mod job;
mod lab;
mod results;
mod values;

use pyo3::prelude::*;

/// The Rust core of ringroad. Import from `ringroad`; this module is an implementation detail.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PROC_NULL", arguments::PROC_NULL)?;
    module.add("ANY", arguments::ANY)?;
    interpreter::errors::register(module)?;
    values::register(module)?;
    arrays::register(module)?;
    job::register(module)?;
    communicator::register(module)?;
    calls::register(module)?;
    lab::register(module)?;
    ringroad_runtime::os::files::fill_standard_streams();
    // A child that is forked off while another thread imports it would find half of it.
    module.py().import("ringroad._support.ucx")?;
    ringroad_runtime::transport::notice_forks();
    interpreter::once::register(module.py())?;
    interpreter::shutdown::register(module)
}
