//! The loop over the blocks of a chunk, and its versions for each element type, format and instruction set.

use half::{bf16, f16};
use ringroad_core::Wire;

use super::super::block::block;
use super::super::element::{Element, Isa, Portable};
use super::super::instruction_set::{InstructionSet, KernelVersion};
use super::super::op::Add;
use super::codes::{is_rare, Code, RecordBytes, Scaled, Upper};
use super::format::Format;
use super::lanes::{groups, Real};
use super::numbers::{Eight, Float, Four, Half, DECODED};
use crate::kernels::dtype::DType;

/// What is done with a chunk.
pub(super) trait Job {
    /// # Safety
    /// The pointers are as the caller of [`encode`](super::encode) or [`decode`](super::decode) promised, and the machine
    /// has what `I` requires.
    unsafe fn run<I: Isa, E: Real, C: Code>(self);
}

/// The arguments of [`encode`](super::encode).
pub(super) struct Encode {
    pub target: *mut u8,
    pub source: *const u8,
    pub kept: Option<*mut u8>,
    pub elements: usize,
    pub seed: u32,
}

/// The arguments of [`decode`](super::decode).
pub(super) struct Decode {
    pub target: *mut u8,
    pub left: Option<*const u8>,
    pub source: *const u8,
    pub elements: usize,
}

impl Job for Encode {
    #[inline(always)]
    unsafe fn run<I: Isa, E: Real, C: Code>(self) {
        let (whole, rest) = (self.elements / Wire::BLOCK, self.elements % Wire::BLOCK);
        let (source, kept) = (self.source.cast::<E>(), self.kept.map(|kept| kept.cast::<E>()));
        // SAFETY: blocks and records are inside what the caller promised; a block is read before it is written. Each one's
        // scale is found before the one before it is encoded, which hides how long the last steps of that take.
        unsafe {
            let mut scale = if whole > 0 { C::scale::<I, E>(source) } else { 0.0 };
            for at in 0..whole {
                let next = C::scale::<I, E>(source.add((at + 1).min(whole - 1) * Wire::BLOCK));
                let record = self.target.add(at * C::RECORD);
                C::encode::<I, E>(source.add(at * Wire::BLOCK), scale, self.seed, record);
                if let Some(kept) = kept {
                    decode_block::<I, E, C>(kept.add(at * Wire::BLOCK), None, record);
                }
                scale = next;
            }
        }
        if rest > 0 {
            let mut block = [E::zeroed(); Wire::BLOCK];
            let mut record: RecordBytes = [0; _];
            // SAFETY: as above, for the last elements.
            unsafe {
                copy(block.as_mut_ptr(), source.add(whole * Wire::BLOCK), rest);
                C::encode::<I, E>(
                    block.as_ptr(),
                    C::scale::<I, E>(block.as_ptr()),
                    self.seed,
                    record.as_mut_ptr(),
                );
                copy(self.target.add(whole * C::RECORD), record.as_ptr(), C::WIRE.encoded(rest));
                if let Some(kept) = kept {
                    decode_block::<I, E, C>(block.as_mut_ptr(), None, record.as_ptr());
                    copy(kept.add(whole * Wire::BLOCK), block.as_ptr(), rest);
                }
            }
        }
    }
}

impl Job for Decode {
    #[inline(always)]
    unsafe fn run<I: Isa, E: Real, C: Code>(self) {
        let (whole, rest) = (self.elements / Wire::BLOCK, self.elements % Wire::BLOCK);
        let (target, left) = (self.target.cast::<E>(), self.left.map(|left| left.cast::<E>()));
        let mut at = 0;
        while at < whole {
            let first = at * Wire::BLOCK;
            // SAFETY: as in `Encode`.
            unsafe {
                let left = left.map(|left| left.add(first));
                decode_block::<I, E, C>(target.add(first), left, self.source.add(at * C::RECORD));
            }
            at += 1;
        }
        if rest > 0 {
            let first = whole * Wire::BLOCK;
            let mut block = [E::zeroed(); Wire::BLOCK];
            // SAFETY: as in `Encode`.
            unsafe {
                let mut record: RecordBytes = [0; _];
                copy(record.as_mut_ptr(), self.source.add(whole * C::RECORD), C::WIRE.encoded(rest));
                let start = block.as_mut_ptr();
                if let Some(left) = left {
                    copy(start, left.add(first), rest);
                }
                decode_block::<I, E, C>(start, left.map(|_| start.cast_const()), record.as_ptr());
                copy(target.add(first), start, rest);
            }
        }
    }
}

