//! The numbers that the codes of formats with a scale stand for, in groups.

use half::f16;
use ringroad_core::Wire;

use super::super::element::Isa;

/// The elements that are encoded at once, and those that are decoded at once.
pub(super) const ENCODED: usize = 64;
pub(super) const DECODED: usize = 32;

/// The numbers that codes stand for, before they are multiplied by a scale.
pub(super) trait CodeGrid {
    const WIRE: Wire;
    /// What the largest magnitude of a block is divided by, and of a block with numbers that are not finite.
    const LARGEST: [f32; 2];
    /// The largest number that is a code's.
    const OUTERMOST: f32 = Self::LARGEST[0];
    /// The lowest bits of a scale, which are rounded away, and what is added before.
    const ROUNDED: u32 = 0x7f;
    const HALF: u32 = 0x40;
    /// The bits of the smallest scale, a single: products with it, and with all larger scales, are exact.
    const LEAST: u32;
    /// The codes of NaN and the two infinities in a block with such numbers; `None`: they are encoded like others.
    const OTHERS: Option<[u8; 3]>;

    /// Writes the codes of the numbers that are nearest to those of the group that begins at element `at`, among equally
    /// near ones the even ones.
    ///
    /// # Safety
    /// `all` must be writable for a block's codes, and the machine have what `I` requires.
    unsafe fn encode<I: Isa>(all: *mut u8, at: usize, lanes: &[f32; ENCODED]);

    /// The numbers of the group that begins at element `at`.
    ///
    /// # Safety
    /// `all` must be readable for a block's codes, and the machine have what `I` requires.
    unsafe fn decode<I: Isa>(all: *const u8, at: usize) -> [f32; DECODED];
}

/// Whole numbers of 8 bits.
pub(super) struct Eight;

impl CodeGrid for Eight {
    const WIRE: Wire = Wire::Int8;
    const LARGEST: [f32; 2] = [127.0, 126.0];
    const LEAST: u32 = (127 - 125) << 23;
    const OTHERS: Option<[u8; 3]> = Some([0x80, 0x7f, 0x81]);

    #[inline(always)]
    unsafe fn encode<I: Isa>(all: *mut u8, at: usize, lanes: &[f32; ENCODED]) {
        // SAFETY: the caller's promise.
        unsafe { all.add(at).cast::<[i8; ENCODED]>().write(I::narrow_whole(lanes)) }
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(all: *const u8, at: usize) -> [f32; DECODED] {
        // SAFETY: the caller's promise.
        unsafe { all.add(at).cast::<[i8; DECODED]>().read() }.map(f32::from)
    }
}

/// Whole numbers of 4 bits. A byte has two of them, the first one in its lower bits.
pub(super) struct Four;

impl CodeGrid for Four {
    const WIRE: Wire = Wire::Int4;
    const LARGEST: [f32; 2] = [7.0, 6.0];
    const LEAST: u32 = (127 - 125) << 23;
    const OTHERS: Option<[u8; 3]> = Some([8, 7, 9]);

    #[inline(always)]
    unsafe fn encode<I: Isa>(all: *mut u8, at: usize, lanes: &[f32; ENCODED]) {
        // SAFETY: the caller's promise.
        unsafe {
            let pairs: [[u8; 2]; ENCODED / 2] = bytemuck::cast(I::narrow_whole(lanes));
            let bytes = pairs.map(|pair| {
                let both = u16::from_le_bytes(pair);
                (both & 0xf | both >> 4 & 0xf0) as u8
            });
            all.add(at / 2).cast::<[u8; ENCODED / 2]>().write(bytes);
        }
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(all: *const u8, at: usize) -> [f32; DECODED] {
        /// The codes of a word.
        const WORD: usize = 8;
        let mut words = [0; DECODED];
        for (at, same) in (at / WORD..).zip(words.chunks_exact_mut(WORD)) {
            // SAFETY: the caller's promise.
            same.fill(u32::from_le(unsafe { all.cast::<u32>().add(at).read_unaligned() }));
        }
        let mut numbers = [0.0; DECODED];
        for lane in 0..DECODED {
            numbers[lane] = ((words[lane] << (28 - 4 * (lane % WORD))) as i32 >> 28) as f32;
        }
        numbers
    }
}

/// Numbers of e4m3: halves without their highest bit of the exponent and their 7 lowest bits. So they are smaller than those
/// of others' e4m3 by 2^8, which the scale makes up for, and processors that convert halves convert them. Encoding rounds
/// to halves first.
pub(super) struct Float;

impl CodeGrid for Float {
    const WIRE: Wire = Wire::Fp8;
    const LARGEST: [f32; 2] = [1.75, 1.625];
    /// 2^-109: the smallest product is then a normal number.
    const LEAST: u32 = (127 - 109) << 23;
    const OTHERS: Option<[u8; 3]> = Some([0x7f, 0x7e, 0xfe]);

    #[inline(always)]
    unsafe fn encode<I: Isa>(all: *mut u8, at: usize, lanes: &[f32; ENCODED]) {
        // SAFETY: the caller's promise.
        unsafe {
            let codes = I::narrow_half(lanes).map(|half| {
                let bits = half.to_bits();
                let rounded = bits + 0x3f + (bits >> 7 & 1);
                (rounded >> 7 & 0x7f | rounded >> 8 & 0x80) as u8
            });
            all.add(at).cast::<[u8; ENCODED]>().write(codes);
        }
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(all: *const u8, at: usize) -> [f32; DECODED] {
        // SAFETY: the caller's promise.
        unsafe {
            let codes = all.add(at).cast::<[i8; DECODED]>().read();
            I::widen_half(&codes.map(|code| f16::from_bits((i16::from(code) << 7) as u16 & 0xbfff)))
        }
    }
}

/// Halves. The largest magnitude becomes one from 2^15 to 65504: a scale is the power of two that this takes, after the
/// magnitude is rounded to a half's 11 bits.
pub(super) struct Half;

impl CodeGrid for Half {
    const WIRE: Wire = Wire::F16;
    const LARGEST: [f32; 2] = [32768.0; 2];
    const OUTERMOST: f32 = 65504.0;
    const ROUNDED: u32 = 0x7f_ffff;
    const HALF: u32 = 0x1000;
    /// 2^-125: the smallest product is then the smallest single.
    const LEAST: u32 = (127 - 125) << 23;
    const OTHERS: Option<[u8; 3]> = None;

    #[inline(always)]
    unsafe fn encode<I: Isa>(all: *mut u8, at: usize, lanes: &[f32; ENCODED]) {
        // SAFETY: the caller's promise.
        unsafe { all.cast::<f16>().add(at).cast::<[f16; ENCODED]>().write_unaligned(I::narrow_half(lanes)) }
    }

    #[inline(always)]
    unsafe fn decode<I: Isa>(all: *const u8, at: usize) -> [f32; DECODED] {
        // SAFETY: the caller's promise.
        unsafe { I::widen_half(&all.cast::<f16>().add(at).cast::<[f16; DECODED]>().read_unaligned()) }
    }
}
