//! The groups in which the elements of a block are read and computed with.

use half::{bf16, f16};

use super::super::block::keep_loop;
use super::super::element::{Element, Isa};
use super::super::op::Arithmetic;

/// The singles that are computed with at once.
pub(super) const LANES: usize = 32;
pub(super) type Lanes = [f32; LANES];

/// Where the groups of so many elements or words begin.
#[inline(always)]
pub(super) fn groups(length: usize) -> impl Iterator<Item = usize> {
    (0..length / LANES).map(|group| {
        keep_loop();
        group * LANES
    })
}

/// The singles of a group.
///
/// # Safety
/// `block` must be readable for a block of elements, and the machine have what `I` requires.
#[inline(always)]
pub(super) unsafe fn singles<I: Isa, E: Real>(block: *const E, at: usize) -> Lanes {
    // SAFETY: the caller's promise.
    unsafe { E::singles::<I>(&block.add(at).cast::<[E; LANES]>().read_unaligned()) }
}

/// An element of a vector that can be encoded.
pub(super) trait Real: Element<Lane: Arithmetic> {
    /// # Safety
    /// The machine must have what `I` requires.
    unsafe fn singles<I: Isa>(elements: &[Self; LANES]) -> Lanes;

    /// # Safety
    /// As [`Real::singles`].
    unsafe fn of_singles<I: Isa>(lanes: &Lanes) -> [Self; LANES];
}

macro_rules! of_single_lanes {
    ($($element:ty),*) => {$(
        impl Real for $element {
            #[inline(always)]
            unsafe fn singles<I: Isa>(elements: &[Self; LANES]) -> Lanes {
                // SAFETY: the caller's promise.
                unsafe { Self::widen::<I, LANES>(elements) }
            }

            #[inline(always)]
            unsafe fn of_singles<I: Isa>(lanes: &Lanes) -> [Self; LANES] {
                // SAFETY: the caller's promise.
                unsafe { Self::narrow::<I, LANES>(lanes) }
            }
        }
    )*};
}
of_single_lanes!(f16, bf16, f32);

impl Real for f64 {
    #[inline(always)]
    unsafe fn singles<I: Isa>(elements: &[f64; LANES]) -> Lanes {
        let mut lanes = [0.0; LANES];
        for lane in 0..LANES {
            lanes[lane] = elements[lane] as f32;
        }
        lanes
    }

    #[inline(always)]
    unsafe fn of_singles<I: Isa>(lanes: &Lanes) -> [f64; LANES] {
        let mut elements = [0.0; LANES];
        for lane in 0..LANES {
            elements[lane] = f64::from(lanes[lane]);
        }
        elements
    }
}
