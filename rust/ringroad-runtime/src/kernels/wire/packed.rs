//! Codes of fewer than 32 bits, put together to words lane by lane.

use ringroad_core::Wire;

use super::super::element::Isa;
use super::codes::{groups, singles, Lanes, LANES};
use super::numbers::key;
use super::run::Real;

/// Codes of `BITS` bits that are put together to words of 32. Of `w` words, the first has the codes of the elements 0, `w`,
/// `2 * w` and so on, from its lowest bits on.
pub(super) trait Packed {
    const BITS: usize;
    const WORDS: usize = Wire::BLOCK * Self::BITS / 32;
    const MASK: u32 = (1 << Self::BITS) - 1;

    /// By what numbers are multiplied while their codes are sought.
    const UNIT: f32 = 1.0;

    /// The code of the number nearest to `x / scale`, among equally near ones of the even one, where `inverse` is
    /// `UNIT / scale`. It has any higher bits. The key is for those that dither.
    fn code(x: f32, inverse: f32, key: u32) -> u32;

    /// The number of the code in the highest bits, multiplied by `scale`. The other bits are any.
    fn number(code: u32, scale: f32) -> f32;

    /// # Safety
    /// `block` must be readable for a whole block, `codes` writable for its codes, and the machine have what `I` requires.
    #[inline(always)]
    unsafe fn pack<I: Isa, E: Real>(block: *const E, inverse: f32, seed: u32, codes: *mut u8) {
        for at in groups(Self::WORDS) {
            let mut words = [0; LANES];
            for slot in 0..32 / Self::BITS {
                let first = slot * Self::WORDS + at;
                // SAFETY: the caller's promise; the group is inside the block.
                let lanes = unsafe { singles::<I, E>(block, first) };
                for lane in 0..LANES {
                    let code = Self::code(lanes[lane], inverse, key(seed, first + lane));
                    words[lane] |= (code & Self::MASK) << (slot * Self::BITS);
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
