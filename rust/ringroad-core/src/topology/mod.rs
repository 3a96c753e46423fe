//! Who is wired to whom: a directed multigraph of ranks, hosts' memories and switches.
//!
//! Ranks are the nodes `0..ranks`, memories and switches follow. On tori ranks are numbered like the elements of a C array of the
//! same shape: the last dimension varies fastest, as in NumPy and in torch's `DeviceMesh`. The order of the links says
//! which port they leave by (see [`Topology::port_link`]).

mod hosts;
mod parse;
mod routing;
mod switch;
mod torus;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use hosts::{MEMORY_CAPACITY, MEMORY_LATENCY};
pub use parse::TopologyError;
pub use routing::{Route, Routes, Unreachable};
pub(crate) use torus::coordinates;

use crate::units::{LinkId, NodeId, Port, Rank, Seconds};

/// Bandwidth of a link unless told otherwise, in bytes per second: 100 Gb/s.
pub const DEFAULT_BANDWIDTH: f64 = 12.5e9;
/// Latency of a link unless told otherwise, including what the node at its end takes to pass a message on.
pub const DEFAULT_LATENCY: Seconds = 0.5e-6;
/// The most ranks a topology may have.
pub const MAX_RANKS: usize = 1 << 20;

/// One direction of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Where it starts.
    pub source: NodeId,
    /// Where it ends.
    pub target: NodeId,
    /// Bytes per second, of a link of capacity 1.
    pub bandwidth: f64,
    /// From the first byte in to the first byte out, of a link without extra latency.
    pub latency: Seconds,
    /// How many times that bandwidth this link has. Whoever states one bandwidth for all links, as
    /// [`Topology::with_links`] and the cost model may, leaves this alone: memory remains faster than the network.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub capacity: f64,
    /// How much longer than that latency this link takes. Whoever states one latency for all links leaves this alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extra_latency: Seconds,
}

fn one() -> f64 {
    1.0
}

fn is_one(number: &f64) -> bool {
    *number == 1.0
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl Link {
    fn between(source: NodeId, target: NodeId) -> Link {
        let (bandwidth, latency) = (DEFAULT_BANDWIDTH, DEFAULT_LATENCY);
        Link { source, target, bandwidth, latency, capacity: 1.0, extra_latency: 0.0 }
    }

    /// Bytes per second, all in all.
    pub fn bytes_per_second(&self) -> f64 {
        self.bandwidth * self.capacity
    }

    /// From the first byte in to the first byte out, all in all.
    pub fn seconds(&self) -> Seconds {
        self.latency + self.extra_latency
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Ring,
    Torus,
    Switch,
    Hosts,
}

/// A network. Its [`fmt::Display`] is its spec, which [`Topology::parse`] reads; links are not part of the spec but of
/// the serialised form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Topology {
    family: Family,
    ranks: usize,
    nodes: usize,
    per_host: usize,
    dimensions: Vec<usize>,
    links: Vec<Link>,
}

/// What is serialised: the wiring follows from the spec, the links' properties do not.
#[derive(Serialize, Deserialize)]
struct Stored {
    spec: String,
    links: Vec<Link>,
}

impl Topology {
    /// A ring of `n` ranks: a torus of one dimension.
    pub fn ring(n: usize) -> Result<Topology, TopologyError> {
        check_size(&[n], || format!("ring:{n}"))?;
        Ok(Topology { family: Family::Ring, ..Topology::torus(&[n])? })
    }

    /// A torus with these sizes, one ring per dimension. A dimension of size 2 has two parallel links each way, one
    /// for each port; a dimension of size 1 has none.
    pub fn torus(sizes: &[usize]) -> Result<Topology, TopologyError> {
        let spec = || format!("torus:{}", parse::join(sizes));
        if sizes.is_empty() {
            return Err(TopologyError::Malformed { spec: spec(), example: "torus:4x4x2" });
        }
        let ranks = check_size(sizes, spec)?;
        let dimensions = sizes.to_vec();
        Ok(Topology {
            family: Family::Torus,
            ranks,
            nodes: ranks,
            per_host: 1,
            dimensions,
            links: torus::links(sizes, ranks),
        })
    }

    /// `n` ranks with one cable each to a switch that can forward all of them at full bandwidth.
    pub fn switch(n: usize) -> Result<Topology, TopologyError> {
        let ranks = check_size(&[n], || format!("switch:{n}"))?;
        let links = switch::links(ranks);
        let family = Family::Switch;
        Ok(Topology { family, ranks, nodes: ranks + 1, per_host: 1, dimensions: Vec::new(), links })
    }

    /// So many hosts of `per_host` ranks each, which share their host's memory and its cable to a switch.
    pub fn hosts(hosts: usize, per_host: usize) -> Result<Topology, TopologyError> {
        let ranks = check_size(&[hosts, per_host], || format!("hosts:{hosts}x{per_host}"))?;
        let (nodes, links) = (ranks + hosts + 1, hosts::links(hosts, per_host));
        Ok(Topology { family: Family::Hosts, ranks, nodes, per_host, dimensions: Vec::new(), links })
    }

    /// Reads `ring:8`, `torus:4x4x2`, `switch:16` or `hosts:2x4`.
    pub fn parse(spec: &str) -> Result<Topology, TopologyError> {
        parse::topology(spec)
    }

    /// The same wiring with this bandwidth (bytes per second) and latency on every link; `None` leaves them alone. Where
    /// links differ in capacity or have extra latency, they still do.
    pub fn with_links(
        mut self,
        bandwidth: Option<f64>,
        latency: Option<Seconds>,
    ) -> Result<Topology, TopologyError> {
        check_link(bandwidth.unwrap_or(DEFAULT_BANDWIDTH), latency.unwrap_or(DEFAULT_LATENCY))?;
        for link in &mut self.links {
            link.bandwidth = bandwidth.unwrap_or(link.bandwidth);
            link.latency = latency.unwrap_or(link.latency);
        }
        Ok(self)
    }

    /// The same wiring with memory of `capacity` times the network's bandwidth, and with so much extra latency on every
    /// cable between hosts; `None` leaves them alone. Without effect where every rank has its own cable.
    pub fn with_hosts(
        mut self,
        capacity: Option<f64>,
        extra_latency: Option<Seconds>,
    ) -> Result<Topology, TopologyError> {
        check_relative(capacity.unwrap_or(1.0), extra_latency.unwrap_or(0.0))?;
        if self.family == Family::Hosts {
            let (memory, cables) = self.links.split_at_mut(2 * self.ranks);
            memory.iter_mut().for_each(|link| link.capacity = capacity.unwrap_or(link.capacity));
            cables
                .iter_mut()
                .for_each(|link| link.extra_latency = extra_latency.unwrap_or(link.extra_latency));
        }
        Ok(self)
    }

    /// How many ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// How many ranks, memories and switches.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The links; a [`LinkId`] is an index into them.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// How many ranks share a host's memory, rank `r` that of host `r / per_host`; 1 where each is on its own.
    pub fn per_host(&self) -> usize {
        self.per_host
    }

    /// The sizes of the torus; a ring has one, a switch and hosts none.
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// The text that [`Topology::parse`] makes this wiring of.
    pub fn spec(&self) -> String {
        match self.family {
            Family::Ring => format!("ring:{}", self.ranks),
            Family::Torus => format!("torus:{}", parse::join(&self.dimensions)),
            Family::Switch => format!("switch:{}", self.ranks),
            Family::Hosts => format!("hosts:{}x{}", self.ranks / self.per_host, self.per_host),
        }
    }

    /// The link by which `port` leaves `rank`, where there is one. On tori port `2d` leads to the neighbour above in
    /// dimension `d` and `2d + 1` to the one below; behind a switch and on hosts every port is the uplink.
    pub fn port_link(&self, rank: Rank, port: Port) -> Option<LinkId> {
        if rank >= self.ranks {
            return None;
        }
        match self.family {
            Family::Ring | Family::Torus => torus::port_link(&self.dimensions, rank, port),
            Family::Switch | Family::Hosts => Some(switch::uplink(rank)),
        }
    }

    /// The first port by which a cable of a ring or torus leads from `source` to its neighbour `destination`.
    pub fn port_to(&self, source: Rank, destination: Rank) -> Option<Port> {
        let ends = |port| self.port_link(source, port).map(|link| self.links[link].target);
        (0..2 * self.dimensions.len()).find(|port| ends(*port) == Some(destination))
    }

    /// The place of `rank` on the torus, one coordinate per dimension; empty where there is none.
    pub fn coordinates(&self, rank: Rank) -> Vec<usize> {
        torus::coordinates(&self.dimensions, rank)
    }

    /// The rank at these coordinates, taken modulo the sizes; the inverse of [`Topology::coordinates`] on tori, and
    /// `None` where the number of coordinates is not that of the dimensions or there is no torus.
    pub fn rank_at(&self, coordinates: &[usize]) -> Option<Rank> {
        let fits = !self.dimensions.is_empty() && coordinates.len() == self.dimensions.len();
        fits.then(|| torus::rank_at(&self.dimensions, coordinates))
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spec())
    }
}

