//! How a block of elements becomes a record, and a record a block, in every format of [`Wire`].
//!
//! All formats keep `encode(decode(record)) == record` for the records that they make. For those with a scale that needs
//! three things. The scale is the largest magnitude of the block divided by the largest code, rounded to so few
//! significant bits that its product with any code has at most 24. The largest magnitude gets the largest code, so that
//! the next encoding finds the same scale. And where that would lead beyond the largest number of the elements' type, the
//! scale is rounded down. That of f16 is a power of two, with which the largest magnitude is at least 2^15.
//!
//! **Rare blocks** have a path of their own, in which doubles are computed with: those whose scale is so small or large
//! that singles would lose bits or be infinite, and those with numbers that are not finite. The lowest bits of a scale,
//! which rounding leaves 0, count the powers of 2^24 by which such a block's elements were divided. In a block with
//! numbers that are not finite the scale has its sign set. There the outermost codes stand for NaN and the infinities,
//! and finite numbers have the codes between. Halves have codes for them anyway.
//!
//! Where a code's product with the scale is between two numbers of the elements' type, because these are so small, it
//! becomes the nearer one. Encoded and decoded again, it stays what it is: if the codes are farther apart than the numbers,
//! the number is nearest to that code, and otherwise the number is the element that was encoded. Only at a power of two,
//! where those of e4m3 below are half as far apart, may it get the next code; that one becomes the same number.
//!
//! Only whole blocks are computed with, in groups of lanes that stay in registers. Codes are in the order of their
//! elements. So the record of a shorter block is the beginning of that of a block that ends with zeros.

use std::marker::PhantomData;

use half::bf16;
use ringroad_core::Wire;

use super::super::element::{Element, Isa, Portable};
use super::lanes::{groups, singles, Real};
use super::numbers::{CodeGrid, DECODED, ENCODED};

/// The bytes of the longest record.
pub(super) type RecordBytes = [u8; Wire::F16.record()];

/// A format's conversions. Pointers need no alignment.
pub(super) trait Code {
    const WIRE: Wire;
    const RECORD: usize = Self::WIRE.record();

    /// The scale of a block; NaN if the block is rare.
    ///
    /// # Safety
    /// `block` must be readable for a whole block, and the machine must have what `I` requires.
    #[inline(always)]
    unsafe fn scale<I: Isa, E: Real>(_block: *const E) -> f32 {
        1.0
    }

    /// Writes the record of a block with this scale. The seed is for formats that dither.
    ///
    /// # Safety
    /// As [`Code::scale`]; `record` must be writable for a whole record, and not overlap the block.
    unsafe fn encode<I: Isa, E: Real>(block: *const E, scale: f32, seed: u32, record: *mut u8);

    /// The scale of a record, which [`is_rare`] tells from that of a rare one.
    ///
    /// # Safety
    /// `record` must be readable for a whole record.
    #[inline(always)]
    unsafe fn scale_of(_record: *const u8) -> f32 {
        1.0
    }

    /// Passes every group's place in the block and its numbers to `put`.
    ///
    /// # Safety
    /// As [`Code::scale_of`], and the machine must have what `I` requires.
    unsafe fn decode<I: Isa>(record: *const u8, scale: f32, put: impl FnMut(usize, &[f32; DECODED]));

    /// The numbers of a rare record.
    ///
    /// # Safety
    /// As [`Code::scale_of`].
    unsafe fn rare(_record: *const u8) -> [f64; Wire::BLOCK] {
        unreachable!("it has no scale")
    }
}

/// The upper halves of singles, rounded, which need no scale.
pub(super) struct Upper;

impl Code for Upper {
    const WIRE: Wire = Wire::Bf16;

