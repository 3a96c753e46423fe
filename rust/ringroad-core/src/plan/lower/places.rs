//! Where chunks are in memory, and where messages are received.

use std::ops::Range;

use super::RankLowering;
use crate::plan::{Buffer, Span};
use crate::schedule::{Action, Row, Send};
use crate::units::{ChunkId, Slot};

/// Scratch ranges start at multiples of this many bytes, a cache line, from the start of scratch memory.
pub(super) const ALIGN: usize = 64;

impl RankLowering<'_> {
    pub(super) fn bytes_of(&self, chunk: ChunkId) -> usize {
        self.layout.chunk_len(chunk) * self.element
    }

    /// The bytes of a chunk in a message.
    pub(super) fn message_bytes_of(&self, chunk: ChunkId) -> usize {
        match self.encoding {
            None => self.bytes_of(chunk),
            Some(_) => self.encoded_bytes_of(chunk),
        }
    }

    /// The index of a chunk's slot in `locations` and `homes`.
    pub(super) fn at(&self, slot: Slot, chunk: ChunkId) -> usize {
        slot * self.schedule.chunks + chunk
    }

    pub(super) fn allocate(&mut self, bytes: usize) -> Span {
        let offset = self.scratch.next_multiple_of(ALIGN);
        self.scratch = offset + bytes;
        Span::new(Buffer::Scratch, offset, bytes)
    }

    /// Finds the initial location and the home of every chunk.
    pub(super) fn locate(&mut self, rows: &[Row]) {
        let chunks = self.schedule.chunks;
        let (input_shift, output_shift) =
            if self.options.in_place { self.layout.in_place_shift(self.rank) } else { (0, 0) };
        let input = if self.options.in_place { Buffer::Output } else { Buffer::Input };
        let span =
            |buffer, position: usize, chunk| Span::new(buffer, position * self.element, self.bytes_of(chunk));
        let locations = (0..chunks).map(|c| {
            self.layout.input_position(self.rank, c).map(|position| span(input, position + input_shift, c))
        });
        let homes = (0..chunks).map(|c| {
            let position = self.layout.output_position(self.rank, c);
            position.map(|position| span(Buffer::Output, position + output_shift, c))
        });
        (self.locations, self.homes) = (locations.collect(), homes.collect());
        self.locations.resize(self.slots * chunks, None);
        self.homes.resize(self.slots * chunks, None);
        let mut written = vec![false; self.slots * chunks];
        written[..chunks].fill(self.options.premultiply);
        let mut last = vec![0; self.slots * chunks];
        for (step, row) in rows.iter().enumerate() {
            let received = row.receives.iter().map(|send| (send.into, &send.chunks));
            for (slot, set) in received.chain(row.locals.iter().map(|local| (local.into, &local.chunks))) {
                for place in set.iter().map(|chunk| self.at(slot, chunk)) {
                    (written[place], last[place]) = (true, step + 1);
                }
            }
        }
        if self.options.average {
            // The division of an average writes the result once more.
            last[..chunks].fill(usize::MAX);
        }
        self.last_written = last;
        for place in (0..written.len()).filter(|place| written[*place]) {
            if self.homes[place].is_none() {
                // Side by side, without alignment, so that neighbouring chunks stay contiguous.
                let home = Span::new(Buffer::Scratch, self.scratch, self.bytes_of(place % chunks));
                self.scratch += home.bytes;
                self.homes[place] = Some(home);
            }
        }
        self.window_bytes = self.window_bytes(rows);
    }

    /// How many bytes the window needs.
    fn window_bytes(&self, rows: &[Row]) -> usize {
        let reduced = |s: &&Send| s.action == Action::Reduce && !self.options.local.has(s.source);
        let arriving = rows.iter().flat_map(|row| row.receives.iter().filter(reduced));
        let bytes: usize = arriving.map(|send| self.staged(send)).sum();
        bytes.min(self.options.window.max(self.options.segment))
    }

    /// The most scratch memory that receiving `send` takes, in bytes: every message starts at a cache line.
    pub(super) fn staged(&self, send: &Send) -> usize {
        if self.options.local.has(send.source) {
            return 0;
        }
        self.messages(&send.chunks, false).iter().map(|m| m.len().next_multiple_of(ALIGN)).sum()
    }

    /// Whether in this step a chunk arrives in memory from which the rank sends: in the slot that is sent, or in one
    /// that shares its place.
    pub(super) fn exchanges(&self, row: &Row) -> bool {
        let same = |out: &Send, s: &Send, chunk| {
            let (from, into) = (self.locations[self.at(out.from, chunk)], self.homes[self.at(s.into, chunk)]);
            from == into && from.is_some_and(|span| span.bytes > 0)
        };
        row.sends.iter().any(|out| {
            let mut meeting = row.receives.iter().filter(|s| s.chunks.overlaps(&out.chunks));
            meeting.any(|s| {
                out.chunks.iter().filter(|chunk| s.chunks.contains(*chunk)).any(|chunk| same(out, s, chunk))
            })
        })
    }

    /// For each message, a part of the exchange area that the last such step did not use.
    pub(super) fn exchange_rooms(&mut self, arriving: &[Send]) -> Vec<Range<usize>> {
        self.exchange.swap(0, 1);
        let bytes = arriving.iter().map(|send| self.staged(send)).sum();
        if self.exchange[0].bytes < bytes {
            self.exchange[0] = self.allocate(bytes);
        }
        let mut end = self.exchange[0].offset;
        let room = |send: &Send| {
            let start = end;
            end += self.staged(send);
            start..end
        };
        arriving.iter().map(room).collect()
    }

    /// Where the next message of `bytes` bytes is received: at `next` within the window, or at its start, or in memory of
    /// its own if it is longer.
    pub(super) fn staging(&mut self, next: &mut usize, window: &Range<usize>, bytes: usize) -> Span {
        if bytes > window.len() {
            return self.allocate(bytes);
        }
        if *next + bytes > window.end {
            *next = window.start;
        }
        let slot = Span::new(Buffer::Scratch, *next, bytes);
        *next = (*next + bytes).next_multiple_of(ALIGN);
        slot
    }

    /// For each message to be reduced, a part of the window: one after the other where all fit, otherwise equal shares.
    pub(super) fn windows(&mut self, arriving: &[Send]) -> Vec<Range<usize>> {
        // Messages that are copied are received at their homes, or in memory of their own.
        let size = |s: &Send| if s.action == Action::Reduce { self.staged(s) } else { 0 };
        let sizes: Vec<usize> = arriving.iter().map(size).collect();
        let total: usize = sizes.iter().sum();
        if total > 0 && self.window.is_empty() {
            let window = self.allocate(self.window_bytes);
            (self.window, self.window_next) = (window.offset..window.end(), window.offset);
        }
        let reduced = sizes.iter().filter(|s| **s > 0).count();
        let share = self.window.len() / reduced.max(1) / ALIGN * ALIGN;
        let fits = total <= self.window.len();
        if fits && self.window_next + total > self.window.end {
            self.window_next = self.window.start;
        }
        let mut next = if fits { self.window_next } else { self.window.start };
        let windows = sizes
            .into_iter()
            .map(|size| {
                let start = next;
                next += if fits || size == 0 { size } else { share };
                start..next
            })
            .collect();
        if fits {
            self.window_next = next;
        }
        windows
    }
}
