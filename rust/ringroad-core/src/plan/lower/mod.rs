//! Lowering: makes one rank's plan from a schedule.
//!
//! Every chunk has a *location*, where the rank's current value is, and a *home*, where new values are written. The
//! location is the input at first, and the home after the first write. The home is the chunk's place in the output or,
//! where the output does not contain the chunk, a place in scratch memory. The input is never written, so nothing is
//! copied before a call out of place: the first reduction reads the input and writes the home. A slot that is copied
//! from another slot of the rank shares the location of that slot until either of them is written.

mod local;
mod options;
mod places;
mod streams;
mod wire;

use std::collections::HashMap;
use std::ops::Range;

pub use options::{LocalRanks, LowerError, LowerOptions};
use places::ALIGN;
use streams::{cut, merge, zip, zip_all};
use wire::Encoding;

use super::hazards::Hazards;
use super::{Buffer, Command, Counts, Layout, Plan, PlannedCommand, Sources, Span};
use crate::collective::{Collective, Holding};
use crate::schedule::{Action, ChunkSet, Local, Row, Schedule, Send};
use crate::units::{ChunkId, Rank, Slot};

/// The most messages that one rank may send another within one call. Transports put their numbers into tags.
pub const MAX_MESSAGES: u32 = 1 << 14;

impl Plan {
    /// The plan of `rank` for `schedule`, on blocks of `counts` elements of `element_bytes` bytes: one count for all
    /// blocks (for the whole vector where the collective has no blocks), or one for each block.
    ///
    /// The schedule must be verified: the result of an unverified one is undefined (though the plan is memory-safe).
    pub fn lower<'a>(
        schedule: &Schedule,
        rank: Rank,
        counts: impl Into<Counts<'a>>,
        element_bytes: usize,
        options: &LowerOptions,
    ) -> Result<Plan, LowerError> {
        let Schedule { ranks, collective, .. } = *schedule;
        let counts = counts.into();
        if rank >= ranks {
            return Err(LowerError::NoSuchRank { rank, ranks });
        }
        if let (false, Counts::PerBlock(counts)) = (counts.fits(collective, ranks), counts) {
            return Err(LowerError::Counts { collective, ranks, counts: counts.len() });
        }
        // Beside the vector, scratch memory may contain every slot of all chunks, in an all-to-all also those of other
        // ranks. The estimate assumes one block per rank for every collective.
        let held = 1 + schedule.slots() * (schedule.chunks / schedule.chunks_per_vector().max(1));
        let total = match counts {
            Counts::Equal(elements) => elements.checked_mul(ranks),
            Counts::PerBlock(counts) => counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count)),
        };
        let bytes = total.and_then(|total| total.checked_mul(element_bytes.max(1)));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize / held) {
            return Err(LowerError::TooLarge { elements: counts.block(rank), element_bytes });
        }
        RankLowering::new(schedule, rank, counts, element_bytes, options).run()
    }
}

struct RankLowering<'a> {
    schedule: &'a Schedule,
    layout: Layout,
    rank: Rank,
    element: usize,
    options: LowerOptions,
    slots: usize,
    /// Where the current value of each chunk is, slot after slot; `None` where this rank holds nothing of it.
    locations: Vec<Option<Span>>,
    /// Where each chunk is written, and where results must end, slot after slot; `None` where neither happens.
    homes: Vec<Option<Span>>,
    /// The number, counted from 1, of the last step that writes each chunk, slot after slot; 0 where no step does, and
    /// the largest number where the result is divided after the last step.
    last_written: Vec<usize>,
    operations: Vec<PlannedCommand>,
    waits: Vec<Vec<u32>>,
    sources: Vec<Span>,
    hazards: Hazards,
    /// The pieces that have been packed for sending in this step, and where they are packed.
    packed: HashMap<Vec<Span>, Span>,
    arrivals: u32,
    /// Arrived messages that are locations of chunks until the end of the part.
    kept: Vec<u32>,
    sent: HashMap<Rank, u32>,
    received: HashMap<Rank, u32>,
    window_bytes: usize,
    /// The scratch memory that received messages cycle through before they are reduced. Empty until it is needed.
    window: Range<usize>,
    window_next: usize,
    /// The scratch memory of steps in which chunks both leave and arrive; steps alternate between the two.
    exchange: [Span; 2],
    scratch: usize,
    step: usize,
    /// Into how many parts the vector is cut, which are lowered one after the other.
    parts: usize,
    /// The encoded chunks, where messages have a wire format.
    encoding: Option<Encoding>,
}

