//! Path equilibration: demands move from expensive paths to cheap ones until no move helps. The lengths of arcs grow
//! exponentially with load.
//!
//! Lengths are also the certificate. Whatever they are, a unit of demand from `s` to `t` takes up at least `dist(s, t)`
//! of length, and the arcs offer `sum of capacity * length`. So the busiest arc is at least `sum demand * dist / sum
//! capacity * length` full (the dual of the linear program; Shahrokhi, Matula: The maximum concurrent flow problem,
//! 1990). Demands shift as in a game in which each pair splits what it sends: a step of Frank and Wolfe's method for
//! one pair after the other, each with the loads that the previous pair has left.

use libm::{exp, log};

use crate::synthesis::Digraph;
use crate::units::Rank;

use super::bounds::at_most;
use super::paths::RankPaths;
use super::{Demands, Ended, Progress};

/// A constant part of every length, as a fraction of the mean length. It keeps paths short. It falls by the factor
/// `LOWER` each time that it may keep the flow from getting better.
const FLOOR: f64 = 0.01;
const LOWER: f64 = 4.0;
/// How steeply lengths grow with load at first, and by which factor that increases when a steepness is exhausted.
const STEEP: f64 = 30.0;
const STEEPER: f64 = 1.3;
/// The largest exponent; much beyond it, floating-point numbers overflow.
const MAX_EXPONENT: f64 = 300.0;
/// How many hops longer than the diameter a path may be at first, and how many more each time that this limit keeps the
/// flow from getting better.
const DETOUR: usize = 2;
/// The number of iterations without a gain after which paths may be longer, and after which the search is stuck. A gain is a
/// gap that is smaller by this fraction.
const EASE_AFTER: usize = 24;
const STUCK: usize = 600;
const GAIN: f64 = 1e-3;
/// A path with less than this share of its pair's demand is removed.
const NOTHING: f32 = 1e-6;
/// The scanning orders are sorted again every `SORT_EVERY` iterations.
const SORT_EVERY: usize = 4;

/// Shortest paths from one rank to all nodes.
struct ShortestPathTree {
    distance: Vec<f64>,
    /// The arc by which each node is reached.
    parent: Vec<u32>,
    dirty: Vec<bool>,
    place: Vec<u32>,
}

const NO_ARC: u32 = u32::MAX;

/// The state of the search: the flow, and the best proven bound.
pub(super) struct Equilibrium<'a> {
    network: &'a Digraph,
    pub demands: &'a Demands,
    pub capacity: Vec<f64>,
    load: Vec<f64>,
    length: Vec<f64>,
    /// The constant part of every length, and which fraction of the mean length it is.
    floor: f64,
    floor_part: f64,
    steep: f64,
    /// How full the busiest arc is.
    top: f64,
    pub rows: Vec<RankPaths>,
    /// For each source, the order in which its search scans the nodes.
    orders: Vec<u32>,
    tree: ShortestPathTree,
    /// Scratch space of `moved`: how often the first path uses each arc, minus how often the second one does.
    count: Vec<i32>,
    /// The most hops of a path that is added.
    longest: usize,
    /// Whether the last iteration did without a cheaper path because it has more hops.
    refused: bool,
    /// The best proven lower bound on how full the busiest arc of any flow is.
    pub bound: f64,
}

