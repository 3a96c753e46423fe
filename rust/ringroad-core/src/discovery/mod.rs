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
mod error;
mod evidence;
mod experiments;
mod latency;
mod matchings;
mod network;
mod next;
mod nics;
mod opaque;
mod racks;
mod ranks;
mod rates;
mod recognise;
mod rounding;
mod routes;
mod targets;
mod wiring;

pub use assemble::{assemble, FoundNetwork, LinkFacts};
pub use compare::{states_rates, with_found_rates, Mismatch, WrongLink};
pub use error::DiscoveryError;
pub use evidence::{Evidence, Flow, HostFacts, Latency, Round, TracedRoute};
pub use experiments::{experiments, Effort};
pub use matchings::Flows;
pub use next::{next_experiments, starved_experiments};
pub use rates::{How, Rate};
pub use targets::trace_targets;
pub use wiring::{Edge, HostPath, Wiring};
