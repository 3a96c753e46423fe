//! Executes plans: memory, reductions, transports, the engine and the communicator.
//!
//! Unsafe code lives in three rooms only: [`kernels`], [`buffer`] and `transport::ucx`.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod buffer;
pub mod dtype;
#[allow(unsafe_code)]
pub mod kernels;
pub mod transport;
