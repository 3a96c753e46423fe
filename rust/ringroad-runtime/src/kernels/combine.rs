//! Several sources into one target, written once.

use super::copy::{fence, Stores, LINE};
use super::{InstructionSet, ABREAST};
use crate::dtype::{DType, ReduceOp};
use std::mem::MaybeUninit;

/// Sets `target[i] = sources[0][i] op sources[1][i] op ...`, left to right, for `elements` elements. Bit for bit what a
/// chain of [`reduce`](super::reduce) gives, rounding after every operation, in one pass over the memory; one source is
/// copied. Pointers need no alignment.
///
/// # Panics
/// If there is no source, or the operation does not support the data type.
///
/// # Safety
/// All sources must be readable and `target` writable for `elements * dtype.size()` bytes, none of it written by others
/// meanwhile. `target` must be one of the sources exactly, or overlap none of them.
pub unsafe fn combine(
    op: ReduceOp,
    dtype: DType,
    target: *mut u8,
    sources: &[*const u8],
    elements: usize,
    stores: Stores,
) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().combine(op, dtype, target, sources, elements, stores) }
}

/// Bytes that are combined before going on, so that partial results stay in the first-level cache: this many of them, and
/// as many of a source. On an AMD EPYC of 2024, 4 to 16 KiB are equally fast.
const PIECE: usize = 8192;

/// Where partial results lie.
#[repr(align(64))]
struct Partial(MaybeUninit<[u8; PIECE]>);

impl InstructionSet {
    /// [`combine`] by these instructions.
    ///
    /// # Safety
    /// As [`combine`].
    pub unsafe fn combine(
        self,
        op: ReduceOp,
        dtype: DType,
        target: *mut u8,
        sources: &[*const u8],
        elements: usize,
        stores: Stores,
    ) {
        let size = dtype.size();
        let (first, others) = sources.split_first().expect("no source to combine");
        // SAFETY: the caller's promise.
        unsafe {
            match (others, stores) {
                ([], _) => return self.copy(target, *first, elements * size, stores),
                ([other], Stores::Plain) => return self.reduce(op, dtype, target, *first, *other, elements),
                _ => {}
            }
        }
        let mut partial = Partial(MaybeUninit::uninit());
        let partial: *mut u8 = partial.0.as_mut_ptr().cast();
        let mut done = 0;
        while done < elements {
            // SAFETY: the piece is inside what the caller promised; it is written after all sources have been read, and
            // with `count` elements it fits into `partial`.
            unsafe {
                let target = target.add(done * size);
                // Streamed, every piece but the first begins with a line of the target, if its elements lie evenly in
                // lines; else where the sources' do, which more often begin with one.
                let head = if stores == Stores::Streaming { target.addr() % LINE } else { 0 };
                let count = ((PIECE - head) / size).min(elements - done);
                let result = if stores == Stores::Plain { target } else { partial };
                let mut left = first.add(done * size);
                let mut groups = others.chunks(Self::abreast(op, dtype) - 1).peekable();
                while let Some(group) = groups.next() {
                    let to = if groups.peek().is_none() { result } else { partial };
                    if let [source] = group {
                        self.reduce(op, dtype, to, left, source.add(done * size), count);
                    } else {
                        let mut pointers = [left; ABREAST];
                        for (pointer, source) in pointers[1..].iter_mut().zip(group) {
                            *pointer = source.add(done * size);
                        }
                        self.sum(dtype, to, &pointers[..=group.len()], count);
                    }
                    left = partial;
                }
                if stores == Stores::Streaming {
                    self.stream(target, partial, count * size);
                }
                done += count;
            }
        }
        if stores == Stores::Streaming {
            fence();
        }
    }
}
