//! The store of a whole job: rank 0's process serves it, at a host and a port that all ranks know.
//!
//! If the ranks have derived the place from what their launcher says, there are several ports: rank 0 takes the first
//! one that is free, and the others try all of them. The handshake tells rank 0 of this job from all other servers.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::Rank;
use sha2::{Digest, Sha256};

use super::client::attempt;
use super::wire::{AccessKey, StoreConnection, Verdict, ANSWER_TIMEOUT};
use super::{Server, TcpStore};
use crate::bootstrap::endpoint_info::host_name;
use crate::bootstrap::{refusals, Store, StoreError};
use crate::error::{refused, Error, Result};
use crate::os::fork::ProcessOwned;

/// How often a rank that looks for the store checks whether the user has interrupted.
const SLICE: Duration = Duration::from_millis(50);
/// The pause between two attempts grows from the first to the second value.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// How long a port may be another job's before that is an error: its process may be about to end.
const TAKEN: Duration = Duration::from_secs(1);
/// How long one server may take to answer if there are others to ask.
const TURN: Duration = Duration::from_millis(500);
const ONCE: &str = "start every rank once";
/// The longest time that a server may take to answer before it is called again.
const MAX_ANSWER_TIMEOUT: Duration = Duration::from_secs(12);

/// Where the ranks of a job meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPlace {
    /// Rank 0's host, as a name or an address.
    pub host: String,
    /// The ports to try; the same on all ranks.
    pub ports: Vec<u16>,
    /// What distinguishes the job from others; the same on all ranks.
    pub job: String,
}

impl JobPlace {
    /// What all ranks of this job know, and ranks of other jobs do not.
    fn token(&self) -> [u8; 16] {
        let digest: [u8; 32] = Sha256::digest(format!("ringroad job {}", self.job)).into();
        *digest.first_chunk().expect("a digest is longer")
    }

    /// What proves that somebody belongs to this job.
    pub(super) fn key(&self, secret: Option<&str>) -> AccessKey {
        AccessKey::new(&self.token(), secret)
    }

    /// `host:29500`, or `host, ports 21000, 22000`.
    fn text(&self) -> String {
        match self.ports[..] {
            [port] => format!("{}:{port}", self.host),
            _ => {
                let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
                format!("{}, ports {}", self.host, ports.join(", "))
            }
        }
    }

    fn resolve(&self) -> io::Result<Vec<IpAddr>> {
        let mut found: Vec<IpAddr> = Vec::new();
        for address in (self.host.as_str(), 0).to_socket_addrs()? {
            if !found.contains(&address.ip()) {
                found.push(address.ip());
            }
        }
        Ok(found)
    }

    /// The addresses of this machine on which rank 0 listens: those that the host's name stands for, or all. A
    /// machine may have its own name stand for loopback, where other machines do not reach it.
    fn doors(&self) -> Vec<IpAddr> {
        let near = self.host == "localhost" || self.host.parse().is_ok_and(|own: IpAddr| own.is_loopback());
        let all = self.resolve().unwrap_or_default();
        let is_own = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
        let own: Vec<IpAddr> =
            all.iter().copied().filter(|address| near || !address.is_loopback()).filter(is_own).collect();
        match (own.is_empty(), all.iter().any(IpAddr::is_ipv4) || all.is_empty()) {
            (false, _) => own,
            (true, true) => vec![Ipv4Addr::UNSPECIFIED.into()],
            (true, false) => vec![Ipv6Addr::UNSPECIFIED.into()],
        }
    }
}

/// The store of a job. On rank 0 it serves the others as long as the process lives.
pub struct JobStore {
    host: String,
    store: ProcessOwned<Box<dyn Store>>,
}

/// What a rank has found: where it serves, or the server.
enum JobRole {
    Doors(Vec<TcpListener>),
    Server(Box<TcpStore>),
}

