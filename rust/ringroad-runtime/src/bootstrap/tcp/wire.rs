//! The protocol of a connection: the handshake of connections between ranks, in which both sides prove that they know the
//! token and the job's secret, then requests and answers. With a secret they are encrypted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::transport::tcp::handshake::{Answered, Caller, GroupKey, Hello, Session, FIRST, SECOND, THIRD};
use crate::transport::tcp::seal::{self, open, seal, LENGTH, PLAIN};

/// How long a handshake may take, and how long a message that has begun may make no progress: on a slow link a long
/// one takes as long as it takes.
pub const PATIENCE: Duration = Duration::from_secs(3);
const LONGEST_KEY: usize = 1 << 10;
const LONGEST_VALUE: usize = 64 << 20;

/// The kind of a request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Store the value under the key.
    Set = 1,
    /// Return the value under the key, if there is one.
    Get,
    /// Like `Get`, but wait for the value; the message's value says for how many milliseconds.
    Wait,
    /// A rank asks in an agreement of the group that the key names.
    Agree,
    /// Something for the communicator of the group that the key names.
    Tell,
    /// The answer is this value.
    Value,
    /// There is no value.
    Nothing,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Set, Get, Wait, Agree, Tell, Value, Nothing].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A request, or an answer, whose key is empty.
pub struct Message {
    pub kind: Kind,
    pub key: String,
    pub value: Vec<u8>,
}

impl Message {
    pub fn new(kind: Kind, key: &str, value: &[u8]) -> Message {
        Message { kind, key: key.to_owned(), value: value.to_vec() }
    }

