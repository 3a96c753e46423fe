//! The distances of nested sets of offsets that load the links of a ring or a torus least, for any number of steps.
//!
//! Let S_K = { 0 } and S_k = S_{k+1} with what lies d_k to either side of it. If S_0 is the whole ring, this is a
//! reduce-scatter: a rank at an offset from a block's own rank that is in S_k but not in S_{k+1} gives the block away in
//! step k, by d_k to an offset in S_{k+1}. Few large steps, or many small ones that load the links less: Trivance
//! (Juerss, Addanki, Schmid, arXiv 2602.17254) has the fewest steps, and n/2 distances of 1 are the ring of Zhao et al.
//! (arXiv 2202.03356), the least load there is. The distances between them are found by search.
//!
//! ```text
//! n = 16    Trivance: 1, 3, 4                              here: 1, 2, 5
//!   S_2     { 0, 4, 12 }                            2 * 4  { 0, 5, 11 }                             2 * 5
//!   S_1     { 0, 1, 3, 4, 7, 9, 12, 13, 15 }        6 * 3  { 0, 2, 3, 5, 7, 9, 11, 13, 14 }         6 * 2
//!   S_0     all                                     7 * 1  all                                      7 * 1
//!                                             33/16 = 2.06                                   29/16 = 1.81
//! ```
//!
//! On a torus of D dimensions, D collectives run at once on their own m/D bytes; collective c takes its first step in
//! dimension c, the next in dimension c + 1, and so on, and passes over dimensions whose levels are used up. One half of
//! each runs with all signs flipped, so that both directions of a link carry the same.
//!
//! Cost: 2 (K_1 + .. + K_D) steps, 2(N-1)/N of the vector, bytes of the busiest link m/D times [`link_load`]: for a ring
//! the sum of d_k (|S_k| - |S_{k+1}|) / n, for D dimensions alike that of d_k (|S_k|^D - |S_{k+1}|^D) / n^D.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::ceil_log;

/// Up to this size everything that can be the best is looked at, if all dimensions are alike; if they are not, they take
/// turns, and it may end at less than the best. Larger sizes are made of smaller ones, and then improved.
const SMALL: usize = 128;
/// How many ways to make a larger size are followed.
const STARTS: usize = 4;
/// About how many offsets, or products of sizes, may be looked at to improve one plan.
const EFFORT: usize = 1 << 24;
/// How many plans are kept.
const KEPT: usize = 1 << 10;

/// Sizes and levels, and for every dimension its distances.
type Plans = BTreeMap<(Vec<usize>, Vec<usize>), Vec<Vec<usize>>>;

static PLANS: Mutex<Plans> = Mutex::new(BTreeMap::new());

/// For every dimension its distances: step k of the dimension in the reduce-scatter goes by the k-th.
///
/// Levels are clamped: fewer than [`fewest`] do not reach everybody, and beyond half the size there is nothing left to
/// do. Dimensions of equal size and levels get equal distances. The answer depends on the arguments alone, on all ranks
/// and machines. It loads the links no more than Trivance's distances if those have as many levels.
pub fn plan(sizes: &[usize], levels: &[usize]) -> Vec<Vec<usize>> {
    assert_eq!(sizes.len(), levels.len(), "every dimension needs a number of levels");
    let clamped = sizes.iter().zip(levels).map(|(&size, levels)| *levels.clamp(&fewest(size), &(size / 2)));
    let key = (sizes.to_vec(), clamped.collect::<Vec<_>>());
    let plans = || PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = plans().get(&key) {
        return known.clone();
    }
    let found = least(&key.0, &key.1);
    let mut plans = plans();
    if plans.len() >= KEPT {
        plans.pop_first();
    }
    plans.insert(key, found.clone());
    found
}

/// The numbers of levels that are worth a try: `(extra, levels)`, where every dimension has `extra` levels more than the
/// fewest, but at most half its size. The extra levels are 0 to 6, then 12, 24, ..., and last what all ones need.
///
/// More levels do not always load the links less, least of all if the sizes differ much: compare.
pub fn members(sizes: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let most = sizes.iter().map(|&size| size / 2 - fewest(size)).max().unwrap_or(0);
    let doubled = std::iter::successors(Some(12), |extra| Some(2 * extra));
    let extras = (0..=6).chain(doubled).take_while(|extra| *extra < most).chain([most]);
    let levels = |extra: usize| sizes.iter().map(|&size| (fewest(size) + extra).min(size / 2)).collect();
    extras.map(|extra| (extra, levels(extra))).collect()
}

