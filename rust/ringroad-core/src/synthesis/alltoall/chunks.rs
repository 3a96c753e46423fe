//! Flows in whole chunks: each pair's demand is cut into equally many chunks, and each chunk takes one path.
//!
//! Largest remainders decide first how many chunks take each path. Then chunks move one by one between paths of the
//! same pair as long as that relieves busy arcs. The lengths of arcs grow so steeply with load that almost only the
//! busiest arcs count.

use libm::exp;

use crate::synthesis::{Budget, Digraph, Spent};
use crate::units::Rank;

use super::Concurrent;

/// How steeply lengths grow with load at first, and by which factor that increases after each iteration over all pairs.
const STEEP: f64 = 150.0;
const STEEPER: f64 = 1.3;
/// The search ends after this many iterations without a gain.
const MAX_STALLED_ITERATIONS: usize = 12;
/// The largest exponent; beyond it, floating-point numbers overflow.
const MAX_EXPONENT: f64 = 600.0;

/// The path of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trip {
    /// Where it begins.
    pub source: Rank,
    /// Where it ends.
    pub target: Rank,
    /// The chunk's number among those of its pair.
    pub piece: usize,
    /// The arcs of the path.
    pub arcs: Vec<u32>,
}

/// The paths of one pair, each with the number of chunks that take it.
struct PairPaths {
    source: Rank,
    target: Rank,
    paths: Vec<(usize, Vec<u32>)>,
}

/// Cuts every pair's demand of one unit into `pieces` chunks and gives each chunk a path of the flow. Returns the
/// paths, and how many chunks the busiest arc carries per unit of its capacity.
pub fn in_chunks(
    network: &Digraph,
    flow: &Concurrent,
    pieces: usize,
    budget: Budget<'_>,
) -> Result<(Vec<Trip>, f64), Spent> {
    let mut pairs = dealt_out(network, flow, pieces);
    let capacity: Vec<f64> = network.capacities();
    let mut loads = vec![0u64; capacity.len()];
    for (chunks, path) in pairs.iter().flat_map(|pair| &pair.paths) {
        path.iter().for_each(|arc| loads[*arc as usize] += *chunks as u64);
    }
    let fullest = |loads: &[u64]| {
        loads.iter().zip(&capacity).map(|(load, capacity)| *load as f64 / capacity).fold(0.0, f64::max)
    };
    let mut best = (fullest(&loads), counts(&pairs));
    let (mut steep, mut without_gain) = (STEEP, 0);
    let widest = capacity.iter().copied().fold(0.0, f64::max);
    let goal = (flow.bound * pieces as f64 * widest * (1.0 - 1e-9)).ceil() / widest;
    while best.0 > goal && without_gain < MAX_STALLED_ITERATIONS {
        budget.check()?;
        let top = fullest(&loads);
        improve(&mut pairs, &mut loads, &capacity, steep.min(MAX_EXPONENT) / top, top);
        let now = fullest(&loads);
        without_gain += 1;
        if now < best.0 {
            best = (now, counts(&pairs));
            without_gain = 0;
        }
        steep *= STEEPER;
    }
    let mut trips = Vec::new();
    for (pair, counts) in pairs.into_iter().zip(best.1) {
        let mut piece = 0;
        for ((_, arcs), count) in pair.paths.into_iter().zip(counts) {
            for _ in 0..count {
                trips.push(Trip { source: pair.source, target: pair.target, piece, arcs: arcs.clone() });
                piece += 1;
            }
        }
    }
    Ok((trips, best.0))
}

fn counts(pairs: &[PairPaths]) -> Vec<Vec<usize>> {
    pairs.iter().map(|pair| pair.paths.iter().map(|(chunks, _)| *chunks).collect()).collect()
}

