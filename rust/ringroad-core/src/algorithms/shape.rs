//! The sizes of a torus, a ring being one of a single dimension, and the order in which algorithms visit dimensions.

use std::fmt;

use crate::schedule::{Action, Axis, ChunkSet, Motion, Send};
use crate::topology::{coordinates, Topology};
use crate::units::{Port, Rank};

/// The sizes of a torus. Ranks count like the elements of a C array, as in [`Topology`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    sizes: Vec<usize>,
    per_host: usize,
}

impl Shape {
    /// What algorithms see of a topology: every grid is taken for a torus, and ranks that form none for a ring.
    pub fn of(topology: &Topology) -> Shape {
        let sizes = match topology.dimensions() {
            [] => vec![topology.ranks()],
            sizes => sizes.to_vec(),
        };
        Shape { sizes, per_host: topology.per_host() }
    }

    /// A torus of these sizes.
    pub fn new(sizes: Vec<usize>) -> Shape {
        Shape { sizes, per_host: 1 }
    }

    /// A ring.
    pub fn ring(ranks: usize) -> Shape {
        Shape::new(vec![ranks])
    }

    /// The size of every dimension, those of one rank included.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// How many ranks share a host; 1 where each is on its own.
    pub fn per_host(&self) -> usize {
        self.per_host
    }

    /// How many ranks.
    pub fn ranks(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The dimensions that have links.
    pub fn wide(&self) -> Vec<usize> {
        (0..self.sizes.len()).filter(|d| self.sizes[*d] > 1).collect()
    }

    /// The dimensions that have links, from the `first` of them on and around: the order in which slice `first` visits
    /// them.
    pub fn order(&self, first: usize) -> Vec<usize> {
        let mut order = self.wide();
        order.rotate_left(first);
        order
    }

    /// The place of a rank.
    pub fn coordinates(&self, rank: Rank) -> Vec<usize> {
        coordinates(&self.sizes, rank)
    }

    /// How far apart neighbours of a dimension are numbered.
    pub fn stride(&self, dimension: usize) -> usize {
        self.sizes[dimension + 1..].iter().product()
    }

    /// The rank that `rank` becomes with another coordinate in a dimension.
    pub fn with(&self, rank: Rank, dimension: usize, coordinate: usize) -> Rank {
        let stride = self.stride(dimension);
        let old = rank / stride % self.sizes[dimension];
        rank + coordinate * stride - old * stride
    }

    /// The grid of all ranks, with a block for each, on which everybody does the same, shifted.
    pub fn shifts(&self) -> Vec<Axis> {
        let axis = |size: &usize| Axis { size: *size, blocks: *size, motion: Motion::Shift };
        self.sizes.iter().map(axis).collect()
    }

    /// A message of the vector that leaves by the shorter way.
    pub fn send(&self, source: Rank, destination: Rank, chunks: ChunkSet, action: Action) -> Send {
        let port = self.port_towards(source, destination);
        Send { source, destination, chunks, action, port, from: 0, into: 0 }
    }

    /// The port of the dimension in which two ranks differ by which the shorter way begins; the upper one if both are
    /// equal. Ranks that differ in several dimensions begin with the first of them.
    pub fn port_towards(&self, source: Rank, destination: Rank) -> Port {
        let (from, to) = (self.coordinates(source), self.coordinates(destination));
        let dimension = (0..from.len()).find(|d| from[*d] != to[*d]).unwrap_or(0);
        let size = self.sizes[dimension];
        let up = (to[dimension] + size - from[dimension]) % size;
        2 * dimension + usize::from(2 * up > size)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        match &sizes[..] {
            [ranks] if self.per_host > 1 => write!(f, "{ranks} ranks on hosts of {}", self.per_host),
            [ranks] => write!(f, "{ranks} ranks"),
            sizes => write!(f, "a grid of {} ranks", sizes.join("x")),
        }
    }
}

/// The times of dimensions' levels if each takes one step in turn, in this order, those that are done being skipped.
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

/// The times of dimensions' levels if one dimension follows the other in this order, each at the end of a phase of so many
/// steps. (At the end, so that all are done at the same time, and side by side also backwards.)
pub fn one_by_one(levels: &[usize], order: &[usize], phase: usize) -> Vec<Vec<usize>> {
    let mut times: Vec<Vec<usize>> = vec![Vec::new(); levels.len()];
    let mut end = 0;
    for &dimension in order {
        end += phase;
        times[dimension] = (end - levels[dimension]..end).collect();
    }
    times
}
