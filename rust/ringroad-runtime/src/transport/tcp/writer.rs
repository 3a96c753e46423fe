//! What leaves by a connection, and in which order.
//!
//! Answers and notices come first, then messages and the parts of accepted messages, in turn. What has been begun is
//! finished first; it is bounded, so that an answer does not wait for long. Bytes go from the memory of their owners to the
//! kernel.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use libc::iovec;

use super::frame::{Frame, HEADER};
use super::handshake::Session;
use super::matching_state::{MatchingState, Who};
use super::seal::Sealer;
use super::socket;
use crate::transport::buffer::Region;
use crate::transport::{Event, RequestId};

/// How many bytes, and how many headers, are given to the kernel at once, if there are so many. A message that is longer is
/// not divided.
const BATCH: usize = 128 << 10;
const HEADERS: usize = 16;
/// How many bytes leave before others get their turn.
const TURN: usize = 2 << 20;

/// What has to be done once something has left.
pub(super) enum SendCompletion {
    Nothing,
    /// This request is complete.
    Request(RequestId),
    /// A part of this message has left.
    Part(u32),
}

/// A header and what follows it.
struct Item {
    header: [u8; HEADER],
    body: Region,
    end: SendCompletion,
}

impl Item {
    fn len(&self) -> usize {
        HEADER + self.body.len()
    }
}

#[derive(Default)]
pub(super) struct FrameWriter {
    check: u64,
    /// Frames and what follows them: answers and notices, and messages.
    answers: VecDeque<(Frame, Region)>,
    messages: VecDeque<(Frame, Region, SendCompletion)>,
    /// What leaves now, and how much of it has left.
    batch: VecDeque<Item>,
    length: usize,
    left: usize,
    was_message: bool,
    sealer: Option<Sealer>,
    /// Whether the kernel has taken no more at the last try.
    pub is_blocked: bool,
}

impl FrameWriter {
    /// Begins to write after a handshake.
    pub fn begin(&mut self, session: &Session) {
        self.check = session.check;
        self.sealer = session.cipher.clone().map(|cipher| Sealer::new(cipher, session.sent));
    }

    pub fn answer(&mut self, frame: Frame, body: Region) {
        self.answers.push_back((frame, body));
    }

    pub fn message(&mut self, frame: Frame, body: Region, request: RequestId) {
        // An announcement's bytes follow later.
        let end = if let Frame::Eager { .. } = frame {
            SendCompletion::Request(request)
        } else {
            SendCompletion::Nothing
        };
        self.messages.push_back((frame, body, end));
    }

