//! Numbers that look random and are the same on every machine (Steele, Lea, Flood: Fast splittable pseudorandom number
//! generators, OOPSLA 2014).

/// A sequence of numbers.
pub(super) struct Draw(u64);

impl Draw {
    /// The sequence with this number.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
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
