//! Pseudo-random numbers that are the same on every machine.

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The sequence of seed 0 from the number at `index` on.
    pub fn at(index: u64) -> Random {
        Random(index.wrapping_mul(STEP))
    }

    /// The sequence of a seed of several words.
    pub fn from_words(words: &[u64]) -> Random {
        Random(words.iter().fold(0x5DEE_CE66_D1CE_4E5B, |seed, word| Random(seed ^ word).bits()))
    }

    /// The next number.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; all are nearly equally likely.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
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
