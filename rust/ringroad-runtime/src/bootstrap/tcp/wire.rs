//! The protocol of a connection: the handshake of connections between ranks, in which both sides prove that they know the
//! token and the job's secret, then requests and answers. With a secret they are encrypted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::os::owner::{other_user, stranger, OtherUser};
use crate::transport::tcp::handshake::{Answered, Caller, GroupKey, Hello, Session, FIRST, SECOND, THIRD};
use crate::transport::tcp::seal::{self, open, seal, LENGTH, PLAIN};

/// How long a server may take to answer before it is called again.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a message that has begun may make no progress: on a slow link a long one takes as long as it takes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a client may take to go on with a handshake. Those that say nothing push each other out.
const ADMISSION: Duration = Duration::from_secs(30);
/// Nothing can be done in no time.
pub const LEAST: Duration = Duration::from_millis(1);
/// A value of at most this many bytes is copied behind its header, so that both leave in one piece.
const SHORT: usize = 2 << 10;
const LONGEST_KEY: usize = 1 << 10;
const LONGEST_VALUE: usize = 64 << 20;

/// The kind of a request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StoreMessageKind {
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

impl StoreMessageKind {
    fn from_byte(byte: u8) -> Option<StoreMessageKind> {
        use StoreMessageKind::*;
        [Set, Get, Wait, Agree, Tell, Value, Nothing].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A request, or an answer, whose key is empty.
pub struct StoreMessage {
    pub kind: StoreMessageKind,
    pub key: String,
    pub value: Vec<u8>,
}

impl StoreMessage {
    /// Receives a message. It must begin before `start` and be complete before `end`, if these are given.
    pub fn receive(
        channel: &mut StoreConnection,
        start: Option<Instant>,
        end: Option<Instant>,
    ) -> io::Result<StoreMessage> {
        let mut kind = [0];
        channel.read(&mut kind, None, start.into_iter().chain(end).min())?;
        let mut go_on = |buffer: &mut [u8]| channel.read(buffer, Some(IDLE_TIMEOUT), end);
        let mut lengths = [0; 6];
        go_on(&mut lengths)?;
        let key = usize::from(u16::from_le_bytes([lengths[0], lengths[1]]));
        let value = u32::from_le_bytes([lengths[2], lengths[3], lengths[4], lengths[5]]) as usize;
        let hostile = || io::Error::new(ErrorKind::InvalidData, "it does not speak ringroad's protocol");
        let kind = StoreMessageKind::from_byte(kind[0]).ok_or_else(hostile)?;
        if key > LONGEST_KEY || value > LONGEST_VALUE {
            return Err(hostile());
        }
        let (mut key, mut value) = (vec![0; key], vec![0; value]);
        go_on(&mut key)?;
        go_on(&mut value)?;
        Ok(StoreMessage { kind, key: String::from_utf8(key).map_err(|_| hostile())?, value })
    }
}

/// How long the next step of a transfer may take: `patience`, and not beyond `end`.
fn allowed(patience: Option<Duration>, end: Option<Instant>) -> io::Result<Option<Duration>> {
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    match patience.into_iter().chain(left).min() {
        Some(Duration::ZERO) => Err(ErrorKind::TimedOut.into()),
        allowed => Ok(allowed),
    }
}

/// How many bytes a step of a transfer has moved; `end` if there will be no more.
fn moved(step: io::Result<usize>, end: ErrorKind) -> io::Result<usize> {
    match step.map_err(|error| (error.kind(), error)) {
        Ok(0) => Err(end.into()),
        Ok(count) => Ok(count),
        Err((ErrorKind::Interrupted, _)) => Ok(0),
        Err((ErrorKind::WouldBlock, _)) => Err(ErrorKind::TimedOut.into()),
        Err((_, error)) => Err(error),
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
        let count = moved(stream.read(buffer), ErrorKind::UnexpectedEof)?;
        buffer = &mut buffer[count..];
    }
    Ok(())
}

/// Sends all bytes before `end`, with pauses of at most [`IDLE_TIMEOUT`].
fn write(mut stream: &TcpStream, mut bytes: &[u8], end: Option<Instant>) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(allowed(Some(IDLE_TIMEOUT), end)?)?;
        bytes = &bytes[moved(stream.write(bytes), ErrorKind::WriteZero)?..];
    }
    Ok(())
}

/// What both sides know: the token, and the job's secret if it has one.
#[derive(Clone)]
pub struct AccessKey {
    group: GroupKey,
    secret: Option<String>,
    /// Whether it asks processes of other users, too.
    asks_all: bool,
}

/// Why somebody who answers is not who was called.
pub type Verdict = String;
/// The verdict if it does not know what it should.
const STRANGER: &str =
    "is another process, or has another secret: set RINGROAD_SECRET to the same text for all";

/// The direction of calls: any process calls the one that has the token.
const HELLO: Hello = Hello { from: 0, to: 0, device: 0, stream: 0 };

impl AccessKey {
    pub fn new(token: &[u8], secret: Option<&str>) -> AccessKey {
        let group = GroupKey::new(secret, [&b"store"[..], token]);
        AccessKey { group, secret: secret.map(str::to_owned), asks_all: false }
    }

    /// For questions whose answers do no harm, whoever gives them.
    pub fn asking_all(self) -> AccessKey {
        AccessKey { asks_all: true, ..self }
    }