/// The fewest levels that reach everybody on a ring.
pub fn fewest(size: usize) -> usize {
    ceil_log(3, size)
}

/// Trivance's own distances: 1, 3, 9, ... and last half of what is then left to cover.
pub fn trivance(n: usize) -> Vec<usize> {
    let powers = (0..fewest(n)).map(|level| 3usize.pow(level as u32));
    powers.map(|power| if 3 * power < n { power } else { (n - power).div_ceil(2) }).collect()
}

/// Bytes over the busiest link, reduce-scatter and allgather together, as a multiple of the m/D bytes of a collective;
/// infinite if the distances do not reach everybody, or if one is more than half its ring.
#[cfg(test)]
pub fn link_load(sizes: &[usize], distances: &[Vec<usize>]) -> f64 {
    assert_eq!(sizes.len(), distances.len(), "every dimension needs distances");
    let nests = sizes.iter().zip(distances).map(|(&size, distances)| Nest::new(size, distances.clone()));
    nests.collect::<Option<Vec<_>>>().map_or(f64::INFINITY, |nests| {
        let torus = Torus::new((0..sizes.len()).collect(), &nests);
        torus.load(&nests, 0..torus.steps.len() - 1) as f64 / sizes.iter().product::<usize>() as f64
    })
}

/// The distances of a ring, and how many offsets S_0 to S_K have; which ones does not matter to the load.
#[derive(Debug, Clone)]
struct Nest {
    distances: Vec<usize>,
    counts: Vec<usize>,
}

impl Nest {
    fn new(size: usize, distances: Vec<usize>) -> Option<Nest> {
        let mut counts = vec![1; distances.len() + 1];
        let (mut set, mut wider) = (home(size), Vec::new());
        for (level, &distance) in distances.iter().enumerate().rev() {
            if 2 * distance > size {
                return None;
            }
            counts[level] = widen(&set, distance, &mut wider);
            std::mem::swap(&mut set, &mut wider);
        }
        (counts[0] == size).then_some(Nest { distances, counts })
    }

    /// Steps in which nobody sends.
    fn idle(&self) -> usize {
        self.counts.windows(2).filter(|pair| pair[0] == pair[1]).count()
    }
}

/// The set with offset 0 alone, a byte for every offset: plain loops over bytes are fast.
fn home(size: usize) -> Vec<u8> {
    (0..size).map(|offset| u8::from(offset == 0)).collect()
}

/// Sets `wider` to a set and what is `distance` to either side of it; how many offsets that are.
fn widen(set: &[u8], distance: usize, wider: &mut Vec<u8>) -> usize {
    let unite = |to: &mut [u8], from: &[u8]| to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
    let rest = set.len() - distance;
    wider.clear();
    wider.extend_from_slice(set);
    unite(&mut wider[distance..], &set[..rest]);
    unite(&mut wider[..distance], &set[rest..]);
    unite(&mut wider[..rest], &set[distance..]);
    unite(&mut wider[rest..], &set[..distance]);
    wider.chunks(255).map(|part| usize::from(part.iter().sum::<u8>())).sum()
}

/// How far the offset farthest from a set is from it.
fn radius(set: &[u8]) -> usize {
    let (mut last, mut gap) = (0, 0);
    for offset in (1..=set.len() / 2).filter(|offset| set[*offset] == 1) {
        gap = gap.max(offset - last);
        last = offset;
    }
    gap.max(set.len() - 2 * last) / 2
}

/// Where a collective is before a step: the dimension of the step, and how many levels of each dimension are over.
type Place = (usize, Vec<usize>);

/// What is to be small, first things first: steps in which nobody sends, load, hops.
type Score = (usize, u64, usize);

/// Dimensions, those of a kind with the same distances, and for every step, and the end, the places of all collectives.
struct Torus {
    kinds: Vec<usize>,
    steps: Vec<Vec<Place>>,
}

