//! Routes: one path for each pair of ranks, and the virtual channels on which no messages wait for each other in a cycle.
//!
//! [`Topology::with_routes`](ringroad_core::Topology::with_routes) puts a table of them on a network.

mod balanced;
mod channels;
mod error;
mod facts;
mod greedy;
mod layers;

pub use balanced::{balanced_routes, least_load, BalancedRoutes};
pub use channels::{cycle, with_channels, Channels};
pub use error::NoRoutes;
pub use facts::{csv, path_of, Hop, RouteFacts};
pub use greedy::{shortest, up_down};
