//! Hosts of several ranks each, joined by a switch. A host's memory joins its ranks, and all ranks of a host share its
//! cable.
//!
//! ```text
//! hosts:2x3    0   1   2   3   4   5      rank r is number r % 3 of host r / 3
//!              └─⇅─┼─⇅─┘   └─⇅─┼─⇅─┘      memory: node 6 + host
//!                  6           7
//!                  └─────⇅──8──⇅──┘       network: a cable per host to the switch, node 8
//! ```
//!
//! Links come in pairs, up and down: first those between ranks and memories, then those between memories and the
//! switch. Within a host a message takes two hops, between hosts four.

use super::{Link, DEFAULT_LATENCY};
use crate::units::Seconds;

/// The bandwidth of the link between a rank and its host's memory, relative to the network's: what one core copies,
/// compared with 100 Gb/s.
pub const MEMORY_CAPACITY: f64 = 2.0;
/// The latency of the link between a rank and its host's memory in seconds: half the time until one core sees what
/// another core has written.
pub const MEMORY_LATENCY: Seconds = 0.05e-6;

pub(super) fn links(hosts: usize, per_host: usize) -> Vec<Link> {
    let ranks = hosts * per_host;
    let memory = |rank| ranks + rank / per_host;
    let inside =
        (0..ranks).flat_map(|rank| [Link::between(rank, memory(rank)), Link::between(memory(rank), rank)]);
    let inside = inside.map(|link| Link { latency: MEMORY_LATENCY, capacity: MEMORY_CAPACITY, ..link });
    let (first, switch) = (ranks, ranks + hosts);
    let cables = (first..switch).flat_map(|host| [Link::between(host, switch), Link::between(switch, host)]);
    let extra_latency = DEFAULT_LATENCY - MEMORY_LATENCY;
    inside.chain(cables.map(|link| Link { latency: MEMORY_LATENCY, extra_latency, ..link })).collect()
}
