//! What a network is, as data for users.

use std::collections::BTreeSet;

use serde::Serialize;

use super::measure::breadth_first;
use super::{Adjacency, Topology};
use crate::units::{NodeId, Rank, Seconds};

/// What a network is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopologyFacts {
    /// [`Topology::spec`].
    pub topology: String,
    /// [`Topology::ranks`].
    pub ranks: usize,
    /// [`Topology::nodes`].
    pub nodes: usize,
    /// The number of links.
    pub links: usize,
    /// [`Topology::dimensions`].
    pub dimensions: Vec<usize>,
    /// [`Topology::positions`].
    pub positions: Option<Vec<Rank>>,
    /// [`Topology::max_degree`].
    pub degree: usize,
    /// [`Topology::diameter`], if it was asked for.
    pub diameter: Option<usize>,
    /// [`Topology::routing`].
    pub routing: &'static str,
    /// The links' bandwidths in bytes per second, ascending, each once.
    pub bandwidth: Vec<f64>,
    /// The links' latencies, ascending, each once.
    pub latency: Vec<Seconds>,
    /// What else there is to say of a network of ranks alone without a grid.
    pub graph: Option<GraphFacts>,
}

/// What a network of ranks alone is, seen from rank 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GraphFacts {
    /// The ranks to which rank 0 has links.
    pub neighbours: Vec<Rank>,
    /// The number of ranks at each distance from rank 0.
    pub at_distance: Vec<usize>,
    /// [`moore_steps`] for as many ranks and links.
    pub moore_bound: Option<usize>,
    /// [`Topology::is_cayley`].
    pub is_cayley: bool,
}

impl Topology {
    /// What the network is. The diameter takes a search from many ranks.
    pub fn facts(&self, diameter: bool) -> TopologyFacts {
        TopologyFacts {
            topology: self.spec(),
            ranks: self.ranks(),
            nodes: self.nodes(),
            links: self.links().len(),
            dimensions: self.dimensions().to_vec(),
            positions: self.positions().map(<[Rank]>::to_vec),
            degree: self.max_degree(),
            diameter: diameter.then(|| self.diameter()),
            routing: self.routing().name(),
            bandwidth: different(self.links().iter().map(|link| link.bytes_per_second())),
            latency: different(self.links().iter().map(|link| link.seconds())),
            graph: self.graph_facts(),
        }
    }

    fn graph_facts(&self) -> Option<GraphFacts> {
        if !self.dimensions().is_empty() || self.nodes() > self.ranks() || self.ranks() < 2 {
            return None;
        }
        let ends = self.pairs();
        let outgoing = Adjacency::new(self.nodes(), self.links().iter().map(|link| link.source));
        let target = |id: usize| self.links()[id].target;
        let (hops, _) = breadth_first(&outgoing, target, 0);
        let farthest = hops.iter().copied().flatten().max().unwrap_or(0);
        let both_ways = ends.iter().all(|(from, to)| ends.contains(&(*to, *from)));
        Some(GraphFacts {
            neighbours: outgoing.links_of(0).iter().map(|id| target(*id)).collect(),
            at_distance: (0..=farthest)
                .map(|at| hops.iter().filter(|hops| **hops == Some(at)).count())
                .collect(),
            moore_bound: moore_steps(self.ranks(), self.max_degree(), both_ways),
            is_cayley: self.is_cayley(),
        })
    }

    fn pairs(&self) -> BTreeSet<(NodeId, NodeId)> {
        self.links().iter().map(|link| (link.source, link.target)).collect()
    }
}

fn different(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    values
}

/// The fewest steps in which all of `ranks` can be reached over `degree` links each; `None` if no number of steps is
/// enough. In `k` steps a rank reaches at most `1 + d + ... + d^k` ranks (the Moore bound), and if all links have a reverse
/// link, so that one link leads back, `1 + d + d (d - 1) + d (d - 1)^2 + ...`.
pub fn moore_steps(ranks: usize, degree: usize, bidirectional: bool) -> Option<usize> {
    let factor = if bidirectional { degree.saturating_sub(1) } else { degree };
    let (mut reached, mut level, mut steps) = (1usize, degree, 0);
    while reached < ranks {
        if level == 0 {
            return None;
        }
        reached = reached.saturating_add(level);
        level = level.saturating_mul(factor);
        steps += 1;
    }
    Some(steps)
}
