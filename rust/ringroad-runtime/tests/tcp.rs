//! The TCP transport among threads, over loopback: messages, collectives, failures and strangers. Every wait is bounded.

mod common;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::Case;
use ringroad_core::random::Random;
use ringroad_core::{algorithms, Collective, Rank, Topology};
use ringroad_runtime::config::Config;
use ringroad_runtime::transport::buffer::Region;
use ringroad_runtime::transport::tcp::{TcpSettings, TcpTransport};
use ringroad_runtime::transport::{
    Carrier, Event, Failure, Lack, MessageKind, Posted, RequestId, Tag, Transport,
};
use ringroad_runtime::{Communicator, DType, Options, ReduceOp};

/// More time than anything here takes. A test that waits this long fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

fn settings(secret: Option<&str>) -> TcpSettings {
    let devices = vec!["lo".to_owned()];
    TcpSettings { devices, streams: Some(1), secret: secret.map(str::to_owned), ..TcpSettings::default() }
}

fn group_with(ranks: usize, settings: &TcpSettings, topology: &Topology) -> Vec<TcpTransport> {
    let open = |rank| TcpTransport::new(rank, ranks, settings.clone(), Vec::new()).unwrap();
    let mut group: Vec<TcpTransport> = (0..ranks).map(open).collect();
    let published: Vec<Vec<Vec<u8>>> = group.iter().map(TcpTransport::addresses).collect();
    group.iter_mut().for_each(|one| one.set_addresses(published.to_vec(), topology).unwrap());
    group
}

fn group(ranks: usize, secret: Option<&str>) -> Vec<TcpTransport> {
    group_with(ranks, &settings(secret), &Topology::switch(ranks).unwrap())
}

/// Transports of one thread, and what has happened to them.
struct Group {
    all: Vec<TcpTransport>,
    done: HashMap<(Rank, RequestId), Result<(), Failure>>,
    notices: Vec<(Rank, Rank, Vec<u8>)>,
    failed: Vec<(Rank, Rank, String)>,
    next: RequestId,
}

impl Group {
    fn new(all: Vec<TcpTransport>) -> Group {
        Group { all, done: HashMap::new(), notices: Vec::new(), failed: Vec::new(), next: 0 }
    }

    fn step(&mut self, rank: Rank) {
        let mut events = Vec::new();
        self.all[rank].inspect(None, &mut events);
        for event in events {
            match event {
                Event::Completed { request, result } => {
                    let known = self.done.insert((rank, request), result);
                    assert!(known.is_none(), "request {request} ended twice");
                }
                Event::PeerFailed { peer, reason } => self.failed.push((rank, peer, reason)),
                Event::Notice { from, payload } => self.notices.push((rank, from, payload)),
                Event::Arrived { .. } | Event::Lacks { .. } => panic!("never here: {event:?}"),
            }
        }
    }

    fn until(&mut self, what: &str, mut is_done: impl FnMut(&mut Group) -> bool) {
        let start = Instant::now();
        while !is_done(self) {
            assert!(start.elapsed() < TEST_TIMEOUT, "no sign that {what}");
            (0..self.all.len()).for_each(|rank| self.step(rank));
        }
    }

    fn send(&mut self, from: Rank, to: Rank, tag: Tag, source: Region) -> (Rank, RequestId) {
        self.next += 1;
        let posted = self.all[from].send(to, 0, Tag { source: from, ..tag }, source, self.next).unwrap();
        self.posted(from, posted)
    }

    fn receive(&mut self, at: Rank, tag: Tag, target: Region) -> (Rank, RequestId) {
        self.next += 1;
        let posted = self.all[at].receive(0, tag, target, self.next).unwrap();
        self.posted(at, posted)
    }

    fn posted(&mut self, rank: Rank, posted: Posted) -> (Rank, RequestId) {
        if posted == Posted::Complete {
            self.done.insert((rank, self.next), Ok(()));
        }
        (rank, self.next)
    }

    fn finish(&mut self, request: (Rank, RequestId)) -> Result<(), Failure> {
        self.until("a request ends", |group| group.done.contains_key(&request));
        self.done.remove(&request).unwrap()
    }

