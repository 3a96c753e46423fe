//! The groups in which the elements of a block are read and computed with.

use half::{bf16, f16};
use ringroad_core::Wire;

use super::super::block::keep_loop;
use super::super::element::{Element, Isa, Portable};
use super::super::op::Arithmetic;

/// Where the groups of `N` elements of a block begin.
#[inline(always)]
pub(super) fn groups<const N: usize>() -> impl Iterator<Item = usize> {
    (0..Wire::BLOCK / N).map(|group| {
        keep_loop();
        group * N
    })
}

/// The singles of a group.
///
/// # Safety
/// `block` must be readable for a block of elements, and the machine have what `I` requires.
#[inline(always)]
pub(super) unsafe fn singles<I: Isa, E: Real, const N: usize>(block: *const E, at: usize) -> [f32; N] {
    // SAFETY: the caller's promise.
    unsafe { E::singles::<I, N>(&block.add(at).cast::<[E; N]>().read_unaligned()) }
}

/// An element of a vector that can be encoded.
pub(super) trait Real: Element<Lane: Arithmetic> + Into<f64> {
    /// The smallest magnitude and the largest.
    const LEAST: f64;
    const MAX_MAGNITUDE: f64;

    /// # Safety
    /// The machine must have what `I` requires.
    unsafe fn singles<I: Isa, const N: usize>(elements: &[Self; N]) -> [f32; N];

    /// # Safety
    /// As [`Real::singles`].
    unsafe fn from_singles<I: Isa, const N: usize>(lanes: &[f32; N]) -> [Self; N];

    fn from_doubles<const N: usize>(lanes: &[f64; N]) -> [Self; N] {
        // SAFETY: every machine can do that.
        unsafe { Self::from_singles::<Portable, N>(&lanes.map(|lane| lane as f32)) }
    }
}

macro_rules! of_single_lanes {
    ($($element:ty: $least:expr, $most:expr;)*) => {$(
        impl Real for $element {
            const LEAST: f64 = $least;
            const MAX_MAGNITUDE: f64 = $most;

            #[inline(always)]
            unsafe fn singles<I: Isa, const N: usize>(elements: &[Self; N]) -> [f32; N] {
                // SAFETY: the caller's promise.
                unsafe { Self::widen::<I, N>(elements) }
            }

            #[inline(always)]
            unsafe fn from_singles<I: Isa, const N: usize>(lanes: &[f32; N]) -> [Self; N] {
                // SAFETY: the caller's promise.
                unsafe { Self::narrow::<I, N>(lanes) }
            }
        }
    )*};
}
of_single_lanes!(
    f16: f16::from_bits(1).to_f64_const(), f16::MAX.to_f64_const();
    bf16: bf16::from_bits(1).to_f64_const(), bf16::MAX.to_f64_const();
    f32: f32::from_bits(1) as f64, f32::MAX as f64;
);

impl Real for f64 {
    const LEAST: f64 = f64::from_bits(1);
    const MAX_MAGNITUDE: f64 = f64::MAX;

    #[inline(always)]
    unsafe fn singles<I: Isa, const N: usize>(elements: &[f64; N]) -> [f32; N] {
        elements.map(|x| x as f32)
    }

    #[inline(always)]
    unsafe fn from_singles<I: Isa, const N: usize>(lanes: &[f32; N]) -> [f64; N] {
        lanes.map(f64::from)
    }

    fn from_doubles<const N: usize>(lanes: &[f64; N]) -> [f64; N] {
        *lanes
    }
}
