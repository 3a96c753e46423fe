//! Tables of routes: one path for each pair of ranks, and the virtual channel of each hop.
//!
//! ```text
//! links   of 0 to 0 | 0 to 1 | 0 to 2 | ... | 1 to 0 | ...     one path after the other, by source, then by target
//! starts  0           0        1        ...                     where each path begins in `links`
//! ```
//!
//! Paths may lead over switches and over other ranks, and need not be shortest.
//!
//! A topology checks its table when it takes it, and includes it in its digest. The table gives the route of every
//! message, whatever its port. [`super::Routes`] reads it, so costs, explanations and simulations need no code for
//! it.

mod fault;
mod stored;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use fault::RouteFault;
use stored::StoredTable;

use super::placement::Placement;
use super::{Routes, Routing, Topology, TopologyError};
use crate::digest::Fnv;
use crate::units::{LinkId, NodeId, Rank, Seconds};

/// The most hops that all paths of a table may have together, since they are held in memory.
pub const MAX_HOPS: usize = 1 << 28;

/// One path for each ordered pair of ranks. [`Topology::with_routes`] checks that the table fits a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredTable", into = "StoredTable")]
pub struct RoutingTable {
    ranks: usize,
    /// Where each pair's path begins in `links`, and where the last path ends.
    starts: Vec<u32>,
    links: Vec<u32>,
    /// The channel of each hop; empty where all hops use channel 0.
    channels: Vec<u8>,
}

impl RoutingTable {
    /// An error where the pairs of ranks alone are more than the hops of a table, before any memory is taken for them.
    pub fn check_size(ranks: usize) -> Result<(), TopologyError> {
        match ranks.saturating_mul(ranks.saturating_sub(1)) > MAX_HOPS {
            true => Err(TopologyError::TooManyHops { ranks }),
            false => Ok(()),
        }
    }

    /// Makes a table. `path` is called for every pair of different ranks, by source, then by target, and appends the
    /// links from the source to the target.
    pub fn new<E: From<TopologyError>>(
        ranks: usize,
        mut path: impl FnMut(Rank, Rank, &mut Vec<u32>) -> Result<(), E>,
    ) -> Result<RoutingTable, E> {
        RoutingTable::check_size(ranks)?;
        let mut starts = Vec::with_capacity(ranks * ranks + 1);
        let mut links = Vec::new();
        starts.push(0);
        for (source, target) in (0..ranks * ranks).map(|pair| (pair / ranks, pair % ranks)) {
            if source != target {
                path(source, target, &mut links)?;
            }
            if links.len() > MAX_HOPS {
                return Err(TopologyError::TooManyHops { ranks }.into());
            }
            starts.push(links.len() as u32);
        }
        links.shrink_to_fit();
        Ok(RoutingTable { ranks, starts, links, channels: Vec::new() })
    }

    /// The table of a topology, or one made of its routes. An error where a pair of ranks has several paths or none.
    pub fn from_topology(topology: &Topology) -> Result<RoutingTable, TopologyError> {
        if let Some(table) = topology.routes() {
            return Ok((**table).clone());
        }
        let (mut routes, ranks) = (Routes::new(topology), topology.ranks());
        RoutingTable::check_size(ranks)?;
        let bad = |source, target, fault| topology.bad_route(source, target, fault);
        let mut route = |source, target| {
            let found = routes.route(source, target);
            let found = found.map_err(|_| bad(source, target, RouteFault::Missing))?;
            match found.shares.len() == found.hops {
                true => Ok(found),
                false => Err(bad(source, target, RouteFault::Split)),
            }
        };
        // Finding routes is fastest with all routes to one destination in a row.
        let mut hops = 0;
        for (target, source) in (0..ranks * ranks).map(|pair| (pair / ranks, pair % ranks)) {
            hops += route(source, target)?.hops;
            if hops > MAX_HOPS {
                return Err(TopologyError::TooManyHops { ranks });
            }
        }
        RoutingTable::new(ranks, |source, target, path| {
            let route = route(source, target)?;
            path.extend(route.shares.iter().map(|(link, _)| *link as u32));
            Ok(())
        })
    }

