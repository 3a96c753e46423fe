//! The pure core of ringroad: topologies, collectives and schedules, and the code that makes, checks and prices
//! schedules.
//!
//! Nothing here performs I/O, reads a clock or starts a thread; time is an argument. The crate builds for
//! `wasm32-unknown-unknown`; continuous integration checks that.
//!
//! Data goes one way:
//!
//! ```text
//! Topology + Collective --Algorithm--> Schedule --verify, transform--> Schedule
//! Schedule + Topology + bytes --CostModel--> seconds     (Selector = argmin over algorithms)
//! Schedule --lower--> Plan (one rank) --> Executor, driven by the runtime's engine or by the Simulator --> Trace
//! ```
#![forbid(unsafe_code)]

pub mod agreement;
pub mod algorithms;
pub mod changes;
pub mod collective;
pub mod cost;
pub mod digest;
pub mod discovery;
pub mod executor;
pub mod interchange;
pub mod plan;
pub mod random;
pub mod schedule;
pub mod selection;
pub mod simulate;
pub mod synthesis;
pub mod topology;
pub mod trace;
pub mod units;
pub mod wire;

pub use collective::Collective;
pub use plan::Plan;
pub use schedule::{Action, ChunkSet, Schedule, Send, Step};
pub use topology::Topology;
pub use units::{Bytes, ChunkId, LinkId, NodeId, Port, Rank, Seconds, Slot};
pub use wire::Wire;
