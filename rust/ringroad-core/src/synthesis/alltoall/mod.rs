//! All-to-all over a network: how much every pair can send at once, along which paths, and a proof that more is
//! impossible.
//!
//! Basu, Zhao, Fantl, Pal, Krishnamurthy, Khoury: Efficient all-to-all collective communication schedules for
//! direct-connect topologies, HPDC 2024, states the problem as maximum concurrent flow and solves it as a linear
//! program. Here it is solved by equilibration (`equilibrium`) up to a gap that is certified, and exactly where all
//! ranks look alike (`symmetric`).
//!
//! Demands are amounts, such as bytes. A flow that gives every pair `rate` times its demand loads no arc beyond its
//! capacity. Equivalently, with all demands met, the busiest arc is `1 / rate` full.

mod bounds;
mod chunks;
mod cut;
mod equilibrium;
mod exact;
mod paths;
mod steps;
mod symmetric;

pub use bounds::{degree_bound, FlowBounds};
pub use chunks::{in_chunks, in_few_chunks, Trip};
pub use steps::{held_by_relays, relayed, schedule, Limits, Relayed, MOST_CHUNKS};

use serde::Serialize;

use super::{Digraph, Unsuitable};
use crate::units::Rank;
use equilibrium::Equilibrium;
use paths::{DemandPaths, RankPaths};

/// How much each rank sends to each other one. What a rank has for itself is ignored.
#[derive(Debug, Clone, PartialEq)]
pub enum Demands {
    /// One unit for each pair.
    Uniform,
    /// Amounts by source, then by target; and the number of ranks.
    Matrix(Vec<f64>, usize),
}

/// Why a matrix of demands is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadDemands {
    /// The matrix has the wrong size.
    #[error("demands for {ranks} ranks are {ranks} times {ranks} numbers, not {found}")]
    Size {
        /// How many ranks there are.
        ranks: usize,
        /// How many numbers were given.
        found: usize,
    },
    /// A demand is negative, infinite, not a number or too large.
    #[error("rank {source_rank} has {demand} for rank {target}; demands are finite, up to {most:e}, and not negative", most = MOST_DEMAND)]
    Number {
        /// The rank that sends.
        source_rank: Rank,
        /// The rank that receives.
        target: Rank,
        /// The demand.
        demand: f64,
    },
}

/// The largest demand of a pair. Up to it, sums of demands stay finite and exact enough.
const MOST_DEMAND: f64 = 1e30;

impl Demands {
    /// Demands by source, then by target. The diagonal is ignored. The error says what is wrong with them.
    pub fn matrix(ranks: usize, demands: Vec<f64>) -> Result<Demands, BadDemands> {
        if demands.len() != ranks * ranks {
            return Err(BadDemands::Size { ranks, found: demands.len() });
        }
        let bad = |demand: &f64| !(0.0..=MOST_DEMAND).contains(demand);
        match demands.iter().position(bad) {
            Some(at) => {
                let (source_rank, target) = (at / ranks, at % ranks);
                Err(BadDemands::Number { source_rank, target, demand: demands[at] })
            }
            None => Ok(Demands::Matrix(demands, ranks)),
        }
    }

    /// The demand from `source` to `target`; 0 if they are the same rank.
    pub fn between(&self, source: Rank, target: Rank) -> f64 {
        match self {
            _ if source == target => 0.0,
            Demands::Uniform => 1.0,
            Demands::Matrix(demands, ranks) => demands[source * ranks + target],
        }
    }
}

/// The state of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The number of iterations over all pairs so far.
    pub iteration: usize,
    /// How full the busiest arc is with all demands met.
    pub load: f64,
    /// A proven lower bound on how full the busiest arc must be.
    pub bound: f64,
}

impl Progress {
    /// The excess of the load over the bound, as a fraction of the bound.
    pub fn gap(&self) -> f64 {
        if self.bound > 0.0 {
            self.load / self.bound - 1.0
        } else {
            f64::INFINITY
        }
    }
}

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The flow is the best one, except for rounding.
    Exact,
    /// The flow is as close to the bound as was asked for.
    #[serde(rename = "gap")]
    Near,
    /// The caller ended it.
    #[serde(rename = "budget")]
    Asked,
    /// It no longer made any progress.
    Stuck,
}

/// A flow that meets all demands.
#[derive(Debug, Clone)]
pub struct Concurrent {
    /// How full the busiest arc is.
    pub load: f64,
    /// A proven lower bound on how full the busiest arc of any such flow is.
    pub bound: f64,
    /// The number of iterations over all pairs, and of the exact search's changes; 0 where all ranks look alike.
    pub iterations: usize,
    /// Why the search has ended.
    pub ended: Ended,
    /// Bounds that need no flow. None of them proves more than `bound`.
    pub bounds: FlowBounds,
    /// The amount that each arc carries.
    pub loads: Vec<f64>,
    paths: DemandPaths,
}

impl Concurrent {
    /// The fraction of its demand that every pair gets if no arc exceeds its capacity: with this flow, and at most with
    /// any flow.
    pub fn rates(&self) -> [f64; 2] {
        [1.0 / self.load, 1.0 / self.bound]
    }

    /// The excess of the load over the bound, as a fraction of the bound; at least 0.
    pub fn gap(&self) -> f64 {
        let end = Progress { iteration: self.iterations, load: self.load, bound: self.bound };
        if self.load > 0.0 {
            end.gap().max(0.0)
        } else {
            0.0
        }
    }

