//! How the bytes of each type become lanes for computing, and lanes become bytes.

use bytemuck::{Pod, Zeroable};
#[cfg(not(all(target_arch = "aarch64", not(miri))))]
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;
#[cfg(all(target_arch = "aarch64", not(miri)))]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// What the machine is known to have, as a type, so that the choice costs nothing within the loop. Only some
/// conversions depend on it: the compiler finds everything else.
pub(super) trait Isa {
    /// # Safety
    /// The machine must have what the type requires.
    unsafe fn widen_half<const N: usize>(block: &[f16; N]) -> [f32; N];

    /// Rounds to nearest even.
    ///
    /// # Safety
    /// The machine must have what the type requires.
    unsafe fn narrow_half<const N: usize>(lanes: &[f32; N]) -> [f16; N];

    /// The nearest whole numbers, among equally near ones the even one, of numbers from -127 to 127. `N` is a multiple of
    /// 64.
    ///
    /// # Safety
    /// The machine must have what the type requires.
    #[inline(always)]
    unsafe fn narrow_whole<const N: usize>(lanes: &[f32; N]) -> [i8; N] {
        /// Adding this to such a number leaves the nearest whole number in the lowest bits of the sum.
        const WHOLE: f32 = 12_582_912.0;
        let mut whole = [0; N];
        for lane in 0..N {
            whole[lane] = (lanes[lane] + WHOLE).to_bits() as i8;
        }
        whole
    }

    /// The upper halves. `N` is a multiple of 32.
    ///
    /// # Safety
    /// The machine must have what the type requires.
    #[inline(always)]
    unsafe fn upper_halves<const N: usize>(lanes: &[u32; N]) -> [u16; N] {
        let mut halves = [0; N];
        for lane in 0..N {
            halves[lane] = (lanes[lane] >> 16) as u16;
        }
        halves
    }
}

/// No more than the compilation target has.
pub(super) struct Portable;

#[cfg(not(all(target_arch = "aarch64", not(miri))))]
impl Isa for Portable {
    #[inline(always)]
    unsafe fn widen_half<const N: usize>(block: &[f16; N]) -> [f32; N] {
        let mut lanes = [0.0; N];
        block.convert_to_f32_slice(&mut lanes);
        lanes
    }

    #[inline(always)]
    unsafe fn narrow_half<const N: usize>(lanes: &[f32; N]) -> [f16; N] {
        let mut block = [f16::ZERO; N];
        block.convert_from_f32_slice(lanes);
        block
    }
}

/// Implements [`Isa`] with these conversions, of some values at a time, between addresses.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri))))]
macro_rules! converting {
    ($isa:ident, $($method:ident: $width:literal $from:ty => $to:ty, $convert:expr;)*) => {
        impl Isa for $isa {$(
            #[inline(always)]
            unsafe fn $method<const N: usize>(from: &[$from; N]) -> [$to; N] {
                let mut to = [<$to>::zeroed(); N];
                for (to, from) in to.chunks_exact_mut($width).zip(from.chunks_exact($width)) {
                    // SAFETY: both chunks hold that many values, and the caller promised the instruction.
                    unsafe { $convert(to.as_mut_ptr(), from.as_ptr()) }
                }
                to
            }
        )*}
    };
}

// fcvtl and fcvtn belong to the first version of the 64-bit architecture; half requires fp16, which is arithmetic.
#[cfg(all(target_arch = "aarch64", not(miri)))]
converting!(
    Portable,
    widen_half: 4 f16 => f32, |to: *mut f32, from: *const f16| {
        let singles: float32x4_t;
        std::arch::asm!(
            "fcvtl {:v}.4s, {:v}.4h",
            out(vreg) singles,
            in(vreg) vld1_u16(from.cast()),
            options(pure, nomem, nostack, preserves_flags)
        );
        vst1q_f32(to, singles)
    };
    narrow_half: 4 f32 => f16, |to: *mut f16, from: *const f32| {
        let halves: uint16x4_t;
        std::arch::asm!(
            "fcvtn {:v}.4h, {:v}.4s",
            out(vreg) halves,
            in(vreg) vld1q_f32(from),
            options(pure, nomem, nostack, preserves_flags)
        );
        vst1_u16(to.cast(), halves)
    };
);

