//! Exact fractions of whole numbers.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Mul};

use serde::Serialize;

/// A fraction in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename = "Fraction")]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    /// Zero.
    pub const ZERO: Ratio = Ratio { numerator: 0, denominator: 1 };

    /// `numerator / denominator`. The denominator must not be 0.
    pub fn new(numerator: impl Into<u128>, denominator: impl Into<u128>) -> Ratio {
        let (numerator, denominator) = (numerator.into(), denominator.into());
        assert!(denominator > 0, "the denominator of a fraction must not be 0");
        let common = gcd(numerator, denominator);
        Ratio { numerator: numerator / common, denominator: denominator / common }
    }

    /// The numerator, in lowest terms.
    pub fn numerator(self) -> u128 {
        self.numerator
    }

    /// The denominator, in lowest terms.
    pub fn denominator(self) -> u128 {
        self.denominator
    }

    /// The value in floating point, off by at most one representable number.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// `times` this value, rounded up to a whole number.
    pub fn ceil_times(self, times: u64) -> u128 {
        (self.numerator * u128::from(times)).div_ceil(self.denominator)
    }
}

/// The greatest common divisor. With 0 it is the other number.
pub fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

impl Add for Ratio {
    type Output = Ratio;

    fn add(self, other: Ratio) -> Ratio {
        let common = gcd(self.denominator, other.denominator);
        let numerator =
            self.numerator * (other.denominator / common) + other.numerator * (self.denominator / common);
        Ratio::new(numerator, self.denominator / common * other.denominator)
    }
}

impl Mul for Ratio {
    type Output = Ratio;

    fn mul(self, other: Ratio) -> Ratio {
        let (left, right) =
            (Ratio::new(self.numerator, other.denominator), Ratio::new(other.numerator, self.denominator));
        Ratio::new(left.numerator * right.numerator, left.denominator * right.denominator)
    }
}

impl std::iter::Sum for Ratio {
    fn sum<I: Iterator<Item = Ratio>>(all: I) -> Ratio {
        all.fold(Ratio::ZERO, Add::add)
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> Ordering {
        (self.numerator * other.denominator).cmp(&(other.numerator * self.denominator))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}