    fn comes(&mut self, at: Rank, tag: Tag) {
        self.until("a message comes", |group| group.all[at].unexpected(tag.source, tag.sequence).is_some());
    }
}

fn tag(source: Rank, sequence: u32, message: u32) -> Tag {
    Tag { source, kind: MessageKind::Collective, sequence, message, check: 5 }
}

fn pattern(size: usize, seed: u32) -> Vec<u8> {
    (0..size as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed as u8).collect()
}

fn content(region: &Region) -> Vec<u8> {
    // SAFETY: called when no request for the region is in flight.
    unsafe { region.to_vec() }
}

const SECRETS: [Option<&str>; 2] = [None, Some("open sesame")];

#[test]
fn messages_of_all_sizes_come_in_any_order() {
    for secret in SECRETS {
        let mut group = Group::new(group(2, secret));
        let sizes = [0, 1, 24, 4 << 10, 40_000, 300 << 10, 512 << 10, (512 << 10) + 1, 3 << 20];
        for early in [true, false] {
            for (number, size) in sizes.into_iter().enumerate() {
                let tag = tag(0, number as u32, 0);
                let target = Region::zeroed(size);
                let posted = early.then(|| group.receive(1, tag, target.clone()));
                let sent = group.send(0, 1, tag, Region::from_slice(&pattern(size, 3)));
                if !early {
                    group.comes(1, tag);
                    assert_eq!(group.all[1].oldest_unexpected(), Some(tag));
                }
                let received = posted.unwrap_or_else(|| group.receive(1, tag, target.clone()));
                group.finish(received).unwrap();
                group.finish(sent).unwrap();
                assert!(content(&target) == pattern(size, 3), "{size} bytes, {secret:?}, early: {early}");
                assert_eq!(group.all[1].unexpected(0, number as u32), None);
            }
        }
    }
}

/// Many requests in flight at once, in both directions, with several connections for a pair.
#[test]
fn many_messages_are_in_flight() {
    for (secret, streams) in [(None, Some(1)), (None, Some(3)), (Some("x"), Some(2)), (None, None)] {
        let settings = TcpSettings { streams, ..settings(secret) };
        let mut group = Group::new(group_with(3, &settings, &Topology::switch(3).unwrap()));
        let size = |message: u32| [8, 3000, 40_000, 700_000][message as usize % 4];
        let (mut requests, mut targets) = (Vec::new(), Vec::new());
        for message in 0..48 {
            for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 0)] {
                let target = Region::zeroed(size(message));
                if message % 3 > 0 {
                    requests.push(group.receive(to, tag(from, 1, message), target.clone()));
                }
                requests.push(group.send(
                    from,
                    to,
                    tag(from, 1, message),
                    Region::from_slice(&pattern(size(message), message)),
                ));
                if message % 3 == 0 {
                    requests.push(group.receive(to, tag(from, 1, message), target.clone()));
                }
                targets.push((message, target));
            }
        }
        for request in requests {
            group.finish(request).unwrap();
        }
        for (message, target) in targets {
            assert!(content(&target) == pattern(size(message), message), "message {message}");
        }
    }
}

