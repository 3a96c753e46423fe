//! Executes plans: memory, reductions, transports, the engine and the communicator.
//!
//! Unsafe code lives in few rooms only: ARCHITECTURE.md lists them.
#![deny(unsafe_code)]

pub mod adaptation;
pub mod bootstrap;
pub mod calls;
pub mod choice;
pub mod communicator;
pub mod config;
mod engine;
pub mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod kernels;
pub mod network;
pub mod os;
pub mod transport;

pub use calls::call::{CallKey, MaxError, Operation, Precision, PROC_NULL};
pub use calls::function::Function;
pub use calls::request::Request;
pub use calls::work::Message;
pub use choice::options::{part_of, Options};
pub use communicator::{Called, Communicator, Work};
pub use error::{Error, Result};
pub use kernels::dtype::{DType, Opaque, Own, ReduceOp};
pub use transport::buffer::Memory;
