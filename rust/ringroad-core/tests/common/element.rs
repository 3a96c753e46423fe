//! The element types that plans are run on.

use std::fmt::Debug;

use super::Random;

/// An element type with addition, scaling and averaging.
pub trait Element: Copy + PartialEq + Debug {
    const BYTES: usize;
    fn random(random: &mut Random) -> Self;
    fn add(self, other: Self) -> Self;
    fn scale(self, factor: u8) -> Self;
    fn divide(self, ranks: usize) -> Self;
    fn from_bytes(bytes: &[u8]) -> Self;
    fn to_bytes(self, bytes: &mut [u8]);
    /// The bytes of these elements in a wire format.
    fn encode(_elements: &[Self]) -> Vec<u8> {
        unreachable!("only floating-point numbers are encoded")
    }
    /// So many elements of these bytes.
    fn decode(_bytes: &[u8], _elements: usize) -> Vec<Self> {
        unreachable!("only floating-point numbers are encoded")
    }
    /// Whether this result agrees with `answer` for a sum over `ranks` ranks in any order.
    fn agrees(self, answer: Self, ranks: usize) -> bool;
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Element for $type {
            const BYTES: usize = size_of::<$type>();
            fn random(random: &mut Random) -> Self {
                random.next() as $type
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn scale(self, factor: u8) -> Self {
                self.wrapping_mul(factor as $type)
            }
            fn divide(self, ranks: usize) -> Self {
                self / ranks as $type
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                <$type>::from_le_bytes(bytes.try_into().unwrap())
            }
            fn to_bytes(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            fn agrees(self, answer: Self, _ranks: usize) -> bool {
                self == answer
            }
        }
    )*};
}

integer!(u8 i64);

impl Element for f32 {
    const BYTES: usize = 4;
    fn random(random: &mut Random) -> Self {
        (random.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
    fn add(self, other: Self) -> Self {
        self + other
    }
    fn scale(self, factor: u8) -> Self {
        self * f32::from(factor)
    }
    fn divide(self, ranks: usize) -> Self {
        self / ranks as f32
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        f32::from_le_bytes(bytes.try_into().unwrap())
    }
    fn to_bytes(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
    fn agrees(self, answer: Self, ranks: usize) -> bool {
        // Every addition rounds a sum of at most `ranks` terms below 5.
        (self - answer).abs() <= f32::EPSILON * (5 * ranks * ranks) as f32
    }
}

pub fn to_bytes<T: Element>(values: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * T::BYTES];
    values.iter().zip(bytes.chunks_exact_mut(T::BYTES)).for_each(|(v, b)| v.to_bytes(b));
    bytes
}

pub fn from_bytes<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::BYTES).map(T::from_bytes).collect()
}
