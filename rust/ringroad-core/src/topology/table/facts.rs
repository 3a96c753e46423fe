//! What a table of routes is, as data for users.

use serde::Serialize;

use super::RoutingTable;
use crate::topology::Topology;
use crate::units::{LinkId, NodeId, Rank, Seconds};

/// What a table of routes is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RouteFacts {
    /// A lower bound of the load of any routes, if it is known.
    pub bound: Option<Seconds>,
    /// [`RoutingTable::load`].
    pub load: Seconds,
    /// The load divided by the bound.
    pub ratio: Option<f64>,
    /// [`RoutingTable::channels`].
    pub channels: usize,
    /// Whether no messages can wait for each other in a cycle.
    pub is_deadlock_free: bool,
    /// [`RoutingTable::counts`].
    pub counts: Vec<u64>,
    /// The number of hops of the longest path.
    pub longest: usize,
    /// The number of hops of a path, on average.
    pub mean_hops: f64,
}

/// One link of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// The link.
    pub link: LinkId,
    /// The node where it starts.
    pub source: NodeId,
    /// The node where it ends.
    pub target: NodeId,
    /// The virtual channel.
    pub channel: u8,
}

impl RoutingTable {
    /// The path from one rank to another, with the ends of its links.
    pub fn path_of(&self, topology: &Topology, source: Rank, target: Rank) -> Vec<Hop> {
        let hop = |(id, channel): (LinkId, u8)| {
            let link = &topology.links()[id];
            Hop { link: id, source: link.source, target: link.target, channel }
        };
        self.hops(source, target).map(hop).collect()
    }

    /// What this table of a topology is.
    pub fn facts(&self, topology: &Topology, bound: Option<Seconds>) -> RouteFacts {
        let (load, counts) = (self.load(topology), self.counts(topology));
        let pairs = (self.ranks * (self.ranks - 1)).max(1);
        RouteFacts {
            bound,
            load,
            ratio: bound.map(|bound| if bound > 0.0 { load / bound } else { 1.0 }),
            channels: self.channels(),
            is_deadlock_free: self.cycle().is_none(),
            mean_hops: counts.iter().sum::<u64>() as f64 / pairs as f64,
            counts,
            longest: self.pairs().map(|(source, target)| self.path(source, target).len()).max().unwrap_or(0),
        }
    }
}
