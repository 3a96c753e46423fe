//! The load that distances put on the links of a torus.

use std::ops::Range;

use super::nest::Nest;

/// Where a collective is before a step: the dimension of the step, and how many levels of each dimension are over.
pub(super) type Place = (usize, Vec<usize>);

/// What is to be small, first things first: steps in which nobody sends, load, hops.
pub(super) type Score = (usize, u64, usize);

/// Dimensions, those of a kind with the same distances, and for every step, and the end, the places of all collectives.
pub(super) struct Torus {
    pub(super) kinds: Vec<usize>,
    pub(super) steps: Vec<Vec<Place>>,
}

impl Torus {
    pub(super) fn new(kinds: Vec<usize>, nests: &[Nest]) -> Torus {
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
    pub(super) fn held(&self, nests: &[Nest], done: &[usize]) -> u64 {
        self.kinds.iter().zip(done).map(|(&kind, &done)| nests[kind].counts[done] as u64).product()
    }

    /// The sum over steps of the hops of a rank's blocks in the dimension with the most.
    pub(super) fn load(&self, nests: &[Nest], steps: Range<usize>) -> u64 {
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

    pub(super) fn score(&self, nests: &[Nest]) -> Score {
        let idle = nests.iter().map(Nest::idle).sum();
        let hops = self.kinds.iter().flat_map(|&kind| &nests[kind].distances).sum();
        (idle, self.load(nests, 0..self.steps.len() - 1), hops)
    }
}
