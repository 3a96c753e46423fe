//! How a block of elements becomes a record, and a record a block, in every format of [`Wire`].
//!
//! All formats keep `encode(decode(record)) == record` for the records that they make. For those with a scale that needs
//! three things. The scale is the largest magnitude of the block divided by the largest code, rounded up to 17
//! significant bits, so that its product with a code of 7 bits is exact. The largest magnitude gets the largest code, so
//! that the next encoding finds the same scale. And where rounding up would lead beyond the largest number, the scale is
//! rounded down. No scale is so small that it has fewer bits: magnitudes below about 1e-36 lose bits instead.
//!
//! A block in which a number is not finite has the sign of its scale set. There the outermost codes stand for NaN and
//! the infinities, and finite numbers have the codes between.
//!
//! Only whole blocks are computed with, in groups of lanes that stay in registers. Codes are in the order of their
//! elements. So the record of a shorter block is the beginning of that of a block that ends with zeros.

use std::marker::PhantomData;

use half::{bf16, f16};
use ringroad_core::Wire;

use super::super::element::{Element, Isa, Portable};
use super::lanes::{groups, singles, Real};
use super::numbers::{Grid, DECODED, ENCODED};

/// The bytes of the longest record.
pub(super) type Record = [u8; 2 * Wire::BLOCK];

/// A format's conversions. Pointers need no alignment.
pub(super) trait Code {
    const WIRE: Wire;
    const RECORD: usize = Self::WIRE.record();

    /// The scale of a block; not positive if it has numbers that are not finite.
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

    /// The scale of a record; its sign is set if the record also has numbers that are not finite.
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

    /// The numbers of a record whose scale has its sign set.
    ///
    /// # Safety
    /// As [`Code::scale_of`].
    unsafe fn others(_record: *const u8) -> [f32; Wire::BLOCK] {
        unreachable!("it has no scale")
    }
}

/// A format whose codes are numbers of a shorter type, which need no scale.
pub(super) struct Plain<N>(PhantomData<N>);

/// Such a number.
pub(super) trait Number: Element<Lane = f32> {
    const WIRE: Wire;
}

impl Number for f16 {
    const WIRE: Wire = Wire::F16;
}

impl Number for bf16 {
    const WIRE: Wire = Wire::Bf16;
}

impl<N: Number> Code for Plain<N> {
    const WIRE: Wire = N::WIRE;

    #[inline(always)]
    unsafe fn encode<I: Isa, E: Real>(block: *const E, _: f32, _: u32, record: *mut u8) {
        for at in groups::<ENCODED>() {
            // SAFETY: the caller's promise; the group is inside the block.
            unsafe {
                let codes = N::narrow::<I, ENCODED>(&singles::<I, E, _>(block, at));
                record.cast::<N>().add(at).cast::<[N; ENCODED]>().write_unaligned(codes);
            }
        }
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(record: *const u8, _: f32, mut put: impl FnMut(usize, &[f32; DECODED])) {
        for at in groups::<DECODED>() {
            // SAFETY: the caller's promise; the group is inside the record.
            let lanes = unsafe {
                let codes = record.cast::<N>().add(at).cast::<[N; DECODED]>().read_unaligned();
                N::widen::<I, DECODED>(&codes)
            };
            put(at, &lanes);
        }
    }
}

/// A format with codes on a grid and a scale per block, which may round at random.
pub(super) struct Scaled<G, const RANDOM: bool>(PhantomData<G>);

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = f32::INFINITY.to_bits();
const SCALE: usize = size_of::<f32>();

/// The scale with which `top` gets the code of `largest`, unless that is below `least`.
#[inline(always)]
fn scale(top: f32, largest: f32, least: f32) -> f32 {
    let most = (f32::MAX / largest).to_bits() & !0x7f;
    let bits = ((top / largest).to_bits() + 0x7f) & !0x7f;
    f32::from_bits(bits.min(most)).max(least)
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
/// As [`Grid::encode`].
#[inline(always)]
unsafe fn encode_group<I: Isa, G: Grid, const RANDOM: bool>(
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
fn place<G: Grid>(element: usize) -> (usize, usize) {
    let each = Wire::BLOCK / G::WIRE.codes(Wire::BLOCK);
    (SCALE + element / each, element % each * 8 / each)
}

/// The bits of a code, in the lowest bits of a byte.
const fn mask<G: Grid>() -> u8 {
    (1u32 << (8 * G::WIRE.codes(Wire::BLOCK) / Wire::BLOCK)).wrapping_sub(1) as u8
}

/// Writes the record of a block with numbers that are not finite.
#[cold]
#[inline(never)]
fn encode_others<G: Grid, const RANDOM: bool>(block: &[f32; Wire::BLOCK], seed: u32) -> Record {
    let finite = block.map(|x| if x.is_finite() { x } else { 0.0 });
    let top = finite.into_iter().fold(0.0, |top: f32, x| top.max(x.abs()));
    let scale = scale(top, G::LARGEST[1], G::LEAST);
    let mut record: Record = [0; _];
    record[..SCALE].copy_from_slice(&(-scale).to_le_bytes());
    for at in groups::<ENCODED>() {
        let codes = record[SCALE..].as_mut_ptr();
        // SAFETY: the group is inside the block, which is a block of singles; every machine can do that.
        unsafe {
            let lanes = singles::<Portable, f32, _>(finite.as_ptr(), at);
            encode_group::<Portable, G, RANDOM>(codes, at, &lanes, 1.0 / scale, seed);
        }
    }
    for (element, x) in block.iter().enumerate().filter(|(_, x)| !x.is_finite()) {
        let code = if x.is_nan() { G::NAN } else { G::INFINITE[usize::from(x.is_sign_negative())] };
        let (byte, above) = place::<G>(element);
        record[byte] = record[byte] & !(mask::<G>() << above) | code << above;
    }
    record
}

impl<G: Grid, const RANDOM: bool> Code for Scaled<G, RANDOM> {
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
        if top < INFINITY {
            scale(f32::from_bits(top), G::LARGEST[0], G::LEAST)
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
                let all = singles::<I, E, { Wire::BLOCK }>(block, 0);
                let others = encode_others::<G, RANDOM>(&all, seed);
                record.copy_from_nonoverlapping(others.as_ptr(), Self::RECORD);
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
    unsafe fn others(record: *const u8) -> [f32; Wire::BLOCK] {
        let mut all = [0.0; Wire::BLOCK];
        // SAFETY: the caller's promise; every machine can do that.
        let record = unsafe {
            let put = |at, lanes: &[f32; DECODED]| all[at..at + DECODED].copy_from_slice(lanes);
            Self::decode::<Portable>(record, -Self::scale_of(record), put);
            std::slice::from_raw_parts(record, Self::RECORD)
        };
        for (element, x) in all.iter_mut().enumerate() {
            let (byte, above) = place::<G>(element);
            match record[byte] >> above & mask::<G>() {
                code if code == G::NAN => *x = f32::NAN,
                code if code == G::INFINITE[0] => *x = f32::INFINITY,
                code if code == G::INFINITE[1] => *x = f32::NEG_INFINITY,
                _ => {}
            }
        }
        all
    }
}