/// Distributes chunks by largest remainders. Of equal remainders, paths whose busiest arc carries less come first.
fn dealt_out(network: &Digraph, flow: &Concurrent, pieces: usize) -> Vec<PairPaths> {
    let mut pairs: Vec<PairPaths> = Vec::new();
    let mut shares: Vec<Vec<f64>> = Vec::new();
    for source in 0..network.ranks() {
        flow.each_path(source, |target, share, arcs| {
            let known = pairs.last().is_some_and(|pair| (pair.source, pair.target) == (source, target));
            if !known {
                pairs.push(PairPaths { source, target, paths: Vec::new() });
                shares.push(Vec::new());
            }
            if let (Some(pair), Some(shares)) = (pairs.last_mut(), shares.last_mut()) {
                pair.paths.push((0, arcs.to_vec()));
                shares.push(share);
            }
        });
    }
    let mut loads = vec![0usize; network.arcs().len()];
    for (pair, shares) in pairs.iter_mut().zip(&shares) {
        let all: f64 = shares.iter().sum();
        let mut rest: Vec<(f64, usize)> = Vec::new();
        for (index, share) in shares.iter().enumerate() {
            let wanted = share / all * pieces as f64;
            // A number within rounding of a whole one counts as whole.
            pair.paths[index].0 = (wanted + 1e-6).floor() as usize;
            rest.push((wanted - pair.paths[index].0 as f64, index));
        }
        let busiest = |index: usize| pair.paths[index].1.iter().map(|arc| loads[*arc as usize]).max();
        let rounded = |remainder: f64| (remainder * 1e4).round() as i64;
        rest.sort_by_key(|(remainder, index)| (-rounded(*remainder), busiest(*index)));
        let given: usize = pair.paths.iter().map(|(chunks, _)| chunks).sum();
        let missing: Vec<usize> =
            rest.iter().take(pieces - given.min(pieces)).map(|(_, path)| *path).collect();
        missing.into_iter().for_each(|path| pair.paths[path].0 += 1);
        for (chunks, path) in &pair.paths {
            path.iter().for_each(|arc| loads[*arc as usize] += chunks);
        }
    }
    pairs
}

/// Iterates over all pairs once. An arc's length is `exp(steep * (load - top))` per unit of capacity.
fn improve(pairs: &mut [PairPaths], loads: &mut [u64], capacity: &[f64], steep: f64, top: f64) {
    let length_of = |load: u64, capacity: f64| exp(steep * (load as f64 / capacity - top)) / capacity;
    let mut length: Vec<f64> = loads.iter().zip(capacity).map(|(load, c)| length_of(*load, *c)).collect();
    // The factor by which another chunk increases each arc's length.
    let growth: Vec<f64> = capacity.iter().map(|capacity| exp(steep / capacity)).collect();
    let mut count = vec![0i8; loads.len()];
    for pair in pairs.iter_mut().filter(|pair| pair.paths.len() > 1) {
        for from in 0..pair.paths.len() {
            for to in 0..pair.paths.len() {
                if from == to || pair.paths[from].0 == 0 {
                    continue;
                }
                let (dear, cheap) = (&pair.paths[from].1, &pair.paths[to].1);
                dear.iter().for_each(|arc| count[*arc as usize] += 1);
                cheap.iter().for_each(|arc| count[*arc as usize] -= 1);
                let differs = |arc: &&u32| count[**arc as usize] != 0;
                let left: f64 = dear.iter().filter(differs).map(|arc| length[*arc as usize]).sum();
                let entered = |arc: &u32| length[*arc as usize] * growth[*arc as usize];
                let entered: f64 = cheap.iter().filter(differs).map(entered).sum();
                if entered < left {
                    let mut change = |arcs: &[u32], by: i64| {
                        for arc in arcs.iter().map(|arc| *arc as usize).filter(|arc| count[*arc] != 0) {
                            loads[arc] = loads[arc].saturating_add_signed(by);
                            length[arc] = length_of(loads[arc], capacity[arc]);
                        }
                    };
                    change(dear, -1);
                    change(cheap, 1);
                }
                dear.iter().chain(cheap).for_each(|arc| count[*arc as usize] = 0);
                if entered < left {
                    pair.paths[from].0 -= 1;
                    pair.paths[to].0 += 1;
                }
            }
        }
    }
}

/// Tries 1 to `most` pieces and stops at the first number with which the busiest arc is at most `1 + gap` times as full
/// as it must be; if none is good enough, takes the best. Returns the number of pieces and the result of [`in_chunks`].
pub fn in_few_chunks(
    network: &Digraph,
    flow: &Concurrent,
    most: usize,
    gap: f64,
    budget: Budget<'_>,
) -> Result<(usize, Vec<Trip>, f64), Spent> {
    let mut best: Option<(usize, Vec<Trip>, f64)> = None;
    for pieces in 1..=most.max(1) {
        let (trips, load) = in_chunks(network, flow, pieces, budget)?;
        let relative = load / pieces as f64;
        if best.as_ref().is_none_or(|(pieces, _, load)| relative < load / *pieces as f64 * (1.0 - 1e-9)) {
            best = Some((pieces, trips, load));
        }
        if relative <= flow.bound * (1.0 + gap) {
            break;
        }
    }
    Ok(best.unwrap_or((1, Vec::new(), 0.0)))
}
