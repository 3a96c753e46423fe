//! The loop over the blocks of a chunk, and its versions for each element type, format and instruction set.

use half::{bf16, f16};
use ringroad_core::Wire;

use super::super::block::block;
use super::super::element::{Element, Isa, Portable};
use super::super::instruction_set::{InstructionSet, Version};
use super::super::op::{Add, Arithmetic};
use super::codes::{groups, Code, Lanes, Record, Scaled, F16, LANES};
use super::numbers::{Bf16, Dithered, Eight, Float, Four};
use super::Format;
use crate::kernels::dtype::DType;

/// An element of a vector that can be encoded.
pub(super) trait Real: Element<Lane: Arithmetic> {
    /// # Safety
    /// The machine must have what `I` requires.
    unsafe fn singles<I: Isa>(elements: &[Self; LANES]) -> Lanes;

    /// # Safety
    /// As [`Real::singles`].
    unsafe fn of_singles<I: Isa>(lanes: &Lanes) -> [Self; LANES];
}

macro_rules! of_single_lanes {
    ($($element:ty),*) => {$(
        impl Real for $element {
            #[inline(always)]
            unsafe fn singles<I: Isa>(elements: &[Self; LANES]) -> Lanes {
                // SAFETY: the caller's promise.
                unsafe { Self::widen::<I, LANES>(elements) }
            }

            #[inline(always)]
            unsafe fn of_singles<I: Isa>(lanes: &Lanes) -> [Self; LANES] {
                // SAFETY: the caller's promise.
                unsafe { Self::narrow::<I, LANES>(lanes) }
            }
        }
    )*};
}
of_single_lanes!(f16, bf16, f32);

impl Real for f64 {
    #[inline(always)]
    unsafe fn singles<I: Isa>(elements: &[f64; LANES]) -> Lanes {
        let mut lanes = [0.0; LANES];
        for lane in 0..LANES {
            lanes[lane] = elements[lane] as f32;
        }
        lanes
    }

    #[inline(always)]
    unsafe fn of_singles<I: Isa>(lanes: &Lanes) -> [f64; LANES] {
        let mut elements = [0.0; LANES];
        for lane in 0..LANES {
            elements[lane] = f64::from(lanes[lane]);
        }
        elements
    }
}

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
            let mut record: Record = [0; _];
            // SAFETY: as above, for the last elements.
            unsafe {
                copy(block.as_mut_ptr(), source.add(whole * Wire::BLOCK), rest);
                C::encode::<I, E>(
                    block.as_ptr(),
                    C::scale::<I, E>(block.as_ptr()),
                    self.seed,
                    record.as_mut_ptr(),
                );
                let bytes = C::WIRE.encoded(rest);
                let last = std::slice::from_raw_parts_mut(self.target.add(whole * C::RECORD), bytes);
                C::trim(&record, rest, last);
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
                let last = self.source.add(whole * C::RECORD);
                let record = C::extend(std::slice::from_raw_parts(last, C::WIRE.encoded(rest)), rest);
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
        if scale.is_sign_positive() {
            C::decode::<I>(
                record,
                scale,
                #[inline(always)]
                |at, lanes| put::<I, E>(target, left, at, lanes),
            );
        } else {
            let others = C::others(record);
            for at in groups(Wire::BLOCK) {
                let lanes = others.as_ptr().add(at).cast::<Lanes>().read();
                put::<I, E>(target, left, at, &lanes);
            }
        }
    }
}

/// Writes a group of a block's elements, after adding those of `left`.
///
/// # Safety
/// As [`Job::run`].
#[inline(always)]
unsafe fn put<I: Isa, E: Real>(target: *mut E, left: Option<*const E>, at: usize, lanes: &Lanes) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut elements = E::of_singles::<I>(lanes);
        if let Some(left) = left {
            let left = left.add(at).cast::<[E; LANES]>().read_unaligned();
            elements = block::<I, E, Add, LANES>(Add, &left, &elements);
        }
        target.add(at).cast::<[E; LANES]>().write_unaligned(elements);
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
            (Wire::Int8, Some(_)) => with_code::<J, E, Scaled<Dithered<Eight>>>(set, job),
            (Wire::Int4, Some(_)) => with_code::<J, E, Scaled<Dithered<Four>>>(set, job),
            (wire, Some(_)) => panic!("{wire} does not dither"),
            (Wire::Bf16, None) => with_code::<J, E, Bf16>(set, job),
            (Wire::F16, None) => with_code::<J, E, F16>(set, job),
            (Wire::Fp8, None) => with_code::<J, E, Scaled<Float>>(set, job),
            (Wire::Int8, None) => with_code::<J, E, Scaled<Eight>>(set, job),
            (Wire::Int4, None) => with_code::<J, E, Scaled<Four>>(set, job),
        }
    }
}

/// # Safety
/// As [`with`].
unsafe fn with_code<J: Job, E: Real, C: Code>(set: InstructionSet, job: J) {
    // SAFETY: the caller's promise.
    unsafe {
        match set.0 {
            Version::Portable => job.run::<Portable, E, C>(),
            #[cfg(target_arch = "x86_64")]
            Version::Avx2 => x86::avx2::<J, E, C>(job),
            #[cfg(target_arch = "x86_64")]
            Version::Avx512 => x86::avx512::<J, E, C>(job),
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
