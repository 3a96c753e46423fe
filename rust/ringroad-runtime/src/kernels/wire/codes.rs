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
use super::super::element::{round_bf16, Element, Isa};
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
unsafe fn singles<I: Isa, E: Real>(block: *const E, at: usize) -> Lanes {
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

    /// Writes the record of a block with this scale.
    ///
    /// # Safety
    /// As [`Code::scale`]; `record` must be writable for a whole record, and not overlap the block.
    unsafe fn encode<I: Isa, E: Real>(block: *const E, scale: f32, record: *mut u8);

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
    unsafe fn encode<I: Isa, E: Real>(block: *const E, _: f32, record: *mut u8) {
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

/// Codes of `BITS` bits that are put together to words of 32. Of `w` words, the first has the codes of the elements 0, `w`,
/// `2 * w` and so on, from its lowest bits on.
pub(super) trait Packed {
    const BITS: usize;
    const WORDS: usize = Wire::BLOCK * Self::BITS / 32;
    const MASK: u32 = (1 << Self::BITS) - 1;

    /// By what numbers are multiplied while their codes are sought.
    const UNIT: f32 = 1.0;

    /// The code of the number nearest to `x / scale`, among equally near ones of the even one, where `inverse` is
    /// `UNIT / scale`. It has any higher bits.
    fn code(x: f32, inverse: f32) -> u32;

    /// The number of the code in the highest bits, multiplied by `scale`. The other bits are any.
    fn number(code: u32, scale: f32) -> f32;

    /// # Safety
    /// `block` must be readable for a whole block, `codes` writable for its codes, and the machine have what `I` requires.
    #[inline(always)]
    unsafe fn pack<I: Isa, E: Real>(block: *const E, inverse: f32, codes: *mut u8) {
        for at in groups(Self::WORDS) {
            let mut words = [0; LANES];
            for slot in 0..32 / Self::BITS {
                // SAFETY: the caller's promise; the group is inside the block.
                let lanes = unsafe { singles::<I, E>(block, slot * Self::WORDS + at) };
                for lane in 0..LANES {
                    words[lane] |= (Self::code(lanes[lane], inverse) & Self::MASK) << (slot * Self::BITS);
                }
            }
            // SAFETY: as above.
            unsafe {
                codes.cast::<u32>().add(at).cast::<[u32; LANES]>().write_unaligned(words.map(u32::to_le))
            }
        }
    }

    /// Passes every group's place in the block and its numbers to `put`.
    ///
    /// # Safety
    /// `codes` must be readable for a block's codes.
    #[inline(always)]
    unsafe fn unpack(codes: *const u8, scale: f32, mut put: impl FnMut(usize, &Lanes)) {
        for at in groups(Wire::BLOCK) {
            // SAFETY: the caller's promise.
            let words =
                unsafe { codes.cast::<u32>().add(at % Self::WORDS).cast::<[u32; LANES]>().read_unaligned() };
            let above = 32 - (at / Self::WORDS + 1) * Self::BITS;
            let mut lanes = [0.0; LANES];
            for lane in 0..LANES {
                lanes[lane] = Self::number(u32::from_le(words[lane]) << above, scale);
            }
            put(at, &lanes);
        }
    }

    /// The bit where an element's code begins in the codes of a whole block.
    fn place(element: usize) -> usize {
        element % Self::WORDS * 32 + element / Self::WORDS * Self::BITS
    }

    /// Copies the codes of `elements` elements, from and to these bits of both.
    fn copy(
        from: (&[u8], impl Fn(usize) -> usize),
        to: (&mut [u8], impl Fn(usize) -> usize),
        elements: usize,
    ) {
        let bytes = Self::BITS.div_ceil(8);
        for element in 0..elements {
            let [source, target] = [from.1(element), to.1(element)];
            for byte in 0..bytes {
                let code = from.0[source / 8 + byte] >> (source % 8) & (Self::MASK & 0xff) as u8;
                to.0[target / 8 + byte] |= code << (target % 8);
            }
        }
    }

    /// The codes of the first `elements` elements, in their order.
    fn trim(codes: &[u8], elements: usize, trimmed: &mut [u8]) {
        trimmed.fill(0);
        Self::copy((codes, Self::place), (trimmed, |element| element * Self::BITS), elements);
    }

    /// The codes of a whole block that begins with the elements of these codes.
    fn extend(trimmed: &[u8], elements: usize, codes: &mut [u8]) {
        Self::copy((trimmed, |element| element * Self::BITS), (codes, Self::place), elements);
    }
}

pub(super) struct Bf16;

impl Packed for Bf16 {
    const BITS: usize = 16;

    #[inline(always)]
    fn code(x: f32, _: f32) -> u32 {
        round_bf16(x.to_bits()) >> 16
    }

    #[inline(always)]
    fn number(code: u32, _: f32) -> f32 {
        f32::from_bits(code & !0xffff)
    }
}

impl Code for Bf16 {
    const WIRE: Wire = Wire::Bf16;

    #[inline(always)]
    unsafe fn encode<I: Isa, E: Real>(block: *const E, _: f32, record: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { <Self as Packed>::pack::<I, E>(block, 1.0, record) }
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
            fn code(x: f32, inverse: f32) -> u32 {
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
    fn code(x: f32, inverse: f32) -> u32 {
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

/// A format with codes on a grid and a scale per block.
pub(super) struct Scaled<G>(PhantomData<G>);

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

/// Writes the record of a block with numbers that are not finite.
#[cold]
#[inline(never)]
fn encode_others<G: Grid>(block: &[f32; Wire::BLOCK]) -> Record {
    let top = block.iter().filter(|x| x.is_finite()).fold(0.0, |top: f32, x| top.max(x.abs()));
    let scale = scale(top, G::LARGEST[1], G::LEAST);
    let inverse = G::UNIT / scale;
    let code = |x: f32| match x {
        x if x.is_nan() => G::NAN,
        x if x.is_infinite() => G::INFINITE[usize::from(x.is_sign_negative())],
        x => G::code(x, inverse) & G::MASK,
    };
    let mut record: Record = [0; _];
    record[..SCALE].copy_from_slice(&(-scale).to_le_bytes());
    for (element, x) in block.iter().enumerate() {
        let place = G::place(element);
        record[SCALE + place / 8] |= (code(*x) << (place % 8)) as u8;
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
    unsafe fn encode<I: Isa, E: Real>(block: *const E, scale: f32, record: *mut u8) {
        if scale > 0.0 {
            // SAFETY: the caller's promise.
            unsafe {
                record.cast::<[u8; SCALE]>().write(scale.to_le_bytes());
                G::pack::<I, E>(block, G::UNIT / scale, record.add(SCALE));
            }
        } else {
            let mut all = [0.0; Wire::BLOCK];
            // SAFETY: as above.
            unsafe {
                for at in groups(Wire::BLOCK) {
                    all[at..at + LANES].copy_from_slice(&singles::<I, E>(block, at));
                }
                record.copy_from_nonoverlapping(encode_others::<G>(&all).as_ptr(), Self::RECORD);
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
