//! The exact flow for few pairs and arcs, where equilibration no longer helps: a linear program whose columns are paths.
//!
//! It minimises how full the busiest arc is. There is one row for each arc (what its paths carry, per unit of capacity, is
//! at most that) and one for each pair (the shares of its paths add up to 1). A column is made only when the simplex method
//! needs it: the lengths of arcs are the program's dual values, and the shortest path of a pair in them is its best new
//! column (Ford, Fulkerson: A suggested computation for maximal multi-commodity network flows, 1958). The same lengths
//! are the certificate, as in equilibration. So what rounding spoils here costs time or leaves a gap, but proves nothing
//! wrong.

use crate::units::Rank;

use super::equilibrium::Equilibrium;
use super::paths::RankPaths;
use super::{Ended, Progress};

/// The most rows: the square of it is kept in memory.
const MOST_ROWS: usize = 640;
/// A dual value or an entry of a column that is smaller than this is none.
const ZERO: f64 = 1e-11;
/// The gap at which the search ends whatever was asked for; the shares of paths are not more exact.
const EXACT: f64 = 1e-7;
/// Each row of an arc allows up to this much more than the busiest arc, each another amount. Without it, many bases would
/// be equally good, and the method could go around among them.
const UNEQUAL: f64 = 1e-10;
/// The inverse is computed anew after this many changes.
const AGAIN: usize = 256;

/// What a column stands for.
#[derive(Clone)]
enum Column {
    /// How full the busiest arc is.
    Top,
    /// What an arc is less full than the busiest one.
    Spare(usize),
    /// A pair's path.
    Path(usize, Vec<u32>),
}

struct LinearProgram<'a, 'b> {
    search: &'a mut Equilibrium<'b>,
    pairs: Vec<(Rank, Rank)>,
    /// The demand of each pair, and the capacity of each arc times how full the busiest arc was at first.
    demands: Vec<f64>,
    scaled: Vec<f64>,
    rows: usize,
    basis: Vec<Column>,
    /// The inverse of the basis, row by row.
    inverse: Vec<f64>,
    value: Vec<f64>,
    /// The place of `Column::Top` in the basis, which never leaves it.
    top: usize,
}

/// Whether the program is small enough for a network with so many arcs and pairs with a demand.
pub(super) fn fits(arcs: usize, pairs: usize) -> bool {
    arcs + pairs <= MOST_ROWS
}

