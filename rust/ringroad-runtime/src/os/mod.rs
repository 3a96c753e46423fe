//! What this process knows of its machine and asks of its kernel: locks, forks, threads and their cores, other
//! processes, network interfaces, files.

pub mod counted;
pub mod files;
#[allow(unsafe_code)]
pub(crate) mod fork;
pub(crate) mod interfaces;
pub(crate) mod kept;
pub(crate) mod liveness;
pub(crate) mod lock;
pub mod machine;
#[allow(unsafe_code)]
pub(crate) mod memory;
pub(crate) mod messages;
mod netlink;
pub(crate) mod owner;
pub(crate) mod pauses;
pub mod ports;
pub(crate) mod random;
pub(crate) mod routes;
#[allow(unsafe_code)]
pub(crate) mod scheduler;
pub(crate) mod sync;
#[allow(unsafe_code)]
pub(crate) mod tcp_info;
pub(crate) mod turns;
