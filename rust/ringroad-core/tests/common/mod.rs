//! A driver that runs plans without I/O, and the slow twins that compute what plans must compute.

pub mod driver;
pub mod element;
pub mod graphs;
pub mod invariants;
pub mod twin;

/// A reproducible source of random choices (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// A random number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A random number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A random element of `all`.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A random truth value.
    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}
