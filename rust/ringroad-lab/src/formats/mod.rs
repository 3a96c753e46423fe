//! Schedules in the formats of other programs, which are only written.
//!
//! [`mscclpp`] (execution plans of MSCCL++) says what happens to chunks, as a schedule does. [`goal`] (LogGOPSim) and
//! [`chakra`] (execution traces for ASTRA-sim) have bytes and dependencies, so they are written from the plans that the
//! simulator runs. MSCCL's own format is in [`ringroad_core::interchange`], because calls run such files.

pub mod chakra;
pub mod goal;
pub mod mscclpp;
