//! The protocol of a connection: a handshake in which both sides prove that they know the token (and the job's
//! secret), then requests and answers. Before the handshake all messages have a fixed length, so that a stranger
//! cannot announce a long one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use rustix::rand::{getrandom, GetRandomFlags};
use sha2::Sha256;

const MAGIC: &[u8; 8] = b"ringroad";
const NONCE: usize = 16;
const PROOF: usize = 32;
/// How long a handshake may take, or the rest of a message that has begun.
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
    /// A leader asks for this rank's vote in an agreement.
    Prepare,
    /// The answer is this value.
    Value,
    /// There is no value.
    Nothing,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Set, Get, Wait, Prepare, Value, Nothing].into_iter().find(|kind| *kind as u8 == byte)
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

    /// Sends the message within [`PATIENCE`].
    pub fn send(&self, mut stream: &TcpStream) -> io::Result<()> {
        if self.key.len() > LONGEST_KEY || self.value.len() > LONGEST_VALUE {
            let text = format!("{} bytes are too long for a store", self.key.len().max(self.value.len()));
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut bytes = vec![self.kind as u8];
        bytes.extend((self.key.len() as u16).to_le_bytes());
        bytes.extend((self.value.len() as u32).to_le_bytes());
        bytes.extend(self.key.as_bytes());
        bytes.extend(&self.value);
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&bytes)
    }

    /// Receives a message. It must begin before `start`, if that is given, and be complete [`PATIENCE`] later.
    pub fn receive(stream: &TcpStream, start: Option<Instant>) -> io::Result<Message> {
        let mut kind = [0];
        read_until(stream, &mut kind, start)?;
        let end = Some(Instant::now() + PATIENCE);
        let mut lengths = [0; 6];
        read_until(stream, &mut lengths, end)?;
        let key = usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
        let value = u32::from_le_bytes([lengths[2], lengths[3], lengths[4], lengths[5]]) as usize;
        let unsound = || io::Error::new(ErrorKind::InvalidData, "it does not speak ringroad's protocol");
        let kind = Kind::of(kind[0]).ok_or_else(unsound)?;
        if key > LONGEST_KEY || value > LONGEST_VALUE {
            return Err(unsound());
        }
        let (mut key, mut value) = (vec![0; key], vec![0; value]);
        read_until(stream, &mut key, end)?;
        read_until(stream, &mut value, end)?;
        Ok(Message { kind, key: String::from_utf8(key).map_err(|_| unsound())?, value })
    }
}

/// Fills `buffer` before `end`.
fn read_until(mut stream: &TcpStream, mut buffer: &mut [u8], end: Option<Instant>) -> io::Result<()> {
    while !buffer.is_empty() {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(left)?;
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

/// Random bytes that nobody can guess.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let count = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if count == N {
        Ok(bytes)
    } else {
        Err(io::Error::other("the kernel has too few random bytes"))
    }
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
    pub fn admit(&self, mut stream: &TcpStream) -> io::Result<bool> {
        let end = Some(Instant::now() + PATIENCE);
        let own: [u8; NONCE] = random()?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&[&MAGIC[..], &own].concat())?;
        let mut theirs = [0; NONCE + PROOF];
        read_until(stream, &mut theirs, end)?;
        let (nonce, proof) = theirs.split_at(NONCE);
        if self.proof("client", &own, nonce).verify_slice(proof).is_err() {
            return Ok(false);
        }
        stream.write_all(&self.proof("server", nonce, &own).finalize().into_bytes())?;
        Ok(true)
    }

    /// The client's part of the handshake. Returns `false` if the server is another one or has another secret.
    pub fn introduce(&self, mut stream: &TcpStream, deadline: Instant) -> io::Result<bool> {
        let end = Some(deadline.min(Instant::now() + PATIENCE));
        let mut greeting = [0; MAGIC.len() + NONCE];
        read_until(stream, &mut greeting, end)?;
        let (magic, theirs) = greeting.split_at(MAGIC.len());
        if magic != MAGIC {
            return Ok(false);
        }
        let own: [u8; NONCE] = random()?;
        let proof = self.proof("client", theirs, &own).finalize().into_bytes();
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&[&own[..], &proof].concat())?;
        let mut answer = [0; PROOF];
        match read_until(stream, &mut answer, end) {
            Ok(()) => Ok(self.proof("server", &own, theirs).verify_slice(&answer).is_ok()),
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