    #[inline(always)]
    unsafe fn encode<I: Isa, E: Real>(block: *const E, _: f32, _: u32, record: *mut u8) {
        for at in groups::<ENCODED>() {
            // SAFETY: the caller's promise; the group is inside the block.
            unsafe {
                let codes = bf16::narrow::<I, ENCODED>(&singles::<I, E, _>(block, at));
                record.cast::<bf16>().add(at).cast::<[bf16; ENCODED]>().write_unaligned(codes);
            }
        }
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(record: *const u8, _: f32, mut put: impl FnMut(usize, &[f32; DECODED])) {
        for at in groups::<DECODED>() {
            // SAFETY: the caller's promise; the group is inside the record.
            let lanes = unsafe {
                let codes = record.cast::<bf16>().add(at).cast::<[bf16; DECODED]>().read_unaligned();
                bf16::widen::<I, DECODED>(&codes)
            };
            put(at, &lanes);
        }
    }
}

/// A format with codes on a grid and a scale per block, which may round at random.
pub(super) struct Scaled<G, const RANDOM: bool>(PhantomData<G>);

const SIGN: u32 = 1 << 31;
const SCALE: usize = size_of::<f32>();
/// The bits of a scale that count powers of 2^[`SHIFT`].
const SHIFTS: u32 = 0x7f;
const SHIFT: i32 = 24;

/// Whether a record with this scale is a rare one.
#[inline(always)]
pub(super) fn is_rare(scale: f32) -> bool {
    scale.to_bits() & (SIGN | SHIFTS) != 0
}

/// The bits of the largest scale whose product with this code is a single.
const fn most(largest: f32, rounded: u32) -> u32 {
    (f32::MAX / largest).to_bits() & !rounded
}

/// `x * 2^exponent`, rounded once. The exponent is from -2000 to 2000.
fn times_power(x: f64, exponent: i32) -> f64 {
    let power = |exponent: i32| f64::from_bits(((1023 + exponent) as u64) << 52);
    x * power(exponent / 2) * power(exponent - exponent / 2)
}

/// The scale with which `top` gets the code of `largest`, for elements up to `most`: a single and by how many powers of
/// 2^[`SHIFT`] to multiply it.
fn rare_scale<G: CodeGrid>(top: f64, largest: f32, most: f64) -> (f32, i32) {
    if top == 0.0 {
        return (f32::from_bits(G::LEAST), 0);
    }
    let [half, rounded] = [G::HALF, G::ROUNDED].map(|bits| u64::from(bits) << 29);
    let rounded = rounded | ((1 << 29) - 1);
    let away = top.log2() as i32;
    let mut bits = ((times_power(top, -away) / f64::from(largest)).to_bits() + half) & !rounded;
    if times_power(f64::from_bits(bits), away) * f64::from(largest) > most {
        bits -= rounded + 1;
    }
    let scale = f64::from_bits(bits);
    let exponent = (bits >> 52) as i32 - 1023 + away;
    let single = times_power(scale, away) as f32;
    let is_single = (G::LEAST..=self::most(largest, G::ROUNDED)).contains(&single.to_bits());
    let shift = if is_single { 0 } else { exponent.div_euclid(SHIFT) };
    (times_power(scale, away - shift * SHIFT) as f32, shift)
}

/// What is rounded to the code of this number.
///
/// At random, it is one of 128 numbers between -1/2 and 1/2 larger, as the seed, the element's place and its bits say. The
/// outermost ones are 1/256 smaller than that, which is more than a product of a code and the scale differs from a whole
/// number, or that of the largest magnitude from the largest code: these stay what they are.
#[inline(always)]
fn divided<const RANDOM: bool>(x: f32, inverse: f32, seed: u32, element: usize) -> f32 {
    if !RANDOM {
        return x * inverse;
    }
    let key = seed.wrapping_mul(0x27d4_eb2d).wrapping_add((element as u32).wrapping_mul(0x9e37_79b9));
    let mixed = (x.to_bits() ^ key).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0xc2b2_ae35);
    x * inverse + ((mixed >> 25) as i32 as f32 - 63.5) * (1.0 / 128.0)
}