/// The most messages between two ranks that cutting the vector into parts may lead to.
const PARTS: usize = 2048;

impl<'a> RankLowering<'a> {
    fn new(
        schedule: &'a Schedule,
        rank: Rank,
        counts: Counts<'_>,
        element: usize,
        options: &LowerOptions,
    ) -> Self {
        let layout = Layout::new(schedule, counts);
        let mut options = options.clone();
        let collective = schedule.collective;
        if options.wire.is_some() {
            // Encoded messages are copied, and short: neither reading them in place nor cutting the vector gains anything.
            (options.local, options.part) = (LocalRanks::default(), usize::MAX);
        }
        options.in_place &=
            collective.input(rank) != Holding::Nothing && collective.output(rank) != Holding::Nothing;
        // Segments are long enough that messages can be numbered, whatever the vector's length and even if all slots go
        // to one rank.
        let most = layout.total() * element / 2048 * schedule.slots();
        options.segment = options.segment.max(most).max(element.max(1));
        options.local.segment = options.local.segment.max(most).max(element.max(1));
        let bytes = layout.total() * element;
        let most = PARTS / (schedule.steps.len() * schedule.slots()).max(1);
        // An all-to-all is not cut: in place, it first copies all its blocks.
        let parts = if collective == Collective::Alltoall {
            1
        } else {
            bytes.div_ceil(options.part.max(1)).clamp(1, most.max(1))
        };
        RankLowering {
            schedule,
            layout,
            rank,
            element,
            options,
            slots: schedule.slots(),
            locations: Vec::new(),
            homes: Vec::new(),
            last_written: Vec::new(),
            operations: Vec::new(),
            waits: Vec::new(),
            sources: Vec::new(),
            hazards: Hazards::default(),
            packed: HashMap::new(),
            arrivals: 0,
            kept: Vec::new(),
            sent: HashMap::new(),
            received: HashMap::new(),
            window_bytes: 0,
            window: 0..0,
            window_next: 0,
            exchange: [Span::new(Buffer::Scratch, 0, 0); 2],
            scratch: 0,
            step: 0,
            parts,
            encoding: None,
        }
    }

    fn run(mut self) -> Result<Plan, LowerError> {
        let rows = self.schedule.rows(self.rank);
        // Where the scratch memory of this part starts, where that of the next part starts, and where all of it ends.
        let (mut begin, mut other, mut end) = (0, None, 0);
        for part in 0..self.parts {
            self.layout.take_part(part, self.parts);
            self.locate(&rows);
            if let Some(wire) = self.options.wire {
                self.place_encoded(&rows, wire);
            }
            self.begin();
            for (index, row) in rows.iter().enumerate() {
                self.step = index;
                self.lower_row(row)?;
            }
            self.finish()?;
            end = self.scratch.max(end);
            if self.options.two_areas {
                // The first part may be slightly smaller than later ones.
                let slack = 2 * Layout::GRAIN * self.element * self.schedule.chunks * self.slots;
                let next = other.unwrap_or((end + slack).next_multiple_of(ALIGN));
                (begin, other) = (next, Some(begin));
            }
            self.scratch = begin;
            (self.window, self.exchange) = (0..0, [Span::new(Buffer::Scratch, 0, 0); 2]);
        }
        self.scratch = end;
        Ok(Plan::new(self.operations, self.waits, self.sources, self.scratch))
    }

