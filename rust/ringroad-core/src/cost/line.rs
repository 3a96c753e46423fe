//! Seconds as a function of bytes, compared without rounding.
//!
//! A switch table must agree with a comparison of all candidates at every number of bytes, and equal costs must tie.
//! Floating-point arithmetic spoils both: near a crossing the order of two rounded values flickers, and a cost summed
//! in another order differs in the last bit. So coefficients are first rounded to 40 significant bits, which
//! makes equal costs equal, and then compared exactly, which makes the order a total one.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::model::CostModel;
use super::step::ScheduleCost;
use crate::units::{Bytes, Seconds};

/// Beyond this a coefficient counts as infinite; far enough from the largest number for exact products.
const LARGEST: f64 = 1e200;
/// Below this a coefficient counts as zero, so that no rounding error is too small to be represented.
const SMALLEST: f64 = 1e-200;

/// The seconds that a schedule takes.
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
    fn is_flatter_than(&self, other: &Line) -> bool {
        self.per_byte < other.per_byte
    }
}

/// Where one algorithm becomes faster than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Crossing {
    /// From so many bytes on.
    From(Bytes),
    /// Up to and including so many.
    UpTo(Bytes),
}

/// Whether `rival` is to be preferred to `best` for `bytes`.
fn beats(lines: &[Line], rival: usize, best: usize, bytes: Bytes) -> bool {
    match lines[rival].compare(&lines[best], bytes) {
        Ordering::Less => true,
        Ordering::Equal => rival < best,
        Ordering::Greater => false,
    }
}

/// Which line is the fastest for `bytes`; among equals the earlier one.
pub(super) fn fastest(lines: &[Line], bytes: Bytes) -> Option<usize> {
    (0..lines.len()).reduce(|best, rival| if beats(lines, rival, best, bytes) { rival } else { best })
}

/// The first number of bytes after `from` and up to `until` for which `rival` beats `best`, the fastest at `from`. Only a
/// flatter line can, and it does so from some point on for ever, which bisection finds.
pub(super) fn overtakes(
    lines: &[Line],
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

/// From how many bytes on, or up to how many, `rival` beats `best`; nowhere, unless `best` is the faster one for `bytes`.
pub(super) fn overtaken_at(best: Line, rival: Line, bytes: Bytes) -> Option<Crossing> {
    let lines = [best, rival];
    if beats(&lines, 1, 0, bytes) {
        return None;
    }
    if let Some(from) = overtakes(&lines, 1, 0, bytes, Bytes::MAX) {
        return Some(Crossing::From(from));
    }
    // Otherwise the rival is ahead at 0 bytes, if anywhere, until the best one overtakes it.
    if !beats(&lines, 1, 0, 0) {
        return None;
    }
    overtakes(&lines, 0, 1, 0, Bytes::MAX).map(|from| Crossing::UpTo(from - 1))
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
