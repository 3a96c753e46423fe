//! Schedules in the formats of other programs: text or bytes in, values out.
//!
//! [`msccl`] reads and writes the XML of MSCCL. The others are only written: [`mscclpp`] (execution plans of MSCCL++),
//! [`goal`] (LogGOPSim) and [`chakra`] (execution traces for ASTRA-sim). The first two say what happens to chunks, as a
//! schedule does. The last two have bytes and dependencies, so they are written from the plans that the simulator runs.

mod buffers;
pub mod chakra;
mod error;
pub mod goal;
pub mod msccl;
pub mod mscclpp;

pub use error::InterchangeError;
