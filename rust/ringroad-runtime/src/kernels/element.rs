//! How the bytes of each type become lanes to compute in, and back.

use bytemuck::{Pod, Zeroable};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;

/// What the machine is known to have, as a type, so that the choice costs nothing inside the loop.
pub(super) trait Isa {
    /// The x86 conversions between f16 and f32.
    #[cfg(target_arch = "x86_64")]
    const F16C: bool;
}

/// Nothing beyond the compilation target.
pub(super) struct Portable;

/// x86-64 with f16c.
#[cfg(target_arch = "x86_64")]
pub(super) struct F16c;

impl Isa for Portable {
    #[cfg(target_arch = "x86_64")]
    const F16C: bool = false;
}

#[cfg(target_arch = "x86_64")]
impl Isa for F16c {
    const F16C: bool = true;
}

/// A type in memory, and the lane that its arithmetic is done in.
pub(super) trait Element: Pod {
    /// f32 for the 16-bit floats, the type itself otherwise.
    type Lane: Copy;

    /// Block to lanes.
    ///
    /// # Safety
    /// The machine must have what `I` says.
    unsafe fn widen<I: Isa, const N: usize>(block: &[Self; N]) -> [Self::Lane; N];

    /// Lanes to block.
    ///
    /// # Safety
    /// The machine must have what `I` says.
    unsafe fn narrow<I: Isa, const N: usize>(lanes: &[Self::Lane; N]) -> [Self; N];
}

macro_rules! own_lane {
    ($($element:ty),*) => {$(
        impl Element for $element {
            type Lane = Self;

            #[inline(always)]
            unsafe fn widen<I: Isa, const N: usize>(block: &[Self; N]) -> [Self; N] {
                *block
            }

            #[inline(always)]
            unsafe fn narrow<I: Isa, const N: usize>(lanes: &[Self; N]) -> [Self; N] {
                *lanes
            }
        }
    )*};
}
own_lane!(i8, u8, i16, i32, i64, f32, f64, Complex<f32>, Complex<f64>);

/// A byte that is false when zero. Rust's `bool` would be undefined behaviour on a byte of 2.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Bool(u8);

impl Element for Bool {
    type Lane = u8;

    #[inline(always)]
    unsafe fn widen<I: Isa, const N: usize>(block: &[Self; N]) -> [u8; N] {
        let mut lanes = [0; N];
        for lane in 0..N {
            lanes[lane] = u8::from(block[lane].0 != 0);
        }
        lanes
    }

    #[inline(always)]
    unsafe fn narrow<I: Isa, const N: usize>(lanes: &[u8; N]) -> [Self; N] {
        lanes.map(Bool)
    }
}

impl Element for bf16 {
    type Lane = f32;

    #[inline(always)]
    unsafe fn widen<I: Isa, const N: usize>(block: &[Self; N]) -> [f32; N] {
        let mut lanes = [0.0; N];
        for lane in 0..N {
            lanes[lane] = f32::from_bits(u32::from(block[lane].to_bits()) << 16);
        }
        lanes
    }

    #[inline(always)]
    unsafe fn narrow<I: Isa, const N: usize>(lanes: &[f32; N]) -> [Self; N] {
        let mut block = [bf16::ZERO; N];
        for lane in 0..N {
            let bits = lanes[lane].to_bits();
            // Half of the last kept bit, less one where that bit is even: ties go to even. Both sides are computed and
            // one is chosen, which stays vectorised; NaN must not round up into infinity.
            let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
            let quiet = (bits >> 16) | 0x40;
            let chosen = if lanes[lane].is_nan() { quiet } else { rounded };
            block[lane] = bf16::from_bits(chosen as u16);
        }
        block
    }
}

impl Element for f16 {
    type Lane = f32;

    #[inline(always)]
    unsafe fn widen<I: Isa, const N: usize>(block: &[Self; N]) -> [f32; N] {
        let mut lanes = [0.0; N];
        #[cfg(target_arch = "x86_64")]
        if I::F16C {
            use std::arch::x86_64::{_mm256_cvtph_ps, _mm256_storeu_ps, _mm_loadu_si128};
            for (to, from) in lanes.chunks_exact_mut(8).zip(block.chunks_exact(8)) {
                // SAFETY: both chunks hold eight values, and the caller promised the instruction.
                unsafe {
                    let halves = _mm_loadu_si128(from.as_ptr().cast());
                    _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(halves));
                }
            }
            return lanes;
        }
        block.convert_to_f32_slice(&mut lanes);
        lanes
    }

    #[inline(always)]
    unsafe fn narrow<I: Isa, const N: usize>(lanes: &[f32; N]) -> [Self; N] {
        let mut block = [f16::ZERO; N];
        #[cfg(target_arch = "x86_64")]
        if I::F16C {
            use std::arch::x86_64::{_mm256_cvtps_ph, _mm256_loadu_ps, _mm_storeu_si128};
            const NEAREST: i32 = std::arch::x86_64::_MM_FROUND_TO_NEAREST_INT;
            for (to, from) in block.chunks_exact_mut(8).zip(lanes.chunks_exact(8)) {
                // SAFETY: both chunks hold eight values, and the caller promised the instruction.
                unsafe {
                    let halves = _mm256_cvtps_ph::<NEAREST>(_mm256_loadu_ps(from.as_ptr()));
                    _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
                }
            }
            return block;
        }
        block.convert_from_f32_slice(lanes);
        block
    }
}
