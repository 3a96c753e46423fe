//! The store of a process. Other processes reach it over TCP, whether or not any other store still runs.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::wire::{random, Key, Kind, Message};
use crate::bootstrap::{MemoryStore, Store, StoreError};
use crate::fork::Own;
use crate::lock::{Condvar, Mutex};

/// How many connections may be without a handshake at a time. If there are more, the oldest is closed, so that idle
/// ones keep nobody out.
const UNKNOWN: usize = 256;
/// The stack of the threads that answer requests: they need little.
const STACK: usize = 128 << 10;
/// The longest time that one request waits; clients ask again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A rank's part in an agreement.
#[derive(Default)]
struct Round {
    /// Its vote, once it has come.
    vote: Option<bool>,
    /// The highest leader that has asked: decisions of lower ones are not accepted any more.
    promised: u32,
    decision: Option<Vec<u8>>,
}

/// A rank's answer to a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Its vote.
    pub vote: bool,
    /// The decision that it has accepted from an earlier leader.
    pub decision: Option<Vec<u8>>,
}

impl Promise {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.vote), u8::from(self.decision.is_some())];
        bytes.extend(self.decision.iter().flatten());
        bytes
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Promise> {
        let (&[vote, decided], rest) = bytes.split_first_chunk()?;
        (vote <= 1 && decided <= 1)
            .then(|| Promise { vote: vote == 1, decision: (decided == 1).then(|| rest.to_vec()) })
    }
}

/// The server of this process. Processes that know its token may store and read values.
pub struct Server {
    token: [u8; 16],
    /// The addresses on which it listens, each with its port.
    doors: Mutex<Vec<SocketAddr>>,
    shared: Arc<Shared>,
}

/// Which processes can reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Processes of this machine.
    Machine,
    /// Also processes that reach this address.
    Address(IpAddr),
    /// All processes that reach any address of this machine.
    All,
}

/// A secret, and the server for those who know it.
type Served = (Option<String>, Arc<Server>);

struct Shared {
    key: Key,
    values: MemoryStore,
    rounds: Mutex<HashMap<String, Round>>,
    changed: Condvar,
    /// Connections without a handshake so far, the oldest first.
    unknown: Mutex<VecDeque<Arc<TcpStream>>>,
}

impl Server {
    /// The server of this process for whoever knows this secret. It is started on first use and lasts as long as the
    /// process. A forked child has its own. What one secret protects, those who know another one neither read nor
    /// change.
    pub fn of_process(secret: Option<&str>) -> io::Result<Arc<Server>> {
        static SERVERS: Mutex<Vec<Own<Served>>> = Mutex::new(Vec::new());
        let mut servers = SERVERS.lock();
        // Those of the process that this one was forked from.
        servers.retain(|server| server.get().is_ok());
        let known = servers.iter().flat_map(Own::get).find(|(known, _)| known.as_deref() == secret);
        if let Some((_, server)) = known {
            return Ok(server.clone());
        }
        let new = Arc::new(Server::start(secret)?);
        servers.push(Own::new((secret.map(str::to_owned), new.clone())));
        Ok(new)
    }

    pub(super) fn start(secret: Option<&str>) -> io::Result<Server> {
        Ok(Server::with_token(random()?, secret))
    }

    pub(super) fn with_token(token: [u8; 16], secret: Option<&str>) -> Server {
        let shared = Arc::new(Shared {
            key: Key::new(&token, secret),
            values: MemoryStore::new(),
            rounds: Mutex::default(),
            changed: Condvar::new(),
            unknown: Mutex::default(),
        });
        Server { token, doors: Mutex::default(), shared }
    }

    /// Listens for these processes from now on. Returns the addresses to connect to.
    pub fn places(&self, reach: Reach) -> io::Result<Vec<SocketAddr>> {
        let loopback = self.open(Ipv4Addr::LOCALHOST.into())?;
        let mut places = vec![loopback];
        match reach {
            Reach::Machine => {}
            Reach::Address(address) => places.push(self.open(address)?),
            Reach::All => {
                let port = self.open(Ipv4Addr::UNSPECIFIED.into())?.port();
                let all = if_addrs::get_if_addrs()?.into_iter().map(|interface| interface.ip());
                let others = all.filter(|address| address.is_ipv4() && !address.is_loopback());
                places.extend(others.map(|address| SocketAddr::new(address, port)));
            }
        }
        Ok(places)
    }