/// Writes the codes of a group of finite numbers.
///
/// # Safety
/// As [`CodeGrid::encode`].
#[inline(always)]
unsafe fn encode_group<I: Isa, G: CodeGrid, const RANDOM: bool>(
    codes: *mut u8,
    at: usize,
    lanes: &[f32; ENCODED],
    inverse: f32,
    seed: u32,
) {
    let mut all = [0.0; ENCODED];
    for lane in 0..ENCODED {
        all[lane] = divided::<RANDOM>(lanes[lane], inverse, seed, at + lane);
    }
    // SAFETY: the caller's promise.
    unsafe { G::encode::<I>(codes, at, &all) }
}

/// Where an element's code is: its byte, and how many bits are below it.
fn place<G: CodeGrid>(element: usize) -> (usize, usize) {
    let each = Wire::BLOCK / G::WIRE.codes(Wire::BLOCK);
    (SCALE + element / each, element % each * 8 / each)
}

/// The bits of a code, in the lowest bits of a byte.
const fn mask<G: CodeGrid>() -> u8 {
    (1u32 << (8 * G::WIRE.codes(Wire::BLOCK) / Wire::BLOCK)).wrapping_sub(1) as u8
}

/// Writes the record of a rare block, whose elements are multiples of `least` up to `most`.
#[cold]
#[inline(never)]
fn encode_rare<G: CodeGrid, const RANDOM: bool>(
    block: &[f64; Wire::BLOCK],
    [least, most]: [f64; 2],
    seed: u32,
) -> RecordBytes {
    let finite = block.iter().filter(|x| x.is_finite());
    let is_finite = finite.clone().count() == Wire::BLOCK;
    let top = finite.fold(0.0, |top: f64, x| top.max(x.abs()));
    let (scale, shift) = rare_scale::<G>(top, G::LARGEST[usize::from(!is_finite)], most);
    // No element is farther from 0 than the outermost code.
    let outermost = scale * G::OUTERMOST;
    let lanes = block.map(|x| match times_power(x, -shift * SHIFT) as f32 {
        _ if x.is_nan() => f32::NAN,
        lane if x.is_finite() => lane.clamp(-outermost, outermost),
        lane => lane,
    });
    // At random, only what is a number of the type exactly would stay what it is.
    let is_exact = times_power(f64::from(scale), shift * SHIFT) >= least * 65536.0;
    let mut record: RecordBytes = [0; _];
    let bits = scale.to_bits() | shift as u32 & SHIFTS;
    record[..SCALE].copy_from_slice(&bits.to_le_bytes());
    for at in groups::<ENCODED>() {
        let codes = record[SCALE..].as_mut_ptr();
        // SAFETY: the group is inside the block, which is a block of singles; every machine can do that.
        unsafe {
            let lanes = singles::<Portable, f32, _>(lanes.as_ptr(), at);
            match RANDOM && is_exact {
                true => encode_group::<Portable, G, RANDOM>(codes, at, &lanes, 1.0 / scale, seed),
                false => encode_group::<Portable, G, false>(codes, at, &lanes, 1.0 / scale, seed),
            }
        }
    }
    let Some([nan, plus, minus]) = G::OTHERS.filter(|_| !is_finite) else { return record };
    record[SCALE - 1] |= 0x80;
    for (element, x) in block.iter().enumerate().filter(|(_, x)| !x.is_finite()) {
        let code = if x.is_nan() {
            nan
        } else if *x > 0.0 {
            plus
        } else {
            minus
        };
        let (byte, above) = place::<G>(element);
        record[byte] = record[byte] & !(mask::<G>() << above) | code << above;
    }
    record
}

impl<G: CodeGrid, const RANDOM: bool> Code for Scaled<G, RANDOM> {
    const WIRE: Wire = G::WIRE;