/// # Safety
/// Both must have so many elements, and not overlap.
#[inline(always)]
unsafe fn copy<E: Element>(to: *mut E, from: *const E, elements: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), elements * size_of::<E>()) }
}

/// Decodes a whole record.
///
/// # Safety
/// As [`Job::run`].
#[inline(always)]
unsafe fn decode_block<I: Isa, E: Real, C: Code>(target: *mut E, left: Option<*const E>, record: *const u8) {
    // SAFETY: the caller's promise; groups are inside the block.
    unsafe {
        let scale = C::scale_of(record);
        if !is_rare(scale) {
            C::decode::<I>(
                record,
                scale,
                #[inline(always)]
                |at, lanes| put::<I, E>(target, left, at, E::from_singles::<I, DECODED>(lanes)),
            );
        } else {
            let rare = C::rare(record);
            for at in groups::<DECODED>() {
                let lanes = rare.as_ptr().add(at).cast::<[f64; DECODED]>().read();
                put::<I, E>(target, left, at, E::from_doubles(&lanes));
            }
        }
    }
}

/// Writes a group of a block's elements, after adding those of `left`.
///
/// # Safety
/// As [`Job::run`].
#[inline(always)]
unsafe fn put<I: Isa, E: Real>(
    target: *mut E,
    left: Option<*const E>,
    at: usize,
    mut elements: [E; DECODED],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(left) = left {
            let left = left.add(at).cast::<[E; DECODED]>().read_unaligned();
            elements = block::<I, E, Add, DECODED>(Add, &left, &elements);
        }
        target.add(at).cast::<[E; DECODED]>().write_unaligned(elements);
    }
}

/// Runs the version of the job for these types and this instruction set.
///
/// # Safety
/// The job's pointers are as promised; an `InstructionSet` is one that this machine has.
pub(super) unsafe fn with<J: Job>(set: InstructionSet, format: Format, dtype: DType, job: J) {
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::F16 => with_element::<J, f16>(set, format, job),
            DType::BF16 => with_element::<J, bf16>(set, format, job),
            DType::F32 => with_element::<J, f32>(set, format, job),
            DType::F64 => with_element::<J, f64>(set, format, job),
            other => panic!("{other} is not encoded"),
        }
    }
}

/// # Safety
/// As [`with`].
unsafe fn with_element<J: Job, E: Real>(set: InstructionSet, format: Format, job: J) {
    // SAFETY: the caller's promise.
    unsafe {
        match (format.wire, format.seed) {
            (Wire::Int8, Some(_)) => with_code::<J, E, Scaled<Eight, true>>(set, job),
            (Wire::Int4, Some(_)) => with_code::<J, E, Scaled<Four, true>>(set, job),
            (wire, Some(_)) => panic!("{wire} does not dither"),
            (Wire::Bf16, None) => with_code::<J, E, Upper>(set, job),
            (Wire::F16, None) => with_code::<J, E, Scaled<Half, false>>(set, job),
            (Wire::Fp8, None) => with_code::<J, E, Scaled<Float, false>>(set, job),
            (Wire::Int8, None) => with_code::<J, E, Scaled<Eight, false>>(set, job),
            (Wire::Int4, None) => with_code::<J, E, Scaled<Four, false>>(set, job),
        }
    }
}

/// # Safety
/// As [`with`].
unsafe fn with_code<J: Job, E: Real, C: Code>(set: InstructionSet, job: J) {
    // SAFETY: the caller's promise.
    unsafe {
        match set.0 {
            KernelVersion::Portable => job.run::<Portable, E, C>(),
            #[cfg(target_arch = "x86_64")]
            KernelVersion::Avx2 => x86::avx2::<J, E, C>(job),
            #[cfg(target_arch = "x86_64")]
            KernelVersion::Avx512 => x86::avx512::<J, E, C>(job),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::super::element::{Avx2, Avx512};
    use super::{Code, Job, Real};

    macro_rules! version {
        ($name:ident, $isa:ident, $features:literal) => {
            /// # Safety
            /// As [`super::with`]; the machine must have the features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name<J: Job, E: Real, C: Code>(job: J) {
                // SAFETY: the caller's promise; the features are what the type says.
                unsafe { job.run::<$isa, E, C>() }
            }
        };
    }
    version!(avx2, Avx2, "avx2,f16c");
    version!(avx512, Avx512, "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl");
}