impl Torus {
    fn new(kinds: Vec<usize>, nests: &[Nest]) -> Torus {
        let levels: Vec<usize> = kinds.iter().map(|&kind| nests[kind].distances.len()).collect();
        let mut places: Vec<Place> = (0..kinds.len()).map(|first| (first, vec![0; kinds.len()])).collect();
        let mut steps = Vec::new();
        for _ in 0..levels.iter().sum() {
            for (dimension, done) in &mut places {
                while done[*dimension] == levels[*dimension] {
                    *dimension = (*dimension + 1) % levels.len();
                }
            }
            steps.push(places.clone());
            for (dimension, done) in &mut places {
                done[*dimension] += 1;
                *dimension = (*dimension + 1) % levels.len();
            }
        }
        steps.push(places);
        Torus { kinds, steps }
    }

    /// How many blocks a rank holds of a collective.
    fn held(&self, nests: &[Nest], done: &[usize]) -> u64 {
        self.kinds.iter().zip(done).map(|(&kind, &done)| nests[kind].counts[done] as u64).product()
    }

    /// The sum over steps of the hops of a rank's blocks in the dimension with the most.
    fn load(&self, nests: &[Nest], steps: Range<usize>) -> u64 {
        let mut loads = vec![0; self.kinds.len()];
        let mut total = 0;
        for step in &self.steps[steps] {
            loads.fill(0);
            for (dimension, done) in step {
                let (Nest { distances, counts }, level) = (&nests[self.kinds[*dimension]], done[*dimension]);
                let lines = self.held(nests, done) / counts[level] as u64;
                loads[*dimension] += (distances[level] * (counts[level] - counts[level + 1])) as u64 * lines;
            }
            total += loads.iter().max().unwrap_or(&0);
        }
        total
    }

    fn score(&self, nests: &[Nest]) -> Score {
        let idle = nests.iter().map(Nest::idle).sum();
        let hops = self.kinds.iter().flat_map(|&kind| &nests[kind].distances).sum();
        (idle, self.load(nests, 0..self.steps.len() - 1), hops)
    }

    /// Better distances for one kind of dimensions while the others keep theirs.
    fn improve(&self, nests: &mut [Nest], kind: usize, effort: usize) {
        let (size, levels) = (nests[kind].counts[0], nests[kind].distances.len());
        if size > SMALL {
            return self.descend(nests, kind, effort);
        }
        let least_done = |step: &Vec<Place>| {
            let done = step.iter().flat_map(|(_, done)| self.kinds.iter().zip(done));
            done.filter(|(of, _)| **of == kind).map(|(_, done)| *done).min()
        };
        let done: Vec<Option<usize>> = self.steps.iter().map(least_done).collect();
        let firsts = (0..=levels).map(|level| done.partition_point(|done| *done < Some(level))).collect();
        let (idle, load, _) = self.score(nests);
        let best = if idle == 0 { (load, nests[kind].distances.iter().sum()) } else { (u64::MAX, 0) };
        let mut search =
            Search { torus: self, kind, firsts, nests: nests.to_vec(), effort, best, found: None };
        let load = self.load(nests, search.firsts[levels]..self.steps.len() - 1);
        search.deepen(levels, &home(size), load, 0);
        if let Some(found) = search.found {
            nests[kind] = found;
        }
    }

    /// Changes one distance, or some that are equal, as long as that helps.
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

/// Tries all distances of one kind of dimensions from the last level to the first, and leaves out what cannot be better.
///
/// Distances do not grow towards level 0, but there by one: among all others there are none better for rings, squares
/// and cubes up to size 44, nor up to size 64 with the fewest levels and up to six more.
struct Search<'a> {
    torus: &'a Torus,
    kind: usize,
    /// For every level the first step by which it has come for all collectives.
    firsts: Vec<usize>,
    nests: Vec<Nest>,
    effort: usize,
    best: (u64, usize),
    found: Option<Nest>,
}

impl Search<'_> {
    /// With the distances from `level` on given: their set, the load of their steps, and their sum.
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
            // In the steps before, every block that is gone by now has moved by a hop at least.
            let held = |(_, done): &Place| self.torus.held(&self.nests, done);
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