impl<'a> Equilibrium<'a> {
    /// Starts with one short path for each pair, which avoids arcs that are already busy, and with a bound that is known.
    pub fn new(network: &'a Digraph, demands: &'a Demands, bound: f64) -> Equilibrium<'a> {
        let (ranks, nodes, arcs) = (network.ranks(), network.nodes(), network.arcs().len());
        let mut orders = Vec::with_capacity(ranks * nodes);
        let mut longest = 0;
        for source in 0..ranks {
            let hops = network.hops_from(source);
            let first = orders.len();
            orders.extend(0..nodes as u32);
            orders[first..].sort_by_key(|node| hops[*node as usize]);
            let farthest = hops[..ranks].iter().filter(|hops| **hops != u32::MAX).max();
            longest = longest.max(farthest.map_or(0, |hops| *hops as usize));
        }
        let tree = ShortestPathTree {
            distance: vec![0.0; nodes],
            parent: vec![NO_ARC; nodes],
            dirty: vec![false; nodes],
            place: vec![0; nodes],
        };
        let mut found = Equilibrium {
            network,
            demands,
            capacity: network.capacities(),
            load: vec![0.0; arcs],
            length: vec![0.0; arcs],
            floor: 0.0,
            floor_part: FLOOR,
            steep: STEEP,
            top: 0.0,
            rows: vec![RankPaths::default(); ranks],
            orders,
            tree,
            count: vec![0; arcs],
            longest: longest + DETOUR,
            refused: false,
            bound,
        };
        found.begin();
        found
    }

    fn begin(&mut self) {
        let mut path = Vec::new();
        for source in 0..self.network.ranks() {
            let busiest = self.fullest().max(1.0);
            for arc in 0..self.length.len() {
                self.length[arc] = (1.0 + self.load[arc] / self.capacity[arc] / busiest) / self.capacity[arc];
            }
            let lengths = std::mem::take(&mut self.length);
            self.grow(source, &lengths);
            self.length = lengths;
            for target in 0..self.network.ranks() {
                let demand = self.demands.between(source, target);
                if demand > 0.0 {
                    self.path(source, target, &mut path);
                    path.iter().for_each(|arc| self.load[*arc as usize] += demand);
                    self.rows[source].push(target, 1.0, path.iter().copied());
                }
            }
        }
        self.top = self.fullest();
    }

    fn fullest(&self) -> f64 {
        self.load.iter().zip(&self.capacity).map(|(load, capacity)| load / capacity).fold(0.0, f64::max)
    }

    /// Finds shortest paths from `source`. Corrects labels in the order that was right the last time.
    pub fn grow(&mut self, source: Rank, lengths: &[f64]) {
        let nodes = self.network.nodes();
        let order = &self.orders[source * nodes..(source + 1) * nodes];
        let ShortestPathTree { distance, parent, dirty, place } = &mut self.tree;
        distance.fill(f64::INFINITY);
        order.iter().enumerate().for_each(|(at, node)| place[*node as usize] = at as u32);
        distance[source] = 0.0;
        parent[source] = NO_ARC;
        dirty[source] = true;
        let mut first = 0;
        while first < nodes {
            let mut back = nodes;
            for (at, here) in order.iter().enumerate().skip(first) {
                let here = *here as usize;
                if !std::mem::take(&mut dirty[here]) {
                    continue;
                }
                for arc in self.network.outgoing(here) {
                    let next = self.network.arcs()[arc].target;
                    let reached = distance[here] + lengths[arc];
                    if reached < distance[next] {
                        distance[next] = reached;
                        parent[next] = arc as u32;
                        dirty[next] = true;
                        if (place[next] as usize) < at {
                            back = back.min(place[next] as usize);
                        }
                    }
                }
            }
            first = back;
        }
    }

    /// Writes the arcs from `source` to `target` in the tree into `path`.
    pub fn path(&self, source: Rank, target: Rank, path: &mut Vec<u32>) {
        path.clear();
        let mut here = target;
        while here != source {
            let arc = self.tree.parent[here];
            path.push(arc);
            here = self.network.arcs()[arc as usize].source;
        }
        path.reverse();
    }

    /// The distance of a node from the source of the last search.
    pub fn distance(&self, node: usize) -> f64 {
        self.tree.distance[node]
    }

    fn sort(&mut self, source: Rank) {
        let nodes = self.network.nodes();
        let distance = &self.tree.distance;
        self.orders[source * nodes..(source + 1) * nodes]
            .sort_by(|a, b| distance[*a as usize].total_cmp(&distance[*b as usize]));
    }

    fn length_at(&self, arc: usize) -> f64 {
        // Beyond twice the load of the busiest arc, all lengths are equally large.
        let over = (self.load[arc] / (self.capacity[arc] * self.top) - 1.0).min(1.0);
        exp((self.steep * over).min(MAX_EXPONENT)) / self.capacity[arc] + self.floor
    }

    fn add(&mut self, arc: u32, demand: f64) {
        let arc = arc as usize;
        self.load[arc] = (self.load[arc] + demand).max(0.0);
        self.length[arc] = self.length_at(arc);
    }

    /// The least length that the demands of `source` take up.
    fn taken_up(&self, source: Rank) -> f64 {
        let length = |target: Rank| match self.demands.between(source, target) {
            demand if demand > 0.0 => demand * self.tree.distance[target],
            _ => 0.0,
        };
        (0..self.network.ranks()).map(length).sum()
    }

    /// Sweeps until the gap is closed, `go_on` returns false, or iterations no longer help. Returns the number of iterations and
    /// why they ended.
    pub fn solve(&mut self, gap: f64, go_on: &mut dyn FnMut(&Progress) -> bool) -> (usize, Ended) {
        let (mut least, mut gained, mut eased) = (f64::INFINITY, 0, 0);
        let mut iteration = 0;
        loop {
            let now = Progress { iteration, load: self.top, bound: self.bound };
            if self.top == 0.0 || now.gap() <= gap {
                return (iteration, Ended::Near);
            }
            if iteration > 0 && !go_on(&now) {
                return (iteration, Ended::Asked);
            }
            if now.gap() < least * (1.0 - GAIN) {
                (least, gained) = (now.gap(), iteration);
            } else if iteration - gained >= STUCK {
                return (iteration, Ended::Stuck);
            } else if iteration - gained.max(eased) >= EASE_AFTER {
                self.longest += if self.refused { DETOUR } else { 0 };
                self.floor_part /= LOWER;
                eased = iteration;
            }
            iteration += 1;
            self.refused = false;
            self.iteration(iteration);
        }
    }

    fn iteration(&mut self, iteration: usize) {
        let ranks = self.network.ranks();
        self.floor = 0.0;
        (0..self.length.len()).for_each(|arc| self.length[arc] = self.length_at(arc));
        let bare = self.length.clone();
        self.floor = self.floor_part * bare.iter().sum::<f64>() / bare.len() as f64;
        self.length.iter_mut().for_each(|length| *length += self.floor);
        let lengths = self.length.clone();
        let weigh =
            |amounts: &[f64], lengths: &[f64]| amounts.iter().zip(lengths).map(|(a, b)| a * b).sum::<f64>();
        let all = weigh(&self.capacity, &lengths);
        let used = weigh(&self.load, &lengths);
        // Near the end, lengths without the constant part prove more. They are tried in every other iteration.
        let near = self.floor_part < FLOOR || self.top < self.bound * (1.0 + 4.0 * FLOOR);
        let near = near && iteration.is_multiple_of(2);
        let (mut least, mut least_bare) = (0.0, 0.0);
        for source in 0..ranks {
            if near {
                self.grow(source, &bare);
                least_bare += self.taken_up(source);
            }
            self.grow(source, &lengths);
            least += self.taken_up(source);
            self.shift(source);
            if iteration % SORT_EVERY == 1 {
                self.sort(source);
            }
        }
        self.prove(least, all);
        if near {
            self.prove(least_bare, weigh(&self.capacity, &bare));
        }
        let slack = (self.top * all - used) / least;
        let unequal = (used - least) / least;
        if unequal < 0.7 * slack {
            self.steep *= STEEPER;
        }
        self.recount();
    }

    /// Notes the bound that lengths prove: `taken` is what all demands take up at least, `all` what the arcs offer.
    pub fn prove(&mut self, taken: f64, all: f64) {
        // A path's length, the sums over targets and sources, and the sum over arcs.
        let roundings = self.network.nodes() + 2 * self.network.ranks() + self.capacity.len();
        self.bound = self.bound.max(at_most(taken / all, roundings));
    }

    /// Takes other paths if the busiest arc is less full with them.
    pub fn replace(&mut self, rows: Vec<RankPaths>) {
        let (old, top) = (std::mem::replace(&mut self.rows, rows), self.top);
        self.recount();
        if self.top > top {
            self.rows = old;
            self.recount();
        }
    }

    /// Recomputes loads from the paths, whose shares add up to 1 except for rounding.
    fn recount(&mut self) {
        self.load.fill(0.0);
        for (source, row) in self.rows.iter().enumerate() {
            for paths in row.targets() {
                let all: f64 = paths.clone().map(|path| f64::from(row.paths[path].share)).sum();
                let demand = self.demands.between(source, row.paths[paths.start].target as usize) / all;
                for path in paths {
                    let (path, arcs) = row.path(path);
                    arcs.iter().for_each(|arc| self.load[*arc as usize] += demand * f64::from(path.share));
                }
            }
        }
        self.top = self.fullest();
    }

    /// Moves demand of all pairs of `source` from expensive paths to the cheapest path of each pair.
    fn shift(&mut self, source: Rank) {
        let old = std::mem::take(&mut self.rows[source]);
        let mut new = RankPaths::as_large_as(&old);
        let mut path = Vec::new();
        let mut shares = Vec::new();
        for paths in old.targets() {
            let target = old.paths[paths.start].target as usize;
            self.path(source, target, &mut path);
            let cost = |arcs: &[u32]| arcs.iter().map(|arc| self.length[*arc as usize]).sum::<f64>();
            // Compares the paths in use with the path that was the shortest before this source's demands began to move.
            let mut cheapest = None;
            let mut least = f64::INFINITY;
            for path in paths.clone() {
                let cost = cost(old.path(path).1);
                if cost < least {
                    (least, cheapest) = (cost, Some(path));
                }
            }
            if cost(&path) < least && paths.clone().all(|p| old.path(p).1 != path) {
                if path.len() <= self.longest {
                    cheapest = None;
                } else {
                    self.refused = true;
                }
            }
            if cheapest.is_some() && paths.len() == 1 {
                let (path, arcs) = old.path(paths.start);
                new.push(target, path.share, arcs.iter().copied());
                continue;
            }
            let best: Vec<u32> = cheapest.map_or_else(|| path.clone(), |path| old.path(path).1.to_vec());
            let demand = self.demands.between(source, target);
            shares.clear();
            shares.extend(paths.clone().map(|path| old.paths[path].share));
            let mut gained = 0.0;
            for (path, share) in paths.clone().zip(&mut shares) {
                if Some(path) != cheapest {
                    let moved = self.moved(old.path(path).1, &best, f64::from(*share), demand);
                    *share -= moved;
                    gained += moved;
                }
            }
            match cheapest {
                Some(path) => shares[path - paths.start] += gained,
                None if gained > 0.0 => new.push(target, gained, best.iter().copied()),
                None => {}
            }
            for (path, share) in paths.zip(&shares).filter(|(_, share)| **share > 0.0) {
                new.push(target, *share, old.path(path).1.iter().copied());
            }
        }
        new.shrink();
        self.rows[source] = new;
    }

    /// Moves as much of the share from `dear` to `cheap` as makes them equally long, as far as their lengths predict.
    /// Returns the share that it moved.
    fn moved(&mut self, dear: &[u32], cheap: &[u32], share: f64, demand: f64) -> f32 {
        dear.iter().for_each(|arc| self.count[*arc as usize] += 1);
        cheap.iter().for_each(|arc| self.count[*arc as usize] -= 1);
        let differs = |arc: &&u32| self.count[**arc as usize] != 0;
        let length = |arc: &u32| self.length[*arc as usize];
        let left: f64 = dear.iter().filter(differs).map(length).sum();
        let entered: f64 = cheap.iter().filter(differs).map(length).sum();
        let capacity = |arc: &u32| self.capacity[*arc as usize];
        let narrowest = dear.iter().chain(cheap).filter(differs).map(capacity).fold(f64::INFINITY, f64::min);
        let mut moved = 0.0;
        if left > entered {
            let equal = narrowest * self.top / (2.0 * self.steep) * log(left / entered) / demand;
            moved = equal.min(share);
            if share - moved < f64::from(NOTHING) {
                moved = share;
            }
            for arc in dear.iter().filter(|arc| self.count[**arc as usize] != 0).copied().collect::<Vec<_>>()
            {
                self.add(arc, -moved * demand);
            }
            for arc in cheap.iter().filter(|arc| self.count[**arc as usize] != 0).copied().collect::<Vec<_>>()
            {
                self.add(arc, moved * demand);
            }
        }
        dear.iter().chain(cheap).for_each(|arc| self.count[*arc as usize] = 0);
        moved as f32
    }

    /// The paths, the load of each arc, and how full the busiest arc is.
    pub fn into_ways(self) -> (Vec<RankPaths>, Vec<f64>, f64) {
        (self.rows, self.load, self.top)
    }
}