/// Both call at the same time, and look in any order. One of them leaves soon, and the other is told so by its goodbye.
#[test]
fn ranks_that_call_at_the_same_time_share_connections() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let streams = 1 + random.below(3);
        let settings = TcpSettings { streams: Some(streams), ..settings(SECRETS[random.below(2)]) };
        let mut group = Group::new(group_with(2, &settings, &Topology::switch(2).unwrap()));
        let mut requests = Vec::new();
        let targets = [Region::zeroed(5000), Region::zeroed(5000)];
        for (from, to) in [(0, 1), (1, 0)] {
            group.all[from].connect(to).unwrap();
            requests.push(group.receive(to, tag(from, 0, 0), targets[to].clone()));
            requests.push(group.send(
                from,
                to,
                tag(from, 0, 0),
                Region::from_slice(&pattern(5000, from as u32)),
            ));
        }
        (0..random.below(16)).for_each(|_| group.step(random.below(2)));
        for request in requests {
            group.finish(request).unwrap();
        }
        for (to, target) in targets.iter().enumerate() {
            assert!(content(target) == pattern(5000, 1 - to as u32), "to rank {to}");
        }
        if random.below(2) == 0 {
            group.until("all connections are made", |group| {
                group.all.iter().all(|one| one.connections().len() == streams)
            });
        }
        assert!(group.failed.is_empty(), "{:?}", group.failed);
        let leaver = random.below(2);
        group.all[leaver].close(Instant::now() + TEST_TIMEOUT);
        group.until("the end is seen", |group| !group.failed.is_empty());
        (0..20).for_each(|_| group.step(1 - leaver));
        let (rank, peer, reason) = group.failed.last().unwrap();
        assert_eq!(
            (*rank, *peer, &reason[..]),
            (1 - leaver, leaver, "it has closed its connections"),
            "{seed}"
        );
    }
}

#[test]
fn equal_tags_stay_in_order() {
    let mut group = Group::new(group(2, None));
    let sizes = [8, 600 << 10, 8, 20, 600 << 10, 8];
    let targets: Vec<Region> = sizes.iter().map(|size| Region::zeroed(*size)).collect();
    let mut requests = Vec::new();
    for (number, size) in sizes.into_iter().enumerate() {
        requests.push(group.send(0, 1, tag(0, 1, 0), Region::from_slice(&pattern(size, number as u32))));
    }
    group.comes(1, tag(0, 1, 0));
    for target in &targets {
        requests.push(group.receive(1, tag(0, 1, 0), target.clone()));
    }
    for request in requests {
        group.finish(request).unwrap();
    }
    for (number, target) in targets.iter().enumerate() {
        assert!(content(target) == pattern(sizes[number], number as u32), "message {number}");
    }
}

#[test]
fn what_does_not_fit_is_reported_to_the_receiver() {
    for (sent, expected) in [(8, 8), (4, 8), (16, 8), (0, 8), (8, 0), (1 << 20, 8), (8, 1 << 20)] {
        for (agree, early) in [(true, true), (true, false), (false, true), (false, false)] {
            if sent == expected && agree {
                continue;
            }
            let mut group = Group::new(group(2, None));
            let found = Tag { check: if agree { 5 } else { 6 }, ..tag(0, 1, 1) };
            let target = Region::zeroed(expected);
            let posted = early.then(|| group.receive(1, tag(0, 1, 1), target.clone()));
            let out = group.send(0, 1, found, Region::from_slice(&pattern(sent, 1)));
            if !early {
                group.comes(1, found);
            }
            let posted = posted.unwrap_or_else(|| group.receive(1, tag(0, 1, 1), target.clone()));
            let failure = match agree {
                true => Failure::Length { found: Some(sent), expected },
                false => Failure::Check { found, bytes: Some(sent) },
            };
            assert_eq!(group.finish(posted), Err(failure));
            assert_eq!(group.finish(out), Ok(()), "the sender completes");
            assert!(content(&target).iter().all(|byte| *byte == 0), "nothing was written");
            // The connection goes on.
            let target = Region::zeroed(9);
            group.send(0, 1, tag(0, 2, 0), Region::from_slice(&pattern(9, 7)));
            let received = group.receive(1, tag(0, 2, 0), target.clone());
            group.finish(received).unwrap();
            assert_eq!(content(&target), pattern(9, 7));
        }
    }
}

/// A rank that only sends does not fill the memory of one that does not receive; what it has announced still comes.
#[test]
fn memory_for_the_unexpected_is_bounded() {
    let mut group = Group::new(group(2, None));
    let count = 3000;
    let sent: Vec<_> = (0..count)
        .map(|number| group.send(0, 1, tag(0, number, 0), Region::from_slice(&pattern(8 << 10, number))))
        .collect();
    group.comes(1, tag(0, count - 1, 0));
    let complete = sent.iter().filter(|request| group.done.contains_key(request)).count();
    assert!((100..600).contains(&complete), "{complete} of {count} have been sent at once");
    for number in (0..count).rev() {
        let target = Region::zeroed(8 << 10);
        let received = group.receive(1, tag(0, number, 0), target.clone());
        group.finish(received).unwrap();
        assert!(content(&target) == pattern(8 << 10, number), "message {number}");
    }
    for request in sent {
        group.finish(request).unwrap();
    }
}