/// The best distances found for every dimension of a torus.
fn least(sizes: &[usize], levels: &[usize]) -> Vec<Vec<usize>> {
    let shapes: Vec<(usize, usize)> = sizes.iter().copied().zip(levels.iter().copied()).collect();
    let mut different = shapes.clone();
    different.sort();
    different.dedup();
    let kinds: Vec<usize> =
        shapes.iter().map(|shape| different.partition_point(|other| other < shape)).collect();
    // If there are several kinds, each begins as if it were that of a ring, of a square, of a cube, ...; with the
    // distances of the next smaller kind, if then a ring of such rings is left; or as Trivance.
    let mut alike = Alike::default();
    let several = different.len() > 1;
    let mut starts: Vec<Vec<Vec<usize>>> = Vec::new();
    let first = if several { 1 } else { sizes.len() };
    for dimensions in first..=sizes.len() {
        let least = |&(size, levels)| alike.least(size, levels, dimensions);
        starts.push(different.iter().map(least).collect());
        let mut tower = starts[starts.len() - 1].clone();
        for (kind, pair) in different.windows(2).enumerate() {
            let (scale, rings) = (pair[0].0, pair[1].0.div_ceil(pair[0].0));
            let rest = pair[1].1.saturating_sub(pair[0].1);
            if (fewest(rings)..=rings / 2).contains(&rest) {
                let rest = alike.least(rings, rest, dimensions).into_iter().map(|distance| distance * scale);
                tower[kind + 1] = tower[kind].iter().copied().chain(rest).collect();
            }
        }
        starts.push(tower);
    }
    if different.iter().all(|&(size, levels)| levels == fewest(size)) {
        starts.push(different.iter().map(|&(size, _)| trivance(size)).collect());
    }
    starts.dedup();
    let effort = EFFORT / (2 * starts.len() * different.len().max(1));
    let finish = |start: Vec<Vec<usize>>| {
        let nests = different.iter().zip(start).map(|(&(size, _), distances)| Nest::new(size, distances));
        let mut nests = nests.collect::<Option<Vec<Nest>>>()?;
        let torus = Torus::new(kinds.clone(), &nests);
        let mut before = None;
        while several && before != Some(torus.score(&nests)) {
            before = Some(torus.score(&nests));
            (0..nests.len()).for_each(|kind| torus.improve(&mut nests, kind, effort));
        }
        let plan: Vec<Vec<usize>> = kinds.iter().map(|&kind| nests[kind].distances.clone()).collect();
        Some((torus.score(&nests), plan))
    };
    starts.into_iter().filter_map(finish).min().expect("what `Alike` finds reaches everybody").1
}

/// What this call has found for tori whose dimensions are all alike, by size, levels and number of dimensions.
#[derive(Default)]
struct Alike {
    plans: BTreeMap<(usize, usize, usize), Vec<usize>>,
    tilings: BTreeMap<(usize, usize, usize), Vec<(u64, usize)>>,
}

impl Alike {
    fn least(&mut self, size: usize, levels: usize, dimensions: usize) -> Vec<usize> {
        let key = (size, levels, dimensions);
        if let Some(known) = self.plans.get(&key) {
            return known.clone();
        }
        let mut starts = vec![self.tile(size, levels, dimensions)];
        for (_, ones) in if size > SMALL { self.tilings(size, levels, dimensions) } else { Vec::new() } {
            let (quotient, rest) = (size.div_ceil(2 * ones + 1), levels - ones);
            for quotient in [quotient, quotient + 1] {
                if (fewest(quotient)..=quotient / 2).contains(&rest) {
                    starts.push(scaled(size, ones, &self.least(quotient, rest, dimensions)));
                }
            }
        }
        let nests = starts.into_iter().filter_map(|distances| Nest::new(size, distances));
        let mut found: Vec<Vec<Nest>> = nests.map(|nest| vec![nest]).collect();
        let torus = Torus::new(vec![0; dimensions], &found[0]);
        found.sort_by_cached_key(|nests| torus.score(nests));
        found.truncate(if size > SMALL { STARTS } else { 1 });
        found.iter_mut().for_each(|nests| torus.improve(nests, 0, EFFORT));
        let found = found.into_iter().map(|mut nests| (torus.score(&nests), nests.remove(0).distances));
        let (_, distances) = found.min().expect("tiles reach everybody");
        self.plans.insert(key, distances.clone());
        distances
    }

