//! The wiring alone: who has a link to whom, whatever the links carry and however many are parallel.

use std::collections::{BTreeMap, VecDeque};

use crate::topology::Topology;

/// A simple directed graph of ranks and other nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SimpleGraph {
    pub ranks: usize,
    /// The nodes to which each node has a link, ascending.
    pub out: Vec<Vec<usize>>,
    /// The nodes that have a link to each node, ascending.
    pub into: Vec<Vec<usize>>,
}

/// A network of the catalogue.
pub(in crate::discovery) struct Recognised {
    pub base: Topology,
    /// The node of the base that each node of the graph is.
    pub place: Vec<usize>,
}

impl SimpleGraph {
    pub fn from_topology(topology: &Topology) -> SimpleGraph {
        let mut out = vec![Vec::new(); topology.nodes()];
        let mut into = out.clone();
        for link in topology.links() {
            out[link.source].push(link.target);
            into[link.target].push(link.source);
        }
        for ends in out.iter_mut().chain(&mut into) {
            ends.sort_unstable();
            ends.dedup();
        }
        SimpleGraph { ranks: topology.ranks(), out, into }
    }

    pub fn nodes(&self) -> usize {
        self.out.len()
    }

    pub fn edges(&self) -> usize {
        self.out.iter().map(Vec::len).sum()
    }

    /// Whether every link has one back.
    pub fn is_undirected(&self) -> bool {
        self.out == self.into
    }

    /// How many links leave every rank, if that is one number.
    pub fn degree(&self) -> Option<usize> {
        let degree = self.out.first()?.len();
        let even = |at: usize| self.out[at].len() == degree && self.into[at].len() == degree;
        (0..self.ranks).all(even).then_some(degree)
    }

    /// How many ranks and other nodes have which degrees.
    pub fn degrees(&self) -> BTreeMap<(bool, usize, usize), usize> {
        let mut degrees = BTreeMap::new();
        for node in 0..self.nodes() {
            *degrees.entry((node < self.ranks, self.out[node].len(), self.into[node].len())).or_insert(0) +=
                1;
        }
        degrees
    }

    /// How many ranks and other nodes there are at each distance from a node.
    pub fn profile(&self, start: usize) -> Vec<(usize, usize)> {
        let mut distance = vec![usize::MAX; self.nodes()];
        distance[start] = 0;
        let (mut counts, mut open) = (Vec::new(), VecDeque::from([start]));
        while let Some(node) = open.pop_front() {
            let here = distance[node];
            if counts.len() == here {
                counts.push((0, 0));
            }
            let count: &mut (usize, usize) = &mut counts[here];
            if node < self.ranks {
                count.0 += 1;
            } else {
                count.1 += 1;
            }
            for next in &self.out[node] {
                if distance[*next] == usize::MAX {
                    distance[*next] = here + 1;
                    open.push_back(*next);
                }
            }
        }
        counts
    }
}