impl From<Topology> for Stored {
    fn from(topology: Topology) -> Self {
        Stored { spec: topology.spec(), links: topology.links }
    }
}

impl TryFrom<Stored> for Topology {
    type Error = TopologyError;

    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        let mut topology = Topology::parse(&stored.spec)?;
        let ends = |links: &[Link]| links.iter().map(|l| (l.source, l.target)).collect::<Vec<_>>();
        if ends(&topology.links) != ends(&stored.links) {
            return Err(TopologyError::Wiring(stored.spec));
        }
        for link in &stored.links {
            check_link(link.bandwidth, link.latency)?;
            check_relative(link.capacity, link.extra_latency)?;
        }
        topology.links = stored.links;
        Ok(topology)
    }
}

/// How many ranks these sizes make.
fn check_size(sizes: &[usize], spec: impl Fn() -> String) -> Result<usize, TopologyError> {
    if sizes.contains(&0) {
        return Err(TopologyError::Zero(spec()));
    }
    sizes
        .iter()
        .try_fold(1usize, |product, size| product.checked_mul(*size))
        .filter(|ranks| *ranks <= MAX_RANKS)
        .ok_or_else(|| TopologyError::TooLarge(spec()))
}

fn check_link(bandwidth: f64, latency: Seconds) -> Result<(), TopologyError> {
    if !(bandwidth > 0.0 && bandwidth.is_finite()) {
        return Err(TopologyError::Bandwidth(bandwidth));
    }
    if !(latency >= 0.0 && latency.is_finite()) {
        return Err(TopologyError::Latency(latency));
    }
    Ok(())
}

fn check_relative(capacity: f64, extra_latency: Seconds) -> Result<(), TopologyError> {
    if !(capacity > 0.0 && capacity.is_finite()) {
        return Err(TopologyError::Capacity(capacity));
    }
    check_link(DEFAULT_BANDWIDTH, extra_latency)
}

#[cfg(test)]
mod tests;
