//! The exact flow for networks where all ranks look alike: arcs of one kind are equally full, so rank 0's paths
//! determine all.
//!
//! How full the busiest arc must be is the value of a game. One player chooses a tree of paths from rank 0 to all other
//! ranks, the other player chooses a kind of arc. The first pays how often the tree goes over arcs of that kind, per
//! unit of capacity. Trees are added one at a time: each is the tree of shortest paths in the lengths that the second
//! player's best mixture gives. The search ends when that tree is no better than the mixture of the known trees
//! (cutting planes).

use std::collections::BTreeSet;

use crate::synthesis::Digraph;
use crate::units::Rank;

use super::bounds::at_most;

/// A constant part of every length, which keeps paths short where many kinds of arcs are free.
const FLOOR: f64 = 1e-9;
/// The gap at which the search ends; numbers with 53 bits allow no smaller one.
const EXACT: f64 = 1e-7;

/// All paths from rank 0, each with its share.
pub(super) struct Symmetric {
    /// For each target, the paths to it as shares and arcs.
    pub paths: Vec<Vec<(f64, Vec<u32>)>>,
    /// How full the busiest kind of arc is.
    pub load: f64,
    /// A proven lower bound on how full the busiest kind of arc is.
    pub bound: f64,
}

/// Solves the game for a network with these kinds of arcs, which are the same at every rank.
pub(super) fn solve(network: &Digraph, kinds: &[usize]) -> Symmetric {
    let own = network.outgoing(0);
    let mut capacity = vec![0.0; own.len()];
    own.for_each(|arc| capacity[kinds[arc]] = network.arcs()[arc].bandwidth / network.unit());
    let mut trees: Vec<Vec<u32>> = Vec::new();
    // How full each tree alone makes each kind of arc: one line per kind, one column per tree.
    let mut table: Vec<Vec<f64>> = vec![Vec::new(); capacity.len()];
    let mut lengths = vec![1.0 / capacity.iter().sum::<f64>(); capacity.len()];
    let (mut mixture, mut load, mut bound) = (Vec::new(), f64::INFINITY, 0.0f64);
    loop {
        let (parents, taken, counts) = tree(network, kinds, &lengths);
        let all: f64 = capacity.iter().zip(&lengths).map(|(capacity, length)| capacity * length).sum();
        bound = bound.max(at_most(taken / all, 2 * network.ranks() + capacity.len()));
        if load / bound - 1.0 < EXACT {
            break;
        }
        let fullness = || counts.iter().zip(&capacity).map(|(count, capacity)| count / capacity);
        // If a tree comes again, the difference between load and bound is only rounding.
        if (0..trees.len()).any(|tree| table.iter().zip(fullness()).all(|(line, full)| line[tree] == full)) {
            break;
        }
        table.iter_mut().zip(fullness()).for_each(|(line, full)| line.push(full));
        trees.push(parents);
        (mixture, lengths, load) = game(&table);
        lengths
            .iter_mut()
            .zip(&capacity)
            .for_each(|(length, capacity)| *length = (*length + FLOOR) / capacity);
    }
    let used: Vec<(f64, &Vec<u32>)> =
        mixture.into_iter().zip(&trees).filter(|(share, _)| *share > 1e-9).collect();
    let all: f64 = used.iter().map(|(share, _)| share).sum();
    let paths = (0..network.ranks()).map(|target| {
        let mut paths: Vec<(f64, Vec<u32>)> = Vec::new();
        for (share, tree) in if target == 0 { &[][..] } else { &used[..] } {
            let path = path(network, tree, target);
            match paths.iter_mut().find(|known| known.1 == path) {
                Some(known) => known.0 += share / all,
                None => paths.push((share / all, path)),
            }
        }
        paths
    });
    Symmetric { paths: paths.collect(), load, bound }
}

fn path(network: &Digraph, tree: &[u32], target: Rank) -> Vec<u32> {
    let mut path = Vec::new();
    let mut here = target;
    while here != 0 {
        path.push(tree[here]);
        here = network.arcs()[tree[here] as usize].source;
    }
    path.reverse();
    path
}

