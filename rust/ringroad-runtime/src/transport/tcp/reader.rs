//! What comes by a connection: headers, and bytes, which go straight to where they belong.

use std::os::fd::OwnedFd;

use libc::iovec;

use super::desk::{Consequence, Desk, Sink, Who};
use super::frame::{Frame, HEADER};
use super::handshake::Session;
use super::seal::Opener;
use super::socket;

/// How many bytes are read at once besides those whose place is known.
pub(super) const SCRATCH: usize = 64 << 10;
/// How many bytes are read before others get their turn.
const TURN: usize = 2 << 20;

/// How reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing more is there now. Whether anything was.
    Open(bool),
    /// The peer has closed the connection.
    Ended,
}

struct Body {
    place: Sink,
    bytes: usize,
    came: usize,
}

pub(super) struct Reader {
    check: u64,
    header: [u8; HEADER],
    /// How many bytes of the next header have come.
    came: usize,
    body: Option<Body>,
    opener: Option<Opener>,
    /// What the peer is to be answered.
    pub answers: Vec<Frame>,
    /// Whether this rank may write.
    pub is_welcome: bool,
    /// The farewell of the peer, once it has come: whether it has aborted.
    pub farewell: Option<bool>,
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
            farewell: None,
        }
    }

    /// Reads what has come. An error says what the peer has done wrong, or why the connection broke.
    pub fn read(
        &mut self,
        socket: &OwnedFd,
        who: Who,
        desk: &mut Desk,
        scratch: &mut [u8],
    ) -> Result<Outcome, String> {
        let mut read = 0;
        loop {
            let (room, count) = match self.opener.take() {
                None => self.read_plain(socket, who, desk, scratch)?,
                Some(mut opener) => {
                    let count = opener.read(socket).map_err(|error| error.to_string())?;
                    let room = if opener.is_full() { 0 } else { usize::MAX };
                    opener.open(|bytes| self.feed(bytes, who, desk))?;
                    self.opener = Some(opener);
                    (room, count)
                }
            };
            match count {
                None => return Ok(Outcome::Open(read > 0)),
                Some(0) => return Ok(Outcome::Ended),
                Some(count) => read += count,
            }
            // Less than there is room for: the kernel has no more now, and will say when it has.
            if count.is_some_and(|count| count < room) || read >= TURN {
                return Ok(Outcome::Open(true));
            }
        }
    }

    /// Returns how many bytes there was room for, and how many have been read.
    fn read_plain(
        &mut self,
        socket: &OwnedFd,
        who: Who,
        desk: &mut Desk,
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
                self.grow(direct, who, desk);
            }
            self.feed(&scratch[..count - direct], who, desk)?;
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
    fn grow(&mut self, bytes: usize, who: Who, desk: &mut Desk) {
        let Some(body) = &mut self.body else { return };
        body.came += bytes;
        if body.came == body.bytes {
            if let Some(body) = self.body.take() {
                desk.came(who, body.place);
            }
        }
    }

    /// Takes bytes that were read elsewhere.
    fn feed(&mut self, mut bytes: &[u8], who: Who, desk: &mut Desk) -> Result<(), String> {
        while !bytes.is_empty() {
            let count = match &self.body {
                Some(body) => {
                    let count = bytes.len().min(body.bytes - body.came);
                    if let (start, 1..) = self.rest_of_body() {
                        // SAFETY: as in `read_plain`; no more bytes than the rest of the body has.
                        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, count) };
                    }
                    self.grow(count, who, desk);
                    count
                }
                None => {
                    let count = bytes.len().min(HEADER - self.came);
                    self.header[self.came..][..count].copy_from_slice(&bytes[..count]);
                    self.came += count;
                    if self.came == HEADER {
                        self.came = 0;
                        self.hear(who, desk)?;
                    }
                    count
                }
            };
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn hear(&mut self, who: Who, desk: &mut Desk) -> Result<(), String> {
        let frame = Frame::read(&self.header, self.check);
        let frame = frame.ok_or("it has sent what is no header of this connection")?;
        match desk.heard(who, frame)? {
            Consequence::Body(place) if frame.body() == 0 => desk.came(who, place),
            Consequence::Body(place) => self.body = Some(Body { place, bytes: frame.body(), came: 0 }),
            Consequence::Answer(frame) => self.answers.push(frame),
            Consequence::Opens => self.is_welcome = true,
            Consequence::Leaves { aborted } => self.farewell = Some(aborted),
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

/// Takes what a peer may send who has the group's key: frames with any content, and then any bytes. Posts receives and
/// a send meanwhile.
#[cfg(any(test, fuzzing))]
pub(crate) fn hear_anything(bytes: &[u8]) {
    use std::sync::OnceLock;

    use super::desk::{Limits, Taken};
    use crate::transport::buffer::Region;
    use crate::transport::{Kind, Tag};

    // Small, so that many inputs are tried; what leaves takes several parts.
    const LIMITS: Limits = Limits { eager: 512, window: 4096 };
    const LONG: usize = 2000;
    static SOURCE: OnceLock<Region> = OnceLock::new();
    let source = SOURCE.get_or_init(|| Region::zeroed(300 << 10));
    let session = Session { check: 7, cipher: None, sent: 0, received: 0 };
    let mut desk = Desk::with_limits(LIMITS, 3, 1, 1);
    let tag = |source, message| Tag { source, kind: Kind::Collective, sequence: 0, message, check: 0 };
    for request in 0..3 {
        desk.header(1, tag(0, request).pack(), source, request.into());
    }
    for link in 0..2 {
        let who = Who { link, peer: 1, device: 0, stream: 0 };
        let mut reader = Reader::new(&session, true);
        for (number, words) in bytes.chunks(13).enumerate() {
            let word = |at: usize| words.get(at).map_or(0, |byte| u64::from(*byte));
            let number = number as u32;
            if word(0) > 200 {
                let target = Region::zeroed([0, 8, 300, LONG][word(1) as usize % 4]);
                match desk.receive(0, tag(1, word(2) as u32 % 4), target, number.into()) {
                    Taken::Redirect(at, place) if at == link => reader.redirect(place),
                    _ => {}
                }
                continue;
            }
            let tag = tag(word(1) as usize % 3, word(2) as u32 % 4).pack() ^ (word(3) / 200);
            let length = [0, 8, 300, 1 << 18, LONG, usize::MAX >> 8, word(4) as usize][word(5) as usize % 7];
            let few = (word(6) % 4) as u32;
            let frame = match word(0) % 10 {
                0 => Frame::Eager { tag, bytes: length },
                1 => Frame::Announce { tag, bytes: length, send: few },
                2 => Frame::Accept { send: few, receive: number },
                3 => Frame::Decline { send: few },
                4 => Frame::Part { receive: few, offset: word(7) << (word(8) % 56), bytes: length },
                5 => Frame::Credit { cost: word(7) << (word(8) % 56) },
                6 => Frame::Notice { bytes: length },
                7 => Frame::Farewell { aborted: few == 0 },
                8 => Frame::Welcome,
                _ => Frame::Decline { send: u32::MAX },
            };
            let body = vec![word(9) as u8; frame.body().min(LONG)];
            let mut all = frame.write(7).to_vec();
            all.extend_from_slice(&body[..body.len() - (word(10) as usize / 250).min(body.len())]);
            let split = (word(11) as usize * 37).min(all.len());
            if reader
                .feed(&all[..split], who, &mut desk)
                .and_then(|()| reader.feed(&all[split..], who, &mut desk))
                .is_err()
            {
                break;
            }
            while let Some(part) = desk.next_part(who) {
                desk.part_left(1, part.send, part.source.len());
            }
            let _ = desk.grant(who);
        }
        let _ = Reader::new(&session, true).feed(bytes, who, &mut desk);
        desk.forget(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 300 }))]

        #[test]
        fn whatever_a_peer_sends_is_checked(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            super::hear_anything(&bytes);
        }
    }
}
