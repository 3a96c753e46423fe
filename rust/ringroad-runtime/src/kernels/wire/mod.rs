//! Encodes and decodes the elements of messages in the formats of [`Wire`].
//!
//! [`encode`] can also write the rounded elements, and [`decode`] can add what it decodes to other elements. Any number
//! of elements is a chunk: its last record may be shorter than others. Decoding reads `wire.encoded(elements)` bytes,
//! whatever they are, and writes `elements` elements.
//!
//! Elements of 16 bits are computed with as singles, and a double is rounded to a single first: beyond the range of
//! singles it is infinite. [`scalar`] is the slow twin.

mod codes;
pub mod scalar;

use half::{bf16, f16};
use ringroad_core::Wire;

use super::block::block;
use super::element::{Element, Isa, Portable};
use super::instruction_set::{InstructionSet, Version};
use super::op::{Add, Arithmetic};
use crate::kernels::dtype::DType;
use codes::{Bf16, Block, Code, Eight, Float, Four, Scaled, F16};

/// Whether vectors of this type can be sent in a format.
pub const fn supports(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

/// Encodes `elements` elements. If `kept` is given, what they are decoded to is also written there.
///
/// # Panics
/// If the data type is not [supported](supports).
///
/// # Safety
/// `source` must be readable for `elements * dtype.size()` bytes, `target` writable for `wire.encoded(elements)`, and
/// `kept` writable for as many as `source`, none of it written by others meanwhile. `target` overlaps neither; `kept`
/// is `source` exactly or does not overlap it.
pub unsafe fn encode(
    wire: Wire,
    dtype: DType,
    target: *mut u8,
    source: *const u8,
    kept: Option<*mut u8>,
    elements: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().encode(wire, dtype, target, source, kept, elements) }
}

/// Decodes `elements` elements, and adds them to those of `left`, if that is given.
///
/// # Panics
/// As [`encode`].
///
/// # Safety
/// `source` must be readable for `wire.encoded(elements)` bytes, `left` readable and `target` writable for
/// `elements * dtype.size()`, none of it written by others meanwhile. `source` overlaps neither; `left` is `target`
/// exactly or does not overlap it.
pub unsafe fn decode(
    wire: Wire,
    dtype: DType,
    target: *mut u8,
    left: Option<*const u8>,
    source: *const u8,
    elements: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().decode(wire, dtype, target, left, source, elements) }
}

/// Rounds elements to what they become in a message that begins with the first of them.
///
/// # Panics
/// If the data type is not [supported](supports).
pub fn round(wire: Wire, dtype: DType, elements: &mut [u8]) {
    let mut record = vec![0; wire.encoded(PIECE)];
    for piece in elements.chunks_mut(PIECE * dtype.size()) {
        let (count, start) = (piece.len() / dtype.size(), piece.as_mut_ptr());
        // SAFETY: the piece has so many elements, and the record room for the codes of at least as many; they are
        // borrowed alone.
        unsafe { encode(wire, dtype, record.as_mut_ptr(), start, Some(start), count) }
    }
}

/// The elements that [`round`] encodes at once: whole blocks, whose codes stay in the first-level cache.
const PIECE: usize = 16 * Wire::BLOCK;

/// Calls `$go!(element type, code)` for a data type and a format.
macro_rules! dispatch {
    ($wire:ident, $dtype:ident, $go:ident) => {{
        macro_rules! of_type {
            ($element:ty) => {
                match $wire {
                    Wire::Bf16 => $go!($element, Bf16),
                    Wire::F16 => $go!($element, F16),
                    Wire::Fp8 => $go!($element, Scaled<Float>),
                    Wire::Int8 => $go!($element, Scaled<Eight>),
                    Wire::Int4 => $go!($element, Scaled<Four>),
                }
            };
        }
        match $dtype {
            DType::F16 => of_type!(f16),
            DType::BF16 => of_type!(bf16),
            DType::F32 => of_type!(f32),
            DType::F64 => of_type!(f64),
            other => panic!("{other} is not encoded"),
        }
    }};
}

impl InstructionSet {
    /// [`encode`] with this instruction set.
    ///
    /// # Safety
    /// As [`encode`].
    pub unsafe fn encode(
        self,
        wire: Wire,
        dtype: DType,
        target: *mut u8,
        source: *const u8,
        kept: Option<*mut u8>,
        elements: usize,
    ) {
        macro_rules! go {
            ($element:ty, $code:ty) => {
                // SAFETY: the caller's promise, and an `InstructionSet` is one that this machine has.
                unsafe {
                    match self.0 {
                        Version::Portable => {
                            encode_all::<Portable, $element, $code>(target, source, kept, elements)
                        }
                        #[cfg(target_arch = "x86_64")]
                        _ => x86::encode::<$element, $code>(target, source, kept, elements),
                    }
                }
            };
        }
        dispatch!(wire, dtype, go)
    }

    /// [`decode`] with this instruction set.
    ///
    /// # Safety
    /// As [`decode`].
    pub unsafe fn decode(
        self,
        wire: Wire,
        dtype: DType,
        target: *mut u8,
        left: Option<*const u8>,
        source: *const u8,
        elements: usize,
    ) {
        macro_rules! go {
            ($element:ty, $code:ty) => {
                // SAFETY: as above.
                unsafe {
                    match self.0 {
                        Version::Portable => {
                            decode_all::<Portable, $element, $code>(target, left, source, elements)
                        }
                        #[cfg(target_arch = "x86_64")]
                        _ => x86::decode::<$element, $code>(target, left, source, elements),
                    }
                }
            };
        }
        dispatch!(wire, dtype, go)
    }
}

