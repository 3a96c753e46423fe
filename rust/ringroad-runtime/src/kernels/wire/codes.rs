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
//! Only whole blocks are computed with, in groups of lanes that stay in registers. Codes of fewer than 32 bits are put
//! together to [words](Packed) lane by lane: no instruction has to move them to other lanes. The record of a shorter block
//! is made of that of a block that ends with zeros; it has its codes in their order, since words would have gaps.

use std::marker::PhantomData;

use half::f16;
use ringroad_core::Wire;

use super::super::block::keep_loop;
use super::super::element::{Element, Isa};
use super::numbers::{key, Bf16, Grid, SIGN};
use super::packed::Packed;
use super::run::Real;

/// The singles that are computed with at once.
pub(super) const LANES: usize = 32;
pub(super) type Lanes = [f32; LANES];

/// The bytes of the longest record.
pub(super) type Record = [u8; 2 * Wire::BLOCK];

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
    unsafe fn decode<I: Isa>(record: *const u8, scale: f32, put: impl FnMut(usize, &Lanes));

    /// The numbers of a record whose scale has its sign set.
    ///
    /// # Safety
    /// As [`Code::scale_of`].
    unsafe fn others(_record: *const u8) -> [f32; Wire::BLOCK] {
        unreachable!("it has no scale")
    }

    /// Writes the record of the first `elements` numbers of a block's record.
    fn trim(record: &Record, elements: usize, trimmed: &mut [u8]);

    /// A block's record that begins with the numbers of a record of `elements` numbers.
    fn extend(trimmed: &[u8], elements: usize) -> Record;
}

/// Half precision, of which processors convert many numbers at once, in their order.
pub(super) struct F16;

impl Code for F16 {
    const WIRE: Wire = Wire::F16;

    #[inline(always)]
    unsafe fn encode<I: Isa, E: Real>(block: *const E, _: f32, _: u32, record: *mut u8) {
        for at in groups(Wire::BLOCK) {
            // SAFETY: the caller's promise; the group is inside the block.
            unsafe {
                let codes = f16::narrow::<I, LANES>(&singles::<I, E>(block, at));
                record.cast::<f16>().add(at).cast::<[f16; LANES]>().write_unaligned(codes);
            }
        }
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(record: *const u8, _: f32, mut put: impl FnMut(usize, &Lanes)) {
        for at in groups(Wire::BLOCK) {
            // SAFETY: the caller's promise; the group is inside the record.
            let lanes = unsafe {
                let codes = record.cast::<f16>().add(at).cast::<[f16; LANES]>().read_unaligned();
                f16::widen::<I, LANES>(&codes)
            };
            put(at, &lanes);
        }
    }

    fn trim(record: &Record, _: usize, trimmed: &mut [u8]) {
        trimmed.copy_from_slice(&record[..trimmed.len()]);
    }

    fn extend(trimmed: &[u8], _: usize) -> Record {
        let mut record = [0; _];
        record[..trimmed.len()].copy_from_slice(trimmed);
        record
    }
}

impl Code for Bf16 {
    const WIRE: Wire = Wire::Bf16;

