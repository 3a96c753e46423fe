//! The digest of a topology, by which results that were computed for the same network earlier are found.

use super::{hosts, Routing, Topology};
use crate::digest::Fnv;

impl Topology {
    /// A digest of 32 hexadecimal digits, the same on every machine and in every version. It covers ranks, nodes, the
    /// grid, hosts, positions, links (their ends, order, bandwidth, capacity and latencies) and the routing with its table, but
    /// not the name of the network. It is not cryptographic: an attacker can construct two networks with the same
    /// digest.
    pub fn digest(&self) -> String {
        let mut hash = Fnv::new();
        let routing = Routing::ALL.iter().position(|routing| *routing == self.routing);
        let routing = routing.unwrap_or(Routing::ALL.len());
        let mut take = |number: usize| hash.word(number as u64);
        [self.ranks, self.nodes, self.per_host(), routing, self.dimensions.len()]
            .into_iter()
            .for_each(&mut take);
        self.dimensions.iter().copied().for_each(&mut take);
        self.positions().into_iter().flatten().copied().for_each(&mut take);
        if hosts::equal_size(&self.hosts).is_none() {
            self.hosts.iter().copied().for_each(&mut take);
        }
        for link in &self.links {
            hash.word(link.source as u64);
            hash.word(link.target as u64);
            for number in [link.bandwidth, link.latency, link.capacity, link.extra_latency] {
                hash.word(number.to_bits());
            }
        }
        if let Some(table) = &self.table {
            table.digest(&mut hash);
        }
        hash.digits()
    }
}
