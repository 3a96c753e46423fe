//! Minimal routing on rings and tori whose links are all alike, by formula instead of by search.
//!
//! A shortest path goes the shorter way in every dimension, in any order of its hops. So what a link carries depends on
//! offsets alone: along one dimension it is an interval of a ring, along several a box. Two ways of equal length, half a
//! ring apart, carry half each, as in [`super::Routes`].
//!
//! ```text
//! 5 hops right, 2 down    1 -> . -> . -> . -> . -> .     a point that a path reaches with h hops to go, d of them down,
//!                         |    |    |    |    |    |     is left downwards with the probability d / h: as many of the
//!                         v    v    v    v    v    v     orders of what is left begin with a hop down
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use super::{torus, Link, Routing, Topology};
use crate::units::{LinkId, Rank, Seconds};

/// Which way is the shorter one around a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// Hops to the goal.
    pub hops: usize,
    /// Whether bytes go upwards, and whether they go downwards.
    pub directions: [bool; 2],
}

impl Way {
    /// The way to what is `offset` further up on a ring of `size`, less than once around.
    pub fn to(offset: usize, size: usize) -> Way {
        let hops = offset.min(size - offset);
        let up = hops > 0 && 2 * offset <= size;
        let down = hops > 0 && 2 * offset >= size;
        Way { hops, directions: [up, down] }
    }

    /// Into how many parts the bytes are split: 2 where both directions are as long.
    pub fn parts(self) -> usize {
        self.directions.into_iter().filter(|taken| *taken).count().max(1)
    }
}

/// What one of the links of a box carries: of a point, so many hops along each dimension from the start.
#[derive(Debug, Clone)]
struct Share {
    point: Vec<usize>,
    dimension: usize,
    fraction: f64,
}

/// A ring or torus with links of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Lattice {
    sizes: Vec<usize>,
    strides: Vec<usize>,
    /// The number among a rank's links of the first one along each dimension.
    first_links: Vec<usize>,
    links_per_rank: usize,
    ranks: usize,
    link: Link,
    /// What the links of a box carry, for the hops along each dimension. Only looked up, never iterated over.
    boxes: HashMap<Vec<usize>, Arc<[Share]>>,
}

impl Lattice {
    /// The topology as a lattice, if it is one.
    pub fn of(topology: &Topology) -> Option<Lattice> {
        let minimal = topology.routing == Routing::Minimal;
        if !(minimal && topology.is_torus()) {
            return None;
        }
        let link = *topology.links.first()?;
        let alike = |other: &Link| Link { source: link.source, target: link.target, ..*other } == link;
        if !topology.links.iter().all(alike) {
            return None;
        }
        let sizes = topology.dimensions.clone();
        let strides = (0..sizes.len()).map(|d| sizes[d + 1..].iter().product()).collect();
        let first_links = (0..sizes.len()).map(|d| torus::ports(&sizes[..d])).collect();
        let links_per_rank = torus::ports(&sizes);
        let (ranks, boxes) = (topology.ranks, HashMap::new());
        Some(Lattice { sizes, strides, first_links, links_per_rank, ranks, link, boxes })
    }

    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// How many links it has.
    pub fn links(&self) -> usize {
        self.ranks * self.links_per_rank
    }

    /// What all links are like, wherever they lead.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The sum of the latencies of so many links, and of the extra latencies in it; added up as a search does, one after
    /// the other.
    pub fn latency(&self, hops: usize) -> (Seconds, Seconds) {
        let sum = |one: Seconds| (0..hops).fold(0.0, |sum, _| sum + one);
        (sum(self.link.seconds()), sum(self.link.extra_latency))
    }

    /// The coordinate of a rank along a dimension.
    pub fn coordinate(&self, rank: Rank, dimension: usize) -> usize {
        rank / self.strides[dimension] % self.sizes[dimension]
    }

    /// The way along a dimension from one rank to another.
    fn way(&self, source: Rank, destination: Rank, dimension: usize) -> Way {
        let size = self.sizes[dimension];
        let (from, to) = (self.coordinate(source, dimension), self.coordinate(destination, dimension));
        Way::to((to + size - from) % size, size)
    }

