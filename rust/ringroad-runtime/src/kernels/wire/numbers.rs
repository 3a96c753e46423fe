//! The numbers that codes stand for.

use std::marker::PhantomData;

use ringroad_core::Wire;

use super::super::element::round_bf16;
use super::packed::Packed;

pub(super) const SIGN: u32 = 1 << 31;

pub(super) struct Bf16;

impl Packed for Bf16 {
    const BITS: usize = 16;

    #[inline(always)]
    fn code(x: f32, _: f32, _: u32) -> u32 {
        round_bf16(x.to_bits()) >> 16
    }

    #[inline(always)]
    fn number(code: u32, _: f32) -> f32 {
        f32::from_bits(code & !0xffff)
    }
}

/// The numbers that codes stand for, before they are multiplied by a scale.
pub(super) trait Grid: Packed {
    const WIRE: Wire;
    /// The number of the largest code, and of the largest one of a finite number in a block with others.
    const LARGEST: [f32; 2];
    /// The smallest scale: products with it, and with all larger scales, are exact.
    const LEAST: f32;
    /// The codes of NaN and the two infinities.
    const NAN: u32;
    const INFINITE: [u32; 2];
}

/// Adding this to a number of a small magnitude leaves the nearest whole number in the lowest bits of the sum.
const WHOLE: f32 = 12_582_912.0;

/// Whole numbers of so many bits.
macro_rules! whole {
    ($name:ident, $wire:expr, $bits:literal) => {
        pub(super) struct $name;

        impl Packed for $name {
            const BITS: usize = $bits;

            #[inline(always)]
            fn code(x: f32, inverse: f32, _: u32) -> u32 {
                (x * inverse + WHOLE).to_bits()
            }

            #[inline(always)]
            fn number(code: u32, scale: f32) -> f32 {
                (code as i32 >> (32 - $bits)) as f32 * scale
            }
        }

        impl Grid for $name {
            const WIRE: Wire = $wire;
            const LARGEST: [f32; 2] = [Self::INFINITE[0] as f32, Self::INFINITE[0] as f32 - 1.0];
            const LEAST: f32 = f32::MIN_POSITIVE;
            const NAN: u32 = 1 << ($bits - 1);
            const INFINITE: [u32; 2] = [Self::NAN - 1, Self::NAN + 1];
        }
    };
}
whole!(Eight, Wire::Int8, 8);
whole!(Four, Wire::Int4, 4);

/// Whole numbers to which others are rounded at random.
pub(super) struct Dithered<G>(PhantomData<G>);

/// What the choice for an element of a block depends on, besides its bits.
#[inline(always)]
pub(super) fn key(seed: u32, element: usize) -> u32 {
    seed.wrapping_mul(0x27d4_eb2d).wrapping_add((element as u32).wrapping_mul(0x9e37_79b9))
}

impl<G: Grid> Packed for Dithered<G> {
    const BITS: usize = G::BITS;

    /// Adds one of 128 numbers between -1/2 and 1/2 before rounding to the nearest number. The outermost ones are 1/256
    /// smaller than that, which is more than a product of a code and the scale differs from a whole number, or that of the
    /// largest magnitude from the largest code: these stay what they are.
    #[inline(always)]
    fn code(x: f32, inverse: f32, key: u32) -> u32 {
        let mixed = (x.to_bits() ^ key).wrapping_mul(0x85eb_ca6b);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0xc2b2_ae35);
        let dither = ((mixed >> 25) as i32 as f32 - 63.5) * (1.0 / 128.0);
        (x * inverse + dither + WHOLE).to_bits()
    }

    #[inline(always)]
    fn number(code: u32, scale: f32) -> f32 {
        G::number(code, scale)
    }
}

impl<G: Grid> Grid for Dithered<G> {
    const WIRE: Wire = G::WIRE;
    const LARGEST: [f32; 2] = G::LARGEST;
    const LEAST: f32 = G::LEAST;
    const NAN: u32 = G::NAN;
    const INFINITE: [u32; 2] = G::INFINITE;
}

pub(super) struct Float;

/// The exponent of e4m3's smallest normal number, 2^-6, multiplied by the unit, in place; all smaller numbers share it.
const NORMAL: u32 = (127 - 6 + 3) << 23;
const EXPONENT: u32 = 0xff << 23;

impl Packed for Float {
    const BITS: usize = 8;

    const UNIT: f32 = 8.0;

    /// The code counts the distances between numbers: 8 for each exponent, and those of this exponent, which are in the
    /// lowest bits after adding a power of two that has bits of their worth. The exponents of these powers are those of the
    /// numbers and a multiple of 16.
    #[inline(always)]
    fn code(x: f32, inverse: f32, _: u32) -> u32 {
        let bits = (x * inverse).to_bits();
        let power = (bits & EXPONENT).max(NORMAL) + (20 << 23);
        let counted = f32::from_bits(bits & !SIGN) + f32::from_bits(power);
        let magnitude = counted.to_bits().wrapping_add(power >> 20);
        magnitude & 0x7f | bits >> 24 & 0x80
    }

    #[inline(always)]
    fn number(code: u32, scale: f32) -> f32 {
        let magnitude = code >> 4 & (0x7f << 20);
        let normal = f32::from_bits(magnitude + ((127 - 7) << 23));
        let small = magnitude as i32 as f32 * f32::from_bits((127 - 29) << 23);
        let number = if magnitude < 8 << 20 { small } else { normal };
        f32::from_bits(number.to_bits() | code & SIGN) * scale
    }
}

impl Grid for Float {
    const WIRE: Wire = Wire::Fp8;
    const LARGEST: [f32; 2] = [448.0, 416.0];
    /// 2^-117: the smallest product is then a normal number.
    const LEAST: f32 = f32::from_bits((127 - 117) << 23);
    const NAN: u32 = 0x7f;
    const INFINITE: [u32; 2] = [0x7e, 0xfe];
}