    /// How many ranks the table is for.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    fn range(&self, source: Rank, target: Rank) -> std::ops::Range<usize> {
        let pair = source * self.ranks + target;
        self.starts[pair] as usize..self.starts[pair + 1] as usize
    }

    /// The links from `source` to `target`; none from a rank to itself.
    pub fn path(&self, source: Rank, target: Rank) -> &[u32] {
        &self.links[self.range(source, target)]
    }

    /// The link and the channel of each hop from `source` to `target`.
    pub fn hops(&self, source: Rank, target: Rank) -> impl Iterator<Item = (LinkId, u8)> + Clone + '_ {
        let channel = |hop: usize| self.channels.get(hop).copied().unwrap_or(0);
        self.range(source, target).map(move |hop| (self.links[hop] as LinkId, channel(hop)))
    }

    /// All pairs of different ranks, by source, then by target.
    pub fn pairs(&self) -> impl Iterator<Item = (Rank, Rank)> {
        let ranks = self.ranks;
        (0..ranks * ranks).map(move |pair| (pair / ranks, pair % ranks)).filter(|(a, b)| a != b)
    }

    /// The same paths on these virtual channels: one for each hop, in the order of the paths; none where all hops use
    /// channel 0.
    pub fn on_channels(self, channels: Vec<u8>) -> RoutingTable {
        assert!(channels.is_empty() || channels.len() == self.links.len(), "every hop has one channel");
        RoutingTable { channels, ..self }
    }

    /// How many virtual channels the hops use.
    pub fn channels(&self) -> usize {
        self.channels.iter().max().map_or(1, |channel| usize::from(*channel) + 1)
    }

    /// For each link of the table's topology, how many paths lead over it.
    pub fn counts(&self, topology: &Topology) -> Vec<u64> {
        let mut counts = vec![0; topology.links().len()];
        self.links.iter().for_each(|link| counts[*link as usize] += 1);
        counts
    }

    /// How long the busiest link of the table's topology takes when every rank sends one byte to every other one.
    pub fn load(&self, topology: &Topology) -> Seconds {
        let counts = self.counts(topology).into_iter().zip(topology.links());
        counts.map(|(count, link)| count as f64 / link.bytes_per_second()).fold(0.0, f64::max)
    }

    pub(super) fn digest(&self, hash: &mut Fnv) {
        hash.numbers(self.starts.iter().map(|start| *start as usize));
        hash.numbers(self.links.iter().map(|link| *link as usize));
        hash.numbers(self.channels.iter().map(|channel| usize::from(*channel)));
    }
}

impl RoutingTable {
    /// The table for ranks at these positions.
    pub(super) fn placed(&self, positions: &[Rank]) -> RoutingTable {
        let mut channels = Vec::with_capacity(self.channels.len());
        let table = RoutingTable::new(self.ranks, |source, target, path| {
            let range = self.range(positions[source], positions[target]);
            path.extend(&self.links[range.clone()]);
            channels.extend(self.channels.get(range).unwrap_or_default());
            Ok::<(), TopologyError>(())
        });
        RoutingTable { channels, ..table.expect("it has as many hops as before") }
    }
}

impl Topology {
    /// The same wiring with the table's paths between ranks. Paths that start or end at a switch remain shortest paths.
    /// An error where the table does not fit.
    pub fn with_routes(self, table: impl Into<Arc<RoutingTable>>) -> Result<Topology, TopologyError> {
        let table = table.into();
        fault::check(&table, &self)?;
        if let Some(Placement { base, positions, ranks }) = self.placement.as_deref() {
            return base.clone().with_routes(table.placed(ranks))?.placed(positions);
        }
        Ok(Topology { routing: Routing::Table, table: Some(table), ..self })
    }

    /// The table of routes, where the routing is one.
    pub fn routes(&self) -> Option<&Arc<RoutingTable>> {
        self.table.as_ref()
    }

    /// The error where a path from one rank to another is wrong or missing.
    pub fn bad_route(&self, from: NodeId, to: NodeId, fault: RouteFault) -> TopologyError {
        TopologyError::Route { spec: self.wiring(), from, to, fault }
    }
}
