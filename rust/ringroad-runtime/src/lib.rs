//! Executes plans: memory, reductions, transports, the engine and the communicator.
//!
//! Unsafe code lives in three rooms only: [`kernels`], [`buffer`] and `transport::ucx`.
#![deny(unsafe_code)]

mod agreement;
pub mod bootstrap;
#[allow(unsafe_code)]
pub mod buffer;
pub mod cache;
pub mod call;
mod callbacks;
mod choices;
pub mod communicator;
pub mod config;
pub mod dtype;
mod engine;
pub mod error;
#[allow(unsafe_code)]
mod fork;
mod interfaces;
mod judging;
mod kept;
pub mod kernels;
mod liveness;
mod neighbourhood;
mod notice;
pub mod planner;
mod preferences;
pub mod profile;
mod progress;
#[allow(unsafe_code)]
mod scheduler;
mod schedules;
mod sync;
pub mod transport;
mod turns;
mod work;

pub use buffer::Memory;
pub use call::Operation;
pub use communicator::{Called, Communicator, Options, Request, Work};
pub use dtype::{DType, ReduceOp};
pub use error::{Error, Result};
