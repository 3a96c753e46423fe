//! Encodes and decodes the elements of messages in the formats of [`Wire`].
//!
//! [`encode`] can also write the rounded elements, and [`decode`] can add what it decodes to other elements. Any number
//! of elements is a chunk: its last record may be shorter than others. Decoding reads `wire.encoded(elements)` bytes,
//! whatever they are, and writes `elements` elements.
//!
//! Elements of 16 bits are computed with as singles, and so are doubles, after rounding, unless a block's scale is beyond
//! the range of singles. [`scalar`] is the slow twin.

mod codes;
mod format;
mod lanes;
mod numbers;
mod run;
pub mod scalar;

use ringroad_core::Wire;

use super::instruction_set::InstructionSet;
use crate::kernels::dtype::DType;
pub use format::{dithers, Format};
use run::{Decode, Encode};

/// Whether vectors of this type can be sent in a format.
pub const fn supports(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

/// Encodes `elements` elements. If `kept` is given, what they are decoded to is also written there.
///
/// # Panics
/// If the data type is not [supported](supports), or there is a seed and the format does not [dither](dithers).
///
/// # Safety
/// `source` must be readable for `elements * dtype.size()` bytes, `target` writable for `wire.encoded(elements)`, and
/// `kept` writable for as many as `source`, none of it written by others meanwhile. `target` overlaps neither; `kept`
/// is `source` exactly or does not overlap it.
pub unsafe fn encode(
    format: impl Into<Format>,
    dtype: DType,
    target: *mut u8,
    source: *const u8,
    kept: Option<*mut u8>,
    elements: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().encode(format, dtype, target, source, kept, elements) }
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

impl InstructionSet {
    /// [`encode`] with this instruction set.
    ///
    /// # Safety
    /// As [`encode`].
    pub unsafe fn encode(
        self,
        format: impl Into<Format>,
        dtype: DType,
        target: *mut u8,
        source: *const u8,
        kept: Option<*mut u8>,
        elements: usize,
    ) {
        let format = format.into();
        let seed = format.seed.unwrap_or_default();
        // SAFETY: the caller's promise.
        unsafe { run::with(self, format, dtype, Encode { target, source, kept, elements, seed }) }
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
        // SAFETY: the caller's promise.
        unsafe { run::with(self, wire.into(), dtype, Decode { target, left, source, elements }) }
    }
}
