//! Messages in a wire format (see [`crate::wire`]): chunks are encoded before they are sent, and decoded when they have
//! arrived.

use std::ops::Range;

use super::streams::cut;
use super::{count, LowerError, RankLowering};
use crate::plan::{Buffer, Command, Span};
use crate::schedule::{Action, ChunkSet, Local, Row, Send};
use crate::units::{ChunkId, Slot};
use crate::wire::Wire;

/// What lowering knows of the encoded chunks, slot after slot.
pub(super) struct Encoding {
    wire: Wire,
    /// The place in scratch memory for a chunk's encoded bytes; `None` where this rank neither sends nor copies it.
    places: Vec<Option<Span>>,
    /// Where the encoded bytes of the chunk's current value are, if they are anywhere.
    current: Vec<Option<Span>>,
    /// Whether the chunk's current value is one that decoding returns.
    rounded: Vec<bool>,
    /// The moments at which a step reads (`true`) or replaces the chunk's elements, in order: see [`moment`].
    uses: Vec<Vec<(usize, bool)>>,
}

/// When the messages of a step arrive, and after that when its local operations take place.
fn moment(step: usize, local: bool) -> usize {
    2 * step + usize::from(local)
}

/// A part of a chunk: its encoded bytes, counted from the start of the chunk.
type EncodedPart = (ChunkId, Range<usize>);

