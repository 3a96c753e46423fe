//! Which hosts and flows take part in an experiment.

use crate::random::Random;

/// A sequence of choices that look random.
pub(super) struct Draw(Random);

impl Draw {
    /// The sequence with this number.
    pub fn new(seed: u64) -> Draw {
        Draw(Random::new(seed))
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.0.bits() % end as u64) as usize
    }

    /// The numbers below `end` in some order.
    pub fn permutation(&mut self, end: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..end).collect();
        for last in (1..end).rev() {
            all.swap(last, self.below(last + 1));
        }
        all
    }
}
