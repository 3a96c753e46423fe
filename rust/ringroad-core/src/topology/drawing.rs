//! Where nodes and links lie in a picture. Neighbours in a grid are 1 apart; y grows downwards.

use std::collections::{BTreeMap, BTreeSet};

use libm::{cos, sin};
use serde::Serialize;

use super::{operands, LinkId, Topology, TopologyKind};
use crate::units::NodeId;

/// The most nodes that are placed by their distances; others lie on a circle.
const SEARCHED: usize = 200;
const ROUNDS: usize = 150;
/// Between ranks that differ in another dimension than the last two, along a diagonal.
const DIAGONAL: f64 = 0.75;

/// x and y.
pub type Point = [f64; 2];

/// Where nodes and links lie in a picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drawing {
    /// The position of each node.
    pub nodes: Vec<Point>,
    /// Of grids, the links to the other end of a dimension, each with the direction in which it leaves the grid.
    pub wraps: Vec<(LinkId, Point)>,
}

impl Topology {
    /// Where nodes and links lie in a picture. The last two dimensions of a grid make a plane, and further ones lead along
    /// diagonals. Other networks lie on a circle if each rank sees what the next one sees, or if all hang on switches;
    /// in the rest, nodes a few hops apart are close.
    pub fn drawing(&self) -> Drawing {
        let is_wide = self.dimensions().len() > 1;
        Drawing { nodes: self.places(), wraps: if is_wide { self.wraps() } else { Vec::new() } }
    }

    fn places(&self) -> Vec<Point> {
        let sizes = self.dimensions();
        if sizes.len() > 1 {
            let ranks = (0..self.ranks()).map(|rank| in_grid(sizes, &self.coordinates(rank)));
            return self.with_switches(ranks.collect(), -0.4);
        }
        if self.positions().is_some() {
            let base = self.base().places();
            return (0..self.nodes()).map(|node| base[self.position(node)]).collect();
        }
        match self.whole() {
            Some(whole) => whole.places(),
            None if self.nodes() > SEARCHED || self.is_round() => {
                self.with_switches(circle(self.ranks()), 0.0)
            }
            None => self.by_distance(),
        }
    }

    /// The network of which [`Topology::without_links`] has made this one, if the spec says its links.
    pub fn whole(&self) -> Option<Topology> {
        let TopologyKind::Without(spec, _) = &self.kind else { return None };
        let (_, names, _) = operands(spec)?;
        Topology::parse(names.first()?).ok().filter(|whole| whole.nodes() == self.nodes())
    }

    pub(super) fn is_round(&self) -> bool {
        if self.nodes() > self.ranks() {
            return matches!(self.kind, TopologyKind::Member { .. });
        }
        let ends: BTreeSet<_> = self.links().iter().map(|link| (link.source, link.target)).collect();
        let next = |node: NodeId| (node + 1) % self.ranks();
        ends.iter().all(|(from, to)| ends.contains(&(next(*from), next(*to))))
    }

    fn neighbours(&self) -> Vec<Vec<NodeId>> {
        let mut near = vec![Vec::new(); self.nodes()];
        for link in self.links() {
            near[link.source].push(link.target);
            near[link.target].push(link.source);
        }
        near
    }

    /// Switches lie in the middle of their neighbours (Tutte, How to draw a graph, 1963), found by iteration.
    fn with_switches(&self, ranks: Vec<Point>, lift: f64) -> Vec<Point> {
        let switches = ranks.len()..self.nodes();
        let mut places = ranks;
        places.resize(self.nodes(), [0.0; 2]);
        let near = if switches.is_empty() { Vec::new() } else { self.neighbours() };
        for _ in 0..if switches.is_empty() { 0 } else { ROUNDS } {
            for node in switches.clone().filter(|node| !near[*node].is_empty()) {
                let sum = near[node].iter().map(|other| places[*other]).fold([0.0; 2], plus);
                places[node] = sum.map(|sum| sum / near[node].len() as f64);
            }
        }
        // Switches with the same neighbours would lie upon each other.
        let mut same: BTreeMap<[i64; 2], Vec<NodeId>> = BTreeMap::new();
        for node in switches {
            same.entry(places[node].map(|at| (100.0 * at).round() as i64)).or_default().push(node);
        }
        for nodes in same.values() {
            for (node, [x, y]) in nodes.iter().zip(circle(nodes.len())) {
                let aside = if nodes.len() > 1 { [0.6 * x, 0.6 * y] } else { [0.0, lift] };
                places[*node] = plus(places[*node], aside);
            }
        }
        places
    }