/// An element of a vector that can be encoded.
trait Real: Element<Lane: Arithmetic> {
    /// # Safety
    /// The machine must have what `I` requires.
    unsafe fn singles<I: Isa>(elements: &[Self; Wire::BLOCK]) -> Block;

    /// # Safety
    /// As [`Real::singles`].
    unsafe fn of_singles<I: Isa>(block: &Block) -> [Self; Wire::BLOCK];
}

macro_rules! of_single_lanes {
    ($($element:ty),*) => {$(
        impl Real for $element {
            #[inline(always)]
            unsafe fn singles<I: Isa>(elements: &[Self; Wire::BLOCK]) -> Block {
                // SAFETY: the caller's promise.
                unsafe { Self::widen::<I, { Wire::BLOCK }>(elements) }
            }

            #[inline(always)]
            unsafe fn of_singles<I: Isa>(block: &Block) -> [Self; Wire::BLOCK] {
                // SAFETY: the caller's promise.
                unsafe { Self::narrow::<I, { Wire::BLOCK }>(block) }
            }
        }
    )*};
}
of_single_lanes!(f16, bf16, f32);

impl Real for f64 {
    #[inline(always)]
    unsafe fn singles<I: Isa>(elements: &[f64; Wire::BLOCK]) -> Block {
        let mut block = [0.0; Wire::BLOCK];
        for lane in 0..Wire::BLOCK {
            block[lane] = elements[lane] as f32;
        }
        block
    }

    #[inline(always)]
    unsafe fn of_singles<I: Isa>(block: &Block) -> [f64; Wire::BLOCK] {
        let mut elements = [0.0; Wire::BLOCK];
        for lane in 0..Wire::BLOCK {
            elements[lane] = f64::from(block[lane]);
        }
        elements
    }
}

/// The elements of `from`, of which there are `count`, and zeros.
///
/// # Safety
/// `from` must be readable for `count` elements, at most a block.
#[inline(always)]
unsafe fn load<E: Element>(from: *const u8, count: usize) -> [E; Wire::BLOCK] {
    let mut block = [E::zeroed(); Wire::BLOCK];
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, block.as_mut_ptr().cast(), count * size_of::<E>()) };
    block
}

/// # Safety
/// `to` must be writable for `count` elements, at most a block.
#[inline(always)]
unsafe fn store<E: Element>(to: *mut u8, block: &[E; Wire::BLOCK], count: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(block.as_ptr().cast(), to, count * size_of::<E>()) }
}

/// Calls `$block!(first element, number of elements)` for each block. The compiler makes two versions of its code: one
/// for whole blocks, whose length it knows.
macro_rules! each_block {
    ($elements:ident, $block:ident) => {{
        let whole = $elements - $elements % Wire::BLOCK;
        let mut at = 0;
        while at < whole {
            $block!(at, Wire::BLOCK);
            at += Wire::BLOCK;
        }
        if at < $elements {
            $block!(at, $elements - at);
        }
    }};
}

/// # Safety
/// As [`encode`]; the machine must have what `I` requires.
#[inline(always)]
unsafe fn encode_all<I: Isa, E: Real, C: Code>(
    target: *mut u8,
    source: *const u8,
    kept: Option<*mut u8>,
    elements: usize,
) {
    macro_rules! block {
        ($at:expr, $count:expr) => {
            // SAFETY: the block and its record are inside what the caller promised; the block is read before it is
            // written.
            unsafe {
                let mut singles = E::singles::<I>(&load(source.add($at * size_of::<E>()), $count));
                let length = C::WIRE.scale() + C::WIRE.codes($count);
                let record = std::slice::from_raw_parts_mut(target.add(C::WIRE.encoded($at)), length);
                C::encode::<I>(&singles, $count, record);
                if let Some(kept) = kept {
                    C::decode::<I>(record, $count, &mut singles);
                    store(kept.add($at * size_of::<E>()), &E::of_singles::<I>(&singles), $count);
                }
            }
        };
    }
    each_block!(elements, block)
}

/// # Safety
/// As [`decode`]; the machine must have what `I` requires.
#[inline(always)]
unsafe fn decode_all<I: Isa, E: Real, C: Code>(
    target: *mut u8,
    left: Option<*const u8>,
    source: *const u8,
    elements: usize,
) {
    macro_rules! block {
        ($at:expr, $count:expr) => {
            // SAFETY: as in `encode_all`.
            unsafe {
                let length = C::WIRE.scale() + C::WIRE.codes($count);
                let record = std::slice::from_raw_parts(source.add(C::WIRE.encoded($at)), length);
                let mut singles = [0.0; Wire::BLOCK];
                C::decode::<I>(record, $count, &mut singles);
                let mut result = E::of_singles::<I>(&singles);
                if let Some(left) = left {
                    let left = load(left.add($at * size_of::<E>()), $count);
                    result = block::<I, E, Add, { Wire::BLOCK }>(Add, &left, &result);
                }
                store(target.add($at * size_of::<E>()), &result, $count);
            }
        };
    }
    each_block!(elements, block)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::element::Avx2;
    use super::{Code, Real};

    /// # Safety
    /// As [`super::encode`]; the machine must have the features.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn encode<E: Real, C: Code>(
        target: *mut u8,
        source: *const u8,
        kept: Option<*mut u8>,
        elements: usize,
    ) {
        // SAFETY: the caller's promise; the features are what the type says.
        unsafe { super::encode_all::<Avx2, E, C>(target, source, kept, elements) }
    }

    /// # Safety
    /// As [`super::decode`]; the machine must have the features.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn decode<E: Real, C: Code>(
        target: *mut u8,
        left: Option<*const u8>,
        source: *const u8,
        elements: usize,
    ) {
        // SAFETY: as above.
        unsafe { super::decode_all::<Avx2, E, C>(target, left, source, elements) }
    }
}