    /// Sends the message. Nothing is sent after `end`.
    pub fn send(&self, channel: &mut Channel, end: Option<Instant>) -> io::Result<()> {
        if self.key.len() > LONGEST_KEY || self.value.len() > LONGEST_VALUE {
            let text = format!("{} bytes are too long for a store", self.key.len().max(self.value.len()));
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut bytes = vec![self.kind as u8];
        bytes.extend((self.key.len() as u16).to_le_bytes());
        bytes.extend((self.value.len() as u32).to_le_bytes());
        bytes.extend(self.key.as_bytes());
        bytes.extend(&self.value);
        channel.write(&bytes, end)
    }

    /// Receives a message. It must begin before `start` and be complete before `end`, if these are given.
    pub fn receive(
        channel: &mut Channel,
        start: Option<Instant>,
        end: Option<Instant>,
    ) -> io::Result<Message> {
        let mut kind = [0];
        channel.read(&mut kind, None, earlier(start, end))?;
        let mut go_on = |buffer: &mut [u8]| channel.read(buffer, Some(PATIENCE), end);
        let mut lengths = [0; 6];
        go_on(&mut lengths)?;
        let key = usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
        let value = u32::from_le_bytes([lengths[2], lengths[3], lengths[4], lengths[5]]) as usize;
        let hostile = || io::Error::new(ErrorKind::InvalidData, "it does not speak ringroad's protocol");
        let kind = Kind::of(kind[0]).ok_or_else(hostile)?;
        if key > LONGEST_KEY || value > LONGEST_VALUE {
            return Err(hostile());
        }
        let (mut key, mut value) = (vec![0; key], vec![0; value]);
        go_on(&mut key)?;
        go_on(&mut value)?;
        Ok(Message { kind, key: String::from_utf8(key).map_err(|_| hostile())?, value })
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// How long the next step of a transfer may take: `patience`, and not beyond `end`.
fn allowed(patience: Option<Duration>, end: Option<Instant>) -> io::Result<Option<Duration>> {
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    match patience.into_iter().chain(left).min() {
        Some(Duration::ZERO) => Err(ErrorKind::TimedOut.into()),
        allowed => Ok(allowed),
    }
}

/// Fills `buffer` before `end`, with pauses of at most `patience`.
fn read(
    mut stream: &TcpStream,
    mut buffer: &mut [u8],
    patience: Option<Duration>,
    end: Option<Instant>,
) -> io::Result<()> {
    while !buffer.is_empty() {
        stream.set_read_timeout(allowed(patience, end)?)?;
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => buffer = &mut buffer[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends all bytes before `end`, with pauses of at most [`PATIENCE`].
fn write(mut stream: &TcpStream, mut bytes: &[u8], end: Option<Instant>) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(allowed(Some(PATIENCE), end)?)?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What both sides know: the token, and the job's secret if it has one.
#[derive(Clone)]
pub struct Key {
    group: GroupKey,
    secret: Option<String>,
}

/// Who calls whom: any process calls the one that has the token.
const HELLO: Hello = Hello { from: 0, to: 0, device: 0, stream: 0 };

impl Key {
    pub fn new(token: &[u8], secret: Option<&str>) -> Key {
        Key { group: GroupKey::new(secret, [&b"store"[..], token]), secret: secret.map(str::to_owned) }
    }

    /// The job's secret.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// The server's part of the handshake. Returns `None` if the client does not know the token or the secret.
    pub fn admit(&self, stream: Arc<TcpStream>) -> io::Result<Option<Channel>> {
        let end = Some(Instant::now() + PATIENCE);
        let mut first = [0; FIRST];
        read(&stream, &mut first, None, end)?;
        let Some((answered, second)) = Answered::new(&self.group, &first, |hello| hello == HELLO) else {
            // So the client knows that it has been heard, and not closed because there are too many.
            write(&stream, &[0; SECOND], end)?;
            return Ok(None);
        };
        write(&stream, &second, end)?;
        let mut third = [0; THIRD];
        read(&stream, &mut third, None, end)?;
        Ok(answered.finish(&third).map(|session| Channel::new(stream, session)))
    }

    /// The client's part of the handshake. Returns `None` if the server is another one or has another secret.
    pub fn introduce(&self, stream: Arc<TcpStream>, deadline: Instant) -> io::Result<Option<Channel>> {
        let end = Some(deadline.min(Instant::now() + PATIENCE));
        let (caller, first) = Caller::new(&self.group, HELLO).map_err(io::Error::other)?;
        write(&stream, &first, end)?;
        let mut second = [0; SECOND];
        let (begun, rest) = second.split_at_mut(1);
        read(&stream, begun, None, end)?;
        // Who begins to answer and does not go on speaks another protocol.
        if read(&stream, rest, None, end).is_err() {
            return Ok(None);
        }
        let Some((session, third)) = caller.finish(&second) else { return Ok(None) };
        write(&stream, &third, end)?;
        Ok(Some(Channel::new(stream, session)))
    }
}

/// A connection after the handshake. If there is a secret, what it carries is encrypted.
pub struct Channel {
    stream: Arc<TcpStream>,
    session: Session,
    /// What has been decrypted, and how much of that has been taken.
    plain: Vec<u8>,
    taken: usize,
}

impl Channel {
    fn new(stream: Arc<TcpStream>, session: Session) -> Channel {
        Channel { stream, session, plain: Vec::new(), taken: 0 }
    }

    pub fn into_stream(self) -> Arc<TcpStream> {
        self.stream
    }

    /// Sends all bytes before `end`, with pauses of at most [`PATIENCE`].
    fn write(&mut self, bytes: &[u8], end: Option<Instant>) -> io::Result<()> {
        let Some(cipher) = &self.session.cipher else { return write(&self.stream, bytes, end) };
        let mut records = Vec::new();
        for plain in bytes.chunks(PLAIN) {
            seal(cipher, &mut self.session.sent, plain, &mut records)?;
        }
        write(&self.stream, &records, end)
    }

    /// Fills `buffer` before `end`, with pauses of at most `patience`.
    fn read(
        &mut self,
        mut buffer: &mut [u8],
        patience: Option<Duration>,
        end: Option<Instant>,
    ) -> io::Result<()> {
        if self.session.cipher.is_none() {
            return read(&self.stream, buffer, patience, end);
        }
        while !buffer.is_empty() {
            if self.taken == self.plain.len() {
                self.open(patience, end)?;
            }
            let rest = &self.plain[self.taken..];
            let (now, later) = buffer.split_at_mut(rest.len().min(buffer.len()));
            now.copy_from_slice(&rest[..now.len()]);
            self.taken += now.len();
            buffer = later;
        }
        Ok(())
    }

    /// Decrypts the next record, which has to begin within `patience`.
    fn open(&mut self, patience: Option<Duration>, end: Option<Instant>) -> io::Result<()> {
        let Some(cipher) = &self.session.cipher else { return Ok(()) };
        let hostile = |reason| io::Error::new(ErrorKind::InvalidData, reason);
        let mut length = [0; LENGTH];
        let (begun, rest) = length.split_at_mut(1);
        read(&self.stream, begun, patience, end)?;
        read(&self.stream, rest, Some(PATIENCE), end)?;
        let mut record = vec![0; seal::length(length).map_err(hostile)?];
        read(&self.stream, &mut record, Some(PATIENCE), end)?;
        self.plain.resize(record.len(), 0);
        let count = open(cipher, &mut self.session.received, &record, &mut self.plain);
        self.plain.truncate(count.map_err(hostile)?);
        self.taken = 0;
        Ok(())
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What comes slowly but steadily arrives, even if it takes longer in all than a pause may. What stops, or does not
    /// end before the deadline, does not.
    #[test]
    fn a_transfer_needs_progress() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let pieces = |count: usize, pause: u64| {
            let mut sender = TcpStream::connect(door.local_addr().unwrap()).unwrap();
            let (receiver, _) = door.accept().unwrap();
            thread::spawn(move || {
                for _ in 0..count {
                    thread::sleep(Duration::from_millis(pause));
                    // The receiver may have given up.
                    let _ = sender.write_all(&[7]);
                }
                thread::sleep(Duration::from_secs(1));
            });
            receiver
        };
        let read = |stream: TcpStream, patience: u64, end: Option<Duration>| {
            let mut buffer = [0; 6];
            let end = end.map(|end| Instant::now() + end);
            let read = read(&stream, &mut buffer, Some(Duration::from_millis(patience)), end);
            read.map(|()| buffer).map_err(|error| error.kind())
        };
        assert_eq!(read(pieces(6, 200), 1000, None), Ok([7; 6]), "1.2 s in all");
        assert_eq!(read(pieces(5, 0), 100, None), Err(ErrorKind::TimedOut), "it stops");
        let short = Some(Duration::from_millis(100));
        assert_eq!(read(pieces(6, 50), 1000, short), Err(ErrorKind::TimedOut), "it is too late");
    }
}