    /// With how many ones distances could begin, cheapest first, and the load if those of a smaller ring follow, scaled,
    /// and nothing ever comes around.
    fn tilings(&mut self, size: usize, levels: usize, dimensions: usize) -> Vec<(u64, usize)> {
        if let Some(known) = self.tilings.get(&(size, levels, dimensions)) {
            return known.clone();
        }
        let power = |count: usize| (count as u64).pow(dimensions as u32);
        let mut tilings = Vec::new();
        if levels == size / 2 {
            tilings.push((power(size) - 1, levels));
        }
        for ones in 1..levels {
            let (quotient, rest) = (size.div_ceil(2 * ones + 1), levels - ones);
            if (fewest(quotient)..=quotient / 2).contains(&rest) {
                let (inner, _) = self.tilings(quotient, rest, dimensions)[0];
                tilings.push((power(size) - power(quotient) + (2 * ones as u64 + 1) * inner, ones));
            }
        }
        tilings.sort();
        tilings.truncate(STARTS);
        self.tilings.insert((size, levels, dimensions), tilings.clone());
        tilings
    }

    /// Rings of rings: ones, then multiples of what they cover, and so on. It reaches everybody without coming around.
    fn tile(&mut self, size: usize, levels: usize, dimensions: usize) -> Vec<usize> {
        if levels == 0 {
            return Vec::new();
        }
        let (_, ones) = self.tilings(size, levels, dimensions)[0];
        let rest = self.tile(size.div_ceil(2 * ones + 1), levels - ones, dimensions);
        scaled(size, ones, &rest)
    }
}