    /// Distances in the picture follow hops in the network, by stress majorization (Gansner, Koren and North, 2004).
    fn by_distance(&self) -> Vec<Point> {
        let near = self.neighbours();
        let hops: Vec<Vec<f64>> = (0..self.nodes()).map(|start| hops(&near, start)).collect();
        let mut places = circle(self.nodes());
        for _ in 0..ROUNDS {
            places = (0..places.len())
                .map(|i| {
                    let (mut sum, mut weights) = ([0.0; 2], 0.0);
                    for (j, hops) in hops[i].iter().enumerate().filter(|(_, hops)| **hops > 0.0) {
                        let (way, weight) = (minus(places[i], places[j]), 1.0 / (hops * hops));
                        let stretch = hops / length(way).max(1e-6);
                        let wanted = plus(places[j], way.map(|part| stretch * part));
                        sum = plus(sum, wanted.map(|part| weight * part));
                        weights += weight;
                    }
                    if weights > 0.0 {
                        sum.map(|sum| sum / weights)
                    } else {
                        places[i]
                    }
                })
                .collect();
        }
        // Neighbours at least 1 apart, within reason.
        let pairs = (0..places.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        let nearest = pairs.map(|(i, j)| length(minus(places[i], places[j]))).fold(f64::INFINITY, f64::min);
        let factor = (1.0 / nearest).clamp(1.0, 3.0);
        places.into_iter().map(|place| place.map(|part| factor * part)).collect()
    }

    /// Where ranks have links into the middle of a dimension, too (HyperX), none leaves it.
    fn wraps(&self) -> Vec<(LinkId, Point)> {
        let sizes = self.dimensions();
        let (mut found, mut known, mut full) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (id, link) in self.links().iter().enumerate() {
            if link.source.max(link.target) >= self.ranks() {
                continue;
            }
            let (from, to) = (self.coordinates(link.source), self.coordinates(link.target));
            let differing: Vec<usize> = (0..sizes.len()).filter(|d| from[*d] != to[*d]).collect();
            let is_second = !known.insert((link.source, link.target));
            if let [d] = differing[..] {
                let (step, size) = (from[d].abs_diff(to[d]), sizes[d]);
                if step == size - 1 && (size > 2 || is_second) {
                    found.push((id, d, if to[d] > from[d] { -1.0 } else { 1.0 }));
                } else if step > 1 {
                    full.insert(d);
                }
            }
        }
        found.retain(|(_, d, _)| !full.contains(d));
        let outwards = |(id, d, sign): (LinkId, usize, f64)| {
            let direction = match sizes.len() - 1 - d {
                0 => [sign, 0.0],
                1 => [0.0, sign],
                _ => [sign * std::f64::consts::FRAC_1_SQRT_2; 2],
            };
            (id, direction)
        };
        found.into_iter().map(outwards).collect()
    }
}

/// As if one looked at the planes from the side.
fn in_grid(sizes: &[usize], at: &[usize]) -> Point {
    let planes = sizes.len() - 2;
    let number = (0..planes).fold(0, |number, d| number * sizes[d] + at[d]);
    let count: usize = sizes[..planes].iter().product();
    let apart = if count > 1 { (count - 1) as f64 * DIAGONAL + 1.3 } else { 1.0 };
    [at[planes + 1], at[planes]].map(|coordinate| apart * coordinate as f64 + DIAGONAL * number as f64)
}

/// Clockwise from the top, about 1 apart.
fn circle(count: usize) -> Vec<Point> {
    let turn = std::f64::consts::TAU;
    let radius = if count > 1 { (count as f64 / turn).max(1.0) } else { 0.0 };
    let angles = (0..count).map(|i| turn * i as f64 / count as f64);
    angles.map(|angle| [radius * sin(angle), -radius * cos(angle)]).collect()
}

/// The hops from a node to every other; 0 to itself and where no path leads.
fn hops(near: &[Vec<NodeId>], start: NodeId) -> Vec<f64> {
    let mut found = vec![0.0; near.len()];
    let mut queue = vec![start];
    let mut at = 0;
    while let Some(node) = queue.get(at).copied() {
        for other in near[node].iter().copied().filter(|other| *other != start) {
            if found[other] == 0.0 {
                found[other] = found[node] + 1.0;
                queue.push(other);
            }
        }
        at += 1;
    }
    found
}

fn plus(a: Point, b: Point) -> Point {
    [a[0] + b[0], a[1] + b[1]]
}

fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

fn length([x, y]: Point) -> f64 {
    (x * x + y * y).sqrt()
}
