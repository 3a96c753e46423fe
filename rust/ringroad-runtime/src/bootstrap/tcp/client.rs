//! The store of another process.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::agreement::{ProposerRequest, Reply};
use ringroad_core::Rank;

use super::wire::{
    AccessKey, StoreConnection, StoreMessage, StoreMessageKind, Verdict, ANSWER_TIMEOUT, LEAST,
};
use crate::bootstrap::{Handle, Store, StoreError};
use crate::error::is_shortage;
use crate::os::lock::Mutex;
use crate::os::tcp_info::TcpInfo;

/// The longest time that one request waits for a key.
const SLICE: Duration = Duration::from_millis(500);
/// How long a process may take from the end of its ports to its own.
const ENDING: Duration = Duration::from_millis(300);
/// How long to wait before asking a server again that has no place for another connection.
const AGAIN: Duration = Duration::from_millis(10);

/// The store of another process.
pub struct TcpStore {
    /// The connection. `None` after an error, in the middle of a message: the next request makes a new one.
    channel: Mutex<Option<StoreConnection>>,
    address: SocketAddr,
    key: AccessKey,
    who: String,
    /// The longest time that one request may take, however steadily the bytes come.
    longest: Duration,
}

/// Why a process cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreachableProcess {
    /// The process has ended: the kernel of its host says so.
    #[error("{0} has ended")]
    Gone(String),
    /// Its port refuses. So does that of a process that has ended, and a firewall in front of one that runs.
    #[error("nobody listens at the port of {0}: it has ended, or a firewall refuses connections to it")]
    Refused(String),
    /// The process, or its host, does not answer.
    #[error("{0} does not answer; it is stopped, or the network between is cut")]
    Silent(String),
    /// The address belongs to another process or another user, or the secrets differ.
    #[error("what listens at the address of {0} {1}")]
    Stranger(String, Verdict),
    /// This process lacks what a connection takes, as it says. That says nothing of the other one.
    #[error("{0} cannot be asked, since this process cannot open a connection: {1}; raise its limit of open files (ulimit -n), or close some")]
    Unable(String, String),
}

/// Whether a process on this machine, whose ports are closed, ends in a moment: its ports close first.
fn ends(handle: &Handle) -> bool {
    let until = Instant::now() + ENDING;
    while handle.is_visible() && !handle.has_ended() && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    handle.has_ended()
}

impl TcpStore {
    /// Connects to the process that the handle names. No later request takes longer than this may.
    pub fn connect(
        handle: &Handle,
        secret: Option<&str>,
        deadline: Instant,
    ) -> Result<TcpStore, UnreachableProcess> {
        TcpStore::connect_by(AccessKey::new(&handle.token, secret), handle, deadline)
    }

    /// Like [`TcpStore::connect`], with the handle's key.
    pub(super) fn connect_by(
        key: AccessKey,
        handle: &Handle,
        deadline: Instant,
    ) -> Result<TcpStore, UnreachableProcess> {
        let who = handle.to_string();
        // The port may still be open in a child that the process has forked.
        if handle.has_ended() {
            return Err(UnreachableProcess::Gone(who));
        }
        let longest = deadline.saturating_duration_since(Instant::now());
        let near = handle.is_behind_loopback();
        let places: Vec<SocketAddr> =
            handle.places.iter().copied().filter(|place| near || !place.ip().is_loopback()).collect();
        let (mut refused, mut strange, mut unable) = (0, None, None);
        let count = places.len() as u32;
        for (tried, place) in (0..).zip(places) {
            let left = deadline.saturating_duration_since(Instant::now());
            let until = Instant::now() + left / (count - tried);
            match open(place, &key, until) {
                Ok(Ok(channel)) => return Ok(TcpStore::over(channel, place, key, who, longest)),
                Ok(Err(verdict)) => strange = Some(verdict),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => refused += 1,
                Err(error) if is_shortage(&error) => unable = Some(error.to_string()),
                Err(_) => {}
            }
        }
        // One address that refuses proves nothing: hosts have addresses in common, such as those of containers.
        Err(match (strange, unable) {
            (Some(verdict), _) => UnreachableProcess::Stranger(who, verdict),
            (_, Some(why)) => UnreachableProcess::Unable(who, why),
            _ if count == 0 || refused < count => UnreachableProcess::Silent(who),
            _ if ends(handle) => UnreachableProcess::Gone(who),
            _ if handle.is_visible() => UnreachableProcess::Silent(who),
            _ => UnreachableProcess::Refused(who),
        })
    }

    /// The store at the end of a connection to `address`. `who` names its process in messages.
    pub fn over(
        channel: StoreConnection,
        address: SocketAddr,
        key: AccessKey,
        who: String,
        longest: Duration,
    ) -> TcpStore {
        TcpStore { channel: Mutex::new(Some(channel)), address, key, who, longest }
    }

    /// From now on no request takes longer than until this deadline.
    pub fn until(self, deadline: Instant) -> TcpStore {
        TcpStore { longest: deadline.saturating_duration_since(Instant::now()), ..self }
    }

    /// This connection, not to be used any more, as a sign of the process's life. `None` if it is broken.
    pub fn watch(self) -> Option<LifeLine> {
        // A rank that has answered once closes the connection only when it ends.
        self.get("").ok()?;
        Some(LifeLine(self.channel.lock().take()?.into_stream()))
    }

