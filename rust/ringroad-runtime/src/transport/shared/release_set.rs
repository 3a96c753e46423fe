//! Which descriptors have been released, in any order.

use std::collections::BTreeMap;

/// Stores the numbers as ranges: their memory depends on the gaps, not on how many numbers there are.
#[derive(Default)]
pub(super) struct Released {
    /// All descriptors before this number have been released.
    before: u64,
    /// Ranges of later descriptors: their ends by their beginnings. No two of them touch.
    later: BTreeMap<u64, u64>,
}

impl Released {
    /// All descriptors before this number have been released.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Adds a number that is not there yet. Returns whether it was the first missing one.
    #[inline]
    pub fn add(&mut self, number: u64) -> bool {
        if number != self.before {
            self.add_later(number);
            return false;
        }
        self.before = self.later.remove(&(number + 1)).unwrap_or(number + 1);
        true
    }

    fn add_later(&mut self, number: u64) {
        let end = self.later.remove(&(number + 1)).unwrap_or(number + 1);
        match self.later.range_mut(..number).next_back() {
            Some((_, last)) if *last == number => *last = end,
            _ => {
                self.later.insert(number, end);
            }
        }
    }

    /// The number of ranges after the first gap.
    #[cfg(test)]
    pub fn ranges(&self) -> usize {
        self.later.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Agrees with a set of the numbers, for numbers in any order.
        #[test]
        fn ranges_are_what_a_set_would_be(order in Just((0..40_u64).collect::<Vec<_>>()).prop_shuffle()) {
            let (mut released, mut set) = (Released::default(), BTreeSet::new());
            for number in order {
                let first = (0..).find(|number| !set.contains(number)).unwrap();
                set.insert(number);
                prop_assert_eq!(released.add(number), number == first);
                let first = (0..).find(|number| !set.contains(number)).unwrap();
                prop_assert_eq!(released.before(), first);
                let begins = set.iter().filter(|n| **n > first && !set.contains(&(**n - 1))).count();
                prop_assert_eq!(released.ranges(), begins);
            }
        }
    }
}