    /// Emits what happens to the input before the first step.
    fn begin(&mut self) {
        if self.options.premultiply {
            let moves: Vec<(Span, Span)> =
                self.locations.iter().zip(&self.homes).filter_map(|(l, h)| Some(((*h)?, (*l)?))).collect();
            for (target, source) in merge(moves) {
                self.emit(Command::Premultiply { target, source });
            }
            for (location, home) in self.locations.iter_mut().zip(&self.homes).filter(|(l, _)| l.is_some()) {
                *location = *home;
            }
        } else if self.options.in_place && self.schedule.collective == Collective::Alltoall {
            // Arriving blocks are written where the input is, so the input is copied first.
            let source = Span::new(Buffer::Output, 0, self.layout.input_len(self.rank) * self.element);
            let target = self.allocate(source.bytes);
            self.emit(Command::Copy { target, source });
            for location in self.locations.iter_mut().flatten() {
                *location = Span::new(Buffer::Scratch, target.offset + location.offset, location.bytes);
            }
        }
    }

    fn lower_row(&mut self, row: &Row) -> Result<(), LowerError> {
        self.packed.clear();
        if self.encoding.is_some() {
            self.lower_encoded_row(row)?;
        } else {
            self.lower_messages(row)?;
        }
        let alike = |a: &Local, b: &Local| {
            (a.action, b.action) == (Action::Reduce, Action::Reduce)
                && (a.into, &a.chunks) == (b.into, &b.chunks)
        };
        for locals in row.locals.chunk_by(alike) {
            self.lower_locals(locals)?;
            if self.encoding.is_some() {
                self.note_locals(locals);
            }
        }
        Ok(())
    }

    fn lower_messages(&mut self, row: &Row) -> Result<(), LowerError> {
        // Where a chunk both leaves and arrives in a step, its receive must not wait for its send: the peer may be in
        // the same position, and both would wait for ever. So instead of sharing the window, such a step gets memory
        // for all messages that arrive, which the step before it did not use.
        let exchanges = self.exchanges(row);
        // Sends come first, because they read the values at the start of the step.
        row.sends.iter().try_for_each(|send| self.lower_send(send, row, exchanges))?;
        let mut windows =
            if exchanges { self.exchange_rooms(&row.receives) } else { self.windows(&row.receives) };
        windows.reverse();
        let mut rest = &row.receives[..];
        while let Some(send) = rest.first() {
            let local = self.options.local.has(send.source);
            let (group, others) = rest.split_at(if local { self.together(rest) } else { 1 });
            let window = windows.split_off(windows.len() - group.len()).pop();
            let window = window.expect("there is a window for every message");
            if local {
                self.lower_arrivals(group)?;
            } else {
                self.lower_receive(send, window, exchanges)?;
            }
            rest = others;
        }
        Ok(())
    }

    /// Lowers one send; `row` is all that this rank does in the step.
    fn lower_send(&mut self, send: &Send, row: &Row, exchanges: bool) -> Result<(), LowerError> {
        let local = self.options.local.has(send.destination);
        let stream = self.stream(&send.chunks, |s, c| s.locations[s.at(send.from, c)])?;
        for range in self.messages(&send.chunks, local) {
            let pieces = cut(&stream, &range);
            let (source, stays) = match pieces[..] {
                [] => (Span::new(Buffer::Scratch, 0, 0), false),
                [(_, only)] if !local && !matches!(only.buffer, Buffer::Arrived(_)) => (only, false),
                [(_, only)] if local && self.can_share(only, send, exchanges) => (only, false),
                [(_, only)] if local && self.can_be_copied(only, send, row) => (only, false),
                // Only as many parts as there are areas of scratch memory are sure not to overwrite those of other
                // parts.
                _ => (self.pack(pieces), self.parts <= if self.options.two_areas { 2 } else { 1 }),
            };
            let (peer, port) = (send.destination, send.port);
            let message = count(&mut self.sent, peer)?;
            self.emit(Command::Send { peer, port, message, source, stays });
        }
        Ok(())
    }

