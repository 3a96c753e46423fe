//! The calls of a communicator.

pub mod adapters;
pub mod collectives;
pub mod messages;
pub mod neighbours;
pub mod objects;
pub mod prepared;
pub mod received;
pub mod run;
pub mod work;
pub mod works;
