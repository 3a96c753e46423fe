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

use super::family::{check_size, Ends, Family, Form, Layout, Ports, Traits};
use super::{link, text, Kind, Link, Topology, TopologyError, DEFAULT_LATENCY};
use crate::units::Seconds;

/// The bandwidth of the link between a rank and its host's memory, relative to the network's: what one core copies,
/// compared with 100 Gb/s.
pub const MEMORY_CAPACITY: f64 = 2.0;
/// The latency of the link between a rank and its host's memory in seconds: half the time until one core sees what
/// another core has written.
pub const MEMORY_LATENCY: Seconds = 0.05e-6;

pub(super) static HOSTS: Family = Family {
    name: "hosts",
    example: "hosts:2x4",
    summary: "2 hosts of 4 ranks, which share memory and a cable",
    source: "ours",
    form: Form::TwoSizes(Topology::hosts),
    layout: Layout { ports: Ports::Uplink, ends: Ends::First, traits: Traits::NONE },
};

impl Topology {
    /// So many hosts of `per_host` ranks each, which share their host's memory and its cable to a switch.
    pub fn hosts(hosts: usize, per_host: usize) -> Result<Topology, TopologyError> {
        let spec = || HOSTS.spec(text::join(&[hosts, per_host]));
        let ranks = check_size(&[hosts, per_host], 4, spec)?;
        let nodes = ranks + hosts + 1;
        Ok(Topology { per_host, ..Topology::member(&HOSTS, spec(), ranks, nodes, links(hosts, per_host)) })
    }

    /// The same wiring with memory of `capacity` times the network's bandwidth, and with so much extra latency on every
    /// cable between hosts; `None` leaves them alone. Without effect where every rank has its own cable.
    pub fn with_hosts(
        self,
        capacity: Option<f64>,
        extra_latency: Option<Seconds>,
    ) -> Result<Topology, TopologyError> {
        link::check_relative(capacity.unwrap_or(1.0), extra_latency.unwrap_or(0.0))?;
        if !matches!(&self.kind, Kind::Member { family, .. } if **family == HOSTS) {
            return Ok(self);
        }
        let memory = 2 * self.ranks;
        self.map_links(|id, link| {
            if id < memory {
                link.capacity = capacity.unwrap_or(link.capacity);
            } else {
                link.extra_latency = extra_latency.unwrap_or(link.extra_latency);
            }
        })
    }
}

fn links(hosts: usize, per_host: usize) -> Vec<Link> {
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