#[test]
fn notices_overtake_messages() {
    let mut group = Group::new(group(2, None));
    let target = Region::zeroed(64);
    let received = group.receive(0, tag(1, 0, 0), target);
    group.send(1, 0, tag(1, 0, 0), Region::zeroed(64));
    group.finish(received).unwrap();
    for number in 0..2000 {
        group.send(0, 1, tag(0, number, 0), Region::zeroed(100 << 10));
    }
    for payload in [&b"stop"[..], b"", &[7; 100_000]] {
        group.all[0].notify(1, payload);
    }
    group.all[0].notify(1, b"last");
    group.until("the notices come", |group| group.notices.len() == 4);
    assert_eq!(group.notices[3], (1, 0, b"last".to_vec()));
    assert_eq!(group.notices[1], (1, 0, Vec::new()));
}

fn communicators(transports: Vec<TcpTransport>) -> Vec<Communicator> {
    let boxed = transports.into_iter().map(|one| Box::new(one) as Box<dyn Transport>).collect();
    Communicator::over(boxed, &Config::default(), &Options::default()).unwrap()
}

/// Every collective by every algorithm, plain and sealed, over one connection, several, and several ports.
#[test]
fn collectives_are_right() {
    let two_ports = TcpSettings { ports: vec!["lo".to_owned(); 2], ..settings(None) };
    let cases = [
        (settings(None), Topology::switch(4)),
        (settings(Some("x")), Topology::switch(2)),
        (TcpSettings { streams: Some(2), ..settings(None) }, Topology::ring(3)),
        (two_ports, Topology::ring(4)),
    ];
    for (settings, topology) in cases {
        let topology = topology.unwrap();
        let ranks = topology.ranks();
        let group = communicators(group_with(ranks, &settings, &topology));
        std::thread::scope(|scope| {
            for communicator in &group {
                scope.spawn(move || collectives(communicator));
            }
        });
        let text = group[0].transport().unwrap().to_string();
        assert!(text.starts_with("tcp (") && text.contains("lo"), "{text}");
        std::thread::scope(|scope| {
            for communicator in &group {
                scope.spawn(move || communicator.close());
            }
        });
    }
}

fn collectives(communicator: &Communicator) {
    let ranks = communicator.size();
    let topology = communicator.choices().topology;
    for (number, collective) in Collective::ALL.into_iter().enumerate() {
        let collective = collective.with_root(number % ranks);
        let members = algorithms::available(&topology, collective).into_iter().map(Some);
        for (turn, algorithm) in std::iter::once(None).chain(members).enumerate() {
            let vectors = [(0, DType::I32), (1000, DType::I64), (1, DType::F32), (200_001, DType::F32)];
            for &(elements, dtype) in vectors.iter().skip(turn % 2).step_by(2) {
                let seed = elements as u64;
                let case =
                    Case { algorithm, seed, ..Case::new(ranks, collective, ReduceOp::Sum, dtype, elements) };
                case.check(communicator, &case.prepare()).unwrap();
            }
        }
    }
}

