//! Seconds as a function of bytes, compared without rounding.
//!
//! A switch table must agree with a comparison of all candidates at every number of bytes, and equal costs must tie.
//! Floating-point arithmetic spoils both: near a crossing the order of two rounded values flickers, and a cost summed
//! in another order differs in the last bit. So coefficients are first rounded to 40 significant bits, which
//! makes equal costs equal, and then compared exactly, which makes the order a total one.

use std::cmp::Ordering;

use super::model::{CostModel, ScheduleCost};
use crate::units::{Bytes, Seconds};

/// Beyond this a coefficient counts as infinite; far enough from the largest number for exact products.
const LARGEST: f64 = 1e200;
/// Below this a coefficient counts as zero, so that no rounding error is too small to be represented.
const SMALLEST: f64 = 1e-200;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    fixed: Seconds,
    per_byte: Seconds,
}

impl Line {
    pub(super) fn of(model: &CostModel, cost: &ScheduleCost) -> Line {
        Line { fixed: rounded(model.fixed(cost)), per_byte: rounded(model.per_byte(cost)) }
    }

    /// Compares the seconds for `bytes`.
    pub(super) fn compare(&self, other: &Line, bytes: Bytes) -> Ordering {
        // Both halves of the bytes are exact as floating-point numbers; the whole need not be.
        let halves = [(bytes >> 32 << 32) as f64, (bytes & 0xffff_ffff) as f64];
        let mut difference = ExactSum::default();
        difference.add(self.fixed);
        difference.add(-other.fixed);
        for half in halves {
            difference.add_product(self.per_byte, half);
            difference.add_product(-other.per_byte, half);
        }
        difference.sign()
    }

    /// Whether this line rises more slowly.
    pub(super) fn is_flatter_than(&self, other: &Line) -> bool {
        self.per_byte < other.per_byte
    }
}

/// To 40 significant bits, half away from zero, and into the range that [`ExactSum`] is exact in.
fn rounded(value: f64) -> f64 {
    const DROPPED: u32 = f64::MANTISSA_DIGITS - 40;
    if value.is_nan() || value >= LARGEST {
        LARGEST
    } else if value < SMALLEST {
        0.0
    } else {
        f64::from_bits((value.to_bits() + (1 << (DROPPED - 1))) & !((1 << DROPPED) - 1))
    }
}

/// A sum as numbers of ascending magnitude that share no bits (Shewchuk 1997), as in Python's `math.fsum`.
#[derive(Default)]
struct ExactSum {
    parts: Vec<f64>,
}

impl ExactSum {
    fn add(&mut self, value: f64) {
        let mut carried = value;
        let mut kept = 0;
        for i in 0..self.parts.len() {
            let part = self.parts[i];
            let (large, small) = if carried.abs() < part.abs() { (part, carried) } else { (carried, part) };
            carried = large + small;
            let lost = small - (carried - large);
            if lost != 0.0 {
                self.parts[kept] = lost;
                kept += 1;
            }
        }
        self.parts.truncate(kept);
        self.parts.push(carried);
    }

    fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        self.add(a.mul_add(b, -product));
    }

    /// Compares the sum with zero: the last part outweighs all others.
    fn sign(&self) -> Ordering {
        self.parts.last().map_or(Ordering::Equal, |last| {
            if *last == 0.0 {
                Ordering::Equal
            } else {
                last.total_cmp(&0.0)
            }
        })
    }
}
