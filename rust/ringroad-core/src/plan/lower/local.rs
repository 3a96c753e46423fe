//! Messages between local ranks: which memory the receiver may read in place, and how messages that it reads in place
//! are lowered.
//!
//! Plans are the same with and without shared memory, but for what lies where. Where a peer is local, the data of a
//! message lies in scratch memory that the peer can read, or in the caller's array if that is such memory. A message
//! to be reduced is not received but *expected* ([`Command::Expect`]), is then an operand ([`Buffer::Arrived`]), and
//! is *released*. So several contributions are reduced in one pass, straight from the peers' memory. A sum that
//! others will read is written to scratch memory in the same pass (`also` of [`Command::Reduce`]). Peers may read
//! memory that `stays` after the call has ended on its owner, which reuses it when they have read it.

use super::streams::{cut, zip};
use super::{count, LowerError, RankLowering};
use crate::plan::{Buffer, Command, Span};
use crate::schedule::{Action, Row, Send};

impl RankLowering<'_> {
    /// Whether a local rank may read `span`, which is part of `send`, in place (zero-copy). The receiver of a copy may
    /// read the span until the end of its plan, so nothing may write there any more. The receiver of a reduction reads
    /// within the step. But if the span is overwritten in the same step (`exchanges`), each of two ranks would wait
    /// until the other has read.
    pub(super) fn can_share(&self, span: Span, send: &Send, exchanges: bool) -> bool {
        let readable = match span.buffer {
            Buffer::Input => self.options.local.input,
            Buffer::Output => self.options.local.output,
            Buffer::Scratch => true,
            Buffer::Arrived(_) => false,
        };
        let soon = send.action == Action::Reduce && !exchanges;
        readable && span.bytes >= self.options.local.zero_copy && (soon || self.stays(send))
    }

    /// Whether a local rank is to copy `span`, which is part of `send` of `row`, out of memory that it cannot map. In
    /// these cases it is better that this rank copies the span to scratch memory: where this call has written the span,
    /// which is then in the caches and costs little to copy; where several receivers get the same bytes in this step;
    /// and where this rank has nothing else to do in the step, since the receiver may have several messages to copy.
    pub(super) fn can_be_copied(&mut self, span: Span, send: &Send, row: &Row) -> bool {
        let long = self.options.local.copies.is_some_and(|least| span.bytes >= least);
        let private = matches!(span.buffer, Buffer::Input | Buffer::Output);
        let busy = row.sends.len() > 1 || !row.receives.is_empty();
        if !(long && private && busy && send.action == Action::Copy && self.stays(send)) {
            return false;
        }
        let same = |other: &&Send| other.from == send.from && other.chunks.overlaps(&send.chunks);
        row.sends.iter().filter(same).count() == 1 && !self.hazards.is_written(span)
    }

    /// Whether the memory that `send` reads is not written any more within the call.
    fn stays(&self, send: &Send) -> bool {
        let written = |slot, chunk| {
            let place = self.at(slot, chunk);
            self.homes[place] == self.locations[self.at(send.from, chunk)]
                && self.last_written[place] > self.step
        };
        send.chunks.iter().all(|chunk| !(0..self.slots).any(|slot| written(slot, chunk)))
    }

    /// How many of these messages, from the first on, one reduction combines: different local ranks send the same chunks
    /// for the same slot.
    pub(super) fn together(&self, arriving: &[Send]) -> usize {
        let joins = |at: &usize| {
            let (first, send) = (&arriving[0], &arriving[*at]);
            self.options.local.has(send.source)
                && (first.action, send.action) == (Action::Reduce, Action::Reduce)
                && (first.into, &first.chunks) == (send.into, &send.chunks)
                && arriving[..*at].iter().all(|other| other.source != send.source)
        };
        1 + (1..arriving.len()).take_while(joins).count()
    }

    /// Lowers a group of messages from local ranks for the same chunks and slot, which are read in place where possible.
    /// Messages that are reduced are combined in one reduction.
    pub(super) fn lower_arrivals(&mut self, group: &[Send]) -> Result<(), LowerError> {
        let Send { ref chunks, action, into: slot, .. } = group[0];
        self.vacate(slot, chunks);
        let homes = self.stream(chunks, |s, c| s.homes[s.at(slot, c)])?;
        let held = match action {
            Action::Copy => Vec::new(),
            Action::Reduce => self.stream(chunks, |s, c| s.locations[s.at(slot, c)])?,
        };
        let messages = self.messages(chunks, true);
        let scattered =
            |homes: &[(usize, Span)]| homes.iter().all(|(_, home)| home.buffer == Buffer::Scratch);
        if action == Action::Copy && messages.len() == 1 && !messages[0].is_empty() && scattered(&homes) {
            return self.keep_in_place(&group[0]);
        }
        for range in messages {
            let pieces = cut(&homes, &range);
            if range.is_empty() || action == Action::Copy && pieces.len() == 1 {
                let target = pieces.first().map_or(Span::new(Buffer::Scratch, 0, 0), |(_, span)| *span);
                for send in group {
                    let message = count(&mut self.received, send.source)?;
                    self.emit(Command::Receive { peer: send.source, port: send.port, message, target });
                }
                continue;
            }
            let arrived =
                group.iter().map(|send| self.expect(send, range.len())).collect::<Result<Vec<_>, _>>()?;
            if action == Action::Copy {
                for (at, home) in pieces {
                    self.emit(Command::Copy { target: home, source: arrived[0].part(at, home.bytes) });
                }
            } else {
                for (at, home, left) in zip(&pieces, &cut(&held, &range)) {
                    let right = arrived.iter().map(|message| message.part(at, home.bytes));
                    self.reduce(home, std::iter::once(left).chain(right));
                }
            }
            arrived.into_iter().for_each(|message| self.release(message.buffer));
        }
        self.settle(slot, chunks);
        Ok(())
    }

    /// Makes a message in its sender's memory the location of its chunks, which need not be in this rank's memory.
    fn keep_in_place(&mut self, send: &Send) -> Result<(), LowerError> {
        let bytes = send.chunks.iter().map(|chunk| self.bytes_of(chunk)).sum();
        let arrived = self.expect(send, bytes)?;
        let Buffer::Arrived(arrival) = arrived.buffer else {
            unreachable!("`expect` returns an arrived message")
        };
        self.kept.push(arrival);
        let mut at = 0;
        for chunk in send.chunks.iter() {
            let (place, bytes) = (self.at(send.into, chunk), self.bytes_of(chunk));
            self.locations[place] = Some(arrived.part(at, bytes));
            at += bytes;
        }
        Ok(())
    }

    fn expect(&mut self, send: &Send, bytes: usize) -> Result<Span, LowerError> {
        let (peer, port) = (send.source, send.port);
        let message = count(&mut self.received, peer)?;
        let arrival = self.arrivals;
        self.arrivals += 1;
        self.emit(Command::Expect { peer, port, message, arrival, bytes });
        Ok(Span::new(Buffer::Arrived(arrival), 0, bytes))
    }

    pub(super) fn release(&mut self, buffer: Buffer) {
        let Buffer::Arrived(arrival) = buffer else { unreachable!("only arrived messages are released") };
        self.emit(Command::Release { arrival });
    }
}