    /// The answer to a request, which may take `within` to make.
    pub(super) fn ask(
        &self,
        kind: StoreMessageKind,
        key: &str,
        value: &[u8],
        within: Duration,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let is_cut = |error: &io::Error| {
            matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            )
        };
        let answer = match self.exchange(kind, key, value, within) {
            // The server may have given up a client that was slow to go on.
            Err(error) if is_cut(&error) => self.exchange(kind, key, value, within),
            answer => answer,
        };
        answer.map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::TimedOut => return StoreError::Silent(self.who.clone()),
                ErrorKind::ConnectionRefused => format!("{} has ended or left", self.who),
                _ if is_cut(&error) => format!("{} has ended or left", self.who),
                _ => format!("{}: {error}", self.who),
            };
            StoreError::Failed { action: format!("use {key:?}"), reason }
        })
    }

    fn exchange(
        &self,
        kind: StoreMessageKind,
        key: &str,
        value: &[u8],
        within: Duration,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut place = self.channel.lock();
        let start = Instant::now();
        let end = start + self.longest.max(within + ANSWER_TIMEOUT);
        // Taken out, so that it is closed after an error: what comes next in it is not the answer to the next
        // request.
        let mut channel = match place.take() {
            Some(channel) => channel,
            None => open(self.address, &self.key, start + ANSWER_TIMEOUT)?
                .map_err(|verdict| io::Error::other(format!("what listens at its address now {verdict}")))?,
        };
        channel.send(kind, key, value, Some(end))?;
        let answer =
            StoreMessage::receive(&mut channel, Some(Instant::now() + within + ANSWER_TIMEOUT), Some(end))?;
        let answer = match answer.kind {
            StoreMessageKind::Value => Some(answer.value),
            StoreMessageKind::Nothing => None,
            _ => return Err(io::Error::new(ErrorKind::InvalidData, "a request is not an answer")),
        };
        *place = Some(channel);
        Ok(answer)
    }

    /// Asks the process in agreement `number` of a group, as rank `from`. The answer comes by `deadline` at the latest.
    pub fn agree(
        &self,
        group: &str,
        number: u64,
        from: Rank,
        request: &ProposerRequest,
        deadline: Instant,
    ) -> Result<Reply, StoreError> {
        let within = deadline.saturating_duration_since(Instant::now()).min(SLICE);
        let asked = serde_json::to_vec(&(number, from, request)).expect("JSON can express numbers");
        let value = [&milliseconds(within)[..], &asked].concat();
        let answer = self.ask(StoreMessageKind::Agree, group, &value, within)?;
        let hostile = || StoreError::Failed {
            action: format!("agree in {group:?}"),
            reason: format!("{} has sent an invalid answer", self.who),
        };
        serde_json::from_slice(&answer.unwrap_or_default()).map_err(|_| hostile())
    }

    /// Tells the communicator of a group something. `None` if the process has no such communicator any more.
    pub fn tell(&self, group: &str, text: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.ask(StoreMessageKind::Tell, group, text, Duration::ZERO)
    }
}

/// An idle connection to a process, which its kernel closes when it ends.
#[derive(Debug)]
pub struct LifeLine(pub(super) Arc<TcpStream>);

impl LifeLine {
    /// Whether the process has certainly ended. That the connection broke says nothing: a firewall breaks connections, too,
    /// but it cannot end the stream of bytes.
    pub fn has_ended(&self) -> bool {
        TcpInfo::from_socket(&*self.0).is_some_and(|info| info.has_orderly_end())
    }
}

/// Without the secret.
impl fmt::Debug for TcpStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpStore({} at {})", self.who, self.address)
    }
}

impl Store for TcpStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.ask(StoreMessageKind::Set, key, value, Duration::ZERO).map(drop)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.ask(StoreMessageKind::Get, key, &[], Duration::ZERO)
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        let start = Instant::now();
        loop {
            let within = deadline.saturating_duration_since(Instant::now()).min(SLICE);
            if let Some(value) = self.ask(StoreMessageKind::Wait, key, &milliseconds(within), within)? {
                return Ok(value);
            }
            if Instant::now() >= deadline {
                return Err(StoreError::Timeout { key: key.to_owned(), waited: start.elapsed() });
            }
        }
    }
}

fn milliseconds(within: Duration) -> [u8; 4] {
    (within.as_millis() as u32).to_le_bytes()
}

/// Connects to `address`, where the process with this key should listen.
fn open(
    address: SocketAddr,
    key: &AccessKey,
    deadline: Instant,
) -> io::Result<Result<StoreConnection, Verdict>> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match attempt(address, key, deadline) {
            // Closed before the end of the handshake: the server has no place at the moment, or is about to end.
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                std::thread::sleep(AGAIN);
            }
            outcome => return outcome,
        }
    }
}

/// Like [`open`], without a second attempt.
pub fn attempt(
    address: SocketAddr,
    key: &AccessKey,
    deadline: Instant,
) -> io::Result<Result<StoreConnection, Verdict>> {
    let left = deadline.saturating_duration_since(Instant::now()).max(LEAST);
    let stream = TcpStream::connect_timeout(&address, left)?;
    // If nobody listens at a port of those that clients get, a client can be connected to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    stream.set_nodelay(true)?;
    key.introduce(Arc::new(stream), deadline)
}
