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
//! switch. Within a host a message takes two hops, between hosts four. `hosts:1,2,3` has hosts of 1, 2 and 3 ranks, which
//! are numbered host by host; the links are in the same order.

use super::family::{check_size, Ends, Family, FamilyLayout, PortRule, SpecForm, TopologyResult, Traits};
use super::{link, text, Link, Topology, TopologyError, TopologyKind, DEFAULT_LATENCY};
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
    summary: "2 hosts of 4 ranks, which share memory and a cable; hosts:1,2,3 has hosts of 1, 2 and 3",
    source: "ours",
    form: SpecForm::ListAlone(read),
};

const LAYOUT: FamilyLayout =
    FamilyLayout { family: &HOSTS, ports: PortRule::Uplink, ends: Ends::First, traits: Traits::NONE };

/// `2x4`, or a list of two numbers of ranks or more.
fn read(text: &str) -> Option<TopologyResult> {
    match text::sizes(text).as_deref() {
        Some([hosts, per_host]) => Some(Topology::hosts(*hosts, *per_host)),
        Some(_) => None,
        None => Some(Topology::hosts_with(&text::numbers(text)?)),
    }
}

/// How many ranks every host has, if all have as many; `None` where no ranks share hosts, too.
pub(super) fn equal_size(sizes: &[usize]) -> Option<usize> {
    sizes.first().filter(|first| sizes.iter().all(|size| size == *first)).copied()
}

/// The host of every rank on hosts of these numbers of ranks.
pub(super) fn host_by_rank(sizes: &[usize]) -> Vec<usize> {
    sizes.iter().enumerate().flat_map(|(host, size)| std::iter::repeat_n(host, *size)).collect()
}

impl Topology {
    /// So many hosts of `per_host` ranks each, which share their host's memory and its cable to a switch.
    pub fn hosts(hosts: usize, per_host: usize) -> Result<Topology, TopologyError> {
        let spec = || HOSTS.spec(text::join(&[hosts, per_host]));
        check_size(&[hosts, per_host], 4, spec)?;
        Ok(draw(spec(), vec![per_host; hosts]))
    }

    /// Hosts of so many ranks each, which share their host's memory and its cable to a switch. Rank 0 is the first of host
    /// 0. Where all have as many, these are [`Topology::hosts`].
    pub fn hosts_with(sizes: &[usize]) -> Result<Topology, TopologyError> {
        let spec = || HOSTS.spec(text::list(sizes));
        if sizes.is_empty() || sizes.contains(&0) {
            return Err(TopologyError::Zero(spec()));
        }
        if let Some(per_host) = equal_size(sizes) {
            return Topology::hosts(sizes.len(), per_host);
        }
        check_size(&[sizes.iter().fold(0, |sum: usize, size| sum.saturating_add(*size))], 4, spec)?;
        Ok(draw(spec(), sizes.to_vec()))
    }

    /// The same wiring with memory of `capacity` times the network's bandwidth, and with so much extra latency on every
    /// cable between hosts; `None` leaves them alone. Without effect where every rank has its own cable.
    pub fn with_hosts(
        self,
        capacity: Option<f64>,
        extra_latency: Option<Seconds>,
    ) -> Result<Topology, TopologyError> {
        link::check_relative(capacity.unwrap_or(1.0), extra_latency.unwrap_or(0.0))?;
        if !matches!(&self.kind, TopologyKind::Member { layout, .. } if *layout.family == HOSTS) {
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

fn draw(spec: String, hosts: Vec<usize>) -> Topology {
    let ranks = hosts.iter().sum();
    let nodes = ranks + hosts.len() + 1;
    let links = links(&hosts, ranks);
    Topology { hosts, ..Topology::member(LAYOUT, spec, ranks, nodes, links) }
}

fn links(hosts: &[usize], ranks: usize) -> Vec<Link> {
    let memories = host_by_rank(hosts).into_iter().map(|host| ranks + host).enumerate();
    let inside =
        memories.flat_map(|(rank, memory)| [Link::between(rank, memory), Link::between(memory, rank)]);
    let inside = inside.map(|link| Link { latency: MEMORY_LATENCY, capacity: MEMORY_CAPACITY, ..link });
    let (first, switch) = (ranks, ranks + hosts.len());
    let cables = (first..switch).flat_map(|host| [Link::between(host, switch), Link::between(switch, host)]);
    let extra_latency = DEFAULT_LATENCY - MEMORY_LATENCY;
    inside.chain(cables.map(|link| Link { latency: MEMORY_LATENCY, extra_latency, ..link })).collect()
}