    #[inline(always)]
    unsafe fn scale<I: Isa, E: Real>(block: *const E) -> f32 {
        // As whole numbers, magnitudes have the same order, with NaN at the top.
        let mut tops = [0; ENCODED];
        for at in groups::<ENCODED>() {
            // SAFETY: the caller's promise; the group is inside the block.
            let lanes: [f32; ENCODED] = unsafe { singles::<I, E, _>(block, at) };
            for lane in 0..ENCODED {
                tops[lane] = tops[lane].max(lanes[lane].to_bits() & !SIGN);
            }
        }
        let top = tops.into_iter().fold(0, u32::max);
        let scale = ((f32::from_bits(top) / G::LARGEST[0]).to_bits() + G::HALF) & !G::ROUNDED;
        if (G::LEAST..=most(G::LARGEST[0], G::ROUNDED)).contains(&scale) {
            f32::from_bits(scale)
        } else if top == 0 && size_of::<E>() <= size_of::<f32>() {
            f32::from_bits(G::LEAST)
        } else {
            f32::NAN
        }
    }

    #[inline(always)]
    unsafe fn encode<I: Isa, E: Real>(block: *const E, scale: f32, seed: u32, record: *mut u8) {
        // SAFETY: the caller's promise; groups are inside the block.
        unsafe {
            if scale > 0.0 {
                record.cast::<[u8; SCALE]>().write(scale.to_le_bytes());
                let inverse = 1.0 / scale;
                for at in groups::<ENCODED>() {
                    let lanes = singles::<I, E, _>(block, at);
                    encode_group::<I, G, RANDOM>(record.add(SCALE), at, &lanes, inverse, seed);
                }
            } else {
                let all = block.cast::<[E; Wire::BLOCK]>().read_unaligned().map(Into::into);
                let rare = encode_rare::<G, RANDOM>(&all, [E::LEAST, E::MAX_MAGNITUDE], seed);
                record.copy_from_nonoverlapping(rare.as_ptr(), Self::RECORD);
            }
        }
    }

    #[inline(always)]
    unsafe fn scale_of(record: *const u8) -> f32 {
        // SAFETY: the caller's promise.
        f32::from_le_bytes(unsafe { record.cast::<[u8; SCALE]>().read() })
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(record: *const u8, scale: f32, mut put: impl FnMut(usize, &[f32; DECODED])) {
        for at in groups::<DECODED>() {
            // SAFETY: the caller's promise; the group is inside the record.
            let numbers = unsafe { G::decode::<I>(record.add(SCALE), at) };
            let mut lanes = [0.0; DECODED];
            for lane in 0..DECODED {
                lanes[lane] = numbers[lane] * scale;
            }
            put(at, &lanes);
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn rare(record: *const u8) -> [f64; Wire::BLOCK] {
        let mut all = [0.0; Wire::BLOCK];
        // SAFETY: the caller's promise; every machine can do that.
        let (record, bits) = unsafe {
            let bits = Self::scale_of(record).to_bits();
            let shift = ((bits & SHIFTS) << 25) as i32 >> 25;
            let put = |at, lanes: &[f32; DECODED]| {
                let numbers = lanes.map(|lane| times_power(f64::from(lane), shift * SHIFT));
                all[at..at + DECODED].copy_from_slice(&numbers);
            };
            Self::decode::<Portable>(record, f32::from_bits(bits & !(SIGN | SHIFTS)), put);
            (std::slice::from_raw_parts(record, Self::RECORD), bits)
        };
        let Some([nan, plus, minus]) = G::OTHERS.filter(|_| bits & SIGN != 0) else { return all };
        for (element, x) in all.iter_mut().enumerate() {
            let (byte, above) = place::<G>(element);
            match record[byte] >> above & mask::<G>() {
                code if code == nan => *x = f64::NAN,
                code if code == plus => *x = f64::INFINITY,
                code if code == minus => *x = f64::NEG_INFINITY,
                _ => {}
            }
        }
        all
    }
}
