//! A number that tells networks apart, to find what was computed for one before.

use super::{Routing, Topology};
use crate::digest::Fnv;

impl Topology {
    /// 32 hexadecimal digits that are the same on every machine and in every version, and differ where ranks, nodes, the
    /// grid, hosts, links (their ends, order, bandwidth, capacity and latencies) or routing, with its table, differ. How
    /// the network is called makes no difference. No protection against somebody who looks for two networks of one digest.
    pub fn digest(&self) -> String {
        let mut hash = Fnv::new();
        let routing = Routing::ALL.iter().position(|routing| *routing == self.routing);
        let routing = routing.unwrap_or(Routing::ALL.len());
        let mut take = |number: usize| hash.word(number as u64);
        [self.ranks, self.nodes, self.per_host, routing, self.dimensions.len()]
            .into_iter()
            .for_each(&mut take);
        self.dimensions.iter().copied().for_each(&mut take);
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