impl JobStore {
    /// Opens the store on rank 0, and finds it on the other ranks, within `timeout`. `go_on` is called many times a
    /// second, and returns an error if the user has interrupted.
    pub fn open(
        place: &JobPlace,
        rank: Rank,
        secret: Option<&str>,
        timeout: Duration,
        go_on: impl Fn() -> std::result::Result<(), StoreError>,
    ) -> Result<JobStore> {
        if place.ports.is_empty() || place.ports.contains(&0) {
            return Err(Error::Argument(
                "the store of a job needs a port above 0, which all ranks know".to_owned(),
            ));
        }
        let (told, found) = mpsc::channel();
        // Dropping `_alive` ends the search.
        let (_alive, over) = mpsc::channel();
        let (own, key) = (place.clone(), place.key(secret));
        // Looking up a host's name cannot be interrupted, so that another thread does it.
        let search = move || {
            let search = StoreSearch { place: &own, over, start: Instant::now() };
            let found = match rank {
                0 => search.bind(&key).map(JobRole::Doors),
                _ => search.reach(rank, &key, timeout).map(|server| JobRole::Server(Box::new(server))),
            };
            let _ = told.send(found);
        };
        let thread = thread::Builder::new().name("ringroad-rendezvous".to_owned());
        thread.spawn(search).map_err(|error| Error::Store(refused("cannot start a thread", &error)))?;
        let found = loop {
            match found.recv_timeout(SLICE) {
                Ok(found) => break found?,
                Err(RecvTimeoutError::Timeout) => go_on()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Store(format!("rank {rank} has stopped looking for the store")))
                }
            }
        };
        let store: Box<dyn Store> = match found {
            JobRole::Server(server) => server,
            JobRole::Doors(doors) => {
                let server = Server::with_token(place.token(), secret);
                for door in doors {
                    server
                        .listen(door)
                        .map_err(|error| Error::Store(refused("cannot serve the store", &error)))?;
                }
                Box::new(server)
            }
        };
        Ok(JobStore { host: place.host.clone(), store: ProcessOwned::new(store) })
    }

    fn store(&self) -> std::result::Result<&dyn Store, StoreError> {
        self.store
            .get()
            .map(Box::as_ref)
            .map_err(|error| StoreError::Failed { action: "look".to_owned(), reason: error.to_string() })
    }
}

impl Store for JobStore {
    fn set(&self, key: &str, value: &[u8]) -> std::result::Result<(), StoreError> {
        self.store()?.set(key, value)
    }

    fn get(&self, key: &str) -> std::result::Result<Option<Vec<u8>>, StoreError> {
        self.store()?.get(key)
    }

    fn wait(&self, key: &str, deadline: Instant) -> std::result::Result<Vec<u8>, StoreError> {
        self.store()?.wait(key, deadline)
    }

    fn until_told(&self, deadline: Instant) {
        let _ = self.store().map(|store| store.until_told(deadline));
    }

    fn host(&self) -> Option<String> {
        Some(self.host.clone())
    }
}

/// How the last attempt to reach rank 0 ended.
enum FailedAttempt {
    /// There is a server, but not rank 0 of this job, for this reason.
    Stranger(Verdict),
    /// Nobody answers, for this reason.
    Silence(String),
}

/// One rank's search for the store.
struct StoreSearch<'a> {
    place: &'a JobPlace,
    /// Disconnected once nobody waits for the result any more.
    over: Receiver<()>,
    start: Instant,
}

