//! Improves the distances of a torus: by an exhaustive search for small sizes, else by changing them one after the
//! other.

use std::ops::Range;

use super::nest::{home, radius, widen, Nest};
use super::torus::{CollectiveState, Torus};

/// Up to this size, the search covers all distances that can be the best, if all dimensions are equal. If they are not,
/// it improves one kind of dimensions after the other, and may miss the best. Distances of larger sizes are made of
/// those of smaller ones and then improved.
pub(super) const SMALL: usize = 128;

impl Torus {
    /// Searches for better distances of one kind of dimensions while the other kinds keep theirs.
    pub(super) fn improve(&self, nests: &mut [Nest], kind: usize, effort: usize) {
        let (size, levels) = (nests[kind].counts[0], nests[kind].distances.len());
        if size > SMALL {
            return self.descend(nests, kind, effort);
        }
        let least_done = |step: &Vec<CollectiveState>| {
            let done = step.iter().flat_map(|(_, done)| self.kinds.iter().zip(done));
            done.filter(|(other, _)| **other == kind).map(|(_, done)| *done).min()
        };
        let done: Vec<Option<usize>> = self.steps.iter().map(least_done).collect();
        let firsts = (0..=levels).map(|level| done.partition_point(|done| *done < Some(level))).collect();
        let (idle, load, _) = self.score(nests);
        let best = if idle == 0 { (load, nests[kind].distances.iter().sum()) } else { (u64::MAX, 0) };
        let mut search =
            DistanceSearch { torus: self, kind, firsts, nests: nests.to_vec(), effort, best, found: None };
        let load = self.load(nests, search.firsts[levels]..self.steps.len() - 1);
        search.deepen(levels, &home(size), load, 0);
        if let Some(found) = search.found {
            nests[kind] = found;
        }
    }

    /// Changes one distance, or several equal ones, as long as that improves the score.
    fn descend(&self, nests: &mut [Nest], kind: usize, mut effort: usize) {
        let size = nests[kind].counts[0];
        let mut best = self.score(nests);
        let mut better = true;
        while std::mem::take(&mut better) {
            let mut spans = Vec::new();
            for run in nests[kind].distances.chunk_by(|a, b| a == b) {
                let start = spans.last().map_or(0, |last: &Range<usize>| last.end);
                let end = start + run.len();
                spans.extend([start..start + 1, start..end, end - 1..end]);
            }
            for span in spans.into_iter().rev() {
                let old = nests[kind].distances[span.start];
                let near =
                    |distance: usize| distance.abs_diff(old) < 8 || distance.abs_diff(old).is_power_of_two();
                for distance in (1..=size / 2).filter(|distance| size <= 2 * SMALL || near(*distance)) {
                    let mut distances = nests[kind].distances.clone();
                    effort = effort.saturating_sub(size * distances.len());
                    if effort == 0 {
                        return;
                    }
                    distances[span.clone()].fill(distance);
                    let Some(nest) = Nest::new(size, distances) else { continue };
                    let before = std::mem::replace(&mut nests[kind], nest);
                    let score = self.score(nests);
                    if score < best {
                        (best, better) = (score, true);
                    } else {
                        nests[kind] = before;
                    }
                }
            }
        }
    }
}

/// Tries all distances of one kind of dimensions from the last level to the first, and skips those that cannot be
/// better.
///
/// Only distances are tried that do not grow towards level 0, except by one at level 0 itself. No others are better for
/// rings, squares and cubes up to size 44, nor up to size 64 with the fewest levels and up to six more.
struct DistanceSearch<'a> {
    torus: &'a Torus,
    kind: usize,
    /// For every level, the first step before which all collectives have reached it.
    firsts: Vec<usize>,
    nests: Vec<Nest>,
    effort: usize,
    best: (u64, usize),
    found: Option<Nest>,
}

impl DistanceSearch<'_> {
    /// Continues where the distances from `level` on are given, with their set, the load of their steps, and their sum.
    fn deepen(&mut self, level: usize, set: &[u8], load: u64, hops: usize) {
        let (size, kind) = (set.len(), self.kind);
        if level == 0 {
            (self.best, self.found) = ((load, hops), Some(self.nests[kind].clone()));
            return;
        }
        let most = match self.nests[kind].distances.get(level) {
            Some(last) => (last + usize::from(level == 1)).min(size / 2),
            None => size / 2,
        };
        let level = level - 1;
        let (mut ways, mut wider) = (Vec::new(), Vec::new());
        for distance in 1..=most {
            let count = widen(set, distance, &mut wider);
            let reach = 3usize.saturating_pow(level as u32).saturating_mul(count);
            let farthest = radius(&wider);
            let most_hops = if level == 0 { 0 } else { level * distance + 1 };
            if count == self.nests[kind].counts[level + 1] || reach < size || farthest > most_hops {
                continue;
            }
            (self.nests[kind].distances[level], self.nests[kind].counts[level]) = (distance, count);
            let (steps, places) =
                (self.firsts[level]..self.firsts[level + 1], &self.torus.steps[self.firsts[level]]);
            self.effort = self.effort.saturating_sub(size + steps.len() * places.len().pow(2));
            let load = load + self.torus.load(&self.nests, steps);
            // In earlier steps, every block that has been given away by now has moved by at least one hop.
            let held = |(_, done): &CollectiveState| self.torus.held(&self.nests, done);
            let gone =
                places.len() as u64 * held(&self.torus.steps[0][0]) - places.iter().map(held).sum::<u64>();
            let bound = (load + gone.div_ceil(places.len() as u64), hops + distance + farthest.max(level));
            ways.push((bound, distance, count, load));
        }
        ways.sort();
        for (bound, distance, count, load) in ways {
            if bound < self.best && self.effort > 0 {
                (self.nests[kind].distances[level], self.nests[kind].counts[level]) = (distance, count);
                widen(set, distance, &mut wider);
                self.deepen(level, &wider, load, hops + distance);
            }
        }
    }
}