/// x86-64 with avx2 and f16c.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
converting!(
    Avx2,
    widen_half: 8 f16 => f32, |to: *mut f32, from: *const f16| {
        _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(from.cast())))
    };
    narrow_half: 8 f32 => f16, |to: *mut f16, from: *const f32| {
        _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<NEAREST>(_mm256_loadu_ps(from)))
    };
    narrow_whole: 32 f32 => i8, |to: *mut i8, from: *const f32| {
        let whole = |vector: usize| _mm256_cvtps_epi32(_mm256_loadu_ps(from.add(vector * 8)));
        let [low, high] = [0, 2].map(|vector| _mm256_packs_epi32(whole(vector), whole(vector + 1)));
        // Every 16 bytes were packed by themselves.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order))
    };
    upper_halves: 16 u32 => u16, |to: *mut u16, from: *const u32| {
        let upper = |at: usize| _mm256_srli_epi32::<16>(_mm256_loadu_si256(from.add(at).cast()));
        let packed = _mm256_packus_epi32(upper(0), upper(8));
        _mm256_storeu_si256(to.cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(packed))
    };
);

/// x86-64 with avx512f, and all of [`Avx2`].
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
converting!(
    Avx512,
    widen_half: 16 f16 => f32, |to: *mut f32, from: *const f16| {
        _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())))
    };
    narrow_half: 16 f32 => f16, |to: *mut f16, from: *const f32| {
        _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<NEAREST>(_mm512_loadu_ps(from)))
    };
    narrow_whole: 64 f32 => i8, |to: *mut i8, from: *const f32| {
        let whole = |vector: usize| _mm512_cvtps_epi32(_mm512_loadu_ps(from.add(vector * 16)));
        let [low, high] = [0, 2].map(|vector| _mm512_packs_epi32(whole(vector), whole(vector + 1)));
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        _mm512_storeu_si512(to.cast(), _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high)))
    };
    upper_halves: 32 u32 => u16, |to: *mut u16, from: *const u32| {
        const ODD: [u16; 32] = {
            let mut odd = [1; 32];
            let mut at = 1;
            while at < 32 {
                odd[at] = odd[at - 1] + 2;
                at += 1;
            }
            odd
        };
        let vector = |at: usize| _mm512_loadu_si512(from.add(at).cast());
        let odd = _mm512_loadu_si512(ODD.as_ptr().cast());
        _mm512_storeu_si512(to.cast(), _mm512_permutex2var_epi16(vector(0), odd, vector(16)))
    };
);

#[cfg(target_arch = "x86_64")]
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// A type in memory, and the type of the lanes in which its arithmetic is done.
pub(super) trait Element: Pod {
    /// f32 for the 16-bit floats, the type itself otherwise.
    type Lane: Copy;

    /// Block to lanes.
    ///
    /// # Safety
    /// The machine must have what `I` requires.
    unsafe fn widen<I: Isa, const N: usize>(block: &[Self; N]) -> [Self::Lane; N];

    /// Lanes to block.
    ///
    /// # Safety
    /// The machine must have what `I` requires.
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
own_lane!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, Complex<f32>, Complex<f64>);

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

/// Rounds a single to a bf16, which is the upper half of the result.
#[inline(always)]
fn round_bf16(bits: u32) -> u32 {
    // Half of the last kept bit, less one where that bit is even: ties go to even. Both sides are computed and one is
    // chosen, which stays vectorised; NaN must not round up into infinity.
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    if f32::from_bits(bits).is_nan() {
        bits | 0x40_0000
    } else {
        rounded
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
        let mut rounded = [0; N];
        for lane in 0..N {
            rounded[lane] = round_bf16(lanes[lane].to_bits());
        }
        // SAFETY: the caller's promise.
        unsafe { I::upper_halves(&rounded) }.map(bf16::from_bits)
    }
}

impl Element for f16 {
    type Lane = f32;

    #[inline(always)]
    unsafe fn widen<I: Isa, const N: usize>(block: &[Self; N]) -> [f32; N] {
        // SAFETY: the caller's promise.
        unsafe { I::widen_half(block) }
    }

    #[inline(always)]
    unsafe fn narrow<I: Isa, const N: usize>(lanes: &[f32; N]) -> [Self; N] {
        // SAFETY: the caller's promise.
        unsafe { I::narrow_half(lanes) }
    }
}
