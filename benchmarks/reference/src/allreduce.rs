//! The sum itself, in the ways that a plain program can do it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::{copy, map};

/// How to do it.
#[derive(Clone, Copy)]
pub struct Way {
    /// Everybody sums everything, else everybody sums its share.
    whole: bool,
    /// Store into the segment past the caches.
    stream: bool,
    /// Store the result past the caches.
    stream_result: bool,
    /// Elements done at once, so that they stay in the caches meanwhile.
    window: usize,
}

const fn shares(stream: bool, stream_result: bool, window: usize) -> Way {
    Way { whole: false, stream, stream_result, window }
}

pub const WAYS: [Way; 11] = [
    Way { whole: true, stream: false, stream_result: false, window: usize::MAX },
    Way { whole: true, stream: true, stream_result: false, window: usize::MAX },
    shares(false, false, usize::MAX),
    shares(true, false, usize::MAX),
    shares(true, true, usize::MAX),
    shares(false, false, 1 << 16),
    shares(true, false, 1 << 16),
    shares(false, true, 1 << 16),
    shares(false, false, 1 << 18),
    shares(true, false, 1 << 18),
    shares(false, true, 1 << 18),
];

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores = |stream| if stream { "streamed" } else { "plain" };
        let (part, (into, result)) =
            (if self.whole { "whole" } else { "shares" }, (self.stream, self.stream_result));
        write!(f, "{part}-{}-{}", stores(into), stores(result))?;
        if self.window < usize::MAX {
            write!(f, "-{}K", self.window >> 8)?;
        }
        Ok(())
    }
}

impl Way {
    /// Whether it is worth a try for vectors of this length.
    pub fn fits(&self, count: usize) -> bool {
        if self.whole {
            count <= Segment::WHOLE
        } else if self.window < usize::MAX {
            // Not in hundreds of pieces: where others use the cores, every barrier may take a time slice.
            count > 2 * self.window && (count <= 64 * self.window || self.window >= 1 << 18)
        } else {
            count >= 1024
        }
    }

    /// Sums into `output`: the others' vectors and `input`, or what is in `output` where there is none.
    pub fn allreduce(&self, segment: &mut Segment, rank: usize, input: Option<&[f32]>, output: &mut [f32]) {
        if self.whole {
            return self.sum_whole(segment, rank, input, output);
        }
        let mut start = 0;
        for piece in output.chunks_mut(self.window.min(output.len())) {
            let end = start + piece.len();
            // Shares of another size lie elsewhere, where somebody may still read.
            let shorter = start > 0 && piece.len() < self.window;
            if shorter {
                segment.meet(rank);
            }
            self.sum_shares(segment, rank, input.map(|all| &all[start..end]), piece);
            if shorter {
                segment.meet(rank);
            }
            start = end;
        }
    }

    fn sum_whole(&self, segment: &mut Segment, rank: usize, input: Option<&[f32]>, output: &mut [f32]) {
        // Two places in turn: who writes the next vector does not disturb those that still read this one.
        let (count, place) = (output.len(), (segment.sequence as usize % 2) * Segment::WHOLE);
        let mine = segment.part(rank, place, count);
        copy(mine, input.unwrap_or(output), self.stream);
        segment.meet(rank);
        let vector = |r: usize| &*segment.part(r, place, count);
        output.copy_from_slice(vector(0));
        (1..segment.ranks).for_each(|r| accumulate(output, vector(r)));
    }

    /// Nobody reads a rank's own share of its vector from the segment, so that the sum of it goes there.
    fn sum_shares(&self, segment: &mut Segment, rank: usize, input: Option<&[f32]>, output: &mut [f32]) {
        let (ranks, count) = (segment.ranks, output.len());
        let share = count.div_ceil(ranks).next_multiple_of(16);
        let bounds = |r: usize| (r * share).min(count)..((r + 1) * share).min(count);
        let others = || (1..ranks).map(|i| (rank + i) % ranks);
        for r in others() {
            let part = bounds(r);
            let source = &input.unwrap_or(output)[part.clone()];
            copy(segment.part(rank, part.start, part.len()), source, self.stream);
        }
        segment.meet(rank);
        let own = bounds(rank);
        let mine = segment.part(rank, own.start, own.len());
        let theirs = |r: usize| &*segment.part(r, own.start, own.len());
        // In blocks that stay in the first cache until all have been added.
        let result = &mut output[own.clone()];
        for start in (0..own.len()).step_by(BLOCK) {
            let block = start..(start + BLOCK).min(own.len());
            let result = &mut result[block.clone()];
            if let Some(input) = input {
                result.copy_from_slice(&input[own.clone()][block.clone()]);
            }
            others().for_each(|r| accumulate(result, &theirs(r)[block.clone()]));
            copy(&mut mine[block], result, self.stream);
        }
        segment.meet(rank);
        for r in others() {
            let part = bounds(r);
            let source = &*segment.part(r, part.start, part.len());
            copy(&mut output[part], source, self.stream_result);
        }
    }
}

const BLOCK: usize = 2048;

fn accumulate(target: &mut [f32], source: &[f32]) {
    target.iter_mut().zip(source).for_each(|(target, value)| *target += value);
}

/// The shared memory: one flag per rank, each on cache lines of its own, then room for one vector per rank.
#[derive(Clone, Copy)]
pub struct Segment {
    ranks: usize,
    start: *mut u8,
    /// Elements from one rank's room to the next one's.
    stride: usize,
    /// How often the ranks have met.
    sequence: u64,
    spins: u32,
}

impl Segment {
    /// Up to how many elements everybody may sum everything.
    const WHOLE: usize = 1 << 17;
    const FLAG_BYTES: usize = 128;
    const ROOM: usize = 1 << 20;

    pub fn new(ranks: usize, max_count: usize) -> Segment {
        // An odd number of lines apart, lest the same elements of all ranks meet in the same set of a cache.
        let stride = max_count.max(2 * Self::WHOLE).next_multiple_of(1024) + 16 * 17;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spins = if ranks > cores { 100 } else { 20_000 };
        Segment { ranks, start: map(Self::ROOM + 4 * ranks * stride, true), stride, sequence: 0, spins }
    }

    fn flag(&self, rank: usize) -> &AtomicU64 {
        // SAFETY: aligned zeroed memory within the segment that is used for nothing else.
        unsafe { &*self.start.add(rank * Self::FLAG_BYTES).cast() }
    }

    /// Elements of a rank's room. The algorithms decide who writes them and when: ranks only read what they do not
    /// write between two barriers.
    #[expect(clippy::mut_from_ref)]
    fn part(&self, rank: usize, start: usize, count: usize) -> &mut [f32] {
        assert!(rank < self.ranks && start + count <= self.stride);
        // SAFETY: within the segment, as just checked; nobody else writes these elements until the next barrier.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.add(Self::ROOM).cast::<f32>().add(rank * self.stride + start),
                count,
            )
        }
    }

    /// Returns when all ranks have come, and what they wrote can be seen.
    pub fn meet(&mut self, rank: usize) {
        self.sequence += 1;
        self.flag(rank).store(self.sequence, Ordering::Release);
        for r in 0..self.ranks {
            let mut spins = 0;
            while self.flag(r).load(Ordering::Acquire) < self.sequence {
                std::hint::spin_loop();
                spins += 1;
                if spins > self.spins {
                    std::thread::yield_now();
                }
            }
        }
    }
}