    /// Copies pieces side by side into scratch memory, and returns where. Sends of the same pieces in a step share one
    /// copy.
    fn pack(&mut self, pieces: Vec<(usize, Span)>) -> Span {
        let key: Vec<Span> = pieces.iter().map(|(_, span)| *span).collect();
        if let Some(packed) = self.packed.get(&key) {
            return *packed;
        }
        let packed = self.allocate(key.iter().map(|span| span.bytes).sum());
        for (at, source) in pieces {
            let target = packed.part(at, source.bytes);
            if !self.reduce_also(source, target) {
                self.emit(Command::Copy { target, source });
            }
        }
        self.packed.insert(key, packed);
        packed
    }

    fn reduce(&mut self, target: Span, sources: impl Iterator<Item = Span>) {
        let start = self.sources.len();
        self.sources.extend(sources);
        let sources = Sources { start: start as u32, count: (self.sources.len() - start) as u32 };
        self.emit(Command::Reduce { target, sources, also: None });
    }

    /// Lets the reduction that wrote `source` also write `target`, where that has the same effect as a copy; returns
    /// whether it does.
    fn reduce_also(&mut self, source: Span, target: Span) -> bool {
        let Some(number) = self.hazards.writer(source) else { return false };
        // The reduction may only wait for earlier operations, and none of its operands may be in `target`.
        if self.hazards.touched_since(target, number) {
            return false;
        }
        match &mut self.operations[number as usize].command {
            Command::Reduce { target: result, also: also @ None, .. } if *result == source => {
                *also = Some(target);
            }
            _ => return false,
        }
        let waits = &mut self.waits[number as usize];
        self.hazards.write(target, number, waits);
        waits.sort_unstable();
        waits.dedup();
        true
    }

    fn lower_receive(
        &mut self,
        send: &Send,
        window: Range<usize>,
        exchanges: bool,
    ) -> Result<(), LowerError> {
        let slot = send.into;
        self.vacate(slot, &send.chunks);
        let homes = self.stream(&send.chunks, |s, c| s.homes[s.at(slot, c)])?;
        let held = match send.action {
            Action::Copy => Vec::new(),
            Action::Reduce => self.stream(&send.chunks, |s, c| s.locations[s.at(slot, c)])?,
        };
        let mut next = window.start;
        for range in self.messages(&send.chunks, false) {
            let pieces = cut(&homes, &range);
            let direct = send.action == Action::Copy && pieces.len() <= 1 && !exchanges;
            let target = if direct {
                pieces.first().map_or(Span::new(Buffer::Scratch, 0, 0), |(_, span)| *span)
            } else {
                self.staging(&mut next, &window, range.len())
            };
            let (peer, port) = (send.source, send.port);
            let message = count(&mut self.received, peer)?;
            self.emit(Command::Receive { peer, port, message, target });
            match send.action {
                Action::Copy if direct => {}
                Action::Copy => {
                    for (at, home) in pieces {
                        self.emit(Command::Copy { target: home, source: target.part(at, home.bytes) });
                    }
                }
                Action::Reduce => {
                    for (at, home, left) in zip(&pieces, &cut(&held, &range)) {
                        self.reduce(home, [left, target.part(at, home.bytes)].into_iter());
                    }
                }
            }
        }
        self.settle(slot, &send.chunks);
        Ok(())
    }

    /// Lowers local operations: several reductions into one slot become one. A copy only changes the location.
    fn lower_locals(&mut self, locals: &[Local]) -> Result<(), LowerError> {
        let Local { ref chunks, action, into, .. } = locals[0];
        // No other slot may keep sharing this slot's home, whether the home is written or the slot's location changes.
        self.vacate(into, chunks);
        if action == Action::Copy {
            for chunk in chunks.iter() {
                let (source, target) = (self.at(locals[0].from, chunk), self.at(into, chunk));
                self.locations[target] = self.locations[source];
            }
            return Ok(());
        }
        let homes = self.stream(chunks, |s, c| s.homes[s.at(into, c)])?;
        let slots = std::iter::once(into).chain(locals.iter().map(|local| local.from));
        let sources = slots.map(|slot| self.stream(chunks, |s, c| s.locations[s.at(slot, c)]));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        for (target, sources) in zip_all(&homes, &sources) {
            // In segments, as messages are, so that a message can be sent before all is reduced.
            for part in self.segments(target.bytes) {
                let cut = |span: &Span| span.part(part.start, part.len());
                self.reduce(cut(&target), sources.iter().map(cut).collect::<Vec<_>>().into_iter());
            }
        }
        self.settle(into, chunks);
        Ok(())
    }

