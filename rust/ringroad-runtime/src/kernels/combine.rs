//! Combines several sources into one target in one pass, and writes the result also to where other ranks read it.

use super::copy::{fence, Stores, LINE};
use super::{InstructionSet, ABREAST};
use crate::kernels::dtype::{DType, ReduceOp};
use crate::os::machine::PIECE;
use std::mem::MaybeUninit;

/// Sets `target[i] = sources[0][i] op sources[1][i] op ...`, left to right, for `elements` elements. The result is
/// bit for bit that of a chain of [`reduce`](super::reduce), which rounds after every operation, but in one pass over
/// the memory. A single source is copied. Pointers need no alignment.
///
/// If `also` is given, the result is also written there, by these stores, piece by piece while it is in the
/// first-level cache. With a copy afterwards instead, an allreduce of 1 to 16 MiB between two cores that share the
/// last-level cache takes 1.05 to 1.15 times as long.
///
/// # Panics
/// If there is no source, or the operation does not support the data type.
///
/// # Safety
/// All sources must be readable and `target` writable for `elements * dtype.size()` bytes, none of it written by others
/// meanwhile. `target` must be one of the sources exactly, or overlap none of them; `also` has the same length and
/// overlaps nothing.
pub unsafe fn combine(
    op: ReduceOp,
    dtype: DType,
    target: *mut u8,
    sources: &[*const u8],
    elements: usize,
    also: Option<(*mut u8, Stores)>,
) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().combine(op, dtype, target, sources, elements, also) }
}

/// How many bytes of a [`PIECE`] are combined at a time if the result is also streamed: half of it, so that the next
/// piece of the other sources, which is fetched meanwhile, fits beside it. On two cores that share no cache such sums
/// take 0.8 times as long with that.
const STREAMED: usize = PIECE / 2;
/// The most sources that are fetched ahead: more do not fit beside it.
const AHEAD: usize = 4;

/// Memory for partial results.
#[repr(align(64))]
struct Partial(MaybeUninit<[u8; PIECE]>);

impl InstructionSet {
    /// [`combine`] with this instruction set.
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
        also: Option<(*mut u8, Stores)>,
    ) {
        let size = dtype.size();
        let (first, others) = sources.split_first().expect("no source to combine");
        // SAFETY: the caller's promise.
        unsafe {
            match (others, also) {
                ([], _) => {
                    self.copy(target, *first, elements * size, Stores::Plain);
                    if let Some((also, stores)) = also {
                        self.copy(also, target, elements * size, stores);
                    }
                    return;
                }
                ([other], None) => return self.reduce(op, dtype, target, *first, *other, elements),
                _ => {}
            }
        }
        // Piece by piece, so that what is summed up so far stays in the caches; as many sources at a time as are best added side by side.
        let mut partial = Partial(MaybeUninit::uninit());
        let partial: *mut u8 = partial.0.as_mut_ptr().cast();
        let streamed = matches!(also, Some((_, Stores::Streaming)));
        let piece = if streamed { STREAMED } else { PIECE };
        let mut done = 0;
        while done < elements {
            // SAFETY: the piece is inside what the caller promised; it is written after all sources have been read, and
            // with `count` elements it fits into `partial`.
            unsafe {
                let target = target.add(done * size);
                let also = also.map(|(also, stores)| (also.add(done * size), stores));
                // Every piece but the first begins at a cache line of `also`, if its elements fit evenly in lines.
                let head = also.map_or(0, |(also, _)| also.addr() % LINE);
                let count = ((piece - head) / size).min(elements - done);
                let mut left = first.add(done * size);
                let mut groups = others.chunks(Self::abreast(op, dtype) - 1).peekable();
                while let Some(group) = groups.next() {
                    let to = if groups.peek().is_none() { target } else { partial };
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
                match also {
                    Some((also, Stores::Streaming)) => {
                        let next = done + count;
                        let fetched = if next < elements && others.len() <= AHEAD { others } else { &[] };
                        self.stream(also, target, count * size, (fetched, next * size));
                    }
                    Some((also, Stores::Plain)) => self.copy(also, target, count * size, Stores::Plain),
                    None => {}
                }
                done += count;
            }
        }
        if streamed {
            fence();
        }
    }
}
