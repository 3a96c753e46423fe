//! How a block of singles becomes a record, and a record a block, in every format of [`Wire`].
//!
//! All formats keep `encode(decode(record)) == record` for the records that they make. For those with a scale that needs
//! three things. The scale is the largest magnitude of the block divided by the largest code, rounded up to 17
//! significant bits, so that its product with a code of 7 bits is exact. The largest magnitude gets the largest code, so
//! that the next encoding finds the same scale. And where rounding up would lead beyond the largest number, the scale is
//! rounded down. No scale is so small that it has fewer bits: magnitudes below about 1e-36 lose bits instead.
//!
//! A block in which a number is not finite has the sign of its scale set. There the outermost codes stand for NaN and
//! the infinities, and finite numbers have the codes between.

use std::marker::PhantomData;

use half::{bf16, f16};
use ringroad_core::Wire;

use super::super::element::{Element, Isa};

/// The elements of a block as singles.
pub(super) type Block = [f32; Wire::BLOCK];

/// A format's conversions.
pub(super) trait Code {
    const WIRE: Wire;

    /// Writes the record of the first `elements` numbers of `block`; the others are zero.
    ///
    /// # Safety
    /// The machine must have what `I` requires.
    unsafe fn encode<I: Isa>(block: &Block, elements: usize, record: &mut [u8]);

    /// Reads a record of `elements` numbers.
    ///
    /// # Safety
    /// As [`Code::encode`].
    unsafe fn decode<I: Isa>(record: &[u8], elements: usize, block: &mut Block);
}

/// A format whose codes are numbers of half the length.
macro_rules! halved {
    ($name:ident, $number:ident, $wire:expr) => {
        pub(super) struct $name;

        impl Code for $name {
            const WIRE: Wire = $wire;

            #[inline(always)]
            unsafe fn encode<I: Isa>(block: &Block, elements: usize, record: &mut [u8]) {
                // SAFETY: the caller's promise.
                let codes = unsafe { <$number as Element>::narrow::<I, { Wire::BLOCK }>(block) };
                record.copy_from_slice(bytemuck::cast_slice(&codes[..elements]));
            }

            #[inline(always)]
            unsafe fn decode<I: Isa>(record: &[u8], elements: usize, block: &mut Block) {
                let mut codes = [$number::ZERO; Wire::BLOCK];
                bytemuck::cast_slice_mut(&mut codes[..elements]).copy_from_slice(record);
                // SAFETY: the caller's promise.
                *block = unsafe { <$number as Element>::widen::<I, { Wire::BLOCK }>(&codes) };
            }
        }
    };
}
halved!(Bf16, bf16, Wire::Bf16);
halved!(F16, f16, Wire::F16);

/// The numbers that codes stand for, before they are multiplied by a scale.
pub(super) trait Grid {
    const WIRE: Wire;
    /// The number of the largest code, and of the largest one of a finite number in a block with others.
    const LARGEST: [f32; 2];
    /// The smallest scale: products with it, and with all larger scales, are exact.
    const LEAST: f32;
    /// The codes of NaN and the two infinities.
    const NAN: u8;
    const INFINITE: [u8; 2];

    /// The code of the nearest number, among equally near ones of the even one.
    fn code(number: f32) -> u8;

    fn number(code: u8) -> f32;

    /// Writes the first `elements` codes.
    #[inline(always)]
    fn pack(codes: &[u8; Wire::BLOCK], elements: usize, record: &mut [u8]) {
        record.copy_from_slice(&codes[..elements]);
    }

    /// Reads `elements` codes.
    #[inline(always)]
    fn unpack(record: &[u8], elements: usize, codes: &mut [u8; Wire::BLOCK]) {
        codes[..elements].copy_from_slice(record);
    }
}

/// Adding this to a number of a small magnitude leaves the nearest whole number in the lowest bits of the sum.
const WHOLE: f32 = 12_582_912.0;

pub(super) struct Eight;

impl Grid for Eight {
    const WIRE: Wire = Wire::Int8;
    const LARGEST: [f32; 2] = [127.0, 126.0];
    const LEAST: f32 = f32::MIN_POSITIVE;
    const NAN: u8 = 0x80;
    const INFINITE: [u8; 2] = [127, 127u8.wrapping_neg()];

    #[inline(always)]
    fn code(number: f32) -> u8 {
        (number + WHOLE).to_bits() as u8
    }

    #[inline(always)]
    fn number(code: u8) -> f32 {
        f32::from(code as i8)
    }
}

pub(super) struct Four;

impl Grid for Four {
    const WIRE: Wire = Wire::Int4;
    const LARGEST: [f32; 2] = [7.0, 6.0];
    const LEAST: f32 = f32::MIN_POSITIVE;
    const NAN: u8 = 8;
    const INFINITE: [u8; 2] = [7, 9];

    #[inline(always)]
    fn code(number: f32) -> u8 {
        (number + WHOLE).to_bits() as u8 & 15
    }

    #[inline(always)]
    fn number(code: u8) -> f32 {
        f32::from((code << 4) as i8 >> 4)
    }

    /// A byte has a code of the first half of the elements, and one of the second half.
    #[inline(always)]
    fn pack(codes: &[u8; Wire::BLOCK], elements: usize, record: &mut [u8]) {
        let half = elements.div_ceil(2);
        let pairs = codes[..half].iter().zip(&codes[half..2 * half]);
        record.iter_mut().zip(pairs).for_each(|(byte, (low, high))| *byte = low | high << 4);
    }