    /// Calls `each` for all paths of what `source` sends, target by target, with the target, the share of the demand,
    /// and the arcs.
    pub fn each_path(&self, source: Rank, each: impl FnMut(Rank, f64, &[u32])) {
        self.paths.from(source, each);
    }
}

/// The most ranks of a network on which ranks do not look alike: the paths of all pairs are kept in memory.
const MOST_RANKS: usize = 1 << 13;

/// A flow whose busiest arc is at most `1 + gap` times as full as in the best flow. Where all ranks look alike and
/// demands are uniform, the flow is exact. Calls `go_on` after each iteration over all pairs. If that returns false, or iterations
/// no longer help, the flow so far is returned, with the gap that it has and why the search has ended.
pub fn concurrent_flow(
    network: &Digraph,
    demands: &Demands,
    gap: f64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Concurrent, Unsuitable> {
    let ranks = network.ranks();
    let kinds = if *demands == Demands::Uniform && ranks > 1 { network.alike() } else { None };
    if kinds.is_none() && ranks > MOST_RANKS {
        return Err(Unsuitable::TooLarge { ranks, most: MOST_RANKS });
    }
    // Where all ranks look alike, one stands for all.
    for source in 0..if kinds.is_some() { 1 } else { ranks } {
        let hops = network.hops_from(source);
        let apart = |target: &Rank| hops[*target] == u32::MAX && demands.between(source, *target) > 0.0;
        if let Some(to) = (0..network.ranks()).find(apart) {
            return Err(Unsuitable::Apart { from: source, to });
        }
    }
    let bounds = FlowBounds::from_network(network, demands);
    let least = bounds::at_most(1.0 / bounds.least(), 1);
    if let Some(kinds) = kinds {
        return Ok(alike(network, &kinds, bounds, least));
    }
    let mut found = Equilibrium::new(network, demands, least);
    let (mut iterations, mut ended) = found.solve(gap, go_on);
    let pairs = found.rows.iter().map(|row| row.targets().count()).sum();
    if ended == Ended::Stuck && exact::fits(network.arcs().len(), pairs) {
        (iterations, ended) = exact::solve(&mut found, iterations, gap, go_on);
    }
    let bound = found.bound;
    let (rows, loads, load) = found.into_ways();
    Ok(Concurrent { load, bound, iterations, ended, bounds, loads, paths: DemandPaths::All(rows) })
}

fn alike(network: &Digraph, kinds: &[usize], bounds: FlowBounds, least: f64) -> Concurrent {
    let found = symmetric::solve(network, kinds);
    let mut of_kind = vec![0.0; network.outgoing(0).len()];
    let by_kind: Vec<Vec<(u32, Rank)>> = (0..network.ranks())
        .map(|rank| {
            let mut own = vec![(0, 0); of_kind.len()];
            network.outgoing(rank).for_each(|arc| own[kinds[arc]] = (arc as u32, network.arcs()[arc].target));
            own
        })
        .collect();
    let mut paths: Vec<(Rank, f64, Vec<u32>)> = Vec::new();
    for (target, found) in found.paths.iter().enumerate() {
        for (share, path) in found {
            path.iter().for_each(|arc| of_kind[kinds[*arc as usize]] += share);
            paths.push((target, *share, path.iter().map(|arc| kinds[*arc as usize] as u32).collect()));
        }
    }
    mix(&mut paths, &by_kind);
    let mut row = RankPaths::default();
    paths.into_iter().for_each(|(target, share, path)| row.push(target, share as f32, path.into_iter()));
    Concurrent {
        load: found.load,
        bound: found.bound.max(least),
        iterations: 0,
        ended: Ended::Exact,
        bounds,
        loads: kinds.iter().map(|kind| of_kind[*kind]).collect(),
        paths: DemandPaths::Alike(row, by_kind),
    }
}

/// If the order of the arcs in a path does not matter, lets paths begin with different kinds, so that all kinds are
/// busy from the first step on.
fn mix(paths: &mut [(Rank, f64, Vec<u32>)], by_kind: &[Vec<(u32, Rank)>]) {
    let kinds = by_kind[0].len();
    let after = |a: usize, b: usize| by_kind[by_kind[0][a].1][b].1;
    if !(0..kinds).all(|a| (0..a).all(|b| after(a, b) == after(b, a))) {
        return;
    }
    let longest = paths.iter().map(|(_, _, path)| path.len()).max().unwrap_or(0);
    // The amount that goes over each kind of arc as first, second, ... hop.
    let mut used = vec![vec![0.0; kinds]; longest];
    let mut order: Vec<usize> = (0..paths.len()).collect();
    order.sort_by_key(|path| std::cmp::Reverse(paths[*path].2.len()));
    for index in order {
        let (_, share, path) = &mut paths[index];
        let turned = |by: usize| -> f64 {
            (0..path.len()).map(|hop| used[hop][path[(hop + by) % path.len()] as usize]).sum()
        };
        let best = (0..path.len()).min_by(|a, b| turned(*a).total_cmp(&turned(*b))).unwrap_or(0);
        path.rotate_left(best);
        path.iter().enumerate().for_each(|(hop, kind)| used[hop][*kind as usize] += *share);
    }
}