impl RankLowering<'_> {
    /// Finds the places of the encoded chunks, side by side.
    pub(super) fn place_encoded(&mut self, rows: &[Row], wire: Wire) {
        let all = self.slots * self.schedule.chunks;
        let mut uses = vec![Vec::new(); all];
        let mut touched = vec![false; all];
        for (step, row) in rows.iter().enumerate() {
            for send in &row.sends {
                send.chunks.iter().for_each(|chunk| touched[self.at(send.from, chunk)] = true);
            }
            for send in &row.receives {
                for place in send.chunks.iter().map(|chunk| self.at(send.into, chunk)) {
                    touched[place] |= send.action == Action::Copy;
                    uses[place].push((moment(step, false), send.action == Action::Reduce));
                }
            }
            for local in &row.locals {
                for chunk in local.chunks.iter() {
                    uses[self.at(local.from, chunk)].push((moment(step, true), true));
                    let reads = local.action == Action::Reduce;
                    uses[self.at(local.into, chunk)].push((moment(step, true), reads));
                }
            }
        }
        self.scratch = self.allocate(0).offset;
        let mut places = vec![None; all];
        for index in (0..all).filter(|index| touched[*index]) {
            let bytes = wire.encoded(self.layout.chunk_len(index % self.schedule.chunks));
            places[index] = Some(Span::new(Buffer::Scratch, self.scratch, bytes));
            self.scratch += bytes;
        }
        let (current, rounded) = (vec![None; all], vec![false; all]);
        self.encoding = Some(Encoding { wire, places, current, rounded, uses });
    }

    fn encoding(&mut self) -> &mut Encoding {
        self.encoding.as_mut().expect("there is a wire format")
    }

    /// As [`RankLowering::lower_row`], with encoded messages.
    pub(super) fn lower_encoded_row(&mut self, row: &Row) -> Result<(), LowerError> {
        row.sends.iter().try_for_each(|send| self.lower_encoded_send(send))?;
        let windows = self.windows(&row.receives);
        for (send, window) in row.receives.iter().zip(windows) {
            let leaves = |out: &Send| out.from == send.into && out.chunks.overlaps(&send.chunks);
            let exchanges = row.sends.iter().any(leaves);
            self.lower_encoded_receive(send, window, exchanges)?;
        }
        Ok(())
    }

    /// Notes that local operations have replaced the values of these chunks.
    pub(super) fn note_locals(&mut self, locals: &[Local]) {
        for local in locals {
            for chunk in local.chunks.iter() {
                let (from, into) = (self.at(local.from, chunk), self.at(local.into, chunk));
                let encoding = self.encoding();
                encoding.current[into] = None;
                encoding.rounded[into] = local.action == Action::Copy && encoding.rounded[from];
            }
        }
    }

    fn lower_encoded_send(&mut self, send: &Send) -> Result<(), LowerError> {
        let from = send.from;
        let is_fresh = |s: &mut Self, chunk: &ChunkId| {
            let place = s.at(from, *chunk);
            s.encoding().current[place].is_none()
        };
        let fresh: ChunkSet = send.chunks.iter().filter(|chunk| is_fresh(self, chunk)).collect();
        let is_kept = |s: &mut Self, chunk: &ChunkId| {
            let place = s.at(from, *chunk);
            !s.encoding().rounded[place] && s.is_used(from, *chunk, moment(s.step, false))
        };
        let kept: ChunkSet = fresh.iter().filter(|chunk| is_kept(self, chunk)).collect();
        if !kept.is_empty() {
            self.vacate(from, &kept);
        }
        let stream = self.stream(&send.chunks, |s, c| s.encoded(from, c))?;
        for range in self.messages(&send.chunks, false) {
            for (chunk, part) in self.parts(&send.chunks, &range) {
                if fresh.contains(chunk) {
                    self.encode(from, chunk, &part, kept.contains(chunk))?;
                }
            }
            let pieces = cut(&stream, &range);
            let source = match pieces[..] {
                [] => Span::new(Buffer::Scratch, 0, 0),
                [(_, only)] => only,
                _ => self.pack(pieces),
            };
            let (peer, port) = (send.destination, send.port);
            let message = count(&mut self.sent, peer)?;
            self.emit(Command::Send { peer, port, message, source, stays: false });
        }
        for chunk in fresh.iter() {
            let place = self.at(from, chunk);
            let encoding = self.encoding();
            encoding.current[place] = encoding.places[place];
            if kept.contains(chunk) && self.homes[place].is_some() {
                self.encoding().rounded[place] = true;
                self.locations[place] = self.homes[place];
            }
        }
        Ok(())
    }

    /// Encodes a part of a chunk to its place, and writes the rounded elements to its home if they are kept.
    fn encode(
        &mut self,
        slot: Slot,
        chunk: ChunkId,
        part: &Range<usize>,
        kept: bool,
    ) -> Result<(), LowerError> {
        let place = self.at(slot, chunk);
        let location = self.held(slot, chunk)?;
        let source = self.elements_of(location, chunk, part);
        let home = self.homes[place].filter(|_| kept);
        let kept = home.map(|home| self.elements_of(home, chunk, part));
        let target = self.encoding().places[place].expect("what is sent has a place");
        self.emit(Command::Encode { target: target.part(part.start, part.len()), source, kept });
        Ok(())
    }

    /// `exchanges`: whether this rank sends what is replaced, in the same step.
    fn lower_encoded_receive(
        &mut self,
        send: &Send,
        window: Range<usize>,
        exchanges: bool,
    ) -> Result<(), LowerError> {
        let Send { ref chunks, into: slot, action, .. } = *send;
        self.vacate(slot, chunks);
        let (peer, port) = (send.source, send.port);
        let mut next = window.start;
        // Bytes that arrive before the old ones have left need memory of their own.
        let all = self.encoded_bytes(chunks);
        let area = (action == Action::Copy && exchanges).then(|| self.allocate(all));
        let places = match (action, area) {
            (Action::Reduce, _) => Vec::new(),
            (Action::Copy, Some(area)) => vec![(0, area)],
            (Action::Copy, None) => self.stream(chunks, |s, c| s.encoding.as_ref()?.places[s.at(slot, c)])?,
        };
        for range in self.messages(chunks, false) {
            let message = count(&mut self.received, peer)?;
            let pieces = cut(&places, &range);
            let target = match (action, &pieces[..]) {
                (Action::Reduce, _) => self.staging(&mut next, &window, range.len()),
                (Action::Copy, []) => Span::new(Buffer::Scratch, 0, 0),
                (Action::Copy, [(_, only)]) => *only,
                (Action::Copy, _) => self.allocate(range.len()),
            };
            self.emit(Command::Receive { peer, port, message, target });
            if pieces.len() > 1 {
                for (at, place) in pieces {
                    self.emit(Command::Copy { target: place, source: target.part(at, place.bytes) });
                }
            }
            let mut at = 0;
            for (chunk, part) in self.parts(chunks, &range) {
                let source = target.part(at, part.len());
                at += part.len();
                self.decode(slot, chunk, &part, source, action)?;
            }
        }
        let mut at = 0;
        for chunk in chunks.iter() {
            let (place, bytes) = (self.at(slot, chunk), self.encoded_bytes_of(chunk));
            let encoding = self.encoding();
            let whole = area.map(|area| area.part(at, bytes)).or(encoding.places[place]);
            encoding.current[place] = whole.filter(|_| action == Action::Copy);
            encoding.rounded[place] = action == Action::Copy;
            at += bytes;
        }
        self.settle(slot, chunks);
        Ok(())
    }

    /// Decodes a part of a chunk to its home, or adds it to the chunk, unless nothing reads the elements.
    fn decode(
        &mut self,
        slot: Slot,
        chunk: ChunkId,
        part: &Range<usize>,
        source: Span,
        action: Action,
    ) -> Result<(), LowerError> {
        if action == Action::Copy && !self.is_used(slot, chunk, moment(self.step, true)) {
            return Ok(());
        }
        let not_held = LowerError::NotHeld { step: self.step, rank: self.rank, chunk };
        let home = self.homes[self.at(slot, chunk)].ok_or(not_held)?;
        let target = self.elements_of(home, chunk, part);
        let left = match action {
            Action::Copy => None,
            Action::Reduce => {
                let location = self.held(slot, chunk)?;
                Some(self.elements_of(location, chunk, part))
            }
        };
        self.emit(Command::Decode { target, left, source });
        Ok(())
    }

    /// Rounds the results that other ranks have, too, unless they are rounded: where a rank has sent or received them.
    pub(super) fn round_results(&mut self) -> Result<(), LowerError> {
        if !self.schedule.collective.is_replicated() || self.schedule.steps.is_empty() {
            return Ok(());
        }
        for chunk in 0..self.schedule.chunks {
            let bytes = self.encoded_bytes_of(chunk);
            let is_result = self.layout.output_position(self.rank, chunk).is_some();
            if !is_result || bytes == 0 || self.encoding().rounded[chunk] {
                continue;
            }
            if self.encoding().places[chunk].is_none() {
                let place = self.allocate(bytes);
                self.encoding().places[chunk] = Some(place);
            }
            self.encode(0, chunk, &(0..bytes), true)?;
            self.locations[chunk] = self.homes[chunk];
        }
        Ok(())
    }

    /// Whether anything reads the elements of the chunk's current value from `now` on.
    fn is_used(&self, slot: Slot, chunk: ChunkId, now: usize) -> bool {
        let encoding = self.encoding.as_ref().expect("there is a wire format");
        let uses = &encoding.uses[self.at(slot, chunk)];
        match uses.get(uses.partition_point(|(when, _)| *when < now)) {
            Some((_, reads)) => *reads,
            None => slot == 0 && self.layout.output_position(self.rank, chunk).is_some(),
        }
    }

    fn held(&self, slot: Slot, chunk: ChunkId) -> Result<Span, LowerError> {
        let not_held = LowerError::NotHeld { step: self.step, rank: self.rank, chunk };
        self.locations[self.at(slot, chunk)].ok_or(not_held)
    }

    /// Where the encoded bytes of a chunk are or will be.
    fn encoded(&self, slot: Slot, chunk: ChunkId) -> Option<Span> {
        let (encoding, place) = (self.encoding.as_ref()?, self.at(slot, chunk));
        encoding.current[place].or(encoding.places[place])
    }

    pub(super) fn encoded_bytes_of(&self, chunk: ChunkId) -> usize {
        let elements = self.layout.chunk_len(chunk);
        self.encoding.as_ref().map_or(0, |encoding| encoding.wire.encoded(elements))
    }

    fn encoded_bytes(&self, chunks: &ChunkSet) -> usize {
        chunks.iter().map(|chunk| self.encoded_bytes_of(chunk)).sum()
    }

    /// The elements of a part of `chunk`, whose elements are at `whole`.
    fn elements_of(&self, whole: Span, chunk: ChunkId, part: &Range<usize>) -> Span {
        let wire = self.encoding.as_ref().expect("there is a wire format").wire;
        let elements = self.layout.chunk_len(chunk);
        let before =
            |place| if place == wire.encoded(elements) { elements } else { wire.elements_before(place) };
        let (start, end) = (before(part.start), before(part.end));
        whole.part(start * self.element, (end - start) * self.element)
    }

    /// The parts of chunks that are in `range` of their encoded bytes, in order.
    fn parts(&self, chunks: &ChunkSet, range: &Range<usize>) -> Vec<EncodedPart> {
        let mut parts = Vec::new();
        let mut start = 0;
        for chunk in chunks.iter() {
            let end = start + self.encoded_bytes_of(chunk);
            let (from, to) = (start.max(range.start), end.min(range.end));
            if from < to {
                parts.push((chunk, from - start..to - start));
            }
            start = end;
        }
        parts
    }

    /// Cuts `range` of the encoded bytes of `chunks` into about `cuts` pieces of equal length, between records.
    pub(super) fn cut_between_records(
        &self,
        chunks: &ChunkSet,
        range: Range<usize>,
        cuts: usize,
    ) -> Vec<Range<usize>> {
        if range.is_empty() {
            return vec![range];
        }
        let record = self.encoding.as_ref().map_or(1, |encoding| encoding.wire.record());
        let mut borders = vec![range.start];
        let mut wanted = (1..cuts).map(|i| range.start + range.len() * i / cuts).peekable();
        let mut start = 0;
        for chunk in chunks.iter() {
            let end = start + self.encoded_bytes_of(chunk);
            while let Some(at) = wanted.next_if(|at| *at < end) {
                borders.push(start + (at - start) / record * record);
            }
            start = end;
        }
        borders.push(range.end);
        borders.dedup();
        borders.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }
}
