//! The links of a graph, in the form that expansions need.

use super::ExpandError;
use crate::topology::Topology;
use crate::units::{LinkId, Rank};

/// The ends of all links, and the links out of and into each rank.
pub(super) struct LinkIndex {
    pub(super) links: Vec<(Rank, Rank)>,
    pub(super) out: Vec<Vec<LinkId>>,
    pub(super) into: Vec<Vec<LinkId>>,
}

impl LinkIndex {
    /// The links of a topology, reversed if `transposed`. The error is for switches and for links of different
    /// bandwidth.
    pub(super) fn from_topology(topology: &Topology, transposed: bool) -> Result<LinkIndex, ExpandError> {
        let (ranks, all) = (topology.ranks(), topology.links());
        let speed = |id: LinkId| all[id].bytes_per_second();
        if topology.nodes() > ranks || (1..all.len()).any(|id| speed(id) != speed(0)) {
            return Err(ExpandError::Unequal(topology.spec()));
        }
        let ends = |link: &crate::topology::Link| match transposed {
            false => (link.source, link.target),
            true => (link.target, link.source),
        };
        let links: Vec<(Rank, Rank)> = all.iter().map(ends).collect();
        let (mut out, mut into) = (vec![Vec::new(); ranks], vec![Vec::new(); ranks]);
        for (id, (source, target)) in links.iter().enumerate() {
            out[*source].push(id);
            into[*target].push(id);
        }
        Ok(LinkIndex { links, out, into })
    }

    /// The links from one rank to another.
    pub(super) fn between(&self, from: Rank, to: Rank) -> Vec<LinkId> {
        self.out[from].iter().copied().filter(|link| self.links[*link].1 == to).collect()
    }

    /// The links between the same two ranks as this one, in the same direction, itself included.
    pub(super) fn beside(&self, link: LinkId) -> Vec<LinkId> {
        self.between(self.links[link].0, self.links[link].1)
    }
}
