//! Seconds as a linear function of bytes, compared without rounding.
//!
//! A switch table must agree with a comparison of all candidates at every number of bytes, and equal costs must tie.
//! Floating-point arithmetic breaks both: near a crossing the order of two rounded values is unstable, and a cost that
//! is summed in another order differs in the last bit. So coefficients are first rounded to 40 significant bits, which
//! makes equal costs equal. Then seconds are compared exactly, which makes the order total.

use std::cmp::Ordering;

use super::model::CostModel;
use super::step::ScheduleCost;
use crate::units::{Bytes, Seconds};

/// The largest coefficient; larger ones count as this. It is small enough that products do not overflow.
const LARGEST: f64 = 1e200;
/// A smaller coefficient counts as zero, so that the rounding error of every product can be represented.
const SMALLEST: f64 = 1e-200;

/// The seconds that a schedule takes: `fixed + per_byte · bytes`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LinearTime {
    fixed: Seconds,
    per_byte: Seconds,
}

impl LinearTime {
    pub(super) fn from_cost(model: &CostModel, cost: &ScheduleCost) -> LinearTime {
        LinearTime { fixed: rounded(model.fixed(cost)), per_byte: rounded(model.per_byte(cost)) }
    }

    /// Compares the seconds of two lines for `bytes`.
    pub(super) fn compare(&self, other: &LinearTime, bytes: Bytes) -> Ordering {
        // Both halves of `bytes` are exact floating-point numbers; the whole may not be.
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
    fn is_flatter_than(&self, other: &LinearTime) -> bool {
        self.per_byte < other.per_byte
    }
}

/// Whether `rival` is faster than `best` for `bytes`, or as fast and earlier in the list.
fn beats(lines: &[LinearTime], rival: usize, best: usize, bytes: Bytes) -> bool {
    match lines[rival].compare(&lines[best], bytes) {
        Ordering::Less => true,
        Ordering::Equal => rival < best,
        Ordering::Greater => false,
    }
}

/// The index of the fastest line for `bytes`, among equals the earliest; `None` where there is no line.
pub(super) fn fastest(lines: &[LinearTime], bytes: Bytes) -> Option<usize> {
    (0..lines.len()).reduce(|best, rival| if beats(lines, rival, best, bytes) { rival } else { best })
}

/// The first number of bytes after `from` and up to `until` for which `rival` beats `best`, which is the fastest at
/// `from`; `None` where there is none. Only a flatter line can overtake, and it stays ahead afterwards, so that
/// bisection finds the point.
pub(super) fn overtakes(
    lines: &[LinearTime],
    rival: usize,
    best: usize,
    from: Bytes,
    until: Bytes,
) -> Option<Bytes> {
    if !lines[rival].is_flatter_than(&lines[best]) || !beats(lines, rival, best, until) {
        return None;
    }
    let (mut slower, mut faster) = (from, until);
    while faster - slower > 1 {
        let middle = slower + (faster - slower) / 2;
        if beats(lines, rival, best, middle) {
            faster = middle;
        } else {
            slower = middle;
        }
    }
    Some(faster)
}

/// The value rounded to 40 significant bits (half away from zero) and limited to the range in which [`ExactSum`] is
/// exact.
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

/// An exact sum, as numbers of ascending magnitude that share no bits (Shewchuk 1997), as in Python's `math.fsum`.
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

    /// Compares the sum with zero. The last part decides: it is larger than the sum of all others.
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