    #[inline(always)]
    fn unpack(record: &[u8], elements: usize, codes: &mut [u8; Wire::BLOCK]) {
        let half = elements.div_ceil(2);
        let (low, high) = codes[..2 * half].split_at_mut(half);
        let pairs = low.iter_mut().zip(high);
        record.iter().zip(pairs).for_each(|(byte, (low, high))| (*low, *high) = (byte & 15, byte >> 4));
    }
}

pub(super) struct Float;

/// The exponents of singles that e4m3 does not have below its own.
const BIAS: u32 = 127 - 7;
/// The smallest normal number of e4m3, 2^-6, and the distance of the smaller ones, 2^-9.
const NORMAL: f32 = 1.0 / 64.0;
const SMALLEST: f32 = 1.0 / 512.0;
/// The last bit of a single of this magnitude is worth [`SMALLEST`].
const ROUNDER: f32 = 16384.0;

impl Grid for Float {
    const WIRE: Wire = Wire::Fp8;
    const LARGEST: [f32; 2] = [448.0, 416.0];
    /// 2^-117: the smallest product is then a normal number.
    const LEAST: f32 = f32::from_bits((127 - 117) << 23);
    const NAN: u8 = 0x7f;
    const INFINITE: [u8; 2] = [0x7e, 0xfe];

    #[inline(always)]
    fn code(number: f32) -> u8 {
        let (sign, bits) = (number.to_bits() >> 24 & 0x80, number.to_bits() & 0x7fff_ffff);
        let normal = ((bits + 0x7_ffff + ((bits >> 20) & 1)) >> 20).wrapping_sub(BIAS << 3);
        let small = (f32::from_bits(bits) + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits());
        let code = if bits < NORMAL.to_bits() { small } else { normal };
        (sign | code) as u8
    }

    #[inline(always)]
    fn number(code: u8) -> f32 {
        let (sign, code) = (u32::from(code & 0x80) << 24, u32::from(code & 0x7f));
        let normal = (code << 20) + (BIAS << 23);
        let small = (code as f32 * SMALLEST).to_bits();
        let magnitude = if code < 8 { small } else { normal };
        f32::from_bits(sign | if code == 0x7f { f32::NAN.to_bits() } else { magnitude })
    }
}

/// A format with codes on a grid and a scale per block.
pub(super) struct Scaled<G>(PhantomData<G>);

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = f32::INFINITY.to_bits();

/// The scale with which `top` gets the code of `largest`, unless that is below `least`.
#[inline(always)]
fn scale(top: f32, largest: f32, least: f32) -> f32 {
    let most = (f32::MAX / largest).to_bits() & !0x7f;
    let bits = ((top / largest).to_bits() + 0x7f) & !0x7f;
    f32::from_bits(bits.min(most)).max(least)
}

/// The codes and the scale of a block with numbers that are not finite.
#[cold]
fn encode_others<G: Grid>(block: &Block, codes: &mut [u8; Wire::BLOCK]) -> f32 {
    let top = block.iter().filter(|x| x.is_finite()).fold(0.0, |top: f32, x| top.max(x.abs()));
    let scale = scale(top, G::LARGEST[1], G::LEAST);
    let inverse = 1.0 / scale;
    for (code, x) in codes.iter_mut().zip(block) {
        *code = match x {
            x if x.is_nan() => G::NAN,
            x if x.is_infinite() => G::INFINITE[usize::from(x.is_sign_negative())],
            x => G::code(x * inverse),
        };
    }
    -scale
}

#[cold]
fn decode_others<G: Grid>(codes: &[u8; Wire::BLOCK], scale: f32, block: &mut Block) {
    for (x, code) in block.iter_mut().zip(codes) {
        *x = match *code {
            code if code == G::NAN => f32::NAN,
            code if code == G::INFINITE[0] => f32::INFINITY,
            code if code == G::INFINITE[1] => f32::NEG_INFINITY,
            code => G::number(code) * scale,
        };
    }
}

impl<G: Grid> Code for Scaled<G> {
    const WIRE: Wire = G::WIRE;

    #[inline(always)]
    unsafe fn encode<I: Isa>(block: &Block, elements: usize, record: &mut [u8]) {
        // As whole numbers, magnitudes have the same order, with NaN at the top.
        let top = block.iter().fold(0, |top: u32, x| top.max(x.to_bits() & !SIGN));
        let mut codes = [0; Wire::BLOCK];
        let scale = if top < INFINITY {
            let scale = scale(f32::from_bits(top), G::LARGEST[0], G::LEAST);
            let inverse = 1.0 / scale;
            for index in 0..Wire::BLOCK {
                codes[index] = G::code(block[index] * inverse);
            }
            scale
        } else {
            encode_others::<G>(block, &mut codes)
        };
        let (first, rest) = record.split_at_mut(size_of::<f32>());
        first.copy_from_slice(&scale.to_le_bytes());
        G::pack(&codes, elements, rest);
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(record: &[u8], elements: usize, block: &mut Block) {
        let (first, rest) = record.split_at(size_of::<f32>());
        let scale = f32::from_le_bytes([first[0], first[1], first[2], first[3]]);
        let mut codes = [0; Wire::BLOCK];
        G::unpack(rest, elements, &mut codes);
        if scale.to_bits() & SIGN == 0 {
            for index in 0..Wire::BLOCK {
                block[index] = G::number(codes[index]) * scale;
            }
        } else {
            decode_others::<G>(&codes, -scale, block);
        }
    }
}
