//! From what hosts see of a network to a topology: who is wired to whom, how fast links are, and what the whole is.
//!
//! ```text
//! addresses, traces --Wiring--> hosts, routers, edges, paths --experiments--> rounds of flows to run
//! traces, rates of flows, latencies --assemble--> Topology, its name in the catalogue, what is not certain
//! ```
//!
//! Nothing here sends anything: the runtime gathers the evidence.

mod assemble;
mod compare;
mod draw;
mod error;
mod evidence;
mod experiments;
mod latency;
mod network;
mod opaque;
mod ranks;
mod rates;
mod rounding;
mod targets;
mod wiring;

pub use assemble::{assemble, Found, LinkFacts};
pub use compare::{differences, with_found_rates};
pub use error::DiscoveryError;
pub use evidence::{Evidence, Flow, HostFacts, Latency, Round, Trace};
pub use experiments::{experiments, next_experiments, Effort, Flows};
pub use rates::{How, Rate};
pub use targets::trace_targets;
pub use wiring::{Edge, Path, Wiring};