    /// How many hops apart two ranks are.
    pub fn hops(&self, source: Rank, destination: Rank) -> usize {
        (0..self.sizes.len()).map(|d| self.way(source, destination, d).hops).sum()
    }

    /// The link that leaves a rank along a dimension, upwards (0) or downwards (1).
    fn link_id(&self, rank: Rank, dimension: usize, direction: usize) -> LinkId {
        rank * self.links_per_rank + self.first_links[dimension] + direction
    }

    /// The place of so many hops from a coordinate.
    fn moved(&self, from: usize, hops: usize, dimension: usize, direction: usize) -> usize {
        let size = self.sizes[dimension];
        let moved = if direction == 0 { from + hops } else { from + size - hops };
        if moved >= size {
            moved - size
        } else {
            moved
        }
    }

    /// Adds what the links carry if `amount` goes from one rank to another.
    pub fn spread(&mut self, source: Rank, destination: Rank, amount: f64, loads: &mut [f64]) {
        let ways: Vec<Way> = (0..self.sizes.len()).map(|d| self.way(source, destination, d)).collect();
        let amount = amount / ways.iter().map(|way| way.parts()).product::<usize>() as f64;
        let mut wide = (0..ways.len()).filter(|d| ways[*d].hops > 0);
        let (Some(dimension), more) = (wide.next(), wide.next().is_some()) else { return };
        if more {
            return self.spread_box(source, &ways, amount, loads);
        }
        let at = self.coordinate(source, dimension);
        let start = source - at * self.strides[dimension];
        for direction in (0..2).filter(|direction| ways[dimension].directions[*direction]) {
            for hops in 0..ways[dimension].hops {
                let place = start + self.moved(at, hops, dimension, direction) * self.strides[dimension];
                loads[self.link_id(place, dimension, direction)] += amount;
            }
        }
    }

    fn spread_box(&mut self, source: Rank, ways: &[Way], amount: f64, loads: &mut [f64]) {
        let hops: Vec<usize> = ways.iter().map(|way| way.hops).collect();
        let shares = self.boxes.entry(hops).or_insert_with_key(|hops| shares(hops).into()).clone();
        let at: Vec<usize> = (0..ways.len()).map(|d| self.coordinate(source, d)).collect();
        // Every combination of directions that are both the shorter way, a bit for each dimension.
        for corner in 0..1usize << ways.len() {
            let direction = |d: usize| corner >> d & 1;
            let goes = |d: usize| match ways[d].hops {
                0 => direction(d) == 0,
                _ => ways[d].directions[direction(d)],
            };
            if !(0..ways.len()).all(goes) {
                continue;
            }
            for Share { point, dimension, fraction } in shares.iter() {
                let along = |d: usize| self.moved(at[d], point[d], d, direction(d)) * self.strides[d];
                let place = (0..ways.len()).map(along).sum();
                loads[self.link_id(place, *dimension, direction(*dimension))] += amount * fraction;
            }
        }
    }
}

/// What the links of a box with so many hops along each dimension carry if all shortest paths carry the same.
fn shares(hops: &[usize]) -> Vec<Share> {
    let mut shares = Vec::new();
    let points: usize = hops.iter().map(|h| h + 1).product();
    // Points count like the elements of a C array, so that all ways into one come before it.
    let stride = |d: usize| hops[d + 1..].iter().map(|h| h + 1).product::<usize>();
    let mut reached = vec![0.0; points];
    reached[0] = 1.0;
    for index in 0..points {
        let point: Vec<usize> = (0..hops.len()).map(|d| index / stride(d) % (hops[d] + 1)).collect();
        let left: usize = hops.iter().zip(&point).map(|(h, p)| h - p).sum();
        for dimension in (0..hops.len()).filter(|d| point[*d] < hops[*d]) {
            let fraction = reached[index] * ((hops[dimension] - point[dimension]) as f64 / left as f64);
            reached[index + stride(dimension)] += fraction;
            shares.push(Share { point: point.clone(), dimension, fraction });
        }
    }
    shares
}