    /// Listens on an address, unless the server does so already.
    fn open(&self, address: IpAddr) -> io::Result<SocketAddr> {
        let mut doors = self.doors.lock();
        if let Some(door) = doors.iter().find(|door| door.ip() == address) {
            return Ok(*door);
        }
        let listener = TcpListener::bind(SocketAddr::new(address, 0))?;
        let door = listener.local_addr()?;
        self.listen(listener)?;
        doors.push(door);
        Ok(door)
    }

    /// Serves whoever connects there.
    pub(super) fn listen(&self, listener: TcpListener) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name("ringroad-store".to_owned()).stack_size(STACK);
        thread.spawn(move || shared.listen(&listener)).map(drop)
    }

    pub fn token(&self) -> &[u8; 16] {
        &self.token
    }

    /// The stored values.
    pub fn values(&self) -> &MemoryStore {
        &self.shared.values
    }

    /// Records this rank's vote in an agreement.
    pub fn vote(&self, round: &str, vote: bool) {
        self.shared.rounds.lock().entry(round.to_owned()).or_default().vote = Some(vote);
        self.shared.changed.notify_all();
    }

    /// Accepts what leader number `leader` has decided, unless a higher leader has asked since. Returns the decision
    /// that this rank follows; `None` if a higher leader will decide.
    pub fn accept(&self, round: &str, leader: u32, decision: &[u8]) -> Option<Vec<u8>> {
        let mut rounds = self.shared.rounds.lock();
        let state = rounds.entry(round.to_owned()).or_default();
        if state.decision.is_none() {
            if state.promised > leader {
                return None;
            }
            state.decision = Some(decision.to_vec());
        }
        state.decision.clone()
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            // Descriptors may be short for a while.
            let Ok(stream) = stream else {
                thread::sleep(Duration::from_millis(10));
                continue;
            };
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
        let admitted = stream.set_nodelay(true).and_then(|()| self.key.admit(stream));
        self.forget(stream);
        if !admitted.unwrap_or(false) {
            return;
        }
        while let Ok(request) = Message::receive(stream, None, None) {
            let Ok(value) = self.answer(request) else { return };
            let kind = if value.is_some() { Kind::Value } else { Kind::Nothing };
            if Message::new(kind, "", &value.unwrap_or_default()).send(stream, None).is_err() {
                return;
            }
        }
    }

    fn answer(&self, Message { kind, key, value }: Message) -> Result<Option<Vec<u8>>, StoreError> {
        let milliseconds = |bytes: &[u8]| {
            let number = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            Instant::now() + LONGEST_WAIT.min(Duration::from_millis(number.into()))
        };
        match kind {
            Kind::Set => self.values.set(&key, &value).map(|()| Some(Vec::new())),
            Kind::Get => self.values.get(&key),
            Kind::Wait => match self.values.wait(&key, milliseconds(&value)) {
                Err(StoreError::Timeout { .. }) => Ok(None),
                other => other.map(Some),
            },
            Kind::Prepare => {
                let leader = value.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                let until = milliseconds(value.get(4..).unwrap_or_default());
                Ok(self.prepare(&key, leader, until).map(|promise| promise.to_bytes()))
            }
            Kind::Value | Kind::Nothing => Err(StoreError::Failed {
                action: "answer".to_owned(),
                reason: "an answer is no request".to_owned(),
            }),
        }
    }

    /// The answer to leader number `leader`, as soon as this rank has come. From then on this rank accepts nothing
    /// from lower leaders. `None` if it has not come by `deadline`.
    fn prepare(&self, round: &str, leader: u32, deadline: Instant) -> Option<Promise> {
        let mut rounds = self.rounds.lock();
        loop {
            if let Some(Round { vote: Some(vote), promised, decision }) = rounds.get_mut(round) {
                *promised = leader.max(*promised);
                return Some(Promise { vote: *vote, decision: decision.clone() });
            }
            if self.changed.wait_until(&mut rounds, deadline).timed_out() {
                return None;
            }
        }
    }
}
