//! The sizes of a torus or, with a single dimension, of a ring; and the order in which algorithms visit dimensions.

use std::fmt;

use crate::schedule::{Action, Axis, ChunkSet, Motion, Send};
use crate::topology::{coordinates, port_towards, Topology};
use crate::units::{Port, Rank};

/// The sizes of a torus. Ranks are numbered in row-major order, as in [`Topology`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    sizes: Vec<usize>,
    hosts: Vec<usize>,
}

impl Shape {
    /// The shape of a topology: every grid counts as a torus, and ranks that form no grid count as a ring. Where ranks are
    /// placed, it is the shape of their positions.
    pub fn from_topology(topology: &Topology) -> Shape {
        let topology = topology.base();
        let sizes = match topology.dimensions() {
            [] => vec![topology.ranks()],
            sizes => sizes.to_vec(),
        };
        Shape { sizes, hosts: topology.host_sizes().to_vec() }
    }

    /// A torus of these sizes.
    pub fn new(sizes: Vec<usize>) -> Shape {
        Shape { sizes, hosts: Vec::new() }
    }

    /// A ring.
    pub fn ring(ranks: usize) -> Shape {
        Shape::new(vec![ranks])
    }

    /// The sizes of all dimensions, including those of one rank.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Hosts of `per_host` ranks each.
    pub fn on_hosts(hosts: usize, per_host: usize) -> Shape {
        Shape { sizes: vec![hosts * per_host], hosts: vec![per_host; hosts] }
    }

    /// The number of ranks on each host; 1 if each rank has a host of its own, or hosts are unequal.
    pub fn per_host(&self) -> usize {
        let first = self.hosts.first().copied().unwrap_or(1);
        if self.has_unequal_hosts() {
            1
        } else {
            first
        }
    }

    /// The number of ranks on each host in turn; empty if each rank has a host of its own.
    pub fn hosts(&self) -> &[usize] {
        &self.hosts
    }

    /// Whether hosts have different numbers of ranks.
    pub fn has_unequal_hosts(&self) -> bool {
        self.hosts.iter().any(|size| *size != self.hosts[0])
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The dimensions that have links.
    pub fn wide(&self) -> Vec<usize> {
        (0..self.sizes.len()).filter(|d| self.sizes[*d] > 1).collect()
    }

    /// The dimensions that have links, starting with number `first` of them and going around: the order in which slice
    /// `first` visits them.
    pub fn order(&self, first: usize) -> Vec<usize> {
        let mut order = self.wide();
        order.rotate_left(first);
        order
    }

    /// The coordinates of a rank.
    pub fn coordinates(&self, rank: Rank) -> Vec<usize> {
        coordinates(&self.sizes, rank)
    }

    /// The difference between the numbers of neighbours along a dimension.
    pub fn stride(&self, dimension: usize) -> usize {
        self.sizes[dimension + 1..].iter().product()
    }

    /// The rank at the position of `rank` with another coordinate in one dimension.
    pub fn with(&self, rank: Rank, dimension: usize, coordinate: usize) -> Rank {
        let stride = self.stride(dimension);
        let old = rank / stride % self.sizes[dimension];
        rank + coordinate * stride - old * stride
    }

    /// The grid of all ranks, with one block for each, where shifts take each rank to any other.
    pub fn shifts(&self) -> Vec<Axis> {
        let axis = |size: &usize| Axis { size: *size, blocks: *size, motion: Motion::Shift };
        self.sizes.iter().map(axis).collect()
    }

    /// A message that leaves by the shorter way around.
    pub fn send(&self, source: Rank, destination: Rank, chunks: ChunkSet, action: Action) -> Send {
        let port = self.port_towards(source, destination);
        Send { source, destination, chunks, action, port, from: 0, into: 0 }
    }

    /// The port of the shorter way from one rank to another.
    pub fn port_towards(&self, source: Rank, destination: Rank) -> Port {
        port_towards(&self.sizes, source, destination)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        match &sizes[..] {
            [ranks] if self.has_unequal_hosts() => write!(f, "{ranks} ranks on hosts of {:?}", self.hosts),
            [ranks] if self.per_host() > 1 => write!(f, "{ranks} ranks on hosts of {}", self.per_host()),
            [ranks] => write!(f, "{ranks} ranks"),
            sizes => write!(f, "a grid of {} ranks", sizes.join("x")),
        }
    }
}

/// The time of each level of each dimension, if dimensions take one step each in turn, in this order, without those
/// that are done.
pub fn in_turns(levels: &[usize], order: &[usize]) -> Vec<Vec<usize>> {
    let mut times: Vec<Vec<usize>> = vec![Vec::new(); levels.len()];
    let mut time = 0;
    while order.iter().any(|d| times[*d].len() < levels[*d]) {
        for &dimension in order {
            if times[dimension].len() < levels[dimension] {
                times[dimension].push(time);
                time += 1;
            }
        }
    }
    times
}

/// The time of each level of each dimension, if one dimension follows the other in this order. Each takes the last
/// steps of a phase of `phase` steps, so that all are done at the same time, and can run side by side backwards, too.
pub fn one_by_one(levels: &[usize], order: &[usize], phase: usize) -> Vec<Vec<usize>> {
    let mut times: Vec<Vec<usize>> = vec![Vec::new(); levels.len()];
    let mut end = 0;
    for &dimension in order {
        end += phase;
        times[dimension] = (end - levels[dimension]..end).collect();
    }
    times
}