    fn segments(&self, bytes: usize) -> Vec<Range<usize>> {
        let elements = bytes / self.element.max(1);
        let cuts = bytes.div_ceil(self.options.segment).max(1);
        let at = |i: usize| elements * i / cuts * self.element;
        (0..cuts).map(|i| at(i)..at(i + 1)).collect()
    }

    /// To be called before the homes of these chunks in `slot` are written: moves other slots that share these homes to
    /// homes of their own.
    fn vacate(&mut self, slot: Slot, chunks: &ChunkSet) {
        if self.slots == 1 {
            return;
        }
        let mut moves = Vec::new();
        for other in (0..self.slots).filter(|other| *other != slot) {
            for chunk in chunks.iter() {
                let (shared, place) = (self.homes[self.at(slot, chunk)], self.at(other, chunk));
                if shared.is_some_and(|span| span.bytes > 0) && self.locations[place] == shared {
                    // A slot that shares a place has been copied into, so it has a home.
                    let home = self.homes[place].expect("a slot that is written has a home");
                    moves.push((home, self.locations[place].expect("it is shared")));
                    self.locations[place] = Some(home);
                }
            }
        }
        for (target, source) in merge(moves) {
            self.emit(Command::Copy { target, source });
        }
    }

    /// To be called after the homes of these chunks in `slot` were written: they are the chunks' locations now.
    fn settle(&mut self, slot: Slot, chunks: &ChunkSet) {
        for chunk in chunks.iter() {
            let place = self.at(slot, chunk);
            self.locations[place] = self.homes[place];
        }
    }

    /// Copies results that are not in the output yet to the output, divides them for an average, and releases messages.
    fn finish(&mut self) -> Result<(), LowerError> {
        self.step = self.schedule.steps.len().saturating_sub(1);
        if self.encoding.is_some() {
            self.round_results()?;
        }
        let mut results: Vec<(Span, Span)> = Vec::new();
        for chunk in 0..self.schedule.chunks {
            if self.layout.output_position(self.rank, chunk).is_some() {
                let not_held = LowerError::NotHeld { step: self.step, rank: self.rank, chunk };
                let location = self.locations[chunk].ok_or(not_held)?;
                results.push((self.homes[chunk].expect("every output has a place"), location));
            }
        }
        results.sort_by_key(|(home, _)| home.offset);
        let moves = results.iter().filter(|(home, location)| home != location).copied().collect();
        for (target, source) in merge(moves) {
            self.emit(Command::Copy { target, source });
        }
        if self.options.average {
            // Chunk by chunk, so that each may be divided as soon as it is complete.
            for (home, _) in results.into_iter().filter(|(home, _)| home.bytes > 0) {
                self.emit(Command::Average { target: home });
            }
        }
        for arrival in std::mem::take(&mut self.kept) {
            self.emit(Command::Release { arrival });
        }
        Ok(())
    }

    /// The spans of `chunks` in order, as `(position in the message, span)`; adjacent spans are joined.
    fn stream(
        &self,
        chunks: &ChunkSet,
        place: impl Fn(&Self, ChunkId) -> Option<Span>,
    ) -> Result<Vec<(usize, Span)>, LowerError> {
        let mut stream: Vec<(usize, Span)> = Vec::new();
        let mut at = 0;
        for chunk in chunks.iter() {
            let span =
                place(self, chunk).ok_or(LowerError::NotHeld { step: self.step, rank: self.rank, chunk })?;
            match stream.last_mut() {
                Some((_, last)) if last.buffer == span.buffer && last.end() == span.offset => {
                    last.bytes += span.bytes
                }
                _ if span.bytes == 0 => {}
                _ => stream.push((at, span)),
            }
            at += span.bytes;
        }
        Ok(stream)
    }

