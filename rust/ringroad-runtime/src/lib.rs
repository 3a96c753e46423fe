//! Executes plans: memory, reductions, transports, the engine and the communicator.
//!
//! Unsafe code lives in few rooms only: ARCHITECTURE.md lists them.
#![deny(unsafe_code)]

mod agreement;
mod awake;
pub mod bootstrap;
#[allow(unsafe_code)]
pub mod buffer;
pub mod call;
mod callbacks;
mod choices;
pub mod communicator;
pub mod config;
pub mod dtype;
mod engine;
pub mod error;
pub mod files;
#[allow(unsafe_code)]
mod fork;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod given;
mod interfaces;
mod judging;
mod kept;
pub mod kernels;
mod liveness;
mod lock;
pub mod machine;
mod neighbourhood;
mod network;
mod notice;
mod options;
mod pace;
pub mod planner;
pub mod profile;
mod progress;
mod random;
mod request;
mod routes;
#[allow(unsafe_code)]
mod scheduler;
mod schedules;
mod sync;
pub mod transport;
mod turns;
mod watch;
mod work;

pub use buffer::Memory;
pub use call::{CallKey, Operation};
pub use communicator::{Called, Communicator, Work};
pub use dtype::{DType, ReduceOp};
pub use error::{Error, Result};
pub use machine::cache;
pub use options::{part_of, Options};
pub use request::Request;