#[test]
fn a_rank_that_leaves_is_noticed() {
    for (how, reason) in [(0, "it has closed its connections"), (1, "it has aborted"), (2, "it has aborted")]
    {
        let mut group = Group::new(group(2, None));
        let target = Region::zeroed(8);
        let received = group.receive(0, tag(1, 0, 0), target.clone());
        group.send(1, 0, tag(1, 0, 0), Region::zeroed(8));
        group.finish(received).unwrap();
        // It comes although its sender leaves.
        group.send(1, 0, tag(1, 1, 0), Region::from_slice(&pattern(1000, 1)));
        let mut leaver = group.all.pop().unwrap();
        match how {
            0 => leaver.close(Instant::now() + TEST_TIMEOUT),
            1 => leaver.abort(Instant::now() + TEST_TIMEOUT),
            _ => drop(leaver),
        }
        group.until("the end is seen", |group| !group.failed.is_empty());
        assert_eq!(group.failed, [(0, 1, reason.to_owned())]);
        let target = Region::zeroed(1000);
        let received = group.receive(0, tag(1, 1, 0), target.clone());
        group.finish(received).unwrap();
        assert_eq!(content(&target), pattern(1000, 1));
        let all = &mut group.all[0];
        let refused = format!("tcp: rank 1 has failed: {reason}");
        assert_eq!(all.connect(1).unwrap_err().to_string(), refused);
        assert_eq!(all.send(1, 0, tag(0, 2, 0), Region::zeroed(8), 9).unwrap_err().to_string(), refused);
        assert_eq!(all.receive(0, tag(1, 2, 0), Region::zeroed(8), 9).unwrap_err().to_string(), refused);
        all.notify(1, b"nobody hears this");
    }
}

#[test]
fn closing_waits_for_what_was_sent() {
    let mut group = group(2, None);
    let mut receiver = group.pop().unwrap();
    let mut sender = group.pop().unwrap();
    let size = 5 << 20;
    sender.send(1, 0, tag(0, 0, 0), Region::from_slice(&pattern(size, 9)), 1).unwrap();
    let thread = std::thread::spawn(move || sender.close(Instant::now() + TEST_TIMEOUT));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!thread.is_finished());
    let target = Region::zeroed(size);
    let mut events = Vec::new();
    if receiver.receive(0, tag(0, 0, 0), target.clone(), 7).unwrap() == Posted::Pending {
        let start = Instant::now();
        while !events.contains(&Event::Completed { request: 7, result: Ok(()) }) {
            assert!(start.elapsed() < TEST_TIMEOUT);
            receiver.progress(&mut events);
        }
    }
    thread.join().unwrap();
    assert!(content(&target) == pattern(size, 9));
    let error = receiver.connect(1).unwrap_err().to_string();
    assert_eq!(error, "tcp: rank 1 cannot connect to itself");
    receiver.abort(Instant::now());
    let error = receiver.connect(0).unwrap_err().to_string();
    assert_eq!(error, "tcp: the transport has been closed");
}

#[test]
fn ranks_of_other_groups_are_strangers() {
    let (mine, theirs) = (group(2, Some("one")), group(2, Some("two")));
    let mut published: Vec<Vec<Vec<u8>>> = mine.iter().map(TcpTransport::addresses).collect();
    published[1] = theirs[1].addresses();
    let mut group = Group::new(mine.into_iter().chain(theirs).collect());
    group.all[0].set_addresses(published.to_vec(), &Topology::switch(2).unwrap()).unwrap();
    group.all[0].connect(1).unwrap();
    group.until("it is refused", |group| !group.failed.is_empty());
    let (rank, peer, reason) = &group.failed[0];
    assert_eq!((*rank, *peer), (0, 1));
    assert!(reason.contains("the connection to rank 1 at ") && reason.contains("another"), "{reason}");
}

/// Runs this test again, alone in a process that these words start. Whether this is that process.
fn is_alone(test: &str, start: &[&str]) -> bool {
    const ALONE: &str = "RINGROAD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let words = start.iter().map(OsStr::new).chain([own.as_os_str()]).collect::<Vec<_>>();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["--exact", test, "--nocapture"]);
    let ended = command.env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && text.contains("1 passed"), "{ended:?}");
    false
}

/// Where nobody listens any more.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Two ranks; the first believes that the other has these addresses.
fn redirected(addresses: &[SocketAddr]) -> Vec<TcpTransport> {
    let mut group = group(2, None);
    let text = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" ");
    let address = [&group[1].addresses()[0][..16], text.as_bytes()].concat();
    let published = [group[0].addresses(), vec![address]];
    group[0].set_addresses(published.to_vec(), &Topology::switch(2).unwrap()).unwrap();
    group
}