    /// How the bytes of `chunks`, in order, are cut into messages; the same on both sides. Empty chunks, which a vector
    /// with fewer elements than chunks has, need no message. A vector without any element is sent in empty messages, so
    /// that ranks wait for each other.
    fn messages(&self, chunks: &ChunkSet, local: bool) -> Vec<Range<usize>> {
        let segment = if local { self.options.local.segment } else { self.options.segment };
        let runs: Vec<usize> =
            chunks.runs().iter().map(|&(s, e)| (s..e).map(|c| self.message_bytes_of(c)).sum()).collect();
        let total: usize = runs.iter().sum();
        if total == 0 && self.layout.total() > 0 {
            return Vec::new();
        }
        let mut messages = Vec::new();
        let mut start = 0;
        let mut end = 0;
        for run in runs {
            end += run;
            if end - start > self.options.pack || end == total {
                let elements = (end - start) / self.element.max(1);
                let cuts = (end - start).div_ceil(segment).max(1);
                let at = |i: usize| start + elements * i / cuts * self.element;
                match self.encoding {
                    None => messages.extend((0..cuts).map(|i| at(i)..at(i + 1))),
                    Some(_) => messages.extend(self.cut_between_records(chunks, start..end, cuts)),
                }
                start = end;
            }
            if end == total {
                break;
            }
        }
        messages
    }

    /// Appends an operation that waits for the operations that touched its operands before.
    fn emit(&mut self, command: Command) {
        let number = self.operations.len() as u32;
        let mut waits = Vec::new();
        let (source, write) = match command {
            Command::Send { source, .. } => (Some(source), None),
            Command::Receive { target, .. } | Command::Average { target } => (None, Some(target)),
            Command::Expect { arrival, bytes, .. } => {
                (None, Some(Span::new(Buffer::Arrived(arrival), 0, bytes)))
            }
            // A release waits for all operations that read the message, whatever its length.
            Command::Release { arrival } => (None, Some(Span::new(Buffer::Arrived(arrival), 0, usize::MAX))),
            Command::Reduce { target, .. } => (None, Some(target)),
            Command::Encode { target, source, .. } => (Some(source), Some(target)),
            Command::Decode { target, source, .. } => (Some(source), Some(target)),
            Command::Copy { target, source } | Command::Premultiply { target, source } => {
                (Some(source), Some(target))
            }
        };
        source.into_iter().for_each(|span| self.hazards.read(span, number, &mut waits));
        if let Command::Reduce { sources: Sources { start, count }, .. } = command {
            let sources = &self.sources[start as usize..(start + count) as usize];
            sources.iter().for_each(|span| self.hazards.read(*span, number, &mut waits));
        }
        let (left, kept) = match command {
            Command::Encode { kept, .. } => (None, kept),
            Command::Decode { left, .. } => (left, None),
            _ => (None, None),
        };
        left.into_iter().for_each(|span| self.hazards.read(span, number, &mut waits));
        write.into_iter().chain(kept).for_each(|span| self.hazards.write(span, number, &mut waits));
        waits.sort_unstable();
        waits.dedup();
        self.operations.push(PlannedCommand { command, step: self.step as u32 });
        self.waits.push(waits);
    }
}

/// The number of the next message to or from `peer`.
fn count(counts: &mut HashMap<Rank, u32>, peer: Rank) -> Result<u32, LowerError> {
    let next = counts.entry(peer).or_default();
    let message = *next;
    *next += 1;
    if message >= MAX_MESSAGES {
        return Err(LowerError::TooManyMessages { peer });
    }
    Ok(message)
}