/// Goes on from where equilibration has ended after `iteration` iterations. Each change of the basis counts as one more. Returns
/// their number and why the search ended.
pub(super) fn solve(
    search: &mut Equilibrium<'_>,
    iteration: usize,
    gap: f64,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> (usize, Ended) {
    let arcs = search.capacity.len();
    let (mut pairs, mut basis) = (Vec::new(), vec![Column::Top; arcs]);
    for (source, row) in search.rows.iter().enumerate() {
        for paths in row.targets() {
            let widest = paths.max_by(|a, b| row.paths[*a].share.total_cmp(&row.paths[*b].share));
            let Some((path, arcs)) = widest.map(|path| row.path(path)) else { continue };
            basis.push(Column::Path(pairs.len(), arcs.to_vec()));
            pairs.push((source, path.target as Rank));
        }
    }
    let mut fullness = vec![0.0; arcs];
    let demands: Vec<f64> = pairs.iter().map(|(s, t)| search.demands.between(*s, *t)).collect();
    for column in &basis[arcs..] {
        if let Column::Path(pair, path) = column {
            let add = |arc: &u32| fullness[*arc as usize] += demands[*pair] / search.capacity[*arc as usize];
            path.iter().for_each(add);
        }
    }
    let unit = fullness.iter().copied().fold(0.0, f64::max);
    let scaled: Vec<f64> = search.capacity.iter().map(|capacity| capacity * unit).collect();
    let over = |arc: &usize| fullness[*arc] / unit - unequal(*arc);
    let top = (0..arcs).max_by(|a, b| over(a).total_cmp(&over(b))).unwrap_or(0);
    (0..arcs).filter(|arc| *arc != top).for_each(|arc| basis[arc] = Column::Spare(arc));
    let rows = basis.len();
    let (inverse, value) = (Vec::new(), Vec::new());
    let mut program = LinearProgram { search, pairs, demands, scaled, rows, basis, inverse, value, top };
    program.run(iteration, gap, go_on)
}

/// What the row of an arc allows beyond the busiest arc; numbers without a pattern.
fn unequal(arc: usize) -> f64 {
    UNEQUAL * (1.0 + (arc * 7919 % 1009) as f64 / 1009.0)
}

impl LinearProgram<'_, '_> {
    fn run(&mut self, first: usize, gap: f64, go_on: &mut dyn FnMut(&Progress) -> bool) -> (usize, Ended) {
        let mut iteration = first;
        let mut invertible = self.invert();
        let ended = loop {
            if !invertible {
                break Ended::Stuck;
            }
            let enters = self.enters();
            let load = self.value[self.top] * self.scaled[0] / self.search.capacity[0];
            let now = Progress { iteration, load, bound: self.search.bound };
            if now.gap() <= gap.max(EXACT) {
                break if gap < EXACT { Ended::Exact } else { Ended::Near };
            }
            let Some(column) = enters else { break Ended::Stuck };
            if iteration > first && !go_on(&now) {
                break Ended::Asked;
            }
            iteration += 1;
            if !self.exchange(column) {
                break Ended::Stuck;
            }
            if (iteration - first).is_multiple_of(AGAIN) {
                invertible = self.invert();
            }
        };
        self.keep();
        (iteration, ended)
    }

    /// The entries of a column by row.
    fn entries(&self, column: &Column) -> Vec<(usize, f64)> {
        let arcs = self.scaled.len();
        match column {
            Column::Top => (0..arcs).map(|arc| (arc, -1.0)).collect(),
            Column::Spare(arc) => vec![(*arc, 1.0)],
            Column::Path(pair, path) => {
                let full = |arc: &u32| (*arc as usize, self.demands[*pair] / self.scaled[*arc as usize]);
                path.iter().map(full).chain([(arcs + pair, 1.0)]).collect()
            }
        }
    }

    /// The product of the inverse and a column.
    fn transformed(&self, column: &Column) -> Vec<f64> {
        let entries = self.entries(column);
        let line = |line: &[f64]| entries.iter().map(|(row, entry)| line[*row] * entry).sum();
        self.inverse.chunks_exact(self.rows).map(line).collect()
    }

    /// Finds the column that gains most: what an arc may be less full, or else a pair's path. Notes what the lengths
    /// prove.
    fn enters(&mut self) -> Option<Column> {
        let arcs = self.scaled.len();
        let dual = self.inverse[self.top * self.rows..(self.top + 1) * self.rows].to_vec();
        let lengths: Vec<f64> = (0..arcs).map(|arc| (-dual[arc]).max(0.0) / self.scaled[arc]).collect();
        let mut gain = ZERO;
        let mut found = None;
        for (arc, dual) in dual[..arcs].iter().enumerate() {
            if *dual > gain {
                (gain, found) = (*dual, Some(Column::Spare(arc)));
            }
        }
        let ready = found.is_none();
        let (mut grown, mut taken) = (None, 0.0);
        let mut path = Vec::new();
        for (pair, (source, target)) in self.pairs.iter().copied().enumerate() {
            if grown != Some(source) {
                self.search.grow(source, &lengths);
                grown = Some(source);
            }
            let least = self.demands[pair] * self.search.distance(target);
            let gained = dual[arcs + pair] - least;
            taken += least;
            if ready && gained > gain {
                self.search.path(source, target, &mut path);
                (gain, found) = (gained, Some(Column::Path(pair, path.clone())));
            }
        }
        self.search.prove(taken, self.search.capacity.iter().zip(&lengths).map(|(a, b)| a * b).sum());
        found
    }

    /// Puts a column into the basis, in the place of the first one that becomes 0. Returns false if there is none.
    fn exchange(&mut self, column: Column) -> bool {
        let entry = self.transformed(&column);
        let mut leaves: Option<(f64, usize)> = None;
        for row in (0..self.rows).filter(|row| *row != self.top && entry[*row] > 1e-9) {
            let ratio = self.value[row].max(0.0) / entry[row];
            let better = leaves
                .is_none_or(|(best, other)| ratio < best || (ratio == best && entry[row] > entry[other]));
            if better {
                leaves = Some((ratio, row));
            }
        }
        let Some((step, pivot)) = leaves else { return false };
        self.value.iter_mut().zip(&entry).for_each(|(value, entry)| *value -= step * entry);
        self.value[pivot] = step;
        self.eliminate(pivot, &entry);
        self.basis[pivot] = column;
        true
    }

    /// Makes the column with these entries a column of the identity, with its 1 in row `pivot`.
    fn eliminate(&mut self, pivot: usize, entry: &[f64]) {
        let rows = self.rows;
        let by: Vec<f64> =
            self.inverse[pivot * rows..(pivot + 1) * rows].iter().map(|value| value / entry[pivot]).collect();
        for (row, line) in self.inverse.chunks_exact_mut(rows).enumerate() {
            if row == pivot {
                line.copy_from_slice(&by);
            } else if entry[row] != 0.0 {
                line.iter_mut().zip(&by).for_each(|(value, by)| *value -= entry[row] * by);
            }
        }
    }

    /// Computes the inverse and the values from the columns of the basis. Returns false if rounding has made the columns
    /// dependent.
    fn invert(&mut self) -> bool {
        let rows = self.rows;
        self.inverse = vec![0.0; rows * rows];
        (0..rows).for_each(|row| self.inverse[row * rows + row] = 1.0);
        let mut old = std::mem::replace(&mut self.basis, vec![Column::Top; rows]);
        // Columns with one entry first: they cost nothing.
        old.sort_by_key(|column| !matches!(column, Column::Spare(_)));
        let mut free = vec![true; rows];
        for column in old {
            let entry = self.transformed(&column);
            let larger = |a: &usize, b: &usize| entry[*a].abs().total_cmp(&entry[*b].abs());
            let Some(pivot) = (0..rows).filter(|row| free[*row]).max_by(larger) else { return false };
            if entry[pivot].abs() < ZERO {
                return false;
            }
            self.eliminate(pivot, &entry);
            free[pivot] = false;
            if matches!(column, Column::Top) {
                self.top = pivot;
            }
            self.basis[pivot] = column;
        }
        let arcs = self.scaled.len();
        let side: Vec<f64> = (0..rows).map(|row| if row < arcs { unequal(row) } else { 1.0 }).collect();
        let product = |line: &[f64]| line.iter().zip(&side).map(|(a, b)| a * b).sum();
        self.value = self.inverse.chunks_exact(rows).map(product).collect();
        true
    }

    /// Makes the paths of the basis the paths of the search, unless those it has are better.
    fn keep(&mut self) {
        let mut of_pair: Vec<Vec<(f32, &[u32])>> = vec![Vec::new(); self.pairs.len()];
        for (column, value) in self.basis.iter().zip(&self.value) {
            if let Column::Path(pair, path) = column {
                if *value > ZERO {
                    of_pair[*pair].push((*value as f32, path));
                }
            }
        }
        if of_pair.iter().any(|paths| paths.is_empty()) {
            return;
        }
        let mut rows = vec![RankPaths::default(); self.search.rows.len()];
        for ((source, target), paths) in self.pairs.iter().zip(of_pair) {
            paths
                .into_iter()
                .for_each(|(share, arcs)| rows[*source].push(*target, share, arcs.iter().copied()));
        }
        self.search.replace(rows);
    }
}
