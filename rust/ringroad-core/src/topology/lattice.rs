//! Minimal routing on rings and tori whose links are all alike, by formula instead of by search.
//!
//! A shortest path goes the shorter way in every dimension, and its hops may come in any order. So the load of a link
//! depends on offsets alone. The links of a route form an interval of a ring where one dimension differs, and a box
//! where several do. Where the two ways around a ring have equal length, each carries half, as in [`super::Routes`].
//!
//! ```text
//! 5 hops right, 2 down    1 -> . -> . -> . -> . -> .     with h hops left, d of them down, the fraction d / h of what
//!                         |    |    |    |    |    |     reaches a point leaves it downwards: that is the fraction of
//!                         v    v    v    v    v    v     the orders of the hops left that begin with a hop down
//! ```
//!
//! The search is the formula's slow twin.

use std::collections::HashMap;
use std::sync::Arc;

use super::{torus, Link, Routing, Topology};
use crate::units::{LinkId, Rank, Seconds};

/// The shorter way around a ring, or both where they are equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RingWay {
    /// How many hops it has.
    pub hops: usize,
    /// Whether bytes go upwards, and whether bytes go downwards.
    pub directions: [bool; 2],
}

impl RingWay {
    /// The way to the position `offset` further up on a ring of `size`, for `offset < size`.
    pub fn to(offset: usize, size: usize) -> RingWay {
        let hops = offset.min(size - offset);
        let up = hops > 0 && 2 * offset <= size;
        let down = hops > 0 && 2 * offset >= size;
        RingWay { hops, directions: [up, down] }
    }

    /// Into how many parts the bytes are split: 2 where both directions are equally long, otherwise 1.
    pub fn parts(self) -> usize {
        self.directions.into_iter().filter(|taken| *taken).count().max(1)
    }
}

/// The links of a box and what each carries.
#[derive(Debug)]
struct BoxShares {
    /// The point that each link leaves, by dimension: its hops from the start, after the numbers of all points of the
    /// dimensions before.
    points: Vec<u32>,
    /// The dimension along which each link goes, and the fraction that it carries.
    links: Vec<(u32, f64)>,
}

/// A ring or torus with minimal routing whose links are all alike.
#[derive(Debug, Clone)]
pub(crate) struct Lattice {
    sizes: Vec<usize>,
    strides: Vec<usize>,
    /// For each dimension, how many of a rank's links come before its first link along the dimension.
    first_links: Vec<usize>,
    links_per_rank: usize,
    ranks: usize,
    link: Link,
    /// What the links of a box carry, by the number of the offset whose coordinates are the box's hops. Never iterated
    /// over.
    boxes: HashMap<usize, Arc<BoxShares>>,
    /// Space for the ways of a message, and for the first links of the points of a box. Kept between calls.
    ways: Vec<RingWay>,
    places: Vec<usize>,
}

