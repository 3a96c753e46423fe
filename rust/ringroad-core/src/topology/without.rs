//! Networks in which cables or links have failed.
//!
//! ```text
//! without(torus:4x4, 0-1, 5>6)   a torus without all links between 0 and 1, and without those from 5 to 6
//! ```
//!
//! The network keeps its grid, so that algorithms for grids remain candidates, and the remaining links keep their
//! ports. No other property of the family holds: bytes go around the failed links, in any order of dimensions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::operators::derived_name;
use super::{Link, Topology, TopologyError, TopologyKind};
use crate::units::{LinkId, NodeId};

/// Failed links: all links from one node to another, and with `both` also those back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub from: NodeId,
    pub to: NodeId,
    pub both: bool,
}

impl Cut {
    fn ends(self) -> impl Iterator<Item = (NodeId, NodeId)> {
        [(self.from, self.to)].into_iter().chain(self.both.then_some((self.to, self.from)))
    }
}

impl Cut {
    /// Whether the link is one of these.
    pub fn has(&self, link: &Link) -> bool {
        self.ends().any(|pair| pair == (link.source, link.target))
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.from, if self.both { '-' } else { '>' }, self.to)
    }
}

impl Topology {
    /// The network without the links between these pairs of nodes, in both directions: `without(G, 0-1, 5-6)`.
    pub fn without_links(&self, pairs: &[(NodeId, NodeId)]) -> Result<Topology, TopologyError> {
        let cut = |&(from, to): &(NodeId, NodeId)| Cut { from, to, both: true };
        self.without(&pairs.iter().map(cut).collect::<Vec<Cut>>())
    }

    /// The network without the links from the first to the second node of each pair: `without(G, 0>1, 5>6)`.
    pub fn without_directions(&self, pairs: &[(NodeId, NodeId)]) -> Result<Topology, TopologyError> {
        let cut = |&(from, to): &(NodeId, NodeId)| Cut { from, to, both: false };
        self.without(&pairs.iter().map(cut).collect::<Vec<Cut>>())
    }

    pub(super) fn without(&self, cuts: &[Cut]) -> Result<Topology, TopologyError> {
        if cuts.is_empty() {
            return Ok(self.clone());
        }
        let written = cuts.iter().map(Cut::to_string).collect::<Vec<String>>().join(", ");
        let wiring = self.wiring();
        let spec = match wiring.strip_prefix("without(").and_then(|inner| inner.strip_suffix(')')) {
            Some(inner) => format!("without({inner}, {written})"),
            None => format!("without({wiring}, {written})"),
        };
        self.check_cuts(&spec, cuts)?;
        let moved = |cut: &Cut| Cut { from: self.position(cut.from), to: self.position(cut.to), ..*cut };
        if let Some(placed) = self.on_base(|base| base.without(&cuts.iter().map(moved).collect::<Vec<Cut>>()))
        {
            return placed;
        }
        let gone: BTreeSet<(NodeId, NodeId)> = cuts.iter().flat_map(|cut| cut.ends()).collect();
        let is_gone = |link: &Link| gone.contains(&(link.source, link.target));
        let failed: Vec<LinkId> = (0..self.links.len()).filter(|id| is_gone(&self.links[*id])).collect();
        let (left, numbers) = self.without_link_ids(&failed);
        let kind = match self.kind {
            TopologyKind::Graph(_) => TopologyKind::Graph(derived_name(&spec)),
            _ => TopologyKind::Without(spec, self.ports_left(&numbers)),
        };
        let (dimensions, hosts) = (self.dimensions.clone(), self.hosts.clone());
        Topology { kind, dimensions, hosts, ..left }.if_connected()
    }

    /// Checks that there are links between all these ends. `spec` is what errors name.
    pub(super) fn check_cuts(&self, spec: &str, cuts: &[Cut]) -> Result<(), TopologyError> {
        let present: BTreeSet<(NodeId, NodeId)> = {
            let wanted: BTreeSet<_> = cuts.iter().flat_map(|cut| cut.ends()).collect();
            let ends = |link: &Link| (link.source, link.target);
            self.links.iter().map(ends).filter(|pair| wanted.contains(pair)).collect()
        };
        let missing = |cut: &&Cut| !cut.ends().any(|pair| present.contains(&pair));
        let Some(Cut { from, to, both }) = cuts.iter().find(missing) else { return Ok(()) };
        let (joins, advice) = match both {
            true => (format!("no link joins {from} and {to}"), "name two nodes that a cable joins"),
            false => (format!("no link leads from {from} to {to}"), "name a link's source and target"),
        };
        Err(TopologyError::Graph { spec: spec.to_owned(), what: format!("{joins}; {advice}") })
    }

    /// On a grid, the link that each port of each rank has now, rank by rank.
    fn ports_left(&self, numbers: &[LinkId]) -> Vec<Option<LinkId>> {
        let now: BTreeMap<LinkId, LinkId> =
            numbers.iter().enumerate().map(|(now, before)| (*before, now)).collect();
        let ports = 2 * self.dimensions.len();
        let all = (0..self.ranks).flat_map(|rank| (0..ports).map(move |port| (rank, port)));
        all.map(|(rank, port)| now.get(&self.port_link(rank, port)?).copied()).collect()
    }

    /// The same nodes without the links `failed`, and for each remaining link the number that it had before. The result
    /// may be disconnected.
    pub(crate) fn without_link_ids(&self, failed: &[LinkId]) -> (Topology, Vec<LinkId>) {
        let failed: BTreeSet<LinkId> = failed.iter().copied().collect();
        let left: Vec<LinkId> = (0..self.links.len()).filter(|link| !failed.contains(link)).collect();
        let links = left.iter().map(|link| self.links[*link]).collect();
        let routing = self.routing.on_other_links();
        let graph =
            Topology::plain(TopologyKind::Graph("degraded".to_owned()), self.ranks, self.nodes, links);
        (Topology { routing, ..graph }, left)
    }
}