/// The tree of shortest paths from rank 0: the arc by which it reaches each rank, the sum of the lengths of all paths,
/// and how often they go over arcs of each kind.
fn tree(network: &Digraph, kinds: &[usize], lengths: &[f64]) -> (Vec<u32>, f64, Vec<f64>) {
    #[derive(PartialEq, PartialOrd)]
    struct Distance(f64);
    impl Eq for Distance {}
    #[allow(clippy::derive_ord_xor_partial_ord)]
    impl Ord for Distance {
        fn cmp(&self, other: &Distance) -> std::cmp::Ordering {
            self.0.total_cmp(&other.0)
        }
    }
    let ranks = network.ranks();
    let mut distance = vec![f64::INFINITY; ranks];
    let mut parents = vec![u32::MAX; ranks];
    let mut waiting = BTreeSet::from([(Distance(0.0), 0)]);
    let mut order = Vec::with_capacity(ranks);
    distance[0] = 0.0;
    while let Some((Distance(reached), here)) = waiting.pop_first() {
        order.push(here);
        for arc in network.outgoing(here) {
            let next = network.arcs()[arc].target;
            let length = reached + lengths[kinds[arc]];
            if length < distance[next] {
                waiting.remove(&(Distance(distance[next]), next));
                distance[next] = length;
                parents[next] = arc as u32;
                waiting.insert((Distance(length), next));
            }
        }
    }
    let mut below = vec![1.0; ranks];
    let mut counts = vec![0.0; lengths.len()];
    for &rank in order.iter().skip(1).rev() {
        let arc = parents[rank] as usize;
        counts[kinds[arc]] += below[rank];
        let share = below[rank];
        below[network.arcs()[arc].source] += share;
    }
    (parents, distance.iter().sum(), counts)
}

/// Solves a matrix game in which the player who chooses columns pays the entry to the player who chooses lines. Returns
/// the columns' best mixture, the lines' best mixture, and the value. Uses the simplex method with Bland's rule, which
/// always ends.
fn game(table: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>, f64) {
    const ZERO: f64 = 1e-11;
    let (lines, columns) = (table.len(), table[0].len());
    let width = columns + lines + 1;
    // Entries are not negative, so the largest sum of `y` with `table y <= 1` is 1 / value.
    let mut cells: Vec<Vec<f64>> = Vec::with_capacity(lines + 1);
    for (index, entries) in table.iter().enumerate() {
        let mut line = entries.clone();
        line.resize(width, 0.0);
        line[columns + index] = 1.0;
        line[width - 1] = 1.0;
        cells.push(line);
    }
    let mut goal = vec![-1.0; columns];
    goal.resize(width, 0.0);
    cells.push(goal);
    let mut basis: Vec<usize> = (columns..columns + lines).collect();
    while let Some(enter) = (0..width - 1).find(|column| cells[lines][*column] < -ZERO) {
        let mut leave: Option<(f64, usize)> = None;
        for (line, cells) in cells[..lines].iter().enumerate().filter(|(_, cells)| cells[enter] > ZERO) {
            let ratio = cells[width - 1] / cells[enter];
            let better = leave.is_none_or(|(best, other)| {
                ratio < best - ZERO || (ratio < best + ZERO && basis[line] < basis[other])
            });
            if better {
                leave = Some((ratio, line));
            }
        }
        let Some((_, pivot)) = leave else { break };
        let scale = cells[pivot][enter];
        cells[pivot].iter_mut().for_each(|value| *value /= scale);
        let by = cells[pivot].clone();
        for (line, cells) in cells.iter_mut().enumerate() {
            let times = cells[enter];
            if line != pivot && times != 0.0 {
                cells.iter_mut().zip(&by).for_each(|(value, by)| *value -= times * by);
            }
        }
        basis[pivot] = enter;
    }
    let total = cells[lines][width - 1];
    let mut of_columns = vec![0.0; columns];
    for (line, column) in basis.iter().enumerate().filter(|(_, column)| **column < columns) {
        of_columns[*column] = cells[line][width - 1] / total;
    }
    let of_lines = (0..lines).map(|line| (cells[lines][columns + line] / total).max(0.0)).collect();
    (of_columns, of_lines, 1.0 / total)
}