/// `ones` ones, and then the distances of a ring of what these cover.
fn scaled(size: usize, ones: usize, rest: &[usize]) -> Vec<usize> {
    let scale = 2 * ones + 1;
    let scaled = rest.iter().map(|distance| match scale * distance % size {
        // Farther, and some of the ones would find nothing left to do.
        _ if size <= 2 * scale => size / 2 - ones,
        distance => distance.min(size - distance),
    });
    std::iter::repeat_n(1, ones).chain(scaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load of distances by counting, for every link of the torus, the blocks that cross it in every step.
    fn counted(sizes: &[usize], distances: &[Vec<usize>]) -> f64 {
        let dimensions = sizes.len();
        let ranks: usize = sizes.iter().product();
        let coordinates = |rank: usize| -> Vec<usize> {
            let place = |(at, size): (usize, &usize)| rank / sizes[..at].iter().product::<usize>() % size;
            sizes.iter().enumerate().map(place).collect()
        };
        let rank = |at: &[usize]| at.iter().zip(sizes).rev().fold(0, |rank, (at, size)| rank * size + at);
        // For every offset the level, and the way to the parent: -1 down, 1 up.
        let table = |(&size, distances): (&usize, &Vec<usize>)| {
            let mut table = vec![None; size];
            table[0] = Some((distances.len(), 0));
            for (level, &distance) in distances.iter().enumerate().rev() {
                let inside = table.clone();
                for offset in (0..size).filter(|offset| inside[*offset].is_none()) {
                    let down = inside[(offset + size - distance) % size].map(|_| (level, -1));
                    table[offset] = down.or(inside[(offset + distance) % size].map(|_| (level, 1)));
                }
            }
            table.into_iter().map(|entry| entry.expect("reached")).collect::<Vec<(usize, isize)>>()
        };
        let tables: Vec<_> = sizes.iter().zip(distances).map(table).collect();
        let steps: usize = distances.iter().map(Vec::len).sum();
        let mut crossings = vec![vec![[0, 0]; ranks * dimensions]; steps];
        for (collective, sign) in (0..dimensions).flat_map(|collective| [(collective, 1), (collective, -1)]) {
            let mut done = vec![0; dimensions];
            let mut dimension = collective;
            for crossings in &mut crossings {
                while done[dimension] == distances[dimension].len() {
                    dimension = (dimension + 1) % dimensions;
                }
                let (size, distance) = (sizes[dimension], distances[dimension][done[dimension]]);
                for (from, block) in (0..ranks).flat_map(|from| (0..ranks).map(move |block| (from, block))) {
                    let (mut at, home) = (coordinates(from), coordinates(block));
                    let entry = |(i, at): (usize, &usize)| {
                        let offset = if sign > 0 { at + sizes[i] - home[i] } else { home[i] + sizes[i] - at };
                        tables[i][offset % sizes[i]]
                    };
                    let entries: Vec<(usize, isize)> = at.iter().enumerate().map(entry).collect();
                    let here = entries.iter().zip(&done).all(|(entry, done)| entry.0 >= *done);
                    if !here || entries[dimension].0 != done[dimension] {
                        continue;
                    }
                    let up = entries[dimension].1 * sign > 0;
                    let start = at[dimension];
                    for (up, weight) in
                        if 2 * distance == size { [(true, 1), (false, 1)] } else { [(up, 2), (up, 0)] }
                    {
                        at[dimension] = start;
                        for _ in 0..distance {
                            crossings[rank(&at) * dimensions + dimension][usize::from(up)] += weight;
                            at[dimension] = (at[dimension] + if up { 1 } else { size - 1 }) % size;
                        }
                    }
                }
                done[dimension] += 1;
                dimension = (dimension + 1) % dimensions;
            }
        }
        let worst = |step: &Vec<[usize; 2]>| *step.iter().flatten().max().expect("links");
        // Crossings count double, halves of a collective are two, and there is the allgather.
        crossings.iter().map(worst).sum::<usize>() as f64 * 2.0 / 4.0 / ranks as f64
    }

    #[test]
    fn the_load_is_that_of_the_busiest_link() {
        for sizes in
            [&[16][..], &[7], &[9, 9], &[4, 4], &[6, 4], &[3, 9], &[7, 5], &[2, 8], &[4, 4, 4], &[2, 3, 5]]
        {
            for (extra, levels) in members(sizes) {
                let mut plans = vec![plan(sizes, &levels)];
                plans.extend((extra == 0).then(|| sizes.iter().map(|size| trivance(*size)).collect()));
                for plan in plans {
                    assert_eq!(link_load(sizes, &plan), counted(sizes, &plan), "{sizes:?} {plan:?}");
                }
            }
        }
    }

    #[test]
    fn loads() {
        // A torus, its levels, the load of Trivance's distances where the levels are the fewest, and the least.
        let rows: &[(&[usize], usize, f64, f64)] = &[
            (&[9, 9], 2, 1.185, 1.185),
            (&[27, 27], 3, 1.284, 1.284),
            (&[9, 9, 9], 2, 1.070, 1.070),
            (&[8, 8], 2, 1.234, 1.234),
            (&[8, 8], 3, 0.0, 1.109),
            (&[16], 3, 2.063, 1.813),
            (&[16], 4, 0.0, 1.438),
            (&[16], 5, 0.0, 1.313),
            (&[16, 16], 3, 1.652, 1.328),
            (&[16, 16], 4, 0.0, 1.121),
            (&[16, 16, 16], 3, 1.362, 1.113),
            (&[32, 32], 4, 1.655, 1.218),
            (&[34], 6, 0.0, 1.647),
            (&[64], 4, 2.859, 2.734),
            (&[64], 5, 0.0, 2.203),
            (&[64], 6, 0.0, 2.047),
            (&[64, 64], 4, 1.492, 1.386),
            (&[64, 64], 5, 0.0, 1.193),
            (&[64, 64], 6, 0.0, 1.139),
            (&[64], 32, 0.0, 63.0 / 64.0),
            (&[6, 6], 3, 0.0, 35.0 / 36.0),
        ];
        for &(sizes, levels, trivances, least) in rows {
            let usual: Vec<Vec<usize>> = sizes.iter().map(|size| trivance(*size)).collect();
            let found = plan(sizes, &vec![levels; sizes.len()]);
            let loads = [link_load(sizes, &usual), link_load(sizes, &found)];
            let close = |load: f64, expected: f64| (load - expected).abs() < 6e-4;
            assert!(
                close(loads[0], trivances) || levels > fewest(sizes[0]),
                "{sizes:?} {usual:?} {}",
                loads[0]
            );
            assert!(close(loads[1], least), "{sizes:?} {found:?} {}", loads[1]);
        }
        assert_eq!(link_load(&[16], &[vec![1, 3]]), f64::INFINITY);
    }

    /// All distances that reach everybody and leave no step idle.
    fn all(size: usize, levels: usize) -> Vec<Vec<usize>> {
        let longer = |all: Vec<Vec<usize>>| {
            all.into_iter()
                .flat_map(move |distances| (1..=size / 2).map(move |last| [&distances[..], &[last]].concat()))
        };
        let all = (0..levels).fold(vec![Vec::new()], |all, _| longer(all).collect());
        let nests = all.into_iter().filter_map(|distances| Nest::new(size, distances));
        nests.filter(|nest| nest.idle() == 0).map(|nest| nest.distances).collect()
    }

    #[test]
    fn nothing_is_better() {
        let mut cases: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for size in 1..=16 {
            for levels in fewest(size)..=(size / 2).min(4) {
                cases.extend((1..=3).map(|dimensions| (vec![size; dimensions], vec![levels; dimensions])));
            }
        }
        for sizes in [&[8, 16][..], &[20, 5], &[5, 7], &[2, 16], &[1, 16], &[4, 6, 8]] {
            cases.extend(members(sizes).into_iter().take(2).map(|(_, levels)| (sizes.to_vec(), levels)));
        }
        for (sizes, levels) in cases {
            let mut plans = vec![Vec::new()];
            for (&size, &levels) in sizes.iter().zip(&levels) {
                let longer = |plan: Vec<Vec<usize>>| {
                    // Dimensions that are alike have the same distances.
                    let next = if plan.is_empty() || size != sizes[0] {
                        all(size, levels)
                    } else {
                        vec![plan[0].clone()]
                    };
                    next.into_iter().map(move |distances| [&plan[..], &[distances]].concat())
                };
                plans = plans.into_iter().flat_map(longer).collect();
            }
            let best = plans.iter().map(|plan| link_load(&sizes, plan)).fold(f64::INFINITY, f64::min);
            assert_eq!(link_load(&sizes, &plan(&sizes, &levels)), best, "{sizes:?} {levels:?}");
        }
    }

    #[test]
    fn plans() {
        let rings =
            (1..=40).chain([64, 81, 100, 127, 128, 129, 200, 243, 256, 730, 1000]).map(|size| vec![size]);
        let tori = [vec![], vec![1, 1], vec![64, 32], vec![8, 64, 27], vec![130, 7], vec![16, 12, 10, 8]];
        for sizes in rings.chain(tori) {
            for (extra, levels) in members(&sizes) {
                let found = plan(&sizes, &levels);
                let usual: Vec<Vec<usize>> = sizes.iter().map(|size| trivance(*size)).collect();
                assert!(link_load(&sizes, &found) <= link_load(&sizes, &usual) || extra > 0, "{sizes:?}");
                assert_eq!(least(&sizes, &levels), found, "{sizes:?} {levels:?}: not the same twice");
                for ((&size, &levels), distances) in sizes.iter().zip(&levels).zip(found) {
                    assert_eq!(distances.len(), levels);
                    assert!(levels < size / 2 || distances.iter().all(|distance| *distance == 1));
                    let nest = Nest::new(size, distances).expect("reaches everybody");
                    assert_eq!(nest.idle(), 0, "{sizes:?} {nest:?}");
                }
            }
        }
        assert_eq!(plan(&[16], &[0]), [[1, 2, 5]]);
        assert_eq!(plan(&[7], &[9]), [[1, 1, 1]]);
        assert_eq!(trivance(64), [1, 3, 9, 19]);
        let extras_and_levels = |size| members(&[size]).into_iter().map(|(extra, levels)| (extra, levels[0]));
        let expected = [0, 1, 2, 3, 4, 5, 6, 12, 24, 28].map(|extra| (extra, 4 + extra));
        assert!(extras_and_levels(64).eq(expected));
        assert_eq!(members(&[8, 16])[2..4], [(2, vec![4, 5]), (3, vec![4, 6])]);
    }
}
