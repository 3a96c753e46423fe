//! The part of a network on which some of its ranks stand.
//!
//! ```text
//! ring:6 of ranks 0, 1 and 3     0 ⇄ 1 ⇄ ■ ⇄ 2     the ranks are numbered anew; ■ are other ranks, which only pass
//!                                ⇅           ⇅     messages on, like switches
//!                                ■ ⇄ ⇄ ⇄ ⇄ ⇄ ■
//! ```
//!
//! Only links on shortest paths between the ranks belong to it. Where these form a ring, a torus, a mesh, a switch or
//! hosts, it is one of these, with the ranks placed on it in their order, so that algorithms for grids remain candidates.

use std::collections::{BTreeMap, BTreeSet};

use super::measure::{breadth_first, Adjacency};
use super::operators::derived_name;
use super::{Link, Topology, TopologyError, TopologyKind};
use crate::units::{LinkId, NodeId, Rank};

/// The most steps that the search for paths may take: some tenths of a second.
const MOST_STEPS: usize = 1 << 26;

impl Topology {
    /// The network of some ranks, which are numbered in this order. All ranks keep the whole network, and
    /// are placed on it in this order.
    ///
    /// Bytes take shortest paths: dimension-ordered routing and routing tables lose their meaning.
    pub fn induced(&self, ranks: &[Rank]) -> Result<Topology, TopologyError> {
        if ranks.iter().copied().eq(0..self.ranks) {
            return Ok(self.clone());
        }
        self.check_part(ranks)?;
        if ranks.len() == self.ranks {
            return self.clone().placed(ranks);
        }
        if self.positions().is_some() {
            return self
                .base()
                .induced(&ranks.iter().map(|rank| self.position(*rank)).collect::<Vec<Rank>>());
        }
        if ranks.len() == 1 {
            return Topology::switch(1);
        }
        let links: Vec<Link> = self.links_between(ranks).into_iter().map(|id| self.links[id]).collect();
        let (links, nodes) = renumbered(ranks, links);
        let kind = TopologyKind::Graph(derived_name(&self.part(ranks)));
        let graph = Topology::plain(kind, ranks.len(), nodes, links);
        let routing = self.routing.on_other_links();
        if let Some(known) = self.relatives(ranks).into_iter().find_map(|known| known.with_links_of(&graph)) {
            return Ok(Topology { routing, ..known });
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        if sorted != ranks {
            let known = self.induced(&sorted)?;
            if !matches!(known.kind, TopologyKind::Graph(_)) {
                let position = |rank: &Rank| sorted.partition_point(|other| other < rank);
                return known.placed(&ranks.iter().map(position).collect::<Vec<Rank>>());
            }
        }
        Ok(Topology { routing, ..graph })
    }

    fn part(&self, ranks: &[Rank]) -> String {
        format!("{} {} of {}", self.wiring(), ranks.len(), self.ranks)
    }

    fn check_part(&self, ranks: &[Rank]) -> Result<(), TopologyError> {
        let wrong = |what: String| Err(TopologyError::Graph { spec: self.spec(), what });
        if ranks.is_empty() {
            return Err(TopologyError::Zero(self.part(ranks)));
        }
        if let Some(rank) = ranks.iter().find(|rank| **rank >= self.ranks) {
            return wrong(format!("rank {rank} is not one of its ranks, 0 to {}", self.ranks - 1));
        }
        let mut met = BTreeSet::new();
        if let Some(rank) = ranks.iter().find(|rank| !met.insert(**rank)) {
            return wrong(format!("a part of it cannot have rank {rank} twice"));
        }
        if ranks.len().saturating_mul(self.nodes + self.links.len()) > MOST_STEPS {
            return Err(TopologyError::TooLarge(self.part(ranks)));
        }
        Ok(())
    }

    /// The links on shortest paths between these ranks, ascending.
    fn links_between(&self, ranks: &[Rank]) -> Vec<LinkId> {
        let outgoing = Adjacency::new(self.nodes, self.links.iter().map(|link| link.source));
        let target = |id: LinkId| self.links[id].target;
        let mut needed = vec![false; self.links.len()];
        for start in ranks {
            let (hops, found) = breadth_first(&outgoing, target, *start);
            // Whether a shortest path from `start` leads on from here to one of the ranks.
            let mut leads = vec![false; self.nodes];
            ranks.iter().for_each(|rank| leads[*rank] = true);
            for node in found.into_iter().rev() {
                let next = hops[node].map(|hops| hops + 1);
                for id in outgoing.links_of(node) {
                    if hops[target(*id)] == next && leads[target(*id)] {
                        (needed[*id], leads[node]) = (true, true);
                    }
                }
            }
        }
        (0..needed.len()).filter(|id| needed[*id]).collect()
    }

    /// What the network of these ranks may be.
    fn relatives(&self, ranks: &[Rank]) -> Vec<Topology> {
        let mut values = vec![BTreeSet::new(); self.dimensions.len()];
        for rank in ranks {
            values.iter_mut().zip(self.coordinates(*rank)).for_each(|(values, at)| {
                values.insert(at);
            });
        }
        let sizes: Vec<usize> = values.iter().map(BTreeSet::len).filter(|size| *size > 1).collect();
        let mut made = vec![Topology::switch(ranks.len())];
        if sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size)) == Some(ranks.len()) {
            let around = if sizes.len() == 1 { Topology::ring(sizes[0]) } else { Topology::torus(&sizes) };
            made.extend([around, Topology::mesh(&sizes)]);
        }
        if !self.hosts.is_empty() {
            let hosts = self.hosts_of_ranks();
            let on: Vec<usize> = ranks.iter().map(|rank| hosts[*rank]).collect();
            made.push(Topology::hosts_with(
                &on.chunk_by(|a, b| a == b).map(<[_]>::len).collect::<Vec<usize>>(),
            ));
        }
        made.into_iter().flatten().collect()
    }

    /// This network with the properties of the links of `other`, if these have the same ends.
    fn with_links_of(self, other: &Topology) -> Option<Topology> {
        let mut found: BTreeMap<(NodeId, NodeId), Vec<Link>> = BTreeMap::new();
        for link in other.links.iter().rev() {
            found.entry((link.source, link.target)).or_default().push(*link);
        }
        let same =
            (self.ranks, self.nodes, self.links.len()) == (other.ranks, other.nodes, other.links.len());
        let mut alike = same;
        let changed =
            self.map_links(|_, link| match found.get_mut(&(link.source, link.target)).and_then(Vec::pop) {
                Some(known) => *link = known,
                None => alike = false,
            });
        changed.ok().filter(|_| alike)
    }
}

/// The links with these ranks as the first nodes and all other ends after them, by source; and the number of nodes.
fn renumbered(ranks: &[Rank], mut links: Vec<Link>) -> (Vec<Link>, usize) {
    let mut numbers: BTreeMap<NodeId, NodeId> = ranks.iter().copied().zip(0..).collect();
    let others: BTreeSet<NodeId> = links.iter().flat_map(|link| [link.source, link.target]).collect();
    for node in others {
        let next = numbers.len();
        numbers.entry(node).or_insert(next);
    }
    for link in &mut links {
        (link.source, link.target) = (numbers[&link.source], numbers[&link.target]);
    }
    links.sort_by_key(|link| link.source);
    (links, numbers.len())
}