fn until_something_happens(transport: &mut TcpTransport) -> Vec<Event> {
    let (mut events, start) = (Vec::new(), Instant::now());
    while events.is_empty() {
        assert!(start.elapsed() < TEST_TIMEOUT, "no sign of an event");
        transport.inspect(None, &mut events);
    }
    events
}

/// A rank that did not look for long does not take an answer that has come meanwhile for none.
#[test]
fn answers_count_whenever_they_are_seen() {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut group = redirected(&[door.local_addr().unwrap()]);
    group[0].connect(1).unwrap();
    let _call = door.accept().unwrap();
    std::thread::sleep(Duration::from_millis(3100));
    let mut events = Vec::new();
    group[0].inspect(None, &mut events);
    door.set_nonblocking(true).unwrap();
    assert!(door.accept().is_err() && events.is_empty(), "it has called again, {events:?}");
}

/// What carries more than one connection can goes on by one, if the others cannot be made.
#[test]
fn further_connections_can_be_done_without() {
    let settings = TcpSettings { streams: Some(3), ..settings(None) };
    let mut group = Group::new(group_with(2, &settings, &Topology::switch(2).unwrap()));
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let (called, own) = (address(&group.all[1]), group.all[1].addresses()[0].clone());
    let redirected = [&own[..16], door.local_addr().unwrap().to_string().as_bytes()].concat();
    let published = [group.all[0].addresses(), vec![redirected]];
    let topology = Topology::switch(2).unwrap();
    group.all.iter_mut().for_each(|one| one.set_addresses(published.to_vec(), &topology).unwrap());
    // Takes one call, and refuses all others.
    listen_in(door, called);
    group.all[0].connect(1).unwrap();
    let size = 3 << 20;
    for sequence in 0..3 {
        let target = Region::zeroed(size);
        let received = group.receive(1, tag(0, sequence, 0), target.clone());
        let sent = group.send(0, 1, tag(0, sequence, 0), Region::from_slice(&pattern(size, 4)));
        group.finish(received).unwrap();
        group.finish(sent).unwrap();
        assert!(content(&target) == pattern(size, 4));
    }
    assert_eq!((group.all[0].connections().len(), &group.failed), (1, &vec![]));
}

/// A rank whose call is refused, and that cannot open another connection then, blames itself.
#[test]
fn a_rank_that_cannot_call_again_says_so() {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    if !is_alone("a_rank_that_cannot_call_again_says_so", &[]) {
        return;
    }
    let mut group = redirected(&[nowhere()]);
    group[0].connect(1).unwrap();
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limits }).unwrap();
    let events = until_something_happens(&mut group[0]);
    let [Event::Lacks { peer: 1, what: Lack::Connection, reason }] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(reason.contains("cannot connect to rank 1: ") && reason.contains("open files"), "{reason}");
}

/// A rank that has no port left for one of its peer's addresses does not know whether the peer lives, wherever else it is
/// refused. It knows once all are refused.
#[test]
fn a_rank_without_a_port_for_one_address_blames_itself() {
    let own_network = ["unshare", "--user", "--map-root-user", "--net", "--"];
    if !is_alone("a_rank_without_a_port_for_one_address_blames_itself", &own_network) {
        return;
    }
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let door = TcpListener::bind("[::1]:0").unwrap();
    let (refused, taken) = (nowhere(), door.local_addr().unwrap());
    let mut groups = [[refused, taken], [taken, refused], [taken, refused]].map(|all| redirected(&all));
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "20000 20000").unwrap();
    let holds_the_port = TcpStream::connect(taken).unwrap();
    for group in &mut groups[..2] {
        group[0].connect(1).unwrap();
        let events = until_something_happens(&mut group[0]);
        let [Event::Lacks { peer: 1, what: Lack::Connection, reason }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(reason.contains("[::1]") && reason.contains("Cannot assign"), "{reason}");
        assert!(reason.contains("127.0.0.1") && reason.contains("refused"), "{reason}");
    }
    let third = &mut groups[2][0];
    third.connect(1).unwrap();
    rustix::net::sockopt::set_socket_linger(&holds_the_port, Some(Duration::ZERO)).unwrap();
    drop((holds_the_port, door));
    let events = until_something_happens(third);
    let [Event::PeerFailed { peer: 1, reason }] = &events[..] else { panic!("{events:?}") };
    assert!(reason.contains("127.0.0.1") && reason.contains("refused"), "{reason}");
}

