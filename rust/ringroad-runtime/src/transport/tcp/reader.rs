//! What comes by a connection: headers, and bytes, which go straight to where they belong.

use std::os::fd::OwnedFd;

use libc::iovec;

use super::frame::{Frame, HEADER};
use super::handshake::Session;
use super::matching_state::{Consequence, MatchingState, Sink, Who};
use super::seal::Opener;
use super::socket;

/// How many bytes are read at once besides those whose place is known.
pub(super) const SCRATCH: usize = 64 << 10;
/// How many bytes are read before others get their turn.
const TURN: usize = 2 << 20;

/// How reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// Nothing more is there now. Whether anything was.
    Open(bool),
    /// The peer has closed the connection.
    Ended,
}

struct MessageBody {
    place: Sink,
    bytes: usize,
    came: usize,
}

pub(super) struct Reader {
    check: u64,
    header: [u8; HEADER],
    /// How many bytes of the next header have come.
    came: usize,
    body: Option<MessageBody>,
    opener: Option<Opener>,
    /// What the peer is to be answered.
    pub answers: Vec<Frame>,
    /// Whether this rank may write.
    pub is_welcome: bool,
    /// The goodbye of the peer, once it has come: whether it has aborted.
    pub goodbye: Option<bool>,
}

impl Reader {
    /// Reads what comes after a handshake.
    pub fn new(session: &Session, is_welcome: bool) -> Reader {
        let opener = session.cipher.clone().map(|cipher| Opener::new(cipher, session.received));
        let header = [0; HEADER];
        Reader {
            check: session.check,
            header,
            came: 0,
            body: None,
            opener,
            answers: Vec::new(),
            is_welcome,
            goodbye: None,
        }
    }

    /// Reads what has come. An error says what the peer has done wrong, or why the connection broke.
    pub fn read(
        &mut self,
        socket: &OwnedFd,
        who: Who,
        matching_state: &mut MatchingState,
        scratch: &mut [u8],
    ) -> Result<ReadOutcome, String> {
        let mut read = 0;
        loop {
            let (room, count) = match self.opener.take() {
                None => self.read_plain(socket, who, matching_state, scratch)?,
                Some(mut opener) => {
                    let count = opener.read(socket).map_err(|error| error.to_string())?;
                    let room = if opener.is_full() { 0 } else { usize::MAX };
                    opener.open(|bytes| self.feed(bytes, who, matching_state))?;
                    self.opener = Some(opener);
                    (room, count)
                }
            };
            match count {
                None => return Ok(ReadOutcome::Open(read > 0)),
                Some(0) => return Ok(ReadOutcome::Ended),
                Some(count) => read += count,
            }
            // Less than there is room for: the kernel has no more now, and will say when it has.
            if count.is_some_and(|count| count < room) || read >= TURN {
                return Ok(ReadOutcome::Open(true));
            }
        }
    }

    /// Returns how many bytes there was room for, and how many have been read.
    fn read_plain(
        &mut self,
        socket: &OwnedFd,
        who: Who,
        matching_state: &mut MatchingState,
        scratch: &mut [u8],
    ) -> Result<(usize, Option<usize>), String> {
        let (start, known) = self.rest_of_body();
        let parts = [
            iovec { iov_base: start.cast(), iov_len: known },
            iovec { iov_base: scratch.as_mut_ptr().cast(), iov_len: scratch.len() },
        ];
        let parts = if known > 0 { &parts[..] } else { &parts[1..] };
        // SAFETY: the rest of the memory where a body goes, which its request or this value owns and nobody else uses
        // until all has come, and memory that is borrowed here.
        let count = unsafe { socket::read(socket, parts) }.map_err(|error| error.to_string())?;
        if let Some(count) = count {
            let direct = count.min(known);
            if direct > 0 {
                self.grow(direct, who, matching_state);
            }
            self.feed(&scratch[..count - direct], who, matching_state)?;
        }
        Ok((known + scratch.len(), count))
    }

    /// Where the rest of a body goes, and how long it is; nothing if it is dropped.
    fn rest_of_body(&self) -> (*mut u8, usize) {
        let rest = self.body.as_ref().and_then(|body| {
            let start = body.place.region()?.as_ptr().wrapping_add(body.came);
            Some((start, body.bytes - body.came))
        });
        rest.unwrap_or((std::ptr::null_mut(), 0))
    }

    /// Notes that further bytes of the body are where they belong.
    fn grow(&mut self, bytes: usize, who: Who, matching_state: &mut MatchingState) {
        let Some(body) = &mut self.body else { return };
        body.came += bytes;
        if body.came == body.bytes {
            if let Some(body) = self.body.take() {
                matching_state.came(who, body.place);
            }
        }
    }

    /// Takes bytes that were read elsewhere.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        who: Who,
        matching_state: &mut MatchingState,
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            let count = match &self.body {
                Some(body) => {
                    let count = bytes.len().min(body.bytes - body.came);
                    if let (start, 1..) = self.rest_of_body() {
                        // SAFETY: as in `read_plain`; no more bytes than the rest of the body has.
                        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, count) };
                    }
                    self.grow(count, who, matching_state);
                    count
                }
                None => {
                    let count = bytes.len().min(HEADER - self.came);
                    self.header[self.came..][..count].copy_from_slice(&bytes[..count]);
                    self.came += count;
                    if self.came == HEADER {
                        self.came = 0;
                        self.handle_frame(who, matching_state)?;
                    }
                    count
                }
            };
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn handle_frame(&mut self, who: Who, matching_state: &mut MatchingState) -> Result<(), String> {
        let frame = Frame::read(&self.header, self.check);
        let frame = frame.ok_or("it has sent an invalid header")?;
        match matching_state.heard(who, frame)? {
            Consequence::Body(place) if frame.body() == 0 => matching_state.came(who, place),
            Consequence::Body(place) => self.body = Some(MessageBody { place, bytes: frame.body(), came: 0 }),
            Consequence::Answer(frame) => self.answers.push(frame),
            Consequence::Opens => self.is_welcome = true,
            Consequence::Leaves { aborted } => self.goodbye = Some(aborted),
            Consequence::Nothing => {}
        }
        Ok(())
    }

    /// A receive has come for the message that is being read.
    pub fn redirect(&mut self, place: Sink) {
        let Some(body) = &mut self.body else { return };
        if let (Some(from), Some(to)) = (body.place.region(), place.region()) {
            // SAFETY: so many bytes have come into memory of our own; the poster leaves the target alone until its receive
            // has ended. Both have as many bytes as the message.
            unsafe { to.part(0..body.came).copy_from(&from.part(0..body.came)) };
        }
        body.place = place;
    }
}
