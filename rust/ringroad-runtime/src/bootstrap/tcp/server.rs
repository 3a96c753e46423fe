//! The store of a process. Other processes reach it over TCP, whether or not any other store still runs.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::rounds::Rounds;
use super::wire::{AccessKey, StoreMessage, StoreMessageKind};
use super::{local_discovery, reports};
use crate::bootstrap::rendezvous::is_goodbye;
use crate::bootstrap::{refusals, MemoryStore, Store, StoreError};
use crate::os::counted::Counted;
use crate::os::fork::Global;
use crate::os::lock::Mutex;
use crate::os::messages::warn_once;
use crate::os::ports::{bind, PortRange};
use crate::os::random;
use crate::transport::forks::Sockets;

/// How many connections may be without a handshake at a time. If there are more, the oldest is closed, so that idle
/// ones keep nobody out.
const UNKNOWN: usize = 256;
/// The stack of the threads that answer requests: they need little.
const STACK: usize = 128 << 10;
/// How many rendezvous that failed are remembered, so that ranks that come late can read why.
const OUTDATED: usize = 16;
/// After how long without anything on a connection the kernel asks whether the other host is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The longest time that one request waits; clients ask again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The server of this process. Processes that know its token may store and read values.
pub struct Server {
    token: [u8; 16],
    /// The addresses on which it listens, each with its port.
    doors: Mutex<Vec<SocketAddr>>,
    /// Prefixes of values that may soon be removed.
    outdated: Mutex<VecDeque<String>>,
    shared: Arc<ServerState>,
}

/// Which processes can reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerReach {
    /// Processes of this machine.
    Machine,
    /// Also processes that reach this address.
    Address(IpAddr),
    /// All processes that reach any address of this machine.
    All,
}

/// A secret, and the server for those who know it.
type Served = (Option<String>, Arc<Server>);

struct ServerState {
    key: AccessKey,
    values: MemoryStore,
    rounds: Rounds,
    /// Connections without a handshake so far, the oldest first.
    unknown: Mutex<VecDeque<Arc<TcpStream>>>,
    /// How many connections lead to processes that have read no goodbye so far, callers without a handshake among them.
    untold: AtomicUsize,
}

impl Server {
    /// The server of this process for whoever knows this secret. It is started on first use and lasts as long as the
    /// process. A forked child has its own. What one secret protects, those who know another one neither read nor
    /// change.
    pub fn for_process(secret: Option<&str>) -> io::Result<Arc<Server>> {
        static SERVERS: Global<Vec<Served>> = Global::new();
        let mut servers = SERVERS.lock();
        let known = servers.iter().find(|(known, _)| known.as_deref() == secret);
        if let Some((_, server)) = known {
            return Ok(server.clone());
        }
        let new = Arc::new(Server::start(secret)?);
        if let Err(error) = local_discovery::advertise(&new) {
            warn_once("status", &format!("`ringroad status` cannot find this process: {error}"));
        }
        servers.push((secret.map(str::to_owned), new.clone()));
        Ok(new)
    }

    pub(super) fn start(secret: Option<&str>) -> io::Result<Server> {
        Ok(Server::with_token(random::secret()?, secret))
    }

    pub(super) fn with_token(token: [u8; 16], secret: Option<&str>) -> Server {
        let shared = Arc::new(ServerState {
            key: AccessKey::new(&token, secret),
            values: MemoryStore::new(),
            rounds: Rounds::new(),
            unknown: Mutex::default(),
            untold: AtomicUsize::new(0),
        });
        Server { token, doors: Mutex::default(), outdated: Mutex::default(), shared }
    }

    /// Listens for these processes from now on, for those of other machines at one of these ports. Returns the addresses to
    /// connect to.
    pub fn places(&self, reach: ServerReach, ports: PortRange) -> io::Result<Vec<SocketAddr>> {
        let loopback = self.open(Ipv4Addr::LOCALHOST.into(), None)?;
        let mut places = vec![loopback];
        match reach {
            ServerReach::Machine => {}
            ServerReach::Address(address) => places.push(self.open(address, ports)?),
            ServerReach::All => {
                let all = if_addrs::get_if_addrs()?.into_iter().map(|interface| interface.ip()).collect();
                let others = reachable(all);
                let any = match others.iter().any(IpAddr::is_ipv6) {
                    true => Ipv6Addr::UNSPECIFIED.into(),
                    false => Ipv4Addr::UNSPECIFIED.into(),
                };
                let port = self.open(any, ports)?.port();
                places.extend(others.into_iter().map(|address| SocketAddr::new(address, port)));
            }
        }
        Ok(places)
    }

    /// Listens on an address, unless the server does so already.
    fn open(&self, address: IpAddr, ports: PortRange) -> io::Result<SocketAddr> {
        let mut doors = self.doors.lock();
        if let Some(door) = doors.iter().find(|door| door.ip() == address) {
            return Ok(*door);
        }
        let listener = bind(address, ports, TcpListener::bind)?;
        let door = listener.local_addr()?;
        self.listen(listener)?;
        doors.push(door);
        Ok(door)
    }

    /// Serves whoever connects there.
    pub(super) fn listen(&self, listener: TcpListener) -> io::Result<()> {
        let (shared, sockets) = (self.shared.clone(), Sockets::new()?);
        sockets.add(&listener)?;
        let thread = thread::Builder::new().name("ringroad-store".to_owned()).stack_size(STACK);
        thread.spawn(move || shared.listen(&listener, &sockets)).map(drop)
    }

    pub fn token(&self) -> &[u8; 16] {
        &self.token
    }

