//! The distances from which the search for the least load begins, and the best that it finds.

use std::collections::BTreeMap;

use super::improve::SMALL;
use super::nest::Nest;
use super::torus::Torus;
use super::{fewest, trivance};

/// The number of ways to make a larger size that the search follows.
const STARTS: usize = 4;
/// The approximate number of offsets, or products of sizes, that the search may examine to improve one plan.
const EFFORT: usize = 1 << 24;

/// The best distances found for every dimension of a torus.
pub(super) fn least(sizes: &[usize], levels: &[usize]) -> Vec<Vec<usize>> {
    let shapes: Vec<(usize, usize)> = sizes.iter().copied().zip(levels.iter().copied()).collect();
    let mut different = shapes.clone();
    different.sort();
    different.dedup();
    let kinds: Vec<usize> =
        shapes.iter().map(|shape| different.partition_point(|other| other < shape)).collect();
    // If there are several kinds, the search starts with the distances that each kind has on a ring, on a square, on a
    // cube, ...; with those of the next smaller kind, if the rest is a ring of such rings; and with Trivance's.
    let mut alike = CubicTori::default();
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

/// The results of one call for tori with equal dimensions, by size, levels and number of dimensions.
#[derive(Default)]
struct CubicTori {
    plans: BTreeMap<(usize, usize, usize), Vec<usize>>,
    tilings: BTreeMap<(usize, usize, usize), Vec<(u64, usize)>>,
}

impl CubicTori {
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

    /// The numbers of ones with which the distances may begin, cheapest first. Each comes with the load if the scaled
    /// distances of a smaller ring follow and no block goes around the ring.
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

    /// Distances for rings of rings: ones, then multiples of what these cover, and so on. They reach every rank without
    /// going around.
    fn tile(&mut self, size: usize, levels: usize, dimensions: usize) -> Vec<usize> {
        if levels == 0 {
            return Vec::new();
        }
        let (_, ones) = self.tilings(size, levels, dimensions)[0];
        let rest = self.tile(size.div_ceil(2 * ones + 1), levels - ones, dimensions);
        scaled(size, ones, &rest)
    }
}

/// `ones` ones, then the scaled distances of a ring whose positions each stand for what the ones cover.
fn scaled(size: usize, ones: usize, rest: &[usize]) -> Vec<usize> {
    let scale = 2 * ones + 1;
    let scaled = rest.iter().map(|distance| match scale * distance % size {
        // With a larger distance, some of the ones would have nothing left to do.
        _ if size <= 2 * scale => size / 2 - ones,
        distance => distance.min(size - distance),
    });
    std::iter::repeat_n(1, ones).chain(scaled).collect()
}