impl Lattice {
    /// The topology as a lattice, or `None` where it is not one.
    pub fn from_topology(topology: &Topology) -> Option<Lattice> {
        let minimal = topology.routing == Routing::Minimal;
        if !(minimal && topology.is_torus() && topology.positions().is_none()) {
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
        let (ways, places) = (Vec::new(), Vec::new());
        Some(Lattice { sizes, strides, first_links, links_per_rank, ranks, link, boxes, ways, places })
    }

    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// How many links the lattice has.
    pub fn links(&self) -> usize {
        self.ranks * self.links_per_rank
    }

    /// A link with the properties that all links share; ignore its ends.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The latency of `hops` links in seconds, and the extra latency that it includes. The terms are added one after
    /// the other, as a search does, so that the rounding is the same.
    pub fn latency(&self, hops: usize) -> (Seconds, Seconds) {
        let sum = |one: Seconds| (0..hops).fold(0.0, |sum, _| sum + one);
        (sum(self.link.seconds()), sum(self.link.extra_latency))
    }

    /// The coordinate of `rank` along `dimension`.
    pub fn coordinate(&self, rank: Rank, dimension: usize) -> usize {
        rank / self.strides[dimension] % self.sizes[dimension]
    }

    /// The way along `dimension` from one rank to another.
    fn way(&self, source: Rank, destination: Rank, dimension: usize) -> RingWay {
        let size = self.sizes[dimension];
        let (from, to) = (self.coordinate(source, dimension), self.coordinate(destination, dimension));
        RingWay::to((to + size - from) % size, size)
    }

    /// How many hops a shortest path between two ranks has.
    pub fn hops(&self, source: Rank, destination: Rank) -> usize {
        (0..self.sizes.len()).map(|d| self.way(source, destination, d).hops).sum()
    }

    /// The link that leaves `rank` along `dimension`, upwards (`direction` 0) or downwards (1).
    fn link_id(&self, rank: Rank, dimension: usize, direction: usize) -> LinkId {
        rank * self.links_per_rank + self.first_links[dimension] + direction
    }

    /// The coordinate that is `hops` away from the coordinate `from`, upwards (`direction` 0) or downwards (1).
    fn moved(&self, from: usize, hops: usize, dimension: usize, direction: usize) -> usize {
        let size = self.sizes[dimension];
        let moved = if direction == 0 { from + hops } else { from + size - hops };
        if moved >= size {
            moved - size
        } else {
            moved
        }
    }

    /// Adds to `loads` what each link carries when `amount` goes from `source` to `destination`.
    pub fn spread(&mut self, source: Rank, destination: Rank, amount: f64, loads: &mut [f64]) {
        let mut ways = std::mem::take(&mut self.ways);
        ways.clear();
        ways.extend((0..self.sizes.len()).map(|d| self.way(source, destination, d)));
        let amount = amount / ways.iter().map(|way| way.parts()).product::<usize>() as f64;
        let mut wide = (0..ways.len()).filter(|d| ways[*d].hops > 0);
        match (wide.next(), wide.next()) {
            (None, _) => {}
            (Some(dimension), None) => self.spread_line(source, dimension, ways[dimension], amount, loads),
            _ => self.spread_box(source, &ways, amount, loads),
        }
        self.ways = ways;
    }

    fn spread_line(&self, source: Rank, dimension: usize, way: RingWay, amount: f64, loads: &mut [f64]) {
        let at = self.coordinate(source, dimension);
        let start = source - at * self.strides[dimension];
        for direction in (0..2).filter(|direction| way.directions[*direction]) {
            for hops in 0..way.hops {
                let place = start + self.moved(at, hops, dimension, direction) * self.strides[dimension];
                loads[self.link_id(place, dimension, direction)] += amount;
            }
        }
    }

    fn spread_box(&mut self, source: Rank, ways: &[RingWay], amount: f64, loads: &mut [f64]) {
        let number = ways.iter().zip(&self.strides).map(|(way, stride)| way.hops * stride).sum();
        let shares = || Arc::new(shares(&ways.iter().map(|way| way.hops).collect::<Vec<_>>()));
        let shares = self.boxes.entry(number).or_insert_with(shares).clone();
        let mut places = std::mem::take(&mut self.places);
        // Every combination of directions, one bit for each dimension, in which each direction is a shortest way.
        for corner in 0..1usize << ways.len() {
            let direction = |d: usize| corner >> d & 1;
            let goes = |d: usize| match ways[d].hops {
                0 => direction(d) == 0,
                _ => ways[d].directions[direction(d)],
            };
            if !(0..ways.len()).all(goes) {
                continue;
            }
            places.clear();
            for (d, way) in ways.iter().enumerate() {
                let (at, scale) = (self.coordinate(source, d), self.strides[d] * self.links_per_rank);
                places.extend((0..=way.hops).map(|hops| self.moved(at, hops, d, direction(d)) * scale));
            }
            for (point, (dimension, fraction)) in shares.points.chunks_exact(ways.len()).zip(&shares.links) {
                let place: usize = point.iter().map(|at| places[*at as usize]).sum();
                let d = *dimension as usize;
                loads[place + self.first_links[d] + direction(d)] += amount * fraction;
            }
        }
        self.places = places;
    }
}

/// What each link of a box with these `hops` along each dimension carries when all shortest paths carry the same share.
fn shares(hops: &[usize]) -> BoxShares {
    let mut shares = BoxShares { points: Vec::new(), links: Vec::new() };
    let points: usize = hops.iter().map(|h| h + 1).product();
    let before: Vec<usize> = (0..hops.len()).map(|d| hops[..d].iter().map(|h| h + 1).sum()).collect();
    // Points are numbered like the elements of a C array, so that all points that lead into a point come before it.
    let stride = |d: usize| hops[d + 1..].iter().map(|h| h + 1).product::<usize>();
    let mut reached = vec![0.0; points];
    reached[0] = 1.0;
    for index in 0..points {
        let point: Vec<usize> = (0..hops.len()).map(|d| index / stride(d) % (hops[d] + 1)).collect();
        let left: usize = hops.iter().zip(&point).map(|(h, p)| h - p).sum();
        for dimension in (0..hops.len()).filter(|d| point[*d] < hops[*d]) {
            let fraction = reached[index] * ((hops[dimension] - point[dimension]) as f64 / left as f64);
            reached[index + stride(dimension)] += fraction;
            shares.points.extend(point.iter().zip(&before).map(|(hops, before)| (hops + before) as u32));
            shares.links.push((dimension as u32, fraction));
        }
    }
    shares
}