    /// The stored values.
    pub fn values(&self) -> &MemoryStore {
        &self.shared.values
    }

    /// Removes all values whose keys begin with `prefix` when many more such prefixes have come.
    pub fn remove_later(&self, prefix: String) {
        let mut outdated = self.outdated.lock();
        outdated.push_back(prefix);
        if outdated.len() > OUTDATED {
            outdated.pop_front().iter().for_each(|prefix| self.values().remove(prefix));
        }
    }

    /// The agreements of this process.
    pub fn rounds(&self) -> &Rounds {
        &self.shared.rounds
    }
}

/// The store of a job, in the process that serves it.
impl Store for Server {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.values().set(key, value)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.values().get(key)
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        self.values().wait(key, deadline)
    }

    fn until_told(&self, deadline: Instant) {
        while self.shared.untold.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The addresses of a machine by which others may reach it: those of IPv4, or, if it has none, those of IPv6.
fn reachable(mut all: Vec<IpAddr>) -> Vec<IpAddr> {
    all.retain(|address| match address {
        IpAddr::V4(address) => !address.is_loopback(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    });
    if all.iter().any(IpAddr::is_ipv4) {
        all.retain(IpAddr::is_ipv4);
    }
    all
}

/// Makes the kernel close a connection whose other host has vanished.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?)
}

impl ServerState {
    fn listen(self: &Arc<Self>, listener: &TcpListener, sockets: &Sockets) {
        for stream in listener.incoming() {
            // Descriptors may be short for a while.
            let Ok(stream) = stream else {
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            if sockets.add(&stream).is_err() || keep_alive(&stream).is_err() {
                continue;
            }
            let stream = Arc::new(stream);
            let mut unknown = self.unknown.lock();
            unknown.push_back(stream.clone());
            if unknown.len() > UNKNOWN {
                let oldest = unknown.pop_front();
                // This ends the thread of that connection.
                oldest.map(|oldest| oldest.shutdown(Shutdown::Both));
            }
            drop(unknown);
            let (shared, served) = (self.clone(), stream.clone());
            let thread = thread::Builder::new().name("ringroad-store".to_owned()).stack_size(STACK);
            if thread.spawn(move || shared.serve(&served)).is_err() {
                self.forget(&stream);
            }
        }
    }

    fn forget(&self, stream: &Arc<TcpStream>) {
        self.unknown.lock().retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// Answers requests until the client has gone or sends an invalid one.
    fn serve(&self, stream: &Arc<TcpStream>) {
        let mut untold = Some(Counted::new(&self.untold));
        let admitted = stream.set_nodelay(true).and_then(|()| self.key.admit(stream.clone()));
        self.forget(stream);
        let mut channel = match admitted {
            Ok(Ok(channel)) => channel,
            Ok(Err(verdict)) => {
                let who = stream.peer_addr().map(|peer| format!(" from {}", peer.ip())).unwrap_or_default();
                return refusals::tell(&self.values, &format!("a caller{who} was refused, which {verdict}"));
            }
            Err(_) => return,
        };
        while let Ok(request) = StoreMessage::receive(&mut channel, None, None) {
            let is_goodbye = request.kind != StoreMessageKind::Set && is_goodbye(&request.key);
            let Ok(value) = self.answer(request) else { return };
            let kind = if value.is_some() { StoreMessageKind::Value } else { StoreMessageKind::Nothing };
            if channel.send(kind, "", &value.unwrap_or_default(), None).is_err() {
                return;
            }
            untold = untold.filter(|_| !(is_goodbye && kind == StoreMessageKind::Value));
        }
    }

    fn answer(
        &self,
        StoreMessage { kind, key, value }: StoreMessage,
    ) -> Result<Option<Arc<[u8]>>, StoreError> {
        let milliseconds = |bytes: &[u8]| {
            let number = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            Instant::now() + LONGEST_WAIT.min(Duration::from_millis(number.into()))
        };
        let hostile =
            || StoreError::Failed { action: "answer".to_owned(), reason: "it is not a request".to_owned() };
        match kind {
            StoreMessageKind::Set => self.values.set(&key, &value).map(|()| Some(Arc::default())),
            StoreMessageKind::Get => Ok(self.values.wait_for(&key, Instant::now())),
            StoreMessageKind::Wait => Ok(self.values.wait_for(&key, milliseconds(&value))),
            StoreMessageKind::Agree => {
                let (within, asked) = value.split_at_checked(4).ok_or_else(hostile)?;
                let (number, from, request) = serde_json::from_slice(asked).map_err(|_| hostile())?;
                let reply = self.rounds.answer(&key, number, from, &request, milliseconds(within));
                Ok(Some(serde_json::to_vec(&reply).expect("JSON can express numbers").into()))
            }
            StoreMessageKind::Tell if key == reports::GROUP => {
                Ok(reports::answer(self.key.secret(), &value).map(Arc::from))
            }
            StoreMessageKind::Tell | StoreMessageKind::Value | StoreMessageKind::Nothing => Err(hostile()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_without_ipv4_are_reached_by_ipv6() {
        let check = |all: &[&str], expected: &[&str]| {
            let read =
                |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
            assert_eq!(reachable(read(all)), read(expected), "{all:?}");
        };
        check(&["127.0.0.1", "::1", "fe80::1"], &[]);
        check(&["127.0.0.1", "10.0.0.1", "::1", "2001:db8::1"], &["10.0.0.1"]);
        check(&["127.0.0.1", "::1", "fe80::1", "2001:db8::1"], &["2001:db8::1"]);
    }
}