    /// The job's secret.
    pub fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    /// Without a secret, processes of other users of this machine are strangers.
    fn stranger(&self, stream: &TcpStream) -> io::Result<Option<OtherUser>> {
        self.secret.as_ref().map_or_else(|| stranger(stream), |_| Ok(None))
    }

    /// The server's part of the handshake. The verdict if the client does not know the token or the secret, or is another
    /// user's; an error if it is no client of ringroad.
    pub fn admit(&self, stream: Arc<TcpStream>) -> io::Result<Result<StoreConnection, Verdict>> {
        let mut first = [0; FIRST];
        read(&stream, &mut first, Some(ADMISSION), None)?;
        let other = self.stranger(&stream)?;
        let mut is_client = false;
        let answered = Answered::new(&self.group, &first, |hello| {
            is_client = hello == HELLO;
            other.is_none() && is_client
        });
        let verdict = || other.as_ref().map_or_else(|| STRANGER.to_owned(), ToString::to_string);
        let Some((answered, second)) = answered else {
            // So the client knows that it has been heard, and not closed because there are too many. It may look whose
            // process this is, and then closes the connection.
            write(&stream, &[0; SECOND], None)?;
            let _ = read(&stream, &mut [0], Some(IDLE_TIMEOUT), None);
            return is_client.then(|| Err(verdict())).ok_or_else(|| ErrorKind::InvalidData.into());
        };
        write(&stream, &second, None)?;
        let mut third = [0; THIRD];
        read(&stream, &mut third, Some(ADMISSION), None)?;
        Ok(answered.finish(&third).map(|session| StoreConnection::new(stream, session)).ok_or_else(verdict))
    }

    /// The client's part of the handshake. The server has to answer by the deadline. The kernel keeps the time: what has come
    /// counts, however late this process looks.
    pub fn introduce(
        &self,
        stream: Arc<TcpStream>,
        deadline: Instant,
    ) -> io::Result<Result<StoreConnection, Verdict>> {
        let within = deadline.saturating_duration_since(Instant::now()).max(LEAST);
        let (caller, first) = Caller::new(&self.group, HELLO).map_err(io::Error::other)?;
        write(&stream, &first, None)?;
        let mut second = [0; SECOND];
        let (begun, rest) = second.split_at_mut(1);
        read(&stream, begun, Some(within), None)?;
        // A process that begins to answer and does not go on speaks another protocol: a right answer comes in one packet.
        if read(&stream, rest, Some(IDLE_TIMEOUT), None).is_err() {
            return Ok(Err(STRANGER.to_owned()));
        }
        let Some((session, third)) = caller.finish(&second) else {
            let other = self.secret.is_none().then(|| other_user(&stream).ok().flatten()).flatten();
            return Ok(Err(other.map_or_else(|| STRANGER.to_owned(), |other| other.to_string())));
        };
        // It has taken the connection by now, so that the kernel knows whose it is.
        if let (Some(stranger), false) = (self.stranger(&stream)?, self.asks_all) {
            return Ok(Err(stranger.to_string()));
        }
        write(&stream, &third, None)?;
        Ok(Ok(StoreConnection::new(stream, session)))
    }
}

/// A connection after the handshake. If there is a secret, what it carries is encrypted.
pub struct StoreConnection {
    stream: Arc<TcpStream>,
    session: Session,
    /// What has been decrypted, and how much of that has been taken.
    plain: Vec<u8>,
    taken: usize,
}

impl StoreConnection {
    fn new(stream: Arc<TcpStream>, session: Session) -> StoreConnection {
        StoreConnection { stream, session, plain: Vec::new(), taken: 0 }
    }

    /// Sends a [`StoreMessage`]. Nothing is sent after `end`.
    pub fn send(
        &mut self,
        kind: StoreMessageKind,
        key: &str,
        value: &[u8],
        end: Option<Instant>,
    ) -> io::Result<()> {
        if key.len() > LONGEST_KEY || value.len() > LONGEST_VALUE {
            let text = format!("{} bytes are too long for a store", key.len().max(value.len()));
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut bytes = vec![kind as u8];
        bytes.extend((key.len() as u16).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend(key.as_bytes());
        // A short message leaves in one piece, and a long value from where it lies: a server sends the same to all ranks.
        let (begin, rest) = value.split_at(if value.len() > SHORT { 0 } else { value.len() });
        bytes.extend(begin);
        self.write(&bytes, end)?;
        self.write(rest, end)
    }

    pub fn into_stream(self) -> Arc<TcpStream> {
        self.stream
    }

    /// Sends all bytes before `end`, with pauses of at most [`IDLE_TIMEOUT`].
    fn write(&mut self, bytes: &[u8], end: Option<Instant>) -> io::Result<()> {
        let Some(cipher) = &self.session.cipher else { return write(&self.stream, bytes, end) };
        let mut record = Vec::new();
        for plain in bytes.chunks(PLAIN) {
            record.clear();
            seal(cipher, &mut self.session.sent, plain, &mut record)?;
            write(&self.stream, &record, end)?;
        }
        Ok(())
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
        read(&self.stream, rest, Some(IDLE_TIMEOUT), end)?;
        let mut record = vec![0; seal::length(length).map_err(hostile)?];
        read(&self.stream, &mut record, Some(IDLE_TIMEOUT), end)?;
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
