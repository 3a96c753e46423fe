//! Ranks in any order on a network: `torus:2x2@2,0,1,3`.
//!
//! ```text
//! torus:2x2@2,0,1,3    1 ⇄ 2     rank 0 stands where the torus has rank 2, rank 1 at position 0, rank 2 at 1, rank 3 at 3
//!                      ⇅   ⇅
//!                      0 ⇄ 3
//! ```
//!
//! The links are those of the network, in the same order, with other numbers at their ends. Coordinates, ports and routes
//! are those of the positions, so that algorithms for the network run on it with ranks renumbered.

use std::sync::Arc;

use super::family::TopologyResult;
use super::{text, Topology, TopologyError};
use crate::units::{NodeId, Rank};

/// Where ranks stand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placement {
    pub base: Topology,
    /// The position of every rank.
    pub positions: Vec<Rank>,
    /// The rank at every position.
    pub ranks: Vec<Rank>,
}

impl Placement {
    pub fn position(&self, node: NodeId) -> NodeId {
        self.positions.get(node).copied().unwrap_or(node)
    }

    pub fn node(&self, position: NodeId) -> NodeId {
        self.ranks.get(position).copied().unwrap_or(position)
    }
}

/// The inverse of a permutation; `None` if these are not the numbers below their count.
pub(crate) fn inverse(positions: &[Rank]) -> Option<Vec<Rank>> {
    let mut ranks = vec![usize::MAX; positions.len()];
    for (rank, position) in positions.iter().enumerate() {
        let place = ranks.get_mut(*position).filter(|place| **place == usize::MAX)?;
        *place = rank;
    }
    Some(ranks)
}

impl Topology {
    /// The same network with its ranks at other positions: rank `r` stands where this network has rank `positions[r]`.
    /// Switches and hosts' memories keep their numbers.
    pub fn placed(self, positions: &[Rank]) -> Result<Topology, TopologyError> {
        let Some(ranks) = inverse(positions).filter(|ranks| ranks.len() == self.ranks) else {
            let (spec, ranks) = (self.spec(), self.ranks);
            return Err(TopologyError::Positions { spec, ranks, found: text::list(positions) });
        };
        if let Some(placement) = &self.placement {
            let positions: Vec<Rank> = positions.iter().map(|rank| placement.position(*rank)).collect();
            return placement.base.clone().placed(&positions);
        }
        if positions.is_sorted() {
            return Ok(self);
        }
        let placement = Placement { base: self, positions: positions.to_vec(), ranks };
        let base = &placement.base;
        let mut links = base.links.clone();
        for link in &mut links {
            (link.source, link.target) = (placement.node(link.source), placement.node(link.target));
        }
        let plain = Topology::plain(base.kind.clone(), base.ranks, base.nodes, links);
        Ok(Topology {
            dimensions: base.dimensions.clone(),
            routing: base.routing,
            table: base.table.as_ref().map(|table| Arc::new(table.placed(positions))),
            placement: Some(Arc::new(placement)),
            ..plain
        })
    }

    /// This network, as that of ranks which are placed on a graph in this way.
    pub(super) fn under(self, positions: &[Rank]) -> Result<Topology, TopologyError> {
        match inverse(positions).filter(|ranks| ranks.len() == self.ranks) {
            None => self.placed(positions),
            Some(ranks) => {
                let (kind, count, nodes) = (self.kind.clone(), self.ranks, self.nodes);
                let links = self.placed(&ranks)?.links;
                Topology::plain(kind, count, nodes, links).placed(positions)
            }
        }
    }

    /// The position of every rank on [`Topology::base`]; `None` where ranks are not placed.
    pub fn positions(&self) -> Option<&[Rank]> {
        self.placement.as_ref().map(|placement| &*placement.positions)
    }

    /// The network on which the ranks are placed; the network itself where they are not.
    pub fn base(&self) -> &Topology {
        self.placement.as_ref().map_or(self, |placement| &placement.base)
    }

    /// The number that a node has on [`Topology::base`].
    pub(super) fn position(&self, node: NodeId) -> NodeId {
        self.placement.as_ref().map_or(node, |placement| placement.position(node))
    }

    /// What `change` makes of the network on which ranks are placed, with the ranks at the same positions; `None` where
    /// they are not placed.
    pub(super) fn on_base(&self, change: impl FnOnce(&Topology) -> TopologyResult) -> Option<TopologyResult> {
        let placement = self.placement.as_ref()?;
        Some(change(&placement.base).and_then(|changed| changed.placed(&placement.positions)))
    }
}