/// Passes on what comes from one caller and what is answered, and keeps the former. All others are refused.
fn listen_in(door: TcpListener, address: SocketAddr) -> Arc<Mutex<Vec<u8>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = heard.clone();
    std::thread::spawn(move || {
        let mut caller = door.accept().unwrap().0;
        drop(door);
        let mut called = TcpStream::connect(address).unwrap();
        let (mut back, mut to) = (called.try_clone().unwrap(), caller.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut to));
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = caller.read(&mut bytes) {
            kept.lock().unwrap().extend_from_slice(&bytes[..count]);
            called.write_all(&bytes[..count]).unwrap();
        }
    });
    heard
}

/// Where a transport listens.
fn address(transport: &TcpTransport) -> SocketAddr {
    let text = transport.addresses()[0][16..].to_vec();
    String::from_utf8(text).unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// What somebody has heard of a connection is worth nothing on another one.
#[test]
fn replays_are_turned_away() {
    for secret in SECRETS {
        let mut group = Group::new(group(2, secret));
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = group.all[1].addresses()[0].clone();
        let redirected = [&own[..16], door.local_addr().unwrap().to_string().as_bytes()].concat();
        let published = [group.all[0].addresses(), vec![redirected]];
        let called = address(&group.all[1]);
        let heard = listen_in(door, called);
        group
            .all
            .iter_mut()
            .for_each(|one| one.set_addresses(published.to_vec(), &Topology::switch(2).unwrap()).unwrap());
        let target = Region::zeroed(3000);
        let received = group.receive(1, tag(0, 0, 0), target.clone());
        group.send(0, 1, tag(0, 0, 0), Region::from_slice(&pattern(3000, 4)));
        group.finish(received).unwrap();
        assert!(content(&target) == pattern(3000, 4));
        let heard = heard.lock().unwrap().clone();
        assert!(heard.len() > 3000);
        let mut stranger = TcpStream::connect(called).unwrap();
        stranger.write_all(&heard).unwrap();
        stranger.set_nonblocking(true).unwrap();
        let mut answered = 0;
        group.until("the replay is refused", |_| match stranger.read(&mut [0; 256]) {
            Ok(count) => {
                answered += count;
                count == 0
            }
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        });
        assert!(answered <= 48, "a second message at most, and not {answered} bytes");
        assert_eq!((&group.failed, &group.notices), (&vec![], &vec![]));
        assert!(group.all[1].unexpected(0, 0).is_none());
    }
}

/// Strangers send random bytes, nothing, or a recorded call; the group goes on, and none of them keeps others out.
#[test]
fn strangers_do_no_harm() {
    let mut group = Group::new(group(2, None));
    let address = address(&group.all[1]);
    let mut strangers: Vec<TcpStream> = Vec::new();
    for round in 0..300 {
        let mut stranger = TcpStream::connect(address).unwrap();
        // Ones that say nothing, one byte, too little, too much.
        let count = [0, 1, 71, 72, 4000][round % 5];
        let _ = stranger.write_all(&pattern(count, round as u32));
        strangers.push(stranger);
        if round % 50 == 0 {
            group.step(1);
        }
    }
    let target = Region::zeroed(2 << 20);
    let received = group.receive(1, tag(0, 0, 0), target.clone());
    group.send(0, 1, tag(0, 0, 0), Region::from_slice(&pattern(2 << 20, 6)));
    group.finish(received).unwrap();
    assert!(content(&target) == pattern(2 << 20, 6));
    assert_eq!((&group.failed, &group.notices), (&vec![], &vec![]));
    group.until("most are gone", |_| {
        let is_gone = |stranger: &mut TcpStream| {
            stranger.set_nonblocking(true).unwrap();
            !matches!(stranger.read(&mut [0; 8]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        let gone = strangers.iter_mut().map(is_gone).filter(|gone| *gone).count();
        gone >= 300 - 128
    });
}
