//! What a table of routes is, as data for users.

use std::fmt::Write;

use ringroad_core::topology::{RoutingTable, Topology};
use ringroad_core::units::{LinkId, NodeId, Rank, Seconds};
use serde::Serialize;

use super::cycle;

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

impl RouteFacts {
    /// What a table of a topology is.
    pub fn from_table(table: &RoutingTable, topology: &Topology, bound: Option<Seconds>) -> RouteFacts {
        let (load, counts) = (table.load(topology), table.counts(topology));
        let pairs = (table.ranks() * (table.ranks() - 1)).max(1);
        RouteFacts {
            bound,
            load,
            ratio: bound.map(|bound| if bound > 0.0 { load / bound } else { 1.0 }),
            channels: table.channels(),
            is_deadlock_free: cycle(table).is_none(),
            mean_hops: counts.iter().sum::<u64>() as f64 / pairs as f64,
            counts,
            longest: table
                .pairs()
                .map(|(source, target)| table.path(source, target).len())
                .max()
                .unwrap_or(0),
        }
    }
}

/// The path from one rank to another, with the ends of its links.
pub fn path_of(table: &RoutingTable, topology: &Topology, source: Rank, target: Rank) -> Vec<Hop> {
    let hop = |(id, channel): (LinkId, u8)| {
        let link = &topology.links()[id];
        Hop { link: id, source: link.source, target: link.target, channel }
    };
    table.hops(source, target).map(hop).collect()
}

/// The hops of all paths of a source as comma-separated values, one line each: source, target, hop, from, to, link,
/// channel.
pub fn csv(table: &RoutingTable, topology: &Topology, source: Rank) -> String {
    let mut text = String::new();
    for end in (0..table.ranks()).filter(|target| *target != source) {
        for (number, hop) in path_of(table, topology, source, end).into_iter().enumerate() {
            let Hop { link, source: from, target: to, channel } = hop;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{source},{end},{number},{from},{to},{link},{channel}");
        }
    }
    text
}