impl StoreSearch<'_> {
    /// Waits a little. Returns `false` if the search is to end.
    fn pause(&self, pause: Duration) -> bool {
        self.over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout)
    }

    /// Rank 0's part: listens at the first port that is free.
    fn bind(&self, key: &AccessKey) -> Result<Vec<TcpListener>> {
        let doors = self.place.doors();
        loop {
            let (mut taken, mut other) = (None, None);
            for port in &self.place.ports {
                let bound = doors.iter().map(|door| TcpListener::bind(SocketAddr::new(*door, *port)));
                match bound.collect() {
                    Ok(listeners) => return Ok(listeners),
                    Err(error) => taken = Some(error),
                }
                other = self.rank_0(*port, key);
                if other.is_some() {
                    // All others would go there.
                    break;
                }
            }
            let Some(error) = taken else { continue };
            let is_taken = error.kind() == ErrorKind::AddrInUse;
            if !is_taken || self.start.elapsed() >= TAKEN || !self.pause(SLICE) {
                let place = self.place.text();
                let why = refused("", &error);
                let advice = match (is_taken, other) {
                    (_, Some(other)) => {
                        let (pid, host) = (std::process::id(), host_name());
                        let text =
                            format!("process {pid} on host {host} says that it is rank 0, too: {ONCE}");
                        refusals::object(&other, key.secret(), &text);
                        format!("; another process is rank 0 of this job: {ONCE}")
                    }
                    (true, None) => "; another process, maybe of an earlier job, listens there".to_owned(),
                    (false, None) => String::new(),
                };
                return Err(Error::Store(format!(
                    "rank 0 cannot serve the job's store at {place}{why}{advice}; set another port in MASTER_PORT or \
                     RINGROAD_STORE=tcp://host:port, the same on all ranks"
                )));
            }
        }
    }

    /// The store of another process that is rank 0 of this job, if it listens at this port.
    fn rank_0(&self, port: u16, key: &AccessKey) -> Option<TcpStore> {
        let (channel, address) = self.attempt(port, key, Instant::now() + TURN, TURN).ok()?;
        Some(TcpStore::over(channel, address, key.clone(), "rank 0".to_owned(), TURN))
    }

    /// The other ranks' part: connects to rank 0.
    fn reach(&self, rank: Rank, key: &AccessKey, timeout: Duration) -> Result<TcpStore> {
        let deadline = self.start + timeout;
        let place = self.place.text();
        // Each attempt waits longer than the one before, for a peer that is slow.
        let mut patience = if self.place.ports.len() > 1 { TURN } else { ANSWER_TIMEOUT };
        let (mut pause, mut strange_since) = (PAUSES.0, None);
        loop {
            let (mut silence, mut stranger) = (None, None);
            for port in &self.place.ports {
                match self.attempt(*port, key, deadline, patience) {
                    Ok((channel, address)) => {
                        let who = format!("rank 0 at {}:{port}", self.place.host);
                        return Ok(TcpStore::over(channel, address, key.clone(), who, timeout));
                    }
                    Err(FailedAttempt::Silence(why)) => silence = silence.or(Some(why)),
                    Err(FailedAttempt::Stranger(verdict)) => stranger = stranger.or(Some(verdict)),
                }
            }
            let now = Instant::now();
            let Some(silence) = silence else {
                // Every port has another server: rank 0 cannot come.
                let since = *strange_since.get_or_insert(now);
                if now - since >= TAKEN || now >= deadline {
                    return Err(Error::Store(format!(
                        "what listens at {place} is not rank 0 of this job, as rank {rank} was refused: it {}, or another \
                         port in MASTER_PORT or RINGROAD_STORE=tcp://host:port",
                        stranger.unwrap_or_default()
                    )));
                }
                if !self.pause(SLICE) {
                    return Err(StoreError::Interrupted.into());
                }
                continue;
            };
            strange_since = None;
            if now >= deadline {
                return Err(Error::Timeout(format!(
                    "rank {rank} did not find rank 0 at {place} within {:.1} s: {silence}; check that rank 0 runs on \
                     that host and that no firewall is in between, set MASTER_ADDR and MASTER_PORT to where it can \
                     be reached, or allow more time (RINGROAD_TIMEOUT)",
                    timeout.as_secs_f64()
                )));
            }
            if !self.pause(pause.min(deadline - now)) {
                return Err(StoreError::Interrupted.into());
            }
            pause = (pause * 2).min(PAUSES.1);
            patience = (patience * 2).min(MAX_ANSWER_TIMEOUT);
        }
    }

    fn attempt(
        &self,
        port: u16,
        key: &AccessKey,
        deadline: Instant,
        patience: Duration,
    ) -> std::result::Result<(StoreConnection, SocketAddr), FailedAttempt> {
        let silence = |why: &str| FailedAttempt::Silence(why.to_owned());
        let addresses = self
            .place
            .resolve()
            .map_err(|error| silence(&format!("the host {:?} is unknown ({error})", self.place.host)))?;
        let mut obstacle = silence("the host has no address");
        for address in addresses {
            let until = deadline.min(Instant::now() + patience);
            let address = SocketAddr::new(address, port);
            match attempt(address, key, until) {
                Ok(Ok(channel)) => return Ok((channel, address)),
                Ok(Err(verdict)) => return Err(FailedAttempt::Stranger(verdict)),
                Err(error) => {
                    obstacle = match error.kind() {
                        ErrorKind::ConnectionRefused => silence("nothing listens there"),
                        ErrorKind::TimedOut => silence("nobody answers there"),
                        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                            silence("the connection was closed at once")
                        }
                        _ => silence(&error.to_string()),
                    };
                }
            }
        }
        Err(obstacle)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::bootstrap::seal;

    fn always() -> std::result::Result<(), StoreError> {
        Ok(())
    }

    /// Ports that are free, and not of those that the kernel gives to clients.
    fn free(count: usize) -> Vec<u16> {
        let first = 20_000 + (crate::os::random::token() % 10_000) as u16;
        (first..).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect()
    }

    fn place(ports: Vec<u16>, job: &str) -> JobPlace {
        JobPlace { host: "127.0.0.1".to_owned(), ports, job: job.to_owned() }
    }

    fn open(place: &JobPlace, rank: Rank, secret: Option<&str>, seconds: f64) -> Result<JobStore> {
        JobStore::open(place, rank, secret, Duration::from_secs_f64(seconds), always)
    }

    fn error(result: Result<JobStore>) -> Error {
        result.err().expect("it fails")
    }

    #[test]
    fn ranks_meet_in_any_order() {
        let place = place(free(3), "in any order");
        let theirs = thread::scope(|scope| {
            let other = scope.spawn(|| open(&place, 1, Some("s"), 20.0).unwrap());
            thread::sleep(Duration::from_millis(50));
            let own = open(&place, 0, Some("s"), 20.0).unwrap();
            own.set("key", b"value").unwrap();
            other.join().unwrap()
        });
        assert_eq!(theirs.get("key"), Ok(Some(b"value".to_vec())));
        assert_eq!(theirs.host().as_deref(), Some("127.0.0.1"));
    }

    /// A stranger that has some of the ports, silent or not, delays the ranks but does not keep them apart.
    #[test]
    fn ports_that_others_have_are_passed_over() {
        let ports = free(3);
        let silent = TcpListener::bind(("127.0.0.1", ports[0])).unwrap();
        let _other = open(&place(vec![ports[1]], "other"), 0, None, 20.0).unwrap();
        let place = place(ports, "own");
        let own = open(&place, 0, None, 20.0).unwrap();
        let theirs = open(&place, 1, None, 20.0).unwrap();
        own.set("key", b"value").unwrap();
        assert_eq!(theirs.get("key"), Ok(Some(b"value".to_vec())));
        drop(silent);
    }

    #[test]
    fn a_port_of_another_job_is_an_error() {
        let ports = free(1);
        let _other = open(&place(ports.clone(), "other"), 0, None, 20.0).unwrap();
        let place = place(ports.clone(), "own");
        let taken = error(open(&place, 0, None, 20.0));
        let refused = error(open(&place, 1, None, 20.0));
        assert!(matches!(&taken, Error::Store(text) if text.contains("MASTER_PORT")), "{taken}");
        assert!(
            matches!(&refused, Error::Store(text) if text.contains("not rank 0 of this job")),
            "{refused}"
        );
        for text in [taken.to_string(), refused.to_string()] {
            assert!(text.contains(&format!("127.0.0.1:{}", ports[0])), "{text}");
        }
    }

    /// What rank 0 reads in its store of others.
    #[test]
    fn who_is_refused_is_noted_and_a_second_rank_0_objects() {
        let place = place(free(1), "twice");
        let own = open(&place, 0, Some("ours"), 20.0).unwrap();
        let noted = || own.get(refusals::KEY).unwrap().unwrap_or_default();
        let address = ("127.0.0.1", place.ports[0]);
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(&[b'x'; 256]).unwrap();
        let _ = std::io::Read::read(&mut stream, &mut [0; 256]);
        drop(stream);
        assert!(noted().is_empty(), "it did not speak the protocol");
        let refused = error(open(&place, 1, Some("theirs"), 20.0));
        assert!(matches!(refused, Error::Store(_)), "{refused}");
        let note = String::from_utf8(noted()).unwrap();
        assert!(note.starts_with("a caller from 127.0.0.1 was refused") && note.contains("RINGROAD_SECRET"));
        let second = error(open(&place, 0, Some("ours"), 20.0)).to_string();
        assert!(second.contains("another process is rank 0 of this job"), "{second}");
        let note = noted();
        let said = seal::open(Some("ours"), refusals::KEY, &note, 512).unwrap();
        assert!(String::from_utf8_lossy(said).contains("start every rank once"));
    }

    #[test]
    fn without_rank_0_the_wait_ends_in_time() {
        let ports = free(1);
        let place = place(ports.clone(), "nobody");
        let late = error(open(&place, 1, None, 0.3));
        let words = format!("did not find rank 0 at 127.0.0.1:{} within 0.3 s", ports[0]);
        assert!(matches!(&late, Error::Timeout(text) if text.contains(&words)), "{late}");
        let start = Instant::now();
        let go_on = || match start.elapsed() > Duration::from_millis(100) {
            true => Err(StoreError::Interrupted),
            false => Ok(()),
        };
        let long = Duration::from_secs(60);
        let interrupted = error(JobStore::open(&place, 1, None, long, go_on));
        assert!(
            interrupted.to_string().contains("interrupted") && start.elapsed() < long / 2,
            "{interrupted}"
        );
    }

    /// A server that says nothing, and one that says something else.
    #[test]
    fn other_servers_are_not_taken_for_rank_0() {
        let [said, port] = free(2)[..] else { panic!("two ports") };
        let door = TcpListener::bind(("127.0.0.1", said)).unwrap();
        thread::spawn(move || {
            for stream in door.incoming() {
                let _ = stream.unwrap().write_all(b"SSH-2.0-OpenSSH_9.6p1 Ubuntu-3ubuntu13\r\n");
            }
        });
        let refused = error(open(&place(vec![said], ""), 1, None, 20.0));
        assert!(matches!(refused, Error::Store(_)), "{refused}");
        let _silent = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let late = error(open(&place(vec![port], ""), 1, None, 0.3));
        assert!(matches!(&late, Error::Timeout(text) if text.contains("nobody answers")), "{late}");
    }

    #[test]
    fn loopback_is_used_where_it_is_named() {
        let doors = |host: &str| JobPlace { host: host.to_owned(), ..place(vec![1], "") }.doors();
        assert_eq!(doors("127.0.0.1"), [IpAddr::from(Ipv4Addr::LOCALHOST)]);
        assert!(doors("localhost").iter().all(IpAddr::is_loopback));
        // It belongs to no machine.
        assert_eq!(doors("192.0.2.1"), [IpAddr::from(Ipv4Addr::UNSPECIFIED)]);
        assert_eq!(doors("no such host"), [IpAddr::from(Ipv4Addr::UNSPECIFIED)]);
    }
}
