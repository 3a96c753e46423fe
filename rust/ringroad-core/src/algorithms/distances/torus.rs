//! The load that distances put on the links of a torus.

use std::ops::Range;

use super::nest::Nest;

/// The state of a collective before a step: the dimension of the step, and the number of finished levels of each
/// dimension.
pub(super) type CollectiveState = (usize, Vec<usize>);

/// What the search minimises, most important first: steps in which no rank sends, load, hops.
pub(super) type Score = (usize, u64, usize);

/// The kind of every dimension, where dimensions of one kind have the same distances; and the places of all collectives
/// before every step and at the end.
pub(super) struct Torus {
    pub(super) kinds: Vec<usize>,
    pub(super) steps: Vec<Vec<CollectiveState>>,
}

impl Torus {
    pub(super) fn new(kinds: Vec<usize>, nests: &[Nest]) -> Torus {
        let levels: Vec<usize> = kinds.iter().map(|&kind| nests[kind].distances.len()).collect();
        let mut places: Vec<CollectiveState> =
            (0..kinds.len()).map(|first| (first, vec![0; kinds.len()])).collect();
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

    /// The number of blocks that a rank holds of a collective.
    pub(super) fn held(&self, nests: &[Nest], done: &[usize]) -> u64 {
        self.kinds.iter().zip(done).map(|(&kind, &done)| nests[kind].counts[done] as u64).product()
    }

    /// The sum over these steps of the hops of a rank's blocks in the dimension with the most hops.
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