    /// Whether nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.messages.is_empty() && self.is_idle()
    }

    /// Whether nothing has been begun.
    fn is_idle(&self) -> bool {
        self.batch.is_empty() && self.sealer.as_ref().is_none_or(Sealer::is_empty)
    }

    /// Drops all messages that have not been begun.
    pub fn forget_messages(&mut self) {
        self.messages.clear();
    }

    /// Writes what the kernel takes. Returns whether that was anything.
    pub fn write(
        &mut self,
        socket: &OwnedFd,
        who: Who,
        matching_state: &mut MatchingState,
    ) -> io::Result<bool> {
        let mut written = 0;
        self.is_blocked = false;
        loop {
            let (tried, taken) = match self.sealer.is_some() {
                false => self.write_plain(socket, who, matching_state)?,
                true => self.write_sealed(socket, who, matching_state)?,
            };
            if tried == 0 {
                return Ok(written > 0);
            }
            written += taken;
            if taken < tried || written >= TURN {
                self.is_blocked = true;
                return Ok(written > 0);
            }
        }
    }

    /// Returns how many bytes it has tried to write, and how many the kernel has taken.
    fn write_plain(
        &mut self,
        socket: &OwnedFd,
        who: Who,
        matching_state: &mut MatchingState,
    ) -> io::Result<(usize, usize)> {
        self.fill(who, matching_state);
        let mut parts = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2 * HEADERS];
        let (mut count, mut skip) = (0, self.left);
        for item in &self.batch {
            for (start, length) in
                [(item.header.as_ptr().cast_mut(), HEADER), (item.body.as_ptr(), item.body.len())]
            {
                let skipped = skip.min(length);
                skip -= skipped;
                if length > skipped {
                    parts[count] =
                        iovec { iov_base: start.wrapping_add(skipped).cast(), iov_len: length - skipped };
                    count += 1;
                }
            }
        }
        let tried = self.length - self.left;
        if tried == 0 {
            return Ok((0, 0));
        }
        // SAFETY: parts of the batch, which stays as it is meanwhile. Nobody writes a region that is being sent.
        let taken = unsafe { socket::write(socket, &mut parts[..count]) }?.unwrap_or(0);
        self.advance(taken, who, matching_state);
        Ok((tried, taken))
    }

    fn write_sealed(
        &mut self,
        socket: &OwnedFd,
        who: Who,
        matching_state: &mut MatchingState,
    ) -> io::Result<(usize, usize)> {
        let mut sealer = self.sealer.take().expect("the caller has looked");
        while sealer.has_room() {
            self.fill(who, matching_state);
            if self.batch.is_empty() {
                break;
            }
            let mut copied = 0;
            let mut skip = self.left;
            for item in &self.batch {
                // SAFETY: a region that is being sent, which nobody writes, and which its owner keeps.
                let body = unsafe { std::slice::from_raw_parts(item.body.as_ptr(), item.body.len()) };
                for bytes in [&item.header[..], body] {
                    let skipped = skip.min(bytes.len());
                    skip -= skipped;
                    copied += sealer.add_bytes(&bytes[skipped..])?;
                }
            }
            sealer.seal()?;
            self.advance(copied, who, matching_state);
        }
        let result = sealer.write(socket);
        self.sealer = Some(sealer);
        result
    }

    /// Adds to the batch what is next.
    fn fill(&mut self, who: Who, matching_state: &mut MatchingState) {
        while self.length - self.left < BATCH && self.batch.len() < HEADERS {
            let Some((frame, body, end)) = self.next(who, matching_state) else { return };
            let item = Item { header: frame.write(self.check), body, end };
            self.length += item.len();
            self.batch.push_back(item);
        }
    }

    fn next(
        &mut self,
        who: Who,
        matching_state: &mut MatchingState,
    ) -> Option<(Frame, Region, SendCompletion)> {
        if let Some(frame) = matching_state.grant(who) {
            return Some((frame, Region::nothing(), SendCompletion::Nothing));
        }
        if let Some((frame, body)) = self.answers.pop_front() {
            return Some((frame, body, SendCompletion::Nothing));
        }
        self.was_message = !self.was_message;
        if self.was_message {
            self.messages.pop_front().or_else(|| next_part(who, matching_state))
        } else {
            next_part(who, matching_state).or_else(|| self.messages.pop_front())
        }
    }

    /// Notes that so many further bytes of the batch have left.
    fn advance(&mut self, bytes: usize, who: Who, matching_state: &mut MatchingState) {
        self.left += bytes;
        while self.batch.front().is_some_and(|item| item.len() <= self.left) {
            let Some(item) = self.batch.pop_front() else { return };
            self.left -= item.len();
            self.length -= item.len();
            match item.end {
                SendCompletion::Nothing => {}
                SendCompletion::Request(request) => {
                    matching_state.events.push(Event::Completed { request, result: Ok(()) })
                }
                SendCompletion::Part(send) => matching_state.part_left(who.peer, send, item.body.len()),
            }
        }
    }
}

fn next_part(who: Who, matching_state: &mut MatchingState) -> Option<(Frame, Region, SendCompletion)> {
    let (frame, source, send) = matching_state.next_part(who)?;
    Some((frame, source, SendCompletion::Part(send)))
}
