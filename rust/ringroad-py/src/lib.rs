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

use pyo3::pymodule;

/// The Rust core of ringroad. Import from `ringroad`; this module is an implementation detail.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    use crate::arguments;
    use crate::interpreter::{errors, once, shutdown};
    use crate::job::status;

    #[pymodule_export]
    use crate::{
        arrays::{digest::digest, rounding::round_raw},
        calls::{
            prepared::PyPreparedCall,
            work::PyWork,
            works::{testsome, waitall, waitany},
        },
        communicator::{
            regroup::{handle, regroup},
            PyCommunicator,
        },
        job::{
            info::{
                between_hosts, machine, read_bandwidth, read_bytes, read_file, read_seconds, reductions,
                ucx_info, PyConfig, PySetting,
            },
            notes::PyNotes,
            presence_check::PyPresenceCheck,
            status::{ask_status, ask_status_at, own_status, processes_here},
            store::{PyFileStore, PyMemoryStore, PyTcpStore},
        },
        lab::{
            alltoall::{alltoall_flow, PyAlltoallFlow},
            finder::{find_networks, moore_steps},
            routes::{balanced_routes, least_load, plain_routes, PyRoutingTable},
            simulate::{simulate, PyOutcome},
            synthesis::bfb_cost,
        },
        values::{
            algorithm::{algorithms, collective_name, collectives, PyAlgorithm},
            cost::PyCostModel,
            profile::{keep_profile, PyProfile},
            schedule::PySchedule,
            topology::PyTopology,
        },
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("HAS_UCX", ringroad_runtime::transport::HAS_UCX)?;
        module.add("PROC_NULL", arguments::PROC_NULL)?;
        module.add("ANY", arguments::ANY)?;
        errors::register(module)?;
        status::register();
        ringroad_runtime::os::files::fill_standard_streams();
        // A child that is forked off while another thread imports it would find half of it.
        module.py().import("ringroad._support.ucx")?;
        ringroad_runtime::transport::notice_forks();
        once::register(module.py())?;
        shutdown::register(module)
    }
}
