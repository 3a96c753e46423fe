//! The protocol of a connection: a handshake in which both sides prove that they know the token (and the job's
//! secret), then requests and answers. Before the handshake all messages have a fixed length, so that a stranger
//! cannot announce a long one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::os::random::secret;

const MAGIC: &[u8; 8] = b"ringroad";
const NONCE: usize = 16;
const PROOF: usize = 32;
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
    pub fn send(&self, stream: &TcpStream, end: Option<Instant>) -> io::Result<()> {
        if self.key.len() > LONGEST_KEY || self.value.len() > LONGEST_VALUE {
            let text = format!("{} bytes are too long for a store", self.key.len().max(self.value.len()));
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut bytes = vec![self.kind as u8];
        bytes.extend((self.key.len() as u16).to_le_bytes());
        bytes.extend((self.value.len() as u32).to_le_bytes());
        bytes.extend(self.key.as_bytes());
        bytes.extend(&self.value);
        write(stream, &bytes, end)
    }

    /// Receives a message. It must begin before `start` and be complete before `end`, if these are given.
    pub fn receive(stream: &TcpStream, start: Option<Instant>, end: Option<Instant>) -> io::Result<Message> {
        let mut kind = [0];
        read(stream, &mut kind, None, earlier(start, end))?;
        let go_on = |buffer: &mut [u8]| read(stream, buffer, Some(PATIENCE), end);
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
    token: Vec<u8>,
    secret: Option<String>,
}

impl Key {
    pub fn new(token: &[u8], secret: Option<&str>) -> Key {
        Key { token: token.to_vec(), secret: secret.map(str::to_owned) }
    }

    /// The job's secret.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    fn proof(&self, side: &str, first: &[u8], second: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.token).expect("keys of all lengths work");
        // Lengths first, so that different parts never give the same bytes.
        let secret = self.secret.as_deref().unwrap_or_default();
        for part in [side.as_bytes(), secret.as_bytes(), first, second] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }

    /// The server's part of the handshake. Returns `false` if the client does not know the token or the secret.
    pub fn admit(&self, stream: &TcpStream) -> io::Result<bool> {
        let end = Some(Instant::now() + PATIENCE);
        let own: [u8; NONCE] = secret()?;
        write(stream, &[&MAGIC[..], &own].concat(), end)?;
        let mut theirs = [0; NONCE + PROOF];
        read(stream, &mut theirs, None, end)?;
        let (nonce, proof) = theirs.split_at(NONCE);
        if self.proof("client", &own, nonce).verify_slice(proof).is_err() {
            // No proof: so the client can tell a refusal from a server that has no place for it.
            write(stream, &[0; PROOF], end)?;
            return Ok(false);
        }
        write(stream, &self.proof("server", nonce, &own).finalize().into_bytes(), end)?;
        Ok(true)
    }

    /// The client's part of the handshake. Returns `false` if the server is another one or has another secret.
    pub fn introduce(&self, stream: &TcpStream, deadline: Instant) -> io::Result<bool> {
        let end = Some(deadline.min(Instant::now() + PATIENCE));
        let mut greeting = [0; MAGIC.len() + NONCE];
        read(stream, &mut greeting, None, end)?;
        let (magic, theirs) = greeting.split_at(MAGIC.len());
        if magic != MAGIC {
            return Ok(false);
        }
        let own: [u8; NONCE] = secret()?;
        let proof = self.proof("client", theirs, &own).finalize().into_bytes();
        write(stream, &[&own[..], &proof].concat(), end)?;
        let mut answer = [0; PROOF];
        read(stream, &mut answer, None, end)?;
        Ok(self.proof("server", &own, theirs).verify_slice(&answer).is_ok())
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
