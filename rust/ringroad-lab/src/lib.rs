//! The laboratory of ringroad: what users ask for when they study networks, and no communicator needs.
//!
//! [`finder`] searches for networks in which collectives take the least time, [`routes`] for the path of each pair of
//! ranks. [`alltoall`] says what the flow of an all-to-all is, and [`formats`] writes schedules for other programs.
//!
//! As in [`ringroad_core`], nothing here performs I/O, reads a clock or starts a thread. What the choice of a communicator
//! may use belongs there: the core and the runtime know nothing of this crate.
#![forbid(unsafe_code)]

pub mod alltoall;
pub mod finder;
pub mod formats;
pub mod routes;