    #[inline(always)]
    unsafe fn encode<I: Isa, E: Real>(block: *const E, _: f32, _: u32, record: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { <Self as Packed>::pack::<I, E>(block, 1.0, 0, record) }
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(record: *const u8, _: f32, put: impl FnMut(usize, &Lanes)) {
        // SAFETY: the caller's promise.
        unsafe { <Self as Packed>::unpack(record, 1.0, put) }
    }

    fn trim(record: &Record, elements: usize, trimmed: &mut [u8]) {
        <Self as Packed>::trim(record, elements, trimmed);
    }

    fn extend(trimmed: &[u8], elements: usize) -> Record {
        let mut record = [0; _];
        <Self as Packed>::extend(trimmed, elements, &mut record);
        record
    }
}

/// A format with codes on a grid and a scale per block.
pub(super) struct Scaled<G>(PhantomData<G>);

const INFINITY: u32 = f32::INFINITY.to_bits();
const SCALE: usize = size_of::<f32>();

/// The scale with which `top` gets the code of `largest`, unless that is below `least`.
#[inline(always)]
fn scale(top: f32, largest: f32, least: f32) -> f32 {
    let most = (f32::MAX / largest).to_bits() & !0x7f;
    let bits = ((top / largest).to_bits() + 0x7f) & !0x7f;
    f32::from_bits(bits.min(most)).max(least)
}

/// Writes the record of a block with numbers that are not finite.
#[cold]
#[inline(never)]
fn encode_others<G: Grid>(block: &[f32; Wire::BLOCK], seed: u32) -> Record {
    let top = block.iter().filter(|x| x.is_finite()).fold(0.0, |top: f32, x| top.max(x.abs()));
    let scale = scale(top, G::LARGEST[1], G::LEAST);
    let inverse = G::UNIT / scale;
    let code = |(element, x): (usize, &f32)| match *x {
        x if x.is_nan() => G::NAN,
        x if x.is_infinite() => G::INFINITE[usize::from(x.is_sign_negative())],
        x => G::code(x, inverse, key(seed, element)) & G::MASK,
    };
    let mut record: Record = [0; _];
    record[..SCALE].copy_from_slice(&(-scale).to_le_bytes());
    for numbered in block.iter().enumerate() {
        let place = G::place(numbered.0);
        record[SCALE + place / 8] |= (code(numbered) << (place % 8)) as u8;
    }
    record
}

impl<G: Grid> Code for Scaled<G> {
    const WIRE: Wire = G::WIRE;

    #[inline(always)]
    unsafe fn scale<I: Isa, E: Real>(block: *const E) -> f32 {
        // As whole numbers, magnitudes have the same order, with NaN at the top.
        let mut tops = [0; LANES];
        for at in groups(Wire::BLOCK) {
            // SAFETY: the caller's promise; the group is inside the block.
            let lanes = unsafe { singles::<I, E>(block, at) };
            for lane in 0..LANES {
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
        if scale > 0.0 {
            // SAFETY: the caller's promise.
            unsafe {
                record.cast::<[u8; SCALE]>().write(scale.to_le_bytes());
                G::pack::<I, E>(block, G::UNIT / scale, seed, record.add(SCALE));
            }
        } else {
            let mut all = [0.0; Wire::BLOCK];
            // SAFETY: as above.
            unsafe {
                for at in groups(Wire::BLOCK) {
                    all[at..at + LANES].copy_from_slice(&singles::<I, E>(block, at));
                }
                record.copy_from_nonoverlapping(encode_others::<G>(&all, seed).as_ptr(), Self::RECORD);
            }
        }
    }

    #[inline(always)]
    unsafe fn scale_of(record: *const u8) -> f32 {
        // SAFETY: the caller's promise.
        f32::from_le_bytes(unsafe { record.cast::<[u8; SCALE]>().read() })
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(record: *const u8, scale: f32, put: impl FnMut(usize, &Lanes)) {
        // SAFETY: the caller's promise.
        unsafe { G::unpack(record.add(SCALE), scale, put) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn others(record: *const u8) -> [f32; Wire::BLOCK] {
        // SAFETY: the caller's promise.
        let (scale, codes) = unsafe {
            let scale = f32::from_le_bytes(record.cast::<[u8; SCALE]>().read());
            (-scale, std::slice::from_raw_parts(record.add(SCALE), Self::RECORD - SCALE))
        };
        std::array::from_fn(|element| {
            let place = G::place(element);
            match u32::from(codes[place / 8] >> (place % 8)) & G::MASK {
                code if code == G::NAN => f32::NAN,
                code if code == G::INFINITE[0] => f32::INFINITY,
                code if code == G::INFINITE[1] => f32::NEG_INFINITY,
                code => G::number(code << (32 - G::BITS), scale),
            }
        })
    }

    fn trim(record: &Record, elements: usize, trimmed: &mut [u8]) {
        trimmed[..SCALE].copy_from_slice(&record[..SCALE]);
        G::trim(&record[SCALE..], elements, &mut trimmed[SCALE..]);
    }

    fn extend(trimmed: &[u8], elements: usize) -> Record {
        let mut record: Record = [0; _];
        record[..SCALE].copy_from_slice(&trimmed[..SCALE]);
        G::extend(&trimmed[SCALE..], elements, &mut record[SCALE..]);
        record
    }
}
